//! Writing the published copy. `refresh` alone does: it compares, writes what differs, and moves the lanes up.
//!
//! Every write is "unless newer", so that two refreshers at once, twice or in the wrong order converge.

use std::str::FromStr;
use std::sync::LazyLock;
use std::time::Duration;

use futures::future::try_join_all;
use limits::Lane;
use limits::registry::{Client, Name};
use redis::{FromRedisValue, Value};
use serde_json::json;
use tokio::time::Instant;
use uuid::Uuid;

use crate::keys::{Place, hashed};
use crate::script::Script;
use crate::store::{RedisStore, Store, StoreError};

static HEAD: LazyLock<Script> = LazyLock::new(|| of_rules(include_str!("head.lua")));
static CLAIM: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("claim.lua").to_owned()));
static PUT: LazyLock<Script> = LazyLock::new(|| of_rules(include_str!("put.lua")));
static ENTRIES: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("entries.lua").to_owned()));
static MOVE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("move.lua").to_owned()));

/// How long `refresh` and the like wait for one answer: they hold up nobody, and a large page may take its time.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A script over the published rules, which knows whether they are all there.
pub(crate) fn of_rules(script: &str) -> Script {
    Script::new(script.replace("--@whole", include_str!("whole.lua")))
}

/// How long the mark of a deletion is kept, in ms: longer than any writer that was held up can live.
const DELETION_KEPT_MS: u64 = 24 * 60 * 60 * 1000;

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

impl RedisStore {
    async fn head(&self) -> Result<Option<Published>, StoreError> {
        let keys = self.rules_keys();
        let reply = self.run(Place::Rules, &HEAD, &keys, &[]).await?;
        Ok(shape::<Option<Vec<Vec<u8>>>>(reply)?.and_then(|fields| read_head(&fields)))
    }

    fn rules_keys(&self) -> [String; 4] {
        let keys = &self.keys;
        [keys.head(), keys.chunks(), keys.stamps(), keys.names()]
    }

    async fn published(&self) -> Result<(Option<Published>, Vec<LaneState>), StoreError> {
        let head = self.head().await?;
        // All at once, over one connection to each server.
        let lanes = try_join_all(Lane::all().map(|lane| self.lane(lane))).await?;
        Ok((head, lanes))
    }

    async fn lane(&self, lane: Lane) -> Result<LaneState, StoreError> {
        let keys = [self.keys.epoch(lane), self.keys.reached(lane)];
        let mut command = redis::cmd("MGET");
        command.arg(&keys);
        let place = Place::Lane(lane);
        let deadline = Instant::now() + PATIENCE;
        let (epoch, reached): (Option<Vec<u8>>, Option<Vec<u8>>) =
            match self.servers.ask(place, &command, deadline).await {
                Err(error) if error.is_parted() => {
                    let values = self.servers.each(place, &keys, deadline).await?;
                    shape(Value::Array(values))?
                }
                Err(_) => shape(
                    self.servers
                        .ask_patiently(place, &command, deadline)
                        .await?,
                )?,
                Ok(reply) => shape(reply)?,
            };
        Ok(read_lane(epoch.as_deref(), reached.as_deref()))
    }

    async fn claim(&self, proposed: u64, known: u64) -> Result<u64, StoreError> {
        let keys = [self.keys.head()];
        let arguments = [proposed.to_string(), known.to_string()];
        let claimed = self.run(Place::Rules, &CLAIM, &keys, &arguments).await?;
        shape(claimed)
    }

    async fn put(&self, page: &Page) -> Result<u64, StoreError> {
        let keys = self.rules_keys();
        let flag = |set: Option<bool>| if set == Some(true) { "1" } else { "0" }.to_owned();
        let mut arguments = vec![
            page.version.history.to_string(),
            page.version.revision.to_string(),
            page.least.to_string(),
            page.end
                .map(|end| end.change.to_string())
                .unwrap_or_default(),
            page.end
                .map(|end| end.revision.to_string())
                .unwrap_or_default(),
            flag(page.end.map(|end| end.all)),
            flag(page.end.map(|end| end.fresh)),
            flag(page.end.map(|end| end.forget)),
            page.chunks.len().to_string(),
            page.after.to_string(),
        ];
        for (chunk, body) in &page.chunks {
            arguments.push(chunk.to_string());
            arguments.push(body.clone());
        }
        arguments.extend(page.names.iter().map(hashed));
        let stamp = self.run(Place::Rules, &PUT, &keys, &arguments).await?;
        shape::<Option<u64>>(stamp)?.ok_or(StoreError::LaneLost)
    }

    async fn put_entries(
        &self,
        version: Version,
        entries: &[(Name, Option<Client>)],
    ) -> Result<(), StoreError> {
        if entries.is_empty() {
            return Ok(());
        }
        let keys: Vec<String> = entries
            .iter()
            .map(|(name, _)| self.keys.entry(name))
            .collect();
        let mut arguments = vec![
            version.history.to_string(),
            version.revision.to_string(),
            DELETION_KEPT_MS.to_string(),
        ];
        for (_, client) in entries {
            arguments.push(match client {
                Some(client) => serde_json::to_string(client)
                    .map_err(|_| StoreError::Malformed("a client that is no JSON"))?,
                None => String::new(),
            });
        }
        let lane = entries
            .first()
            .map_or(Lane::SHARED, |(name, _)| name.lane());
        let place = Place::Lane(lane);
        let deadline = Instant::now() + PATIENCE;
        let all = self
            .servers
            .script(place, &ENTRIES, &keys, &arguments, deadline);
        match all.await {
            Ok(_) => Ok(()),
            Err(error) if error.is_parted() => {
                // Parted between two servers: each by itself is found wherever it is.
                let (version, clients) = arguments.split_at(3);
                for (key, client) in keys.iter().zip(clients) {
                    let arguments = [version, std::slice::from_ref(client)].concat();
                    let keys = std::slice::from_ref(key);
                    self.run(place, &ENTRIES, keys, &arguments).await?;
                }
                Ok(())
            }
            Err(_) => self.run(place, &ENTRIES, &keys, &arguments).await.map(drop),
        }
    }

    async fn move_lanes(
        &self,
        stamp: u64,
        lanes: &[(Lane, Option<Version>)],
    ) -> Result<(), StoreError> {
        let calls = lanes
            .iter()
            .map(|(lane, reached)| self.move_lane(stamp, *lane, *reached));
        let mut calls = calls.collect::<Vec<_>>().into_iter();
        // The first alone, so that a server has the script; the others at once.
        if let Some(first) = calls.next() {
            first.await?;
        }
        try_join_all(calls).await?;
        Ok(())
    }

    async fn move_lane(
        &self,
        stamp: u64,
        lane: Lane,
        reached: Option<Version>,
    ) -> Result<(), StoreError> {
        let place = Place::Lane(lane);
        let epoch = (
            [self.keys.epoch(lane)],
            [stamp.to_string(), String::new(), String::new()],
        );
        if let Some(Version { history, revision }) = reached {
            let version = [history.to_string(), revision.to_string()];
            let keys = [self.keys.epoch(lane), self.keys.reached(lane)];
            let arguments = [&[stamp.to_string()][..], &version].concat();
            let deadline = Instant::now() + PATIENCE;
            let both = self
                .servers
                .script(place, &MOVE, &keys, &arguments, deadline);
            match both.await {
                Ok(_) => return Ok(()),
                // Parted between two servers: each by itself, the epoch last, as it says that the rest is there.
                Err(error) if error.is_parted() => {
                    let arguments = [&[String::new()][..], &version].concat();
                    self.run(place, &MOVE, &keys[1..], &arguments).await?;
                }
                Err(_) => return self.run(place, &MOVE, &keys, &arguments).await.map(drop),
            }
        }
        self.run(place, &MOVE, &epoch.0, &epoch.1).await.map(drop)
    }

    /// Runs a script of ours for someone who has time. Whatever moves or comes back meanwhile is waited for; what may have been
    /// executed is not sent again here: all of these are "unless newer", and whoever called compares and repairs.
    async fn run(
        &self,
        place: Place,
        script: &Script,
        keys: &[String],
        arguments: &[String],
    ) -> Result<Value, StoreError> {
        let deadline = Instant::now() + PATIENCE;
        self.servers
            .script_patiently(place, script, keys, arguments, deadline)
            .await
    }
}

/// The fields of a head in the order of `head.lua`; none where they are no head.
fn read_head(fields: &[Vec<u8>]) -> Option<Published> {
    let [stamp, all, history, revision, change, building] = fields else {
        return None;
    };
    Some(Published {
        stamp: read(stamp)?,
        all: read(all)?,
        version: Version {
            history: read(history)?,
            revision: read(revision)?,
        },
        change: read(change)?,
        building: read(building)?,
    })
}

/// What a lane says of itself; something else in its place says nothing, and `move.lua` overwrites it.
pub(crate) fn read_lane(epoch: Option<&[u8]>, reached: Option<&[u8]>) -> LaneState {
    LaneState {
        epoch: epoch.and_then(read).filter(|epoch| *epoch <= 1 << 53),
        reached: reached.and_then(read),
    }
}

fn read<T: FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn shape<T: FromRedisValue>(reply: Value) -> Result<T, StoreError> {
    redis::from_redis_value(reply).map_err(|_| StoreError::Malformed("a reply of another shape"))
}
