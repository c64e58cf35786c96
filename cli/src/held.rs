//! The rules that the API holds.

use std::collections::{BTreeMap, HashSet};

use limits::{Draft, Fields, Rule};
use serde_json::Value;
use uuid::Uuid;

use crate::api::{Answer, Api, ApiError};
use crate::rules_file::{ignore_answered, read_id};

/// How many rules a page has: the most that there may be.
const PAGE: &str = "1000";
/// How often the list is read because somebody wrote while it was read: twice where that was of clients.
const TRIES: usize = 5;
/// How many pages a list may have: a million rules, more than an API of ours serves.
const MOST_PAGES: usize = 1_000;
/// The path of the rules.
const RULES: [&str; 2] = ["ratelimit", "rules"];

/// All rules as they were at one moment.
#[derive(Debug)]
pub struct Held {
    /// The revision of the newest write at that moment, of whatever kind; none where the API cannot tell, as while its Redis is out.
    pub revision: Option<u64>,
    /// The rules, in the order of their ids.
    pub rules: Vec<HeldRule>,
}

/// A rule that the API holds.
#[derive(Debug, PartialEq, Eq)]
pub struct HeldRule {
    /// The revision of its last change.
    pub revision: u64,
    /// The rule.
    pub rule: Rule,
}

impl Held {
    /// Reads all pages, and again where somebody wrote meanwhile: what they wrote may have been of clients, and two readings that
    /// agree are how the rules were at every moment between them.
    ///
    /// # Errors
    /// Where the API cannot be read, or somebody does not stop writing rules.
    pub async fn read(api: &Api) -> Result<Self, ApiError> {
        let mut last = None;
        let mut before = told_revision(api).await?;
        for _ in 0..TRIES {
            let rules = read_pages(api).await?;
            if last.as_ref() == Some(&rules) {
                let revision = before;
                return Ok(Self { revision, rules });
            }
            let after = told_revision(api).await?;
            if before == after {
                let revision = after;
                return Ok(Self { revision, rules });
            }
            (before, last) = (after, Some(rules));
        }
        let detail = "somebody else writes rules all the time while they are read: try again";
        Err(Answer::strange("the API", detail))
    }

    /// The revision of each rule.
    pub fn revisions(&self) -> BTreeMap<Uuid, u64> {
        let rules = self.rules.iter();
        rules.map(|held| (held.rule.id(), held.revision)).collect()
    }
}

/// The revision of the newest write, of whatever kind.
///
/// # Errors
/// Where the API does not tell.
pub async fn revision(api: &Api) -> Result<u64, ApiError> {
    let answer = api.get(&["ratelimit", "revision"], &[]).await?;
    let place = answer.place.clone();
    let revision = answer.body()?.get("revision").and_then(Value::as_u64);
    revision.ok_or_else(|| Answer::strange(&place, "it tells no revision"))
}

/// The same, or none where a store that it asks is out.
async fn told_revision(api: &Api) -> Result<Option<u64>, ApiError> {
    match revision(api).await {
        Err(ApiError::Problem(problem)) if problem.status.as_u16() == 503 => Ok(None),
        told => told.map(Some),
    }
}

async fn read_pages(api: &Api) -> Result<Vec<HeldRule>, ApiError> {
    let mut rules = Vec::new();
    let mut cursor: Option<String> = None;
    let mut seen = HashSet::new();
    loop {
        let mut query = vec![("limit", PAGE)];
        query.extend(cursor.iter().map(|cursor| ("cursor", cursor.as_str())));
        let answer = api.get(&RULES, &query).await?;
        let place = answer.place.clone();
        let page = answer.body()?;
        let Some(list) = page.get("rules").and_then(Value::as_array) else {
            return Err(Answer::strange(&place, "it tells no list of rules"));
        };
        for rule in list {
            let read = read(rule).map_err(|detail| Answer::strange(&place, detail))?;
            rules.push(read);
        }
        let Some(next) = page.get("next").and_then(Value::as_str) else {
            return Ok(rules);
        };
        if !seen.insert(next.to_owned()) || seen.len() >= MOST_PAGES {
            return Err(Answer::strange(&place, "its list has no end"));
        }
        cursor = Some(next.to_owned());
    }
}

/// A rule as the API shows it, by the one constructor. A field that is not known here may mean anything: what was written back
/// would lose it.
fn read(value: &Value) -> Result<HeldRule, String> {
    let faults = |faults: Vec<limits::Fault>| {
        let faults = faults
            .iter()
            .map(|fault| format!("{}: {}", fault.field, fault.detail));
        let rule = value
            .get("id")
            .and_then(Value::as_str)
            .unwrap_or("without an id");
        format!("rule {rule}: {}", faults.collect::<Vec<_>>().join("; "))
    };
    let mut fields = Fields::of(value).map_err(faults)?;
    let revision = value.get("revision").and_then(Value::as_u64);
    ignore_answered(&mut fields);
    let id = read_id(&mut fields);
    let draft = Draft::read(&mut fields);
    let told = fields.finish();
    match (id, draft, revision) {
        (Some(id), Some(draft), Some(revision)) if told.is_empty() => {
            let rule = Rule::new(id, draft).map_err(faults)?;
            Ok(HeldRule { revision, rule })
        }
        _ => Err(faults(told)),
    }
}
