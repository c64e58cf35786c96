//! What is simulated.

use crate::costs::{Ns, S};

/// Decisions of one bucket a second that `scripts/capacity` gives a shard.
const DECISIONS_A_SHARD: f64 = 75_000.0;

/// Chunks of rules in the first page, as in `limits-redis`; bytes in each that follows; and chunks in it at most.
const FIRST_PAGE: f64 = 10.0;
const PAGE_BYTES: f64 = 25_000.0;
const LONGEST_PAGE: f64 = 400.0;

/// How a call asks its buckets.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Calls {
    /// All of them by one script.
    OneScript {
        /// How many.
        buckets: u32,
    },
    /// The caller's own and what all share, on different shards: a look at both, a take from each.
    InParts,
}

/// One client that makes a large part of all calls.
#[derive(Debug)]
pub(crate) struct Hot {
    /// What part.
    pub(crate) share: f64,
    /// How many of them a minute are allowed; none: all.
    pub(crate) limit: Option<f64>,
}

/// What is simulated at several rates.
#[derive(Debug)]
pub(crate) struct Scenario {
    /// What it is told by.
    pub(crate) name: &'static str,
    /// How many clients there are; no limit denies any but the hot one anything.
    pub(crate) clients: u32,
    /// How many shards; none: as many as `scripts/capacity` reckons.
    pub(crate) shards: Option<usize>,
    /// How many rules there are.
    pub(crate) rules: u32,
    /// How many rules `per: client` each call meets.
    pub(crate) meets: u32,
    /// Each call meets a rule `per: all` too, which is split so often.
    pub(crate) split: Option<u64>,
    /// One client makes a large part of all calls.
    pub(crate) hot: Option<Hot>,
    /// How often a rule changes.
    pub(crate) change_every: Option<Ns>,
    /// There is no container when it begins.
    pub(crate) from_nothing: bool,
    /// How long one shard fails.
    pub(crate) outage: Option<Ns>,
}

/// As few clients as a container remembers, one rule, shards as they were reckoned.
const USUAL: Scenario = Scenario {
    name: "as reckoned",
    clients: 10_000,
    shards: None,
    rules: 100,
    meets: 1,
    split: None,
    hot: None,
    change_every: None,
    from_nothing: false,
    outage: None,
};

/// All that is simulated, in the order in which it is told.
pub(crate) const SCENARIOS: [Scenario; 13] = [
    USUAL,
    Scenario {
        name: "a million clients",
        clients: 1_000_000,
        ..USUAL
    },
    Scenario {
        name: "four rules a call",
        meets: 4,
        ..USUAL
    },
    Scenario {
        name: "one shard",
        shards: Some(1),
        ..USUAL
    },
    Scenario {
        name: "`per: all`",
        split: Some(1),
        ..USUAL
    },
    Scenario {
        name: "`per: all`, `split: 8`",
        split: Some(8),
        ..USUAL
    },
    Scenario {
        name: "`per: all`, `split: 64`",
        split: Some(64),
        ..USUAL
    },
    Scenario {
        name: "one client makes a tenth",
        hot: Some(Hot {
            share: 0.1,
            limit: None,
        }),
        ..USUAL
    },
    Scenario {
        name: "the same, 100 a minute allowed",
        hot: Some(Hot {
            share: 0.1,
            limit: Some(100.0),
        }),
        ..USUAL
    },
    Scenario {
        name: "a rule changes each second",
        change_every: Some(S),
        ..USUAL
    },
    Scenario {
        name: "from nothing, first 10 s",
        from_nothing: true,
        ..USUAL
    },
    Scenario {
        name: "the same, 100,000 rules",
        rules: 100_000,
        from_nothing: true,
        ..USUAL
    },
    Scenario {
        name: "a shard fails for 2 s",
        outage: Some(2 * S),
        ..USUAL
    },
];

impl Scenario {
    /// How many shards it has at a rate.
    pub(crate) fn shards(&self, rate: f64) -> usize {
        let reckoned = |commands: f64| (rate * commands / DECISIONS_A_SHARD).ceil() as usize;
        // What one server has is one command, whatever lanes it lies in.
        let usual = match (self.split, reckoned(1.0)) {
            (Some(_), shards @ 2..) => shards.max(reckoned(4.0)),
            (_, shards) => shards,
        };
        self.shards.unwrap_or(usual)
    }

    /// How a call asks its buckets, with so many shards.
    pub(crate) fn calls(&self, shards: usize) -> Calls {
        match self.split {
            Some(_) if shards > 1 => Calls::InParts,
            split => Calls::OneScript {
                buckets: self.meets + u32::from(split.is_some()),
            },
        }
    }

    /// How many chunks a container reads when it starts: where more than 500 hold any rule, all 4,096.
    pub(crate) fn chunks(&self) -> f64 {
        let chunks = f64::from(limits::CHUNKS);
        let filled = -chunks * (-f64::from(self.rules) / chunks).exp_m1();
        if filled > 500.0 { chunks } else { filled }
    }

    /// How many bytes they are, where a rule and an empty place in a page are so many.
    pub(crate) fn bytes(&self, [rule, place]: [f64; 2]) -> f64 {
        rule * f64::from(self.rules) + place * self.chunks()
    }

    /// In how many pages: the first is of ten chunks, each that follows of so many that it has the bytes of a page.
    pub(crate) fn pages(&self, rule_bytes: [f64; 2]) -> u32 {
        let each = self.bytes(rule_bytes) / self.chunks();
        let page = (PAGE_BYTES / each).floor().clamp(1.0, LONGEST_PAGE);
        let rest = (self.chunks() - FIRST_PAGE).max(0.0);
        1 + (rest / page).ceil() as u32
    }

    /// For how long it warms up, and is then measured.
    pub(crate) fn times(&self, rate: f64) -> [Ns; 2] {
        let calls = |most: f64| (most / rate * S as f64) as Ns;
        let warm_up = calls(50_000.0).max(S / 4);
        if self.from_nothing {
            [0, 10 * S]
        } else if let Some(outage) = self.outage {
            [warm_up, 2 * outage]
        } else if let Some(every) = self.change_every {
            [warm_up, calls(100_000.0).div_ceil(every).max(3) * every]
        } else {
            [warm_up, calls(100_000.0).max(S)]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_reckoned_as_the_table_of_the_document_reckons_them() {
        let program = include_str!("../../../scripts/capacity");
        assert!(program.contains("\nDECISIONS_A_SHARD = 75_000 "));
        assert_eq!(DECISIONS_A_SHARD, 75_000.0);
        let usual = [1e3, 1e4, 1e5, 1e6].map(|rate| USUAL.shards(rate));
        assert_eq!(usual, [1, 1, 2, 14]);
    }

    #[test]
    fn a_container_reads_few_rules_in_few_pages_and_many_in_all() {
        let pages = |rules| Scenario { rules, ..USUAL }.pages([100.0, 5.0]);
        assert_eq!([1, 100, 1_000, 100_000].map(pages), [1, 2, 12, 410]);
    }
}
