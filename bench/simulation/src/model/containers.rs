//! Containers: warm ones, those that Lambda makes, and the calls that wait for them.

use foldhash::{HashMap, HashMapExt};

use super::Run;
use super::calls::{Call, Stage};
use crate::costs::{Ns, S};
use crate::measured::Outcome;

/// How a container stands with a shard.
#[derive(Debug, Clone, Default)]
pub(super) struct Link {
    /// Since when it has a connection.
    pub(super) connected: Option<Ns>,
    /// How often in a row it was not answered, and until when it leaves the shard alone.
    pub(super) failures: u32,
    pub(super) resting_until: Ns,
}

/// A container, which has one call at a time.
#[derive(Debug)]
pub(super) struct Container {
    /// How it stands with each shard.
    pub(super) links: Vec<Link>,
    /// How many changes of the rules it knows.
    pub(super) epoch: u64,
    /// How many calls it has had; without end where it was there before all began.
    pub(super) calls: f64,
    /// Until when a client is told again that there is no room.
    pub(super) denials: HashMap<u32, Ns>,
}

impl Run<'_> {
    /// Whether Lambda lets another call in. One that was busy all along is, as far as this goes, at its quota.
    pub(super) fn admits(&mut self, now: Ns) -> bool {
        if !self.scenario.from_nothing {
            return true;
        }
        let [first, each_second] = self.assumed.environments;
        let units = first + each_second * now as f64 / S as f64;
        let per_second = units * self.assumed.calls_a_unit;
        self.admitted.take(now, per_second, per_second).is_ok()
    }

    /// A container for a call, those first that were used last; where all are busy, one is made, and nobody is given. None where
    /// none may be made.
    pub(super) fn find_container(&mut self, now: Ns) -> Option<Option<u32>> {
        if let Some(idle) = self.idle.pop() {
            return Some(Some(idle));
        }
        if now < self.window[0] {
            return Some(Some(self.make_container(true)));
        }
        let [most, each_second] = self.assumed.environments;
        self.environments.take(now, each_second, most).ok()?;
        let begins = now + self.assumed.environment + self.costs.start;
        let start = Call {
            container: self.make_container(false),
            stage: Stage::Loading(self.pages),
            ..Call::new(now)
        };
        let index = self.note(start);
        self.go_on(index, begins);
        Some(None)
    }

    /// A container: one that has long been there, or one that knows nobody yet.
    pub(super) fn make_container(&mut self, is_warm: bool) -> u32 {
        let link = Link {
            connected: is_warm.then_some(0),
            ..Link::default()
        };
        self.containers.push(Container {
            links: vec![link; self.shards.len()],
            epoch: 0,
            calls: if is_warm { f64::INFINITY } else { 0.0 },
            denials: HashMap::new(),
        });
        self.containers.len() as u32 - 1
    }

    /// A container can have its next call: of those that wait, whichever came first.
    pub(super) fn free(&mut self, now: Ns, container: u32) {
        let Some(index) = self.waiting.pop_front() else {
            return self.idle.push(container);
        };
        let call = &mut self.on_way[index as usize];
        (call.container, call.started) = (container, now);
        if now > call.arrived + self.assumed.load_timeout {
            return self.finish(index, Outcome::Late, now);
        }
        self.begin(index, now + self.costs.authorizer / 2);
    }
}
