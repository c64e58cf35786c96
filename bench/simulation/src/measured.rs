//! What a run showed, and which limit it met first.

use histogram::Histogram;

use crate::costs::{Assumptions, MS};
use crate::scenario::Scenario;

/// How a request ends: each in one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Redis decided.
    Answered,
    /// The container repeated a denial.
    Repeated,
    /// Redis did not answer within `REDIS_TIMEOUT_MS`, or the rules were not there in `RULES_LOAD_TIMEOUT_MS`.
    Late,
    /// A shard was left alone, after it had not answered.
    LeftAlone,
    /// Lambda refused it, as calls grow faster than it lets them.
    NotAdmitted,
    /// Lambda refused it, as all containers were busy and no more could be made yet.
    NoEnvironment,
}

impl Outcome {
    /// How many there are.
    pub(crate) const COUNT: usize = 6;
}

/// What a run showed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Measured {
    /// Requests a second that were sent.
    pub(crate) rate: f64,
    /// How many shards there were.
    pub(crate) shards: usize,
    /// How long it was measured.
    pub(crate) seconds: f64,
    /// What the authorizer took of each request that Lambda did not refuse, in ns.
    pub(crate) latencies: Histogram,
    /// How many requests ended how.
    pub(crate) outcomes: [u64; Outcome::COUNT],
    /// How many there were.
    pub(crate) arrived: u64,
    /// The work that the core of the busiest shard was asked for, by what it can do. What would have been asked of it by those who
    /// left it alone counts: too much work is to be seen as that.
    pub(crate) core: f64,
    /// The same of the network card that has most to send.
    pub(crate) card: f64,
    /// The seconds that containers were busy, together.
    pub(crate) busy: f64,
    /// How many containers there were in the end, each of which may have a connection to each shard.
    pub(crate) containers: usize,
}

/// The share of the requests that may end otherwise than they should before something is said to break.
const TOLERATED: f64 = 0.001;

/// The load of one that serves one after the other from which on its queue is hardly ever empty.
const FULL: f64 = 0.95;

impl Measured {
    /// What the authorizer adds to so many percent of the requests at most, in milliseconds.
    pub(crate) fn percentile(&self, percent: f64) -> f64 {
        let found = self.latencies.percentile(percent).ok().flatten();
        found.map_or(0.0, |class| class.end() as f64 / MS as f64)
    }

    /// What share of the requests ended in one of some ways.
    pub(crate) fn share(&self, of: &[Outcome]) -> f64 {
        let ended: u64 = of.iter().map(|of| self.outcomes[*of as usize]).sum();
        ended as f64 / self.arrived.max(1) as f64
    }

    /// What share was judged without Redis.
    pub(crate) fn undecided(&self) -> f64 {
        self.share(&[Outcome::Late, Outcome::LeftAlone])
    }

    /// What share Lambda refused.
    pub(crate) fn refused(&self) -> f64 {
        self.share(&[Outcome::NotAdmitted, Outcome::NoEnvironment])
    }

    /// How many containers were busy on average.
    pub(crate) fn busy_containers(&self) -> f64 {
        self.busy / self.seconds
    }

    /// The first resource that is over its limit, causes before what they cause; none where all is well.
    pub(crate) fn first_over(
        &self,
        scenario: &Scenario,
        assumed: &Assumptions,
    ) -> Option<&'static str> {
        // Where a shard fails, its own calls are lost, and no others ought to be.
        let lost = match scenario.outage {
            Some(_) => 1.0 / self.shards as f64,
            None => 0.0,
        };
        let over = [
            ("the number of shards", self.shards > assumed.most_shards),
            ("the core of one shard", self.core > FULL),
            ("the network of one shard", self.card > FULL),
            (
                "the connections of one shard",
                self.containers > assumed.most_connections,
            ),
            (
                "how fast Lambda admits more calls",
                self.share(&[Outcome::NotAdmitted]) > TOLERATED,
            ),
            (
                "how fast Lambda makes environments",
                self.share(&[Outcome::NoEnvironment]) > TOLERATED,
            ),
            (
                "the core of one shard, for a moment",
                self.undecided() > lost + TOLERATED,
            ),
        ];
        over.iter().find(|(_, over)| *over).map(|(what, _)| *what)
    }
}
