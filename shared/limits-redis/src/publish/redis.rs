//! The same in Redis, by scripts: what they do, each says at its head.

use std::str::FromStr;
use std::sync::LazyLock;

use futures::future::try_join_all;
use limits::Lane;
use limits::registry::{Client, Name};
use redis::{FromRedisValue, Value};
use tokio::time::Instant;

use super::{LaneState, PATIENCE, Page, Published, Version};
use crate::keys::{Place, hashed};
use crate::script::Script;
use crate::store::{RedisStore, StoreError};

static HEAD: LazyLock<Script> = LazyLock::new(|| Script::over_rules(include_str!("../head.lua")));
static CLAIM: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../claim.lua").to_owned()));
static PUT: LazyLock<Script> = LazyLock::new(|| Script::over_rules(include_str!("../put.lua")));
static ENTRIES: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../entries.lua").to_owned()));
static MOVE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../move.lua").to_owned()));

/// How long the mark of a deletion is kept, in ms: longer than any writer that was held up can live.
const DELETION_KEPT_MS: u64 = 24 * 60 * 60 * 1000;

impl RedisStore {
    pub(super) async fn head(&self) -> Result<Option<Published>, StoreError> {
        let reply = self.run_over_rules(&HEAD, &[]).await?;
        Ok(shape::<Option<Vec<Vec<u8>>>>(reply)?.and_then(|fields| read_head(&fields)))
    }

    pub(super) async fn published(
        &self,
    ) -> Result<(Option<Published>, Vec<LaneState>), StoreError> {
        let head = self.head().await?;
        // All at once, over one connection to each server.
        let lanes = try_join_all(Lane::all().map(|lane| self.lane(lane))).await?;
        Ok((head, lanes))
    }

    async fn lane(&self, lane: Lane) -> Result<LaneState, StoreError> {
        let keys = [self.keys.epoch(lane), self.keys.reached(lane)];
        let mut command = redis::cmd("MGET");
        command.arg(&keys);
        let (servers, place) = (self.servers.patient(), Place::Lane(lane));
        let deadline = Instant::now() + PATIENCE;
        let (epoch, reached): (Option<Vec<u8>>, Option<Vec<u8>>) =
            match servers.ask(place, &command, deadline).await {
                Err(error) if error.is_parted() => {
                    shape(Value::Array(servers.each(place, &keys, deadline).await?))?
                }
                reply => shape(reply?)?,
            };
        Ok(LaneState::read(epoch.as_deref(), reached.as_deref()))
    }

    pub(super) async fn claim(&self, proposed: u64, known: u64) -> Result<u64, StoreError> {
        let keys = [self.keys.head()];
        let arguments = [proposed.to_string(), known.to_string()];
        let claimed = self.run(Place::Rules, &CLAIM, &keys, &arguments).await?;
        shape(claimed)
    }

    pub(super) async fn put(&self, page: &Page) -> Result<u64, StoreError> {
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
        let stamp = self.run_over_rules(&PUT, &arguments).await?;
        shape::<Option<u64>>(stamp)?.ok_or(StoreError::LaneLost)
    }

    pub(super) async fn put_entries(
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
        match self.run(place, &ENTRIES, &keys, &arguments).await {
            Err(error) if error.is_parted() => {
                let (version, clients) = arguments.split_at(3);
                for (key, client) in keys.iter().zip(clients) {
                    let arguments = [version, std::slice::from_ref(client)].concat();
                    let keys = std::slice::from_ref(key);
                    self.run(place, &ENTRIES, keys, &arguments).await?;
                }
                Ok(())
            }
            written => written.map(drop),
        }
    }

    pub(super) async fn move_lanes(
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
        let mut keys = vec![self.keys.epoch(lane)];
        let mut arguments = [stamp.to_string(), String::new(), String::new()];
        if let Some(Version { history, revision }) = reached {
            keys.push(self.keys.reached(lane));
            arguments[1] = history.to_string();
            arguments[2] = revision.to_string();
        }
        match self.run(place, &MOVE, &keys, &arguments).await {
            Err(error) if error.is_parted() => {
                // The epoch first. Cut off in between, the lane is found not to have reached what it has, and all of it is repeated;
                // the other way round nobody would be told.
                let [stamp, history, revision] = arguments;
                let none = String::new;
                self.run(place, &MOVE, &keys[..1], &[stamp, none(), none()])
                    .await?;
                self.run(place, &MOVE, &keys[1..], &[none(), history, revision])
                    .await
                    .map(drop)
            }
            moved => moved.map(drop),
        }
    }

    /// Runs a script of ours over keys of one place for someone who has time. What may have been executed is not sent again: all of
    /// these are "unless newer", and whoever called compares and repairs. Where the keys are parted between two servers it says so,
    /// and each by itself is found wherever it is.
    async fn run(
        &self,
        place: Place,
        script: &Script,
        keys: &[String],
        arguments: &[String],
    ) -> Result<Value, StoreError> {
        let deadline = Instant::now() + PATIENCE;
        let servers = self.servers.patient();
        servers
            .script(place, script, keys, arguments, deadline)
            .await
    }

    /// The same over the published rules, which are waited for while they are parted: they are of no use one by one.
    async fn run_over_rules(
        &self,
        script: &Script,
        arguments: &[String],
    ) -> Result<Value, StoreError> {
        let deadline = Instant::now() + PATIENCE;
        let (servers, keys) = (self.servers.patient(), self.keys.rules());
        servers
            .script_together(Place::Rules, script, &keys, arguments, deadline)
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

/// What a text of ours stands for; none where it is none.
pub(super) fn read<T: FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn shape<T: FromRedisValue>(reply: Value) -> Result<T, StoreError> {
    redis::from_redis_value(reply).map_err(|_| StoreError::Malformed("a reply of another shape"))
}
