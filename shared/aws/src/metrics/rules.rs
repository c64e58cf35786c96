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

    fn add(&mut self, rule: Option<Uuid>) {
        let full = self.rules.len() >= MOST_RULES;
        match self.rules.get_mut(&rule) {
            Some(n) => *n += 1,
            None if full => self.others += 1,
            None => {
                self.rules.insert(rule, 1);
            }
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
        rules.into_iter().for_each(|rule| counts.add(rule));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_rules_are_told_apart_and_of_the_others_none_is_lost() {
        let (allowed, throttled) = (RuleCounter::new(), RuleCounter::new());
        let rule = |n: usize| (n > 0).then(|| Uuid::from_u128(n as u128));
        for n in 0..MOST_RULES + 500 {
            lock(&allowed.0).add(rule(n));
        }
        for _ in 0..7 {
            lock(&allowed.0).add(rule(1));
            lock(&throttled.0).add(rule(0));
        }
        assert_eq!(lock(&allowed.0).rules.len(), MOST_RULES);
        let told = drain(&allowed, &throttled);
        assert_eq!(told.len(), TOLD + 1);
        let counts = |rule: &str, allowed, throttled| RuleCounts {
            rule: rule.to_owned(),
            allowed,
            throttled,
        };
        let one = Uuid::from_u128(1).to_string();
        assert_eq!(told[..2], [counts(&one, 8, 0), counts("default", 1, 7)]);
        let others = (MOST_RULES + 500 - TOLD) as u64;
        assert_eq!(told[TOLD], counts("others", others, 0));
        assert_eq!(drain(&allowed, &throttled), []);
    }
}
