//! A text as the rules that it means, or everything that is wrong with it.

use std::collections::{BTreeMap, HashMap};

use limits::{Draft, Fault, Fields, Place, Rule, faults_of_the_whole};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{FileFault, FileFaults, Position, RulesFile, WrittenRule};
use crate::yaml::{self, Content, Node};

/// Reads the file of that name.
///
/// # Errors
/// Every fault of it.
pub fn read(name: &str, text: &str) -> Result<RulesFile, FileFaults> {
    let mut faults = Faults::default();
    let rules = match yaml::parse(text) {
        Ok(document) => read_document(&document, &mut faults),
        Err(error) => {
            faults.add(error.at, "", error.detail);
            Vec::new()
        }
    };
    refuse_twins(&rules, &mut faults);
    if faults.0.is_empty() {
        let name = name.to_owned();
        Ok(RulesFile { name, rules })
    } else {
        Err(FileFaults::new(name, faults.0))
    }
}

#[derive(Default)]
struct Faults(Vec<FileFault>);

impl Faults {
    fn add(&mut self, at: Position, field: impl Into<String>, detail: impl Into<String>) {
        let (field, detail) = (field.into(), detail.into());
        self.0.push(FileFault { at, field, detail });
    }
}

fn read_document(document: &Node, faults: &mut Faults) -> Vec<WrittenRule> {
    let wanted = "must be a mapping with `rules`, a list; `rules: []` says that there is none";
    let Content::Map(entries) = &document.content else {
        faults.add(document.at, "", wanted);
        return Vec::new();
    };
    let entries = read_entries(entries, faults);
    let mut list = None;
    for (name, entry) in entries {
        match (name.as_str(), &entry.value.content) {
            ("rules", Content::List(rules)) => list = Some(rules),
            ("rules", _) => {
                faults.add(
                    entry.at,
                    name,
                    "must be a list of rules; `[]` says that there is none",
                );
                list = Some(const { &Vec::new() });
            }
            _ => faults.add(
                entry.at,
                name,
                "is not a field of this file: there is only `rules`",
            ),
        }
    }
    if list.is_none() {
        faults.add(document.at, "", wanted);
    }
    let rules = list.into_iter().flatten();
    rules.filter_map(|rule| read_rule(rule, faults)).collect()
}

/// A value, and where its key stands.
struct Entry<'a> {
    at: Position,
    value: &'a Node,
}

/// The entries of a mapping by their names, the first of each.
fn read_entries<'a>(
    entries: &'a [(std::rc::Rc<Node>, std::rc::Rc<Node>)],
    faults: &mut Faults,
) -> BTreeMap<String, Entry<'a>> {
    let mut read: BTreeMap<String, Entry<'a>> = BTreeMap::new();
    for (key, value) in entries {
        let at = key.at;
        let Content::Value(Value::String(name)) = &key.content else {
            faults.add(at, "", "must be the name of a field");
            continue;
        };
        match read.get(name) {
            Some(first) => {
                let detail = format!("is told twice: line {} tells it too", first.at.line);
                faults.add(at, name, detail);
            }
            None => {
                read.insert(name.clone(), Entry { at, value });
            }
        }
    }
    read
}

fn read_rule(node: &Node, faults: &mut Faults) -> Option<WrittenRule> {
    let Content::Map(entries) = &node.content else {
        faults.add(
            node.at,
            "",
            "must be a rule: a mapping with `resource`, `limit`, `time_window`",
        );
        return None;
    };
    let before = faults.0.len();
    let entries = read_entries(entries, faults);
    let mut told: Vec<Fault> = Vec::new();
    let mut rule = Map::new();
    for (name, entry) in &entries {
        let value = match &entry.value.content {
            Content::Value(value) => value.clone(),
            // None of which is a field's: the constructor says what would be.
            Content::List(_) => Value::Array(Vec::new()),
            Content::Map(_) => Value::Object(Map::new()),
            Content::Nothing => {
                told.push(Fault::new(
                    name,
                    "must not be left empty: write `null`, or leave the field out",
                ));
                Value::Null
            }
            Content::Odd(detail) => {
                told.push(Fault::new(name, detail));
                Value::Null
            }
        };
        rule.insert(name.clone(), value);
    }
    let rule = Value::Object(rule);
    let read = read_draft(&rule, &mut told);
    let position = |field: &str| entries.get(field).map_or(node.at, |entry| entry.at);
    for fault in told {
        let quotes = fault.detail == "must be a string" && is_plain(&rule[&fault.field]);
        let hint = if quotes { ": put it in quotes" } else { "" };
        faults.add(
            position(&fault.field),
            fault.field,
            format!("{}{hint}", fault.detail),
        );
    }
    let (id, draft) = read.filter(|_| faults.0.len() == before)?;
    let rule = Rule::new(id.unwrap_or_default(), draft).ok()?;
    let fields = entries.into_iter().map(|(name, entry)| (name, entry.at));
    Some(WrittenRule {
        at: node.at,
        fields: fields.collect(),
        has_id: id.is_some(),
        rule,
    })
}

/// Whether a value is one that quotes would make a string.
fn is_plain(value: &Value) -> bool {
    value.is_number() || value.is_boolean()
}

/// A rule as the API reads it. Adds to `told` what is wrong, one fault for each field.
fn read_draft(rule: &Value, told: &mut Vec<Fault>) -> Option<(Option<Uuid>, Draft)> {
    let mut add = |more: Vec<Fault>| {
        for fault in more {
            if told.iter().all(|told| told.field != fault.field) {
                told.push(fault);
            }
        }
        told.clone()
    };
    let mut fields = Fields::of(rule).map_err(&mut add).ok()?;
    ignore_answered(&mut fields);
    let id = read_id(&mut fields);
    let draft = Draft::read(&mut fields);
    let so_far = add(fields.finish());
    add(faults_of_the_whole(rule, &so_far));
    draft.map(|draft| (id, draft))
}

/// Accepts what the API answers beside what was written, as the API does.
pub(crate) fn ignore_answered(fields: &mut Fields<'_>) {
    for told in ["revision", "propagation", "created_at", "updated_at"] {
        fields.ignore(told);
    }
}

/// The id of a rule, where one is told.
pub(crate) fn read_id(fields: &mut Fields<'_>) -> Option<Uuid> {
    let id = fields.text("id").map(Uuid::try_parse)?;
    if id.is_err() {
        fields.fault("id", "must be a UUID, or left out");
    }
    id.ok()
}

/// Refuses two rules of one id or in one place.
fn refuse_twins(rules: &[WrittenRule], faults: &mut Faults) {
    let mut ids: HashMap<Uuid, Position> = HashMap::new();
    let mut places: HashMap<Place, Position> = HashMap::new();
    for rule in rules {
        if rule.has_id {
            match ids.get(&rule.rule.id()) {
                Some(first) => {
                    let detail = format!("is the id of the rule in line {} too", first.line);
                    faults.add(rule.position("id"), "id", detail);
                }
                None => {
                    ids.insert(rule.rule.id(), rule.at);
                }
            }
        }
        match places.get(&rule.rule.place()) {
            Some(first) => {
                let detail = format!(
                    "must not stand beside the rule in line {}: there is one rule for each resource, client, tier, per, algorithm and time_window",
                    first.line
                );
                faults.add(rule.at, "", detail);
            }
            None => {
                places.insert(rule.rule.place(), rule.at);
            }
        }
    }
}
