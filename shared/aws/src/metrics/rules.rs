//! Counts by rule, of no more rules than are worth it.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use foldhash::fast::FixedState;
use uuid::Uuid;

use super::{is_started, lock};

/// How many rules are told apart between two flushes. What the others count is one sum.
const MOST_RULES: usize = 1_000;

/// How many of them, the busiest, a flush tells of.
const TOLD: usize = 20;

/// How often something happened to a rule.
#[derive(Debug)]
pub struct RuleCounter(Mutex<Counts>);

#[derive(Debug)]
struct Counts {
    /// None is the default limit.
    rules: HashMap<Option<Uuid>, u64, FixedState>,
    others: u64,
}

impl Counts {
    const fn new() -> Self {
        Self {
            // Ids are ours: nobody chooses them so that they collide.
            rules: HashMap::with_hasher(FixedState::with_seed(0)),
            others: 0,
        }
    }
}

impl RuleCounter {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(Counts::new()))
    }

    /// Counts one more for each of some rules; none is the default limit.
    pub fn add(&self, rules: impl IntoIterator<Item = Option<Uuid>>) {
        if !is_started() {
            return;
        }
        let mut counts = lock(&self.0);
        for rule in rules {
            let full = counts.rules.len() >= MOST_RULES;
            match counts.rules.get_mut(&rule) {
                Some(n) => *n += 1,
                None if full => counts.others += 1,
                None => {
                    counts.rules.insert(rule, 1);
                }
            }
        }
    }

    fn drain(&self) -> Counts {
        std::mem::replace(&mut *lock(&self.0), Counts::new())
    }
}

/// What happened to a rule since the last flush.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RuleCounts {
    pub(super) rule: String,
    pub(super) allowed: u64,
    pub(super) throttled: u64,
}

/// The busiest rules, the busiest first, and all others together as the last.
pub(super) fn drain(allowed: &RuleCounter, throttled: &RuleCounter) -> Vec<RuleCounts> {
    let (allowed, throttled) = (allowed.drain(), throttled.drain());
    let rules: HashSet<_> = allowed.rules.keys().chain(throttled.rules.keys()).collect();
    let of = |counts: &Counts, rule| counts.rules.get(rule).copied().unwrap_or_default();
    let mut each: Vec<RuleCounts> = rules
        .into_iter()
        .map(|rule| RuleCounts {
            rule: name(*rule),
            allowed: of(&allowed, rule),
            throttled: of(&throttled, rule),
        })
        .collect();
    each.sort_by(|one, other| {
        let busy = |counts: &RuleCounts| counts.allowed + counts.throttled;
        busy(other)
            .cmp(&busy(one))
            .then_with(|| one.rule.cmp(&other.rule))
    });
    let rest = each.split_off(each.len().min(TOLD));
    let others = RuleCounts {
        rule: "others".to_owned(),
        allowed: allowed.others + rest.iter().map(|counts| counts.allowed).sum::<u64>(),
        throttled: throttled.others + rest.iter().map(|counts| counts.throttled).sum::<u64>(),
    };
    each.extend((others.allowed + others.throttled > 0).then_some(others));
    each
}

/// What a rule is called where there may be none.
pub(super) fn name(rule: Option<Uuid>) -> String {
    rule.map_or_else(|| "default".to_owned(), |rule| rule.to_string())
}
