//! Shards: what they are asked, what that costs, and when the answer is there.

use limits::Lane;
use limits::lane::LANES;
use rand::RngExt;
use rand_distr::{Distribution, Exp1};

use super::calls::Call;
use super::{Event, HOT, Run};
use crate::costs::{Ns, S};
use crate::measured::Outcome;
use crate::scenario::Calls;
use crate::server::Server;

/// The slot of the published rules: the CRC-16 of `rules`, modulo 16,384.
const RULES_SLOT: usize = 13_076;
/// How many there are.
const SLOTS: usize = 16_384;

/// What a shard is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ask {
    /// Who a client is.
    Lookup,
    /// A look at the caller's buckets, or at what all share.
    Look { own: bool },
    /// A take of the caller's buckets, or of what all share.
    Take { own: bool },
    /// What was published since.
    Changes,
    /// A page of the rules.
    Page,
}

/// A shard: its core, and its network card.
#[derive(Debug, Clone, Default)]
pub(super) struct Shard {
    pub(super) core: Server,
    pub(super) card: Server,
}

impl Run<'_> {
    /// The shard of a lane: lanes lie at equal distances over all slots, and shards have equal parts of them.
    pub(super) fn shard(&self, lane: Lane) -> usize {
        usize::from(lane.0) * self.shards.len() / LANES
    }

    /// The shard of the published rules.
    pub(super) fn rules_shard(&self) -> usize {
        RULES_SLOT * self.shards.len() / SLOTS
    }

    /// How many changes of the rules were published by then.
    fn epoch(&self, now: Ns) -> u64 {
        let every = self.scenario.change_every;
        every.map_or(0, |every| now.saturating_sub(self.window[0]) / every)
    }

    /// Half a round trip between a container and a shard.
    fn half_trip(&mut self, container: u32, shard: usize) -> Ns {
        let jitter: f64 = Exp1.sample(&mut self.rng);
        let trip = self.assumed.round_trip[(container as usize + shard) % 2];
        (trip + (jitter * self.assumed.jitter as f64) as Ns) / 2
    }

    /// Sends a call on a trip to some shards, unless its container leaves one of them alone.
    pub(super) fn ask(&mut self, index: u32, at: Ns, asks: &[(usize, Ask)]) {
        let call = &mut self.on_way[index as usize];
        (call.pending, call.asked, call.answered) = (asks.len() as u8, at, at);
        let container = call.container;
        let mut rests = false;
        for (shard, ask) in asks {
            if self.containers[container as usize].links[*shard].resting_until > at {
                rests = true;
                // It would have been asked, had it not been asked too much already.
                self.shards[*shard].core.work += self.service(*ask, true);
            }
        }
        if rests {
            return self.finish(index, Outcome::LeftAlone, at);
        }
        for (shard, ask) in asks {
            let mut there = at + self.half_trip(container, *shard);
            if !self.is_connected(container, *shard, at) {
                for _ in 0..2 * self.assumed.handshake_trips {
                    there += self.half_trip(container, *shard);
                }
            }
            let visit = Event::Visit {
                call: index,
                shard: *shard as u16,
                ask: *ask,
            };
            self.schedule(there, visit);
        }
    }

    /// From when to when a shard is out: the first, where one fails. It is not the one that the rules lie on, unless there is no other.
    fn outage(&self, shard: usize) -> Option<[Ns; 2]> {
        let length = self.scenario.outage.filter(|_| shard == 0)?;
        Some([self.window[0], self.window[0] + length])
    }

    /// Whether a container has a connection to a shard.
    fn is_connected(&self, container: u32, shard: usize, now: Ns) -> bool {
        let connected = self.containers[container as usize].links[shard].connected;
        // What was connected before the outage is so no more after it.
        let cut = self.outage(shard).filter(|[from, _]| now >= *from);
        connected.is_some_and(|since| cut.is_none_or(|[_, to]| since >= to))
    }

    /// A question reaches a shard, which answers it in its turn.
    pub(super) fn visit(&mut self, now: Ns, index: u32, shard: usize, ask: Ask) {
        let Call {
            container, client, ..
        } = self.on_way[index as usize];
        let published = self.epoch(now);
        let knows = self.containers[container as usize].epoch;
        let is_decision = matches!(ask, Ask::Look { .. } | Ask::Take { .. });
        let behind = is_decision && knows < published;
        let wait = match ask {
            Ask::Take { own: true } if !behind && client == HOT => self.take_of_hot(now),
            _ => None,
        };
        let mut service = self.service(ask, !behind && wait.is_none());
        let is_new = !self.is_connected(container, shard, now);
        if is_new {
            service += self.assumed.handshake;
        }
        let bytes = match ask {
            Ask::Page => self.page_bytes,
            _ => self.assumed.reply_bytes,
        };
        let sending = bytes * S / self.assumed.server_bytes;
        let patient = matches!(ask, Ask::Page | Ask::Changes);
        let out_until = self
            .outage(shard)
            .and_then(|[from, to]| (from..to).contains(&now).then_some(to));
        let answered = if let Some(again) = out_until {
            // Whoever is patient asks until it is there again.
            if patient { again } else { Ns::MAX }
        } else {
            let Shard { core, card } = &mut self.shards[shard];
            let sent = card.serve(core.serve(now, service), sending);
            if is_new {
                self.containers[container as usize].links[shard].connected = Some(now);
            }
            sent + self.half_trip(container, shard)
        };
        let call = &mut self.on_way[index as usize];
        call.pending -= 1;
        call.answered = call.answered.max(answered);
        call.behind |= behind;
        call.denied = call.denied.or(wait);
        let deadline = call.deadline;
        let link = &mut self.containers[container as usize].links[shard];
        if patient || answered <= deadline {
            link.failures = 0;
        } else {
            link.failures += 1;
            let [first, longest] = self.assumed.pauses;
            let most = (first << (link.failures - 1).min(10)).min(longest);
            link.resting_until = deadline + self.rng.random_range(0..most);
        }
        if self.on_way[index as usize].pending == 0 {
            self.answered(index, published);
        }
    }

    /// What a question costs the core of a shard. A take that has no room, or is told that its rules are old, writes nothing.
    fn service(&self, ask: Ask, writes: bool) -> Ns {
        match (ask, self.calls) {
            (Ask::Page, _) => self.assumed.page,
            (Ask::Changes, _) => self.assumed.changes,
            (Ask::Take { .. }, _) if !writes => self.costs.unwritten,
            (Ask::Take { own: true }, Calls::OneScript { buckets: 4 }) => self.costs.take_four,
            (Ask::Take { own: true }, Calls::OneScript { buckets: 2 }) => self.costs.take_two,
            (Ask::Take { .. }, _) => self.costs.take_one,
            (Ask::Lookup | Ask::Look { .. }, _) => self.costs.unwritten,
        }
    }

    /// Takes from the bucket of the hot client; where it has no room, for how long.
    fn take_of_hot(&mut self, now: Ns) -> Option<Ns> {
        let limit = self.scenario.hot.as_ref()?.limit?;
        let per_second = limit / 60.0;
        self.hot_bucket.take(now, per_second, limit).err()
    }
}
