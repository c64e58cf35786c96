//! Rules that are spread: a request asks one share of each, chosen at random, and where only that stands in its way one other.

use limits::Rule;
use limits::bucket::{Bucket, BucketName, Owner};
use limits::counters::{Answer, admitted};

use super::Plan;

/// What was asked of a rule before another of its shares was.
#[derive(Debug)]
pub(crate) struct Earlier<'a> {
    /// Which of the plan's buckets.
    place: usize,
    share: u64,
    bucket: Bucket<'a>,
    answer: Answer,
}

/// A share of a rule, by number, at random; none where the rule is not spread.
pub(super) fn any_share(rule: Option<&Rule>) -> Option<u64> {
    let split = rule?.shares().len() as u64;
    (split > 1).then(|| fastrand::u64(..split))
}

/// The bucket of a share. `cost` is in units of the algorithm, which are the same for all shares of a rule. None where there is no
/// such share.
pub(super) fn bucket_of<'a>(
    rule: &'a Rule,
    number: u64,
    cost: u64,
    shadow: bool,
) -> Option<Bucket<'a>> {
    let shares = rule.shares();
    let quota = shares.get(usize::try_from(number).ok()?)?;
    let owner = Owner::Share {
        rule: rule.id(),
        number,
        split: shares.len() as u64,
    };
    Some(Bucket {
        lane: owner.lane(),
        name: BucketName::new(Some(rule), &owner, quota),
        quota,
        cost,
        shadow,
    })
}

impl<'a> Plan<'a> {
    /// Where nothing but shares denied a request: puts for each of them another share of its rule into the plan, and gives what
    /// was there. Empty where there is nothing to be gained by asking again.
    pub(crate) fn turn_elsewhere(&mut self, answers: &[Answer]) -> Vec<Earlier<'a>> {
        let mut others = Vec::new();
        for (place, (bucket, answer)) in self.buckets.iter().zip(answers).enumerate() {
            if answer.room || bucket.shadow {
                continue;
            }
            match self.another(place) {
                Some(other) => others.push((place, *answer, other)),
                None => return Vec::new(),
            }
        }
        let turn = |(place, answer, (share, bucket)): (usize, Answer, (u64, Bucket<'a>))| Earlier {
            place,
            share: self.counted[place].share.replace(share).unwrap_or_default(),
            bucket: std::mem::replace(&mut self.buckets[place], bucket),
            answer,
        };
        others.into_iter().map(turn).collect()
    }

    /// Another share than the one at that place, at random; none where there is none.
    fn another(&self, place: usize) -> Option<(u64, Bucket<'a>)> {
        let counted = self.counted.get(place)?;
        let (rule, share) = (counted.rule?, counted.share?);
        let others = rule.shares().len() as u64 - 1;
        let number = fastrand::u64(..others);
        let number = number + u64::from(number >= share);
        let bucket = &self.buckets[place];
        Some((number, bucket_of(rule, number, bucket.cost, bucket.shadow)?))
    }

    /// Puts back what was asked before, where another share denied the request too and can be had sooner: a caller is told the
    /// longer wait.
    pub(crate) fn turn_back_to_longer(
        &mut self,
        earlier: Vec<Earlier<'a>>,
        answers: &mut [Answer],
    ) {
        if admitted(&self.buckets, answers) {
            return;
        }
        for earlier in earlier {
            let (bucket, answer) = (&self.buckets[earlier.place], &answers[earlier.place]);
            let wait = |bucket: &Bucket<'_>, answer: &Answer| {
                answer.reading.wait(bucket.quota, bucket.cost)
            };
            if !answer.room && wait(bucket, answer) < wait(&earlier.bucket, &earlier.answer) {
                answers[earlier.place] = earlier.answer;
                self.turn_back(earlier);
            }
        }
    }

    /// Puts back what was asked before.
    pub(crate) fn turn_back(&mut self, earlier: Earlier<'a>) {
        self.counted[earlier.place].share = Some(earlier.share);
        self.buckets[earlier.place] = earlier.bucket;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use limits::counters::{Counters, Operation};
    use limits::rule::{Draft, Per, Status};
    use limits::rule_set::Applicable;
    use uuid::Uuid;

    use super::*;
    use crate::decision::Decision;
    use crate::plan::Owners;

    const OWNERS: Owners<'static> = Owners {
        client: None,
        address: None,
        destination: None,
    };

    fn rule(id: u128, limit: u64, split: u64) -> Rule {
        let draft = Draft {
            per: Per::All,
            split,
            ..Draft::new("/hot", Some(limit), 60)
        };
        Rule::new(Uuid::from_u128(id), draft).unwrap()
    }

    fn shadow(rule: &Rule) -> Rule {
        let draft = Draft {
            status: Status::Shadow,
            ..rule.draft().clone()
        };
        Rule::new(rule.id(), draft).unwrap()
    }

    fn plan<'a>(active: &[&'a Rule], shadow: &[&'a Rule], tokens: u64) -> Plan<'a> {
        let applicable = Applicable {
            active: active.to_vec(),
            shadow: shadow.to_vec(),
        };
        Plan::new(&applicable, None, &OWNERS, tokens)
    }

    /// As the limiter asks.
    fn decide(plan: &mut Plan<'_>, counters: &mut Counters, now_us: u64) -> Decision {
        let mut answers = counters.ask(Operation::Take, &plan.buckets, now_us);
        let earlier = plan.turn_elsewhere(&answers);
        if !earlier.is_empty() {
            for one in &earlier {
                assert_ne!(plan.buckets[one.place].name, one.bucket.name);
                assert_ne!(plan.counted[one.place].share, Some(one.share));
            }
            answers = counters.ask(Operation::Take, &plan.buckets, now_us);
            plan.turn_back_to_longer(earlier, &mut answers);
        }
        plan.answered(None, &answers, false)
    }

    #[test]
    fn all_shares_together_admit_what_the_rule_allows_to_those_who_keep_asking() {
        for split in [2, 3, 8, 64] {
            for limit in [split, 100, 997] {
                let rule = rule(1, limit, split);
                let mut counters = Counters::default();
                let mut asked = || decide(&mut plan(&[&rule], &[], 1), &mut counters, 7).allowed;
                let admitted = (0..limit + 20 * split).filter(|_| asked()).count() as u64;
                assert_eq!(admitted, limit, "{split}");
            }
        }
    }

    #[test]
    fn of_two_shares_none_is_denied_while_the_other_has_room() {
        let rule = rule(1, 11, 2);
        let mut counters = Counters::default();
        for _ in 0..11 {
            assert!(decide(&mut plan(&[&rule], &[], 1), &mut counters, 7).allowed);
        }
        assert!(!decide(&mut plan(&[&rule], &[], 1), &mut counters, 7).allowed);
    }

    #[test]
    fn a_caller_is_told_the_rules_limit_and_what_all_shares_would_have() {
        let rule = rule(1, 11, 4);
        let mut counters = Counters::default();
        let mut first = plan(&[&rule], &[], 1);
        let told = decide(&mut first, &mut counters, 7).told.unwrap();
        // By the whole of it a container counts while Redis is out.
        let whole = rule.quota();
        assert_eq!(first.counted().map(|(_, quota)| quota).next(), whole);
        // A share of 3, or the one of 2.
        let last = first.counted[0].share == Some(3);
        let left = if last { 4 } else { 8 };
        assert_eq!((told.limit, told.remaining), (Some(11), Some(left)));
        let mut look = plan(&[&rule], &[], 1);
        while look.counted[0].share == first.counted[0].share || look.counted[0].share == Some(3) {
            look = plan(&[&rule], &[], 1);
        }
        let answers = counters.ask(Operation::Look, &look.buckets, 7);
        let decision = look.answered(None, &answers, false);
        assert_eq!(
            decision.told.unwrap().remaining,
            Some(11),
            "12 is more than the limit"
        );
        assert_eq!(decision.policy[0].limit, 11);
        let now = look.each_now(&answers).next().unwrap();
        assert_eq!((now.burst, now.share), (Some(11), look.counted[0].share));
    }

    #[test]
    fn the_longer_of_two_waits_is_told() {
        let rule = rule(1, 12, 2);
        let mut counters = Counters::default();
        // Each gives one back in ten seconds, and one of them is emptied five seconds later.
        for (number, at) in [(0, 0), (1, 5_000_000)] {
            let mut one = plan(&[&rule], &[], 6);
            one.buckets[0] = bucket_of(&rule, number, one.buckets[0].cost, false).unwrap();
            let answers = counters.ask(Operation::Take, &one.buckets, at);
            assert!(answers[0].room);
        }
        for _ in 0..20 {
            let mut denied = plan(&[&rule], &[], 1);
            let decision = decide(&mut denied, &mut counters, 6_000_000);
            let wait = decision.told.unwrap().wait;
            assert_eq!(wait, Some(Duration::from_secs(9)));
            assert_eq!(denied.counted[0].share, Some(1));
        }
    }

    #[test]
    fn whoever_is_denied_by_more_than_shares_asks_no_other_and_takes_nothing() {
        let (hot, own) = (rule(1, 4, 4), rule(2, 1, 1));
        let mut counters = Counters::default();
        assert!(decide(&mut plan(&[&hot, &own], &[], 1), &mut counters, 7).allowed);
        for _ in 0..50 {
            let mut denied = plan(&[&hot, &own], &[], 1);
            let answers = counters.ask(Operation::Take, &denied.buckets, 7);
            assert!(denied.turn_elsewhere(&answers).is_empty());
        }
        let mut asked = || decide(&mut plan(&[&hot], &[], 1), &mut counters, 7).allowed;
        assert_eq!((0..300).filter(|_| asked()).count(), 3);
    }

    #[test]
    fn every_spread_rule_that_denies_is_asked_elsewhere_and_all_or_none_are_spent() {
        let (one, two) = (rule(1, 4, 2), rule(2, 8, 2));
        let mut counters = Counters::default();
        for _ in 0..4 {
            assert!(decide(&mut plan(&[&one, &two], &[], 1), &mut counters, 7).allowed);
        }
        assert!(!decide(&mut plan(&[&one, &two], &[], 1), &mut counters, 7).allowed);
        let mut asked = || decide(&mut plan(&[&two], &[], 1), &mut counters, 7).allowed;
        assert_eq!((0..20).filter(|_| asked()).count(), 4);
    }

    #[test]
    fn a_spread_rule_that_watches_is_watched_in_one_share() {
        let watching = shadow(&rule(1, 2, 2));
        let own = rule(2, 100, 1);
        let mut counters = Counters::default();
        let mut would_deny = 0;
        for _ in 0..40 {
            let mut one = plan(&[&own], &[&watching], 1);
            let answers = counters.ask(Operation::Take, &one.buckets, 7);
            assert!(one.turn_elsewhere(&answers).is_empty());
            let decision = one.answered(None, &answers, false);
            assert!(decision.allowed);
            would_deny += decision.would_deny.len();
        }
        assert_eq!(would_deny, 38);
    }

    #[test]
    fn a_cost_above_the_smallest_share_is_told_never_to_fit() {
        let rule = rule(1, 11, 4);
        assert!(!plan(&[&rule], &[], 2).is_settled());
        let three = plan(&[&rule], &[], 3);
        assert!(three.is_settled() && three.buckets.is_empty());
    }
}
