//! A call on its way: what it asks next, and how it ends.

use limits::Lane;
use rand::RngExt;

use super::shards::Ask;
use super::{Event, HOT, NOBODY, Run};
use crate::costs::{Ns, S};
use crate::measured::Outcome;
use crate::scenario::Calls;

/// Where a call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its container loads so many more pages of the rules.
    Loading(u32),
    /// Asking who the caller is.
    Lookup,
    /// Looking at all its buckets, as they lie on several shards.
    Looking,
    /// Taking from the caller's.
    Own,
    /// Taking from what all share.
    Shared,
    /// Asking what was published since.
    Behind,
}

/// A call on its way; or, of nobody, the start of a container.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) arrived: Ns,
    /// When it got its container.
    pub(super) started: Ns,
    pub(super) container: u32,
    pub(super) client: u32,
    /// The lane of the share of what all share that it takes from.
    pub(super) share: Lane,
    pub(super) stage: Stage,
    /// When the trip that it is on began, and by when it must be over.
    pub(super) asked: Ns,
    pub(super) deadline: Ns,
    /// How many answers it waits for, and when the last of them is there.
    pub(super) pending: u8,
    pub(super) answered: Ns,
    /// Whether it was told that the rules are old, or for how long there is no room.
    pub(super) behind: bool,
    pub(super) denied: Option<Ns>,
}

impl Call {
    /// One by nobody, that has no container yet.
    pub(super) fn new(now: Ns) -> Self {
        Self {
            arrived: now,
            started: now,
            container: u32::MAX,
            client: NOBODY,
            share: Lane::SHARED,
            stage: Stage::Lookup,
            asked: now,
            deadline: now,
            pending: 0,
            answered: now,
            behind: false,
            denied: None,
        }
    }
}

impl Run<'_> {
    /// The container has the call, and the rules.
    pub(super) fn begin(&mut self, index: u32, at: Ns) {
        let call = &mut self.on_way[index as usize];
        call.deadline = at + self.assumed.redis_timeout;
        let container = &mut self.containers[call.container as usize];
        container.calls += 1.0;
        let remembered = call.client == HOT
            || self.rng.random_bool(
                self.population
                    .remembers(call.client, container.calls - 1.0),
            );
        if remembered {
            self.judge(index, at);
        } else {
            self.go_on(index, at);
        }
    }

    /// It is known who calls.
    fn judge(&mut self, index: u32, at: Ns) {
        let call = &mut self.on_way[index as usize];
        let denials = &self.containers[call.container as usize].denials;
        if denials.get(&call.client).is_some_and(|until| *until > at) {
            return self.finish(index, Outcome::Repeated, at);
        }
        (call.behind, call.denied) = (false, None);
        call.stage = match self.calls {
            Calls::OneScript { .. } => Stage::Own,
            Calls::InParts => Stage::Looking,
        };
        self.go_on(index, at);
    }

    /// Asks what belongs to the stage of a call.
    pub(super) fn go_on(&mut self, index: u32, at: Ns) {
        let call = &self.on_way[index as usize];
        let [own, key] = match call.client {
            HOT => [Lane::of("hot"), Lane::SHARED],
            NOBODY => [Lane::SHARED; 2],
            client => self.population.lanes(client),
        };
        let rules = self.rules_shard();
        let (own, shared) = (self.shard(own), self.shard(call.share));
        match call.stage {
            Stage::Looking => {
                let looks = [
                    (own, Ask::Look { own: true }),
                    (shared, Ask::Look { own: false }),
                ];
                self.ask(index, at, &looks);
            }
            Stage::Shared => self.ask(index, at, &[(shared, Ask::Take { own: false })]),
            Stage::Own => self.ask(index, at, &[(own, Ask::Take { own: true })]),
            Stage::Lookup => self.ask(index, at, &[(self.shard(key), Ask::Lookup)]),
            Stage::Loading(_) => self.ask(index, at, &[(rules, Ask::Page)]),
            Stage::Behind => self.ask(index, at, &[(rules, Ask::Changes)]),
        }
    }

    /// All that a call has asked on its trip is answered, or will not be in time.
    pub(super) fn answered(&mut self, index: u32, published: u64) {
        let call = &mut self.on_way[index as usize];
        let answered = call.answered;
        match (call.stage, call.denied) {
            (Stage::Loading(left), _) => {
                let (container, read) = (call.container, answered + self.page_reading);
                if left == self.pages {
                    self.containers[container as usize].epoch = published;
                }
                if left > 1 {
                    call.stage = Stage::Loading(left - 1);
                    return self.go_on(index, read);
                }
                self.over.push(index);
                self.schedule(read, Event::Free { container });
            }
            (Stage::Behind, _) => {
                let ready = answered + self.costs.catch_up;
                self.containers[call.container as usize].epoch = published;
                if answered > call.asked + self.assumed.load_timeout {
                    return self.finish(index, Outcome::Late, ready);
                }
                // Catching up has a time of its own.
                call.deadline += ready - call.asked;
                self.judge(index, ready);
            }
            _ if answered > call.deadline => {
                let at = call.deadline;
                self.finish(index, Outcome::Late, at);
            }
            (Stage::Lookup, _) => self.judge(index, answered),
            _ if call.behind => {
                call.stage = Stage::Behind;
                self.go_on(index, answered);
            }
            (_, Some(wait)) => {
                let until = (call.asked + self.assumed.denial_lasts).min(answered + wait);
                let container = &mut self.containers[call.container as usize];
                container.denials.insert(call.client, until);
                self.finish(index, Outcome::Answered, answered);
            }
            (Stage::Looking, None) => {
                call.stage = Stage::Own;
                self.go_on(index, answered);
            }
            (Stage::Own, None) if matches!(self.calls, Calls::InParts) => {
                call.stage = Stage::Shared;
                self.go_on(index, answered);
            }
            (Stage::Own | Stage::Shared, None) => self.finish(index, Outcome::Answered, answered),
        }
    }

    /// A call is told how it ends.
    pub(super) fn finish(&mut self, index: u32, outcome: Outcome, at: Ns) {
        let call = &self.on_way[index as usize];
        let (arrived, started, container) = (call.arrived, call.started, call.container);
        let told = at + self.costs.authorizer.div_ceil(2);
        let free = told + self.assumed.handing_over;
        if self.is_measured(arrived) {
            self.measured.outcomes[outcome as usize] += 1;
            self.measured.busy += (free - started) as f64 / S as f64;
            // No latency is longer than the histogram's last class, which is some hours.
            let _ = self.measured.latencies.increment(told - arrived);
        }
        self.over.push(index);
        self.schedule(free, Event::Free { container });
    }
}
