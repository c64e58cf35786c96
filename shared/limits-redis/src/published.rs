//! Reading the published copy: what changed, the rules by chunk, one name of the registry.

use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use limits::registry::{Client, Name};
use limits::{Draft, Fault, Rule};
use redis::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;
use uuid::Uuid;

use crate::keys::{Keys, Place};
use crate::publish::{LaneState, Version};
use crate::script::Script;
use crate::store::StoreError;
use crate::topology::Topology;

static CHANGES: LazyLock<Script> =
    LazyLock::new(|| Script::over_rules(include_str!("changes.lua")));
static LOOKUP: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("lookup.lua").to_owned()));

/// How many chunks travel in the first reply.
pub const PAGE: usize = 10;
/// How many bytes travel in each that follows, about, so that a load holds up no decision.
pub const PAGE_BYTES: usize = 25_000;
/// How many chunks do at most, for the same reason.
pub const LONGEST_PAGE: usize = 400;

/// How many chunks the next reply should bring, by what the last one brought: few rules lie thin, and are read in few pages.
pub fn next_page(bodies: &[Option<Vec<u8>>]) -> usize {
    let bytes: usize = bodies.iter().flatten().map(Vec::len).sum();
    let each = bytes.div_ceil(bodies.len().max(1)).max(1);
    (PAGE_BYTES / each).clamp(1, LONGEST_PAGE)
}

/// What was published after a reader's number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// The reader's number once it has read all of this: the head's stamp, in ms since 1970.
    pub stamp: u64,
    /// The revision of the database that is published.
    pub revision: u64,
    /// Whether the reader must begin with no rules.
    pub fresh: bool,
    /// Whether the reader must forget its whole registry view.
    pub forget: bool,
    /// The changed names, as [`crate::keys::hashed`] has them.
    pub names: Vec<String>,
    /// The changed chunks.
    pub chunks: Vec<u16>,
    /// The bodies of the first of them, at most [`PAGE`].
    pub bodies: Vec<Option<Vec<u8>>>,
}

/// What the registry says of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// It stands for this client.
    Found(Client),
    /// It stands for nobody.
    Absent,
}

pub(crate) async fn lookup(
    servers: &Topology,
    keys: &Keys,
    name: &Name,
    deadline: Instant,
) -> Result<Lookup, StoreError> {
    let lane = name.lane();
    let place = Place::Lane(lane);
    let keys = [keys.epoch(lane), keys.reached(lane), keys.entry(name)];
    let none: [&str; 0] = [];
    let values = match servers.script(place, &LOOKUP, &keys, &none, deadline).await {
        Ok(Value::Array(values)) => values,
        Ok(_) => return Err(StoreError::Malformed("a lookup that is no array")),
        // The epoch last: that it is there then says that what was read before was not lost.
        Err(error) if error.is_parted() => servers.each(place, &keys, deadline).await?,
        Err(error) => return Err(error),
    };
    let [epoch, reached, entry] = values.as_slice() else {
        return Err(StoreError::Malformed("a lookup of another shape"));
    };
    let text = |value: &Value| match value {
        Value::BulkString(text) => Some(text.clone()),
        _ => None,
    };
    let lane = LaneState::read(text(epoch).as_deref(), text(reached).as_deref());
    let (Some(_), Some(reached)) = (lane.epoch, lane.reached) else {
        return Err(StoreError::LaneLost);
    };
    text(entry).map_or(Ok(Lookup::Absent), |entry| read_entry(reached, &entry))
}

/// An entry counts where it is of the lane's history, or of a newer one that is being written; what an older history left does
/// not. `HISTORY REVISION JSON`; without the last it marks a deletion.
pub(crate) fn read_entry(reached: Version, entry: &[u8]) -> Result<Lookup, StoreError> {
    const BAD: StoreError = StoreError::Malformed("a registry entry that cannot be read");
    let entry = std::str::from_utf8(entry).map_err(|_| BAD)?;
    let mut parts = entry.splitn(3, ' ');
    let history: u64 = parts.next().and_then(|text| text.parse().ok()).ok_or(BAD)?;
    match parts.nth(1) {
        Some(json) if history >= reached.history => serde_json::from_str(json)
            .map(Lookup::Found)
            .map_err(|_| BAD),
        _ => Ok(Lookup::Absent),
    }
}

pub(crate) async fn changes(
    servers: &Topology,
    keys: &Keys,
    since: u64,
    deadline: Instant,
) -> Result<Option<Changes>, StoreError> {
    let arguments = [since.to_string(), PAGE.to_string()];
    let reply = servers
        .script_together(Place::Rules, &CHANGES, &keys.rules(), &arguments, deadline)
        .await?;
    if reply == Value::Nil {
        return Ok(None);
    }
    let malformed = |_| StoreError::Malformed("changes of another shape");
    type Shape = (
        u64,
        bool,
        bool,
        Vec<String>,
        Vec<u16>,
        Vec<Option<Vec<u8>>>,
        bool,
        u64,
    );
    let (stamp, fresh, forget, names, chunks, bodies, every, revision): Shape =
        redis::from_redis_value(reply).map_err(malformed)?;
    Ok(Some(Changes {
        stamp,
        revision,
        fresh,
        forget,
        names,
        chunks: if every {
            (0..limits::CHUNKS).collect()
        } else {
            chunks
        },
        bodies,
    }))
}

pub(crate) async fn chunks(
    servers: &Topology,
    keys: &Keys,
    chunks: &[u16],
    deadline: Instant,
) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
    let mut command = redis::cmd("HMGET");
    command.arg(keys.chunks()).arg(chunks);
    let reply = servers.ask(Place::Rules, &command, deadline).await?;
    redis::from_redis_value(reply).map_err(|_| StoreError::Malformed("chunks of another shape"))
}

/// One rule as it was published.
#[derive(Debug)]
pub enum PublishedRule {
    /// Understood.
    Rule(Arc<Rule>),
    /// Not understood by this code: a newer one wrote it, or it is damaged. The last good version of it stays in force; where
    /// there is none, `stand_in` does, which is treated as if Redis were out for it.
    Unread {
        /// Its id.
        id: Uuid,
        /// What of it could be understood: whom and what it concerns.
        stand_in: Option<Arc<Rule>>,
    },
}

impl PublishedRule {
    /// Its id.
    pub fn id(&self) -> Uuid {
        match self {
            PublishedRule::Rule(rule) => rule.id(),
            PublishedRule::Unread { id, .. } => *id,
        }
    }
}

/// Reads a chunk: `HISTORY REVISION`, a line feed, and a JSON array of `[id, rule]`.
///
/// # Errors
/// Where it is none: then nothing can be said of its rules.
pub fn read_chunk(body: &[u8]) -> Result<Vec<PublishedRule>, StoreError> {
    const BAD: StoreError = StoreError::Malformed("a chunk that cannot be read");
    let start = body.iter().position(|b| *b == b'\n').ok_or(BAD)? + 1;
    let json = std::str::from_utf8(&body[start..]).map_err(|_| BAD)?;
    let rows: Vec<(Uuid, &RawValue)> = serde_json::from_str(json).map_err(|_| BAD)?;
    Ok(rows
        .into_iter()
        .map(|(id, row)| read_rule(id, row.get()))
        .collect())
}

fn read_rule(id: Uuid, json: &str) -> PublishedRule {
    let rule = read_draft(json)
        .map_err(|error| error.to_string())
        .and_then(|(draft, generation)| {
            let first = |faults: Vec<Fault>| {
                faults
                    .first()
                    .map(|f| format!("{} {}", f.field, f.detail))
                    .unwrap_or_default()
            };
            let rule = Rule::new(id, draft).map_err(first)?;
            Ok(rule.with_generation(generation))
        });
    match rule {
        Ok(rule) => PublishedRule::Rule(Arc::new(rule)),
        Err(error) => {
            tracing::error!(rule = %id, %error, "a published rule is not understood");
            PublishedRule::Unread {
                id,
                stand_in: stand_in(id, json).map(Arc::new),
            }
        }
    }
}

/// What was written of a rule, and its generation. Few have one: those alone are read twice.
fn read_draft(json: &str) -> serde_json::Result<(Draft, u64)> {
    match serde_json::from_str(json) {
        Ok(draft) => Ok((draft, 0)),
        Err(error) => {
            let mut row: serde_json::Map<_, _> = serde_json::from_str(json)?;
            let generation = row.remove("generation").ok_or(error)?;
            let draft = serde_json::from_value(row.into())?;
            Ok((draft, serde_json::from_value(generation)?))
        }
    }
}

fn stand_in(id: Uuid, json: &str) -> Option<Rule> {
    let row: serde_json::Map<String, serde_json::Value> = serde_json::from_str(json).ok()?;
    let text = |name: &str| row.get(name).and_then(serde_json::Value::as_str);
    /// The word under a name, or the default where it is absent; none where it is unknown.
    fn word<T: FromStr>(text: Option<&str>, default: T) -> Option<T> {
        text.map_or(Some(default), |text| text.parse().ok())
    }
    let tier = match text("tier") {
        Some(tier) => Some(tier.parse().ok()?),
        None => None,
    };
    Rule::stand_in(
        id,
        Draft {
            client: text("client").map(str::to_owned),
            tier,
            per: word(text("per"), limits::rule::Per::Client)?,
            on_failure: word(text("on_failure"), limits::rule::OnFailure::Limit)?,
            status: word(text("status"), limits::rule::Status::Active)?,
            ..Draft::new(text("resource")?, Some(1), 1)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_long_where_rules_lie_thin_and_short_where_they_do_not() {
        let bodies = |bytes: usize| vec![Some(vec![0; bytes]), None];
        assert_eq!(next_page(&bodies(0)), LONGEST_PAGE);
        assert_eq!(next_page(&bodies(5_000)), 10);
        assert_eq!(next_page(&bodies(1_000_000)), 1);
        assert_eq!(next_page(&[]), LONGEST_PAGE);
    }

    fn read(rule: &str) -> PublishedRule {
        let chunk = format!("1 2\n[[\"{}\", {rule}]]", Uuid::nil());
        read_chunk(chunk.as_bytes()).unwrap().remove(0)
    }

    #[test]
    fn a_generation_is_read_and_any_other_field_that_is_not_known_is_not_understood() {
        for (rule, generation) in [
            (r#"{"resource": "/a", "limit": 1, "time_window": 60}"#, 0),
            (
                r#"{"resource": "/a", "limit": 1, "time_window": 60, "generation": 7}"#,
                7,
            ),
        ] {
            match read(rule) {
                PublishedRule::Rule(rule) => assert_eq!(rule.generation(), generation),
                PublishedRule::Unread { .. } => panic!("{rule}"),
            }
        }
        for rule in [
            r#"{"resource": "/a", "limit": 1, "time_window": 60, "colour": 7}"#,
            r#"{"resource": "/a", "limit": 1, "time_window": 60, "generation": 7, "colour": 7}"#,
            r#"{"resource": "/a", "limit": 1, "time_window": 60, "generation": -1}"#,
        ] {
            assert!(
                matches!(
                    read(rule),
                    PublishedRule::Unread {
                        stand_in: Some(_),
                        ..
                    }
                ),
                "{rule}"
            );
        }
    }
}
