//! What rules have admitted, and what they may.

use std::collections::BTreeMap;

use crate::{
    Function,
    chaos::{
        faults::Happened,
        rules::{CLIENTS, Standing},
        stage::Stage,
        traffic::{Answer, Asked, Verdict},
    },
};

/// What a rule admitted to its fullest bucket, and what it may have.
pub(super) struct Bucket {
    pub(super) rule: &'static Standing,
    pub(super) calls: usize,
    pub(super) admitted: u64,
    /// Of these, what the store has surely counted.
    pub(super) counted: u64,
    pub(super) by_rule: u64,
    pub(super) by_loss: u64,
    pub(super) by_fallback: u64,
    pub(super) buckets: usize,
    pub(super) admitted_by_all: u64,
}

impl Bucket {
    /// What the store may count.
    pub(super) fn countable(&self) -> u64 {
        self.by_rule + self.by_loss
    }

    /// What may be admitted, by the store and without it.
    pub(super) fn allowance(&self) -> u64 {
        self.countable() + self.by_fallback
    }

    pub(super) fn of(
        rule: &'static Standing,
        stage: &Stage,
        answers: &[Answer],
        felt: &[&Happened],
    ) -> Self {
        let at_place = |answer: &&Answer| matches!(answer.asked, Asked::Standing { place, .. } if place == rule.place);
        let asked: Vec<&Answer> = answers.iter().filter(at_place).collect();
        let begin = asked.iter().map(|answer| answer.began).min();
        let end = asked.iter().map(|answer| answer.ended).max();
        let time = end.unwrap_or_default() - begin.unwrap_or_default();
        let (mut admitted, mut counted) = (BTreeMap::new(), BTreeMap::new());
        for answer in &asked {
            // Whoever opens its doors without the store counts nobody.
            let open = rule.on_failure == "allow" && answer.verdict.is_out();
            if answer.verdict.is_allowed()
                && !open
                && let Asked::Standing { client, .. } = answer.asked
            {
                let owner = if rule.shared { CLIENTS } else { client };
                *admitted.entry(owner).or_insert(0) += 1;
                // What `check` admits without the store, it does not tell.
                let disturbed = felt
                    .iter()
                    .any(|each| each.covers(answer.began, answer.ended));
                let tells = stage.seats[answer.seat].function == Function::Authorizer || !disturbed;
                if answer.verdict == Verdict::Allowed && tells {
                    *counted.entry(owner).or_insert(0) += 1;
                }
            }
        }
        let fullest =
            |each: &BTreeMap<usize, u64>| each.values().copied().max().unwrap_or_default();
        let losses = felt.iter().filter(|each| each.loses).count() as u64;
        let grants = felt
            .iter()
            .map(|each| rule.fallback(each.over() - each.began));
        let by_one: u64 = grants.sum();
        Self {
            rule,
            calls: asked.len(),
            admitted: fullest(&admitted),
            counted: fullest(&counted),
            by_rule: rule.admits(time),
            by_loss: losses * rule.burst(),
            by_fallback: match rule.on_failure {
                "limit" => by_one * stage.seats.len() as u64,
                _ => 0,
            },
            buckets: rule.buckets(),
            admitted_by_all: admitted.values().sum(),
        }
    }
}
