//! The store inside this process: the same answers, no trip.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use limits::Lane;
use limits::counters::Counters;
use limits::moment::unix_us;
use limits::registry::{Client, Name};

use crate::keys::hashed;
use crate::publish::{LaneState, Page, Published, Version};
use crate::published::{Changes, Lookup, PAGE};
use crate::store::StoreError;
use crate::take::{Call, Reply};

/// Counters and published copy in memory.
#[derive(Debug, Default)]
pub struct Memory(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    counters: Counters,
    head: Option<Published>,
    stamp: u64,
    building: u64,
    base: u64,
    forget: u64,
    chunks: BTreeMap<u16, (u64, Version, String)>,
    names: BTreeMap<String, u64>,
    entries: BTreeMap<Name, (Version, Option<Client>)>,
    lanes: BTreeMap<Lane, LaneState>,
}

impl Memory {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn ask(&self, call: &Call<'_>) -> Result<Reply, StoreError> {
        let mut state = self.state();
        for lane in call.lanes {
            let epoch = state.lanes.get(lane).and_then(|lane| lane.epoch);
            let epoch = epoch.ok_or(StoreError::LaneLost)?;
            if epoch > call.epoch {
                return Ok(Reply::Behind(epoch));
            }
        }
        let answers = state.counters.ask(call.operation, call.buckets, unix_us());
        Ok(Reply::Answers(answers))
    }

    pub(crate) fn lookup(&self, name: &Name) -> Result<Lookup, StoreError> {
        let state = self.state();
        let lane = state.lanes.get(&name.lane()).copied().unwrap_or_default();
        let (Some(_), Some(reached)) = (lane.epoch, lane.reached) else {
            return Err(StoreError::LaneLost);
        };
        Ok(match state.entries.get(name) {
            Some((version, Some(client))) if version.history >= reached.history => {
                Lookup::Found(client.clone())
            }
            _ => Lookup::Absent,
        })
    }

    pub(crate) fn changes(&self, since: u64) -> Option<Changes> {
        let state = self.state();
        state.head?;
        let fresh = since < state.base;
        let forget = since < state.forget;
        let from = if fresh { 0 } else { since };
        let chunks: Vec<u16> = state
            .chunks
            .iter()
            .filter(|(_, (stamp, ..))| *stamp > from)
            .map(|(chunk, _)| *chunk)
            .collect();
        let bodies = chunks
            .iter()
            .take(PAGE)
            .map(|chunk| {
                state
                    .chunks
                    .get(chunk)
                    .map(|(_, _, body)| body.clone().into_bytes())
            })
            .collect();
        let names = state
            .names
            .iter()
            .filter(|(_, stamp)| **stamp > since && !forget)
            .map(|(name, _)| name.clone())
            .collect();
        Some(Changes {
            stamp: state.stamp,
            revision: state.head.map_or(0, |head| head.version.revision),
            fresh,
            forget,
            names,
            chunks,
            bodies,
        })
    }

    pub(crate) fn chunks(&self, chunks: &[u16]) -> Vec<Option<Vec<u8>>> {
        let state = self.state();
        chunks
            .iter()
            .map(|chunk| {
                state
                    .chunks
                    .get(chunk)
                    .map(|(_, _, body)| body.clone().into_bytes())
            })
            .collect()
    }

    pub(crate) fn published(&self) -> (Option<Published>, Vec<LaneState>) {
        let state = self.state();
        let lanes = Lane::all()
            .map(|lane| state.lanes.get(&lane).copied().unwrap_or_default())
            .collect();
        let head = state.head.map(|head| Published {
            building: state.building,
            ..head
        });
        (head, lanes)
    }

    pub(crate) fn claim(&self, proposed: u64, known: u64) -> u64 {
        let mut state = self.state();
        let history = state.head.map_or(0, |head| head.version.history);
        if state.building <= history.max(known) {
            state.building = proposed.max(history + 1);
        }
        state.building
    }

    pub(crate) fn put(&self, page: &Page) -> u64 {
        let mut state = self.state();
        let stamp = (unix_us() / 1000).max(state.stamp + 1).max(page.least);
        state.stamp = stamp;
        for (chunk, body) in &page.chunks {
            let there = state.chunks.get(chunk).map(|(_, version, _)| *version);
            let newer = there.map_or(!body.ends_with("\n[]"), |there| page.version > there);
            if newer {
                state
                    .chunks
                    .insert(*chunk, (stamp, page.version, body.clone()));
            }
        }
        for name in &page.names {
            state.names.insert(hashed(name), stamp);
        }
        if let Some(end) = page.end {
            let version = Version {
                history: page.version.history,
                revision: end.revision,
            };
            let head = state.head.get_or_insert(Published {
                stamp,
                all: stamp,
                version,
                change: end.change,
                building: version.history,
            });
            if version > head.version {
                head.version = version;
                head.change = end.change;
            }
            if end.all {
                head.all = stamp;
            }
            if end.fresh {
                state.base = stamp;
            }
            if end.forget {
                state.forget = stamp;
            }
        }
        if let Some(head) = &mut state.head {
            head.stamp = stamp;
        }
        stamp
    }

    pub(crate) fn put_entries(&self, version: Version, entries: &[(Name, Option<Client>)]) {
        let mut state = self.state();
        for (name, client) in entries {
            let there = state.entries.get(name).map(|(version, _)| *version);
            if there.is_none_or(|there| version >= there) {
                state
                    .entries
                    .insert(name.clone(), (version, client.clone()));
            }
        }
    }

    pub(crate) fn move_lanes(&self, stamp: u64, lanes: &[(Lane, Option<Version>)]) {
        let mut state = self.state();
        for (lane, reached) in lanes {
            let lane = state.lanes.entry(*lane).or_default();
            lane.epoch = lane.epoch.max(Some(stamp));
            lane.reached = lane.reached.max(*reached);
        }
    }
}
