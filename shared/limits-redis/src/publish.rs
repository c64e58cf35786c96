//! Writing the published copy. `refresh` alone does: it compares, writes what differs, and moves the lanes up.
//!
//! Every write is "unless newer", so that two refreshers at once, twice or in the wrong order converge.

mod redis;

use std::str::FromStr;
use std::time::Duration;

use limits::Lane;
use limits::registry::{Client, Name};
use serde_json::json;
use uuid::Uuid;

use crate::store::{Store, StoreError};

/// How long `refresh` and the like wait for one answer: they hold up nobody, and a large page may take its time.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// How new something is that came from the database. A new history always wins: a database that was restored begins one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Version {
    /// When the history began, in ms since 1970; made by whoever noticed.
    pub history: u64,
    /// The database's revision.
    pub revision: u64,
}

impl FromStr for Version {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (history, revision) = text.split_once(' ').ok_or(())?;
        Ok(Self {
            history: history.parse().map_err(|_| ())?,
            revision: revision.parse().map_err(|_| ())?,
        })
    }
}

/// What a region has published: the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// The stamp of the newest page, in ms since 1970: when it was published.
    pub stamp: u64,
    /// The stamp that every lane must have reached.
    pub all: u64,
    /// What of the database is published.
    pub version: Version,
    /// The random id of that revision.
    pub change: Uuid,
    /// The history that was claimed last: newer than the published one where somebody has begun to build it and not ended.
    pub building: u64,
}

/// How far a lane is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaneState {
    /// Its epoch; none where it lost its data.
    pub epoch: Option<u64>,
    /// The version that its registry entries have reached.
    pub reached: Option<Version>,
}

impl LaneState {
    /// What a lane says of itself; something else in its place says nothing, and `move.lua` overwrites it.
    pub(crate) fn read(epoch: Option<&[u8]>, reached: Option<&[u8]>) -> Self {
        Self {
            epoch: epoch
                .and_then(redis::read)
                .filter(|epoch| *epoch <= 1 << 53),
            reached: reached.and_then(redis::read),
        }
    }
}

/// One page of a publication.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The version that it was read at.
    pub version: Version,
    /// The least stamp to give it.
    pub least: u64,
    /// The stamp of what this goes on from, 0 for nothing. Where the head is older, what was published is lost.
    pub after: u64,
    /// Chunks and their bodies ([`chunk_body`]).
    pub chunks: Vec<(u16, String)>,
    /// Names that changed.
    pub names: Vec<Name>,
    /// With the page that ends a publication: what is then published.
    pub end: Option<End>,
}

/// What the last page of a publication says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// The revision that is now published, of the page's history.
    pub revision: u64,
    /// Its random id.
    pub change: Uuid,
    /// Whether all lanes must reach this stamp.
    pub all: bool,
    /// Whether readers must begin afresh, since a new history began.
    pub fresh: bool,
    /// Whether readers must forget their registry views.
    pub forget: bool,
}

/// A chunk as it is published: its version, and of each rule (the columns of its row) what is not by default.
pub fn chunk_body(version: Version, rules: &[serde_json::Value]) -> String {
    let rows: Vec<serde_json::Value> = rules
        .iter()
        .filter_map(|rule| {
            let mut row = rule.as_object()?.clone();
            let id = row.remove("id")?;
            for unread in ["revision", "created_at", "updated_at", "description"] {
                row.remove(unread);
            }
            row.retain(|name, value| !is_default(name, value));
            Some(json!([id, row]))
        })
        .collect();
    format!(
        "{} {}\n{}",
        version.history,
        version.revision,
        serde_json::Value::Array(rows)
    )
}

fn is_default(name: &str, value: &serde_json::Value) -> bool {
    match name {
        "client" | "tier" | "burst" => value.is_null(),
        "override" => *value == json!(false),
        "split" => *value == json!(1),
        "per" => *value == json!("client"),
        "algorithm" => *value == json!("token_bucket"),
        "on_failure" => *value == json!("limit"),
        "status" => *value == json!("active"),
        _ => false,
    }
}

impl Store {
    /// The head and every lane, in order; no head where nothing was ever published.
    ///
    /// # Errors
    /// Where there is no answer within [`PATIENCE`].
    pub async fn published(&self) -> Result<(Option<Published>, Vec<LaneState>), StoreError> {
        match self {
            Store::Redis(redis) => redis.published().await,
            Store::Memory(memory) => Ok(memory.published()),
        }
    }

    /// What this region has published; none where nothing was.
    ///
    /// # Errors
    /// Where there is no answer within [`PATIENCE`].
    pub async fn head(&self) -> Result<Option<Published>, StoreError> {
        match self {
            Store::Redis(redis) => redis.head().await,
            Store::Memory(memory) => Ok(memory.published().0),
        }
    }

    /// Claims a history before anything of it is written, and tells which is to be built: `proposed`, or the one that somebody else
    /// has begun. `known` is the newest that is known of.
    ///
    /// # Errors
    /// Where there is no answer within [`PATIENCE`].
    pub async fn claim(&self, proposed: u64, known: u64) -> Result<u64, StoreError> {
        match self {
            Store::Redis(redis) => redis.claim(proposed, known).await,
            Store::Memory(memory) => Ok(memory.claim(proposed, known)),
        }
    }

    /// Publishes a page, and tells its stamp.
    ///
    /// # Errors
    /// Where there is no answer within [`PATIENCE`], or what the page goes on from is lost.
    pub async fn put(&self, page: &Page) -> Result<u64, StoreError> {
        match self {
            Store::Redis(redis) => redis.put(page).await,
            Store::Memory(memory) => Ok(memory.put(page)),
        }
    }

    /// Writes registry entries, which all lie in one lane; none as a client marks a name that is gone.
    ///
    /// # Errors
    /// Where there is no answer within [`PATIENCE`].
    pub async fn put_entries(
        &self,
        version: Version,
        entries: &[(Name, Option<Client>)],
    ) -> Result<(), StoreError> {
        match self {
            Store::Redis(redis) => redis.put_entries(version, entries).await,
            Store::Memory(memory) => {
                memory.put_entries(version, entries);
                Ok(())
            }
        }
    }

    /// Moves lanes up to a stamp and, where it is told, to the version that their entries have reached.
    ///
    /// # Errors
    /// Where there is no answer within [`PATIENCE`].
    pub async fn move_lanes(
        &self,
        stamp: u64,
        lanes: &[(Lane, Option<Version>)],
    ) -> Result<(), StoreError> {
        match self {
            Store::Redis(redis) => redis.move_lanes(stamp, lanes).await,
            Store::Memory(memory) => {
                memory.move_lanes(stamp, lanes);
                Ok(())
            }
        }
    }
}
