//! Finding the rules of one call, among few and among many.

use std::{hint::black_box, time::Instant};

use limits::{Draft, Resource, Rule, RuleSet, rule::Tier, rule_set::Caller};
use simulation::markdown::count;
use uuid::Uuid;

use crate::{
    pin::{HERE, on},
    report::Report,
};

const SIZES: [u64; 6] = [10, 100, 1_000, 10_000, 100_000, 1_000_000];
const CALLS: u64 = 200_000;
/// Different callers and paths, in turn.
const ASKED: usize = 4_096;

/// Rules, and who asks for which.
struct Set {
    rules: RuleSet,
    asked: Vec<(String, String)>,
}

/// The rows.
pub struct Matching(Vec<Set>);

impl Matching {
    /// Sets as operators have them: a rule for everything by tier, one for each route, and one for each client.
    pub fn new() -> Self {
        Self(SIZES.map(Set::new).into())
    }

    /// Measures every row once.
    pub fn round(&self, report: &mut Report) {
        for (size, set) in SIZES.into_iter().zip(&self.0) {
            let each = on(HERE, || set.nanoseconds());
            let name = |size| format!("{} rules", count(size as f64));
            report.note("matching", &name(size), "ns", Some(&name(SIZES[0])), each);
        }
    }
}

impl Default for Matching {
    fn default() -> Self {
        Self::new()
    }
}

impl Set {
    fn new(size: u64) -> Self {
        let mut rules = RuleSet::new();
        for i in 0..size {
            let draft = match i {
                0 => Draft {
                    tier: Some(Tier::Free),
                    ..Draft::new("*", Some(10), 60)
                },
                i if i % 2 == 0 => Draft::new(format!("GET /service{i}/orders/*"), Some(100), 60),
                i => Draft {
                    client: Some(format!("client{i}")),
                    ..Draft::new(format!("/service{}/orders/**", i - 1), Some(100), 60)
                },
            };
            rules.put(Rule::new(Uuid::from_u128(i.into()), draft).unwrap());
        }
        // Each meets the rule of its tier, of its route and of itself, which lie anywhere in the set.
        let pairs = (size / 2 - 1).max(1);
        let asked = (0..ASKED as u64).map(|n| {
            let i = 2 + 2 * (n.wrapping_mul(2_654_435_761) % pairs);
            (format!("/service{i}/orders/17"), format!("client{}", i + 1))
        });
        Self {
            asked: asked.collect(),
            rules,
        }
    }

    fn nanoseconds(&self) -> f64 {
        let started = Instant::now();
        for (path, client) in self.asked.iter().cycle().take(CALLS as usize) {
            let caller = Caller {
                client: Some(client),
                tier: Some(Tier::Free),
                address: None,
            };
            let call = Resource::path("GET", black_box(path), None);
            let applicable = self.rules.applicable(&call, &caller);
            assert_eq!(applicable.active.len(), 3);
            black_box(applicable.active.len());
        }
        started.elapsed().as_secs_f64() * 1e9 / CALLS as f64
    }
}
