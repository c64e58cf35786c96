//! Writing rules: one or many, all or none.

use std::collections::{BTreeMap, HashMap, HashSet};

use limits::{Draft, Fault, Place, Rule};
use uuid::Uuid;

use crate::crowd;
use crate::database::Database;
use crate::record::RuleRecord;
use crate::refusal::{Expected, Refusal, Rival, WriteError};
use crate::session::StoredRule;
use crate::write::{Write, Written, by};

/// How many rules one write may change.
pub const MOST_CHANGES: usize = 1_000;

/// Which rule a draft is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// One that is not there yet.
    New,
    /// The one of that id.
    There(Uuid),
    /// The one of that id, be it there or not.
    Id(Uuid),
    /// The one that stands for the same (resource, client, tier, per, algorithm, window), or a new one.
    Place,
}

/// A rule to be written.
#[derive(Debug, Clone)]
pub struct Put {
    /// The input's name for it, put in front of the fields of its faults: empty, or like `upsert[3].`.
    pub field: String,
    /// Which one it is.
    pub target: Target,
    /// What it shall be.
    pub draft: Draft,
    /// What it is taken to be now.
    pub expected: Expected,
}

/// A rule to be deleted.
#[derive(Debug, Clone)]
pub struct Deletion {
    /// The input's name for it: empty, or like `delete[3]`.
    pub field: String,
    /// Which one it is.
    pub id: Uuid,
    /// What it is taken to be now.
    pub expected: Expected,
}

impl Database {
    /// Makes a rule.
    ///
    /// # Errors
    /// Where it cannot be counted, its place is taken, or the database is out.
    pub async fn create_rule(
        &self,
        actor: &str,
        draft: Draft,
    ) -> Result<Written<RuleRecord>, WriteError> {
        self.put_rule(actor, Target::New, draft, Expected::Whatever)
            .await
    }

    /// Replaces a rule as a whole.
    ///
    /// # Errors
    /// As for a creation; also where it is not there, or not what it was taken to be.
    pub async fn replace_rule(
        &self,
        actor: &str,
        id: Uuid,
        draft: Draft,
        expected: Expected,
    ) -> Result<Written<RuleRecord>, WriteError> {
        self.put_rule(actor, Target::There(id), draft, expected)
            .await
    }

    async fn put_rule(
        &self,
        actor: &str,
        target: Target,
        draft: Draft,
        expected: Expected,
    ) -> Result<Written<RuleRecord>, WriteError> {
        let put = Put {
            field: String::new(),
            target,
            draft,
            expected,
        };
        let written = self.change_rules(actor, vec![put], Vec::new()).await?;
        only(written)
    }

    /// Deletes a rule.
    ///
    /// # Errors
    /// Where it is not there, not what it was taken to be, or the database is out.
    pub async fn delete_rule(
        &self,
        actor: &str,
        id: Uuid,
        expected: Expected,
    ) -> Result<Written<()>, WriteError> {
        let deletion = Deletion {
            field: String::new(),
            id,
            expected,
        };
        let written = self.change_rules(actor, Vec::new(), vec![deletion]).await?;
        Ok(Written {
            revision: written.revision,
            value: (),
        })
    }

    /// Writes many rules, all or none, with one revision. Rules may change places with one another. Gives those that were put,
    /// in their order.
    ///
    /// # Errors
    /// Where one cannot be written, for the reasons of all.
    pub async fn change_rules(
        &self,
        actor: &str,
        puts: Vec<Put>,
        deletions: Vec<Deletion>,
    ) -> Result<Written<Vec<RuleRecord>>, WriteError> {
        // What needs no store is told without one.
        let rules = check_each(&puts)?;
        let mut write = self.begin(actor).await?;
        let outcome = change(&mut write, puts, rules, &deletions).await;
        write.finish(outcome).await
    }
}

pub(crate) fn only(written: Written<Vec<RuleRecord>>) -> Result<Written<RuleRecord>, WriteError> {
    let Written { revision, value } = written;
    match value.into_iter().next() {
        Some(value) => Ok(Written { revision, value }),
        None => Err(Refusal::NotFound("rule").into()),
    }
}

/// Each draft as a rule, still without an id of its own.
fn check_each(puts: &[Put]) -> Result<Vec<Rule>, Refusal> {
    let mut rules = Vec::with_capacity(puts.len());
    let mut faults = Vec::new();
    for put in puts {
        match Rule::new(Uuid::nil(), put.draft.clone()) {
            Ok(rule) => rules.push(rule),
            Err(own) => faults.extend(own.into_iter().map(|fault| Fault {
                field: format!("{}{}", put.field, fault.field),
                detail: fault.detail,
            })),
        }
    }
    if faults.is_empty() {
        Ok(rules)
    } else {
        Err(Refusal::Faults(faults))
    }
}

/// What a write is about, as it was found.
struct Found {
    by_id: BTreeMap<Uuid, RuleRecord>,
    by_place: HashMap<Place, Uuid>,
}

/// Everything in an open write. Also for those that look before they change.
pub(crate) async fn change(
    write: &mut Write,
    puts: Vec<Put>,
    rules: Vec<Rule>,
    deletions: &[Deletion],
) -> Result<Vec<RuleRecord>, WriteError> {
    let places: Vec<Place> = rules.iter().map(Rule::place).collect();
    let found = find(write, &puts, &places, deletions).await?;
    let ids = identify(&puts, &places, deletions, &found)?;
    let gone: HashSet<Uuid> = deletions.iter().map(|deletion| deletion.id).collect();
    check_places(&puts, &places, &ids, &gone, &found)?;

    let mut stored = Vec::with_capacity(puts.len());
    for ((put, rule), (place, id)) in puts.iter().zip(&rules).zip(places.into_iter().zip(&ids)) {
        let before = found.by_id.get(id);
        let record = RuleRecord {
            id: *id,
            draft: put.draft.clone(),
            revision: write.revision(),
            created_at: before.map_or(write.at(), |before| before.created_at),
            updated_at: write.at(),
        };
        write.note_rule(before, Some(&record));
        stored.push(StoredRule {
            head: rule.pattern().head().to_owned(),
            chunk: limits::chunk_of(*id),
            record,
            place,
        });
    }
    for deletion in deletions {
        write.note_rule(found.by_id.get(&deletion.id), None);
    }
    if !deletions.is_empty() {
        let gone: Vec<Uuid> = gone.into_iter().collect();
        write.session.remove_rules(&gone).await?;
    }
    if !stored.is_empty() {
        write.session.put_rules(&stored).await?;
    }
    let named: Vec<(String, Rule)> = puts.into_iter().map(|put| put.field).zip(rules).collect();
    let crowded = crowd::check(&mut write.session, &named).await?;
    if !crowded.is_empty() {
        return Err(Refusal::Faults(crowded).into());
    }
    Ok(stored.into_iter().map(|rule| rule.record).collect())
}

/// Reads all that stands at the ids and in the places of the write.
async fn find(
    write: &mut Write,
    puts: &[Put],
    places: &[Place],
    deletions: &[Deletion],
) -> Result<Found, WriteError> {
    let mut ids: Vec<Uuid> = deletions.iter().map(|deletion| deletion.id).collect();
    ids.extend(puts.iter().filter_map(|put| match put.target {
        Target::There(id) | Target::Id(id) => Some(id),
        Target::New | Target::Place => None,
    }));
    let mut by_id = match ids.is_empty() {
        true => BTreeMap::new(),
        false => by(write.session.rules_by_id(&ids).await?, |rule| rule.id),
    };
    let mut by_place = HashMap::new();
    if !places.is_empty() {
        for record in write.session.rules_in(places).await? {
            if let Ok(rule) = record.rule() {
                by_place.insert(rule.place(), record.id);
            }
            by_id.insert(record.id, record);
        }
    }
    Ok(Found { by_id, by_place })
}

/// The id of each rule that is put. Refuses what is not there, is not what it was taken to be, or is told twice.
fn identify(
    puts: &[Put],
    places: &[Place],
    deletions: &[Deletion],
    found: &Found,
) -> Result<Vec<Uuid>, Refusal> {
    let mut faults = Vec::new();
    let mut told = HashSet::new();
    for deletion in deletions {
        let there = found.by_id.get(&deletion.id);
        if there.is_none() && deletion.field.is_empty() {
            return Err(Refusal::NotFound("rule"));
        }
        if there.is_none() {
            faults.push(Fault::new(&deletion.field, "must be the id of a rule"));
        } else if !told.insert(deletion.id) {
            faults.push(Fault::new(&deletion.field, "must not be told twice"));
        }
        deletion.expected.check(there.map(|rule| rule.revision))?;
    }
    let mut ids = Vec::with_capacity(puts.len());
    for (put, place) in puts.iter().zip(places) {
        let id = match put.target {
            Target::New => Uuid::now_v7(),
            Target::There(id) if !found.by_id.contains_key(&id) => {
                return Err(Refusal::NotFound("rule"));
            }
            Target::There(id) | Target::Id(id) => id,
            Target::Place => match found.by_place.get(place) {
                Some(id) if !deletions.iter().any(|deletion| deletion.id == *id) => *id,
                _ => Uuid::now_v7(),
            },
        };
        put.expected
            .check(found.by_id.get(&id).map(|rule| rule.revision))?;
        if !told.insert(id) {
            faults.push(Fault::new(
                format!("{}id", put.field),
                "must not be the id of a rule that is told twice",
            ));
        }
        ids.push(id);
    }
    if faults.is_empty() {
        Ok(ids)
    } else {
        Err(Refusal::Faults(faults))
    }
}

/// Refuses two rules in one place, as it will be when all is done.
fn check_places(
    puts: &[Put],
    places: &[Place],
    ids: &[Uuid],
    gone: &HashSet<Uuid>,
    found: &Found,
) -> Result<(), Refusal> {
    let moved: HashSet<&Uuid> = ids.iter().collect();
    let mut taken: HashMap<&Place, Uuid> = found
        .by_place
        .iter()
        .filter(|(_, id)| !gone.contains(id) && !moved.contains(id))
        .map(|(place, id)| (place, *id))
        .collect();
    let mut rivals = Vec::new();
    for ((put, place), id) in puts.iter().zip(places).zip(ids) {
        match taken.get(place) {
            Some(rival) => rivals.push(Rival {
                field: put.field.trim_end_matches('.').to_owned(),
                id: *rival,
            }),
            None => {
                taken.insert(place, *id);
            }
        }
    }
    if rivals.is_empty() {
        Ok(())
    } else {
        Err(Refusal::RuleExists(rivals))
    }
}
