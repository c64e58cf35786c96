//! While Redis does not answer: small buckets of this container alone, for the rules that say so.
//!
//! Only about counting, never about identity, and never after an answer: a denial is one.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws::metrics;
use limits::counters::{Answer, Counters, Operation};
use limits::moment::unix_us;
use limits::rule::OnFailure;
use limits::{Bucket, BucketName, Quota, Rule};

use crate::plan::{Owners, Plan};

/// How many buckets are kept; who has not been here for longest goes first.
const MOST_BUCKETS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9_999);

/// What someone is told to wait whose request is more than a local bucket holds: Redis may be back by then.
const ANOTHER_TRY: Duration = Duration::from_secs(1);

/// The share of each limit that this container grants by itself. The wall clock, which goes on in a frozen container, fills it.
#[derive(Debug)]
pub(crate) struct Fallback {
    percent: u64,
    counters: Mutex<Counters>,
}

/// A rule that is counted here, and how its bucket stands.
#[derive(Debug)]
pub(crate) struct Local<'a> {
    /// None is the default limit.
    pub(crate) rule: Option<&'a Rule>,
    /// What the whole rule counts by.
    pub(crate) quota: &'a Quota,
    pub(crate) room: bool,
    /// Requests that are left, at most the share of the limit.
    pub(crate) remaining: u64,
    /// Time until the bucket is full again.
    pub(crate) reset: Duration,
    /// Time to wait, where there is no room.
    pub(crate) wait: Option<Duration>,
}

impl Fallback {
    /// Nobody has been granted anything yet; `percent` of a limit is the share.
    pub(crate) fn new(percent: u64) -> Self {
        Self {
            percent,
            counters: Mutex::new(Counters::holding(MOST_BUCKETS)),
        }
    }

    /// Asks the buckets of those rules of a plan that say `limit`, all or none. A rule that says `allow` beside them stops nobody,
    /// and shadows are not asked.
    pub(crate) fn ask<'a>(
        &self,
        plan: &Plan<'a>,
        owners: &Owners<'_>,
        tokens: u64,
        operation: Operation,
    ) -> Vec<Local<'a>> {
        self.ask_at(plan, owners, tokens, operation, unix_us())
    }

    fn ask_at<'a>(
        &self,
        plan: &Plan<'a>,
        owners: &Owners<'_>,
        tokens: u64,
        operation: Operation,
        now_us: u64,
    ) -> Vec<Local<'a>> {
        let counted: Vec<(Option<&Rule>, &Quota)> = plan
            .counted()
            .filter(|(rule, _)| rule.is_none_or(|rule| rule.draft().on_failure == OnFailure::Limit))
            .collect();
        let shares: Vec<Quota> = counted
            .iter()
            .map(|(_, quota)| quota.percent(self.percent).without_log())
            .collect();
        let costs: Vec<Option<u64>> = shares.iter().map(|share| share.cost(tokens)).collect();
        let buckets: Vec<Bucket<'_>> = counted
            .iter()
            .zip(shares.iter().zip(&costs))
            .map(|((rule, _), (share, cost))| {
                let owner = owners.of(*rule);
                Bucket {
                    lane: owner.lane(),
                    // Of the whole rule, into however many buckets it may be split elsewhere.
                    name: BucketName::new(*rule, &owner, share),
                    quota: share,
                    cost: cost.unwrap_or_default(),
                    shadow: false,
                }
            })
            .collect();
        // What no share holds is counted nowhere.
        let operation = match costs.iter().all(Option::is_some) {
            true => operation,
            false => Operation::Look,
        };
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let answers = counters.ask(operation, &buckets, now_us);
        metrics::CACHE_EVICTIONS.add(counters.take_dropped());
        drop(counters);
        let each = counted.into_iter().zip(&buckets).zip(&costs).zip(answers);
        each.map(|(((each, bucket), cost), answer)| local(each, bucket, *cost, answer))
            .collect()
    }
}

fn local<'a>(
    (rule, quota): (Option<&'a Rule>, &'a Quota),
    bucket: &Bucket<'_>,
    cost: Option<u64>,
    Answer { room, reading }: Answer,
) -> Local<'a> {
    let (room, wait) = match cost {
        None => (false, Some(ANOTHER_TRY)),
        Some(_) if room => (true, None),
        Some(cost) => (false, Some(reading.wait(bucket.quota, cost))),
    };
    Local {
        rule,
        quota,
        room,
        remaining: reading.remaining(bucket.quota),
        reset: reading.until_full(bucket.quota),
        wait,
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;

    use limits::rule::{Algorithm, Draft};
    use limits::rule_set::Caller;
    use limits::{Resource, RuleSet};
    use uuid::Uuid;

    use super::*;

    const SECOND: u64 = 1_000_000;
    /// A whole minute and a whole day.
    const NOW: u64 = 20_787 * 86_400 * SECOND;

    fn rules(drafts: impl IntoIterator<Item = Draft>) -> RuleSet {
        let mut rules = RuleSet::new();
        for (id, draft) in (1..).zip(drafts) {
            rules.put(Arc::new(Rule::new(Uuid::from_u128(id), draft).unwrap()));
        }
        rules
    }

    fn limited(limit: u64, time_window: u64, on_failure: OnFailure) -> Draft {
        Draft {
            on_failure,
            ..Draft::new("/a", Some(limit), time_window)
        }
    }

    /// What one more call from an address is told, by the rule that stands for all of them.
    fn call(
        fallback: &Fallback,
        rules: &RuleSet,
        address: u32,
        tokens: u64,
        now_us: u64,
    ) -> crate::Decision {
        let address = Some(IpAddr::from(address.to_be_bytes()));
        let owners = Owners {
            client: None,
            address,
            destination: None,
        };
        let caller = Caller {
            client: None,
            tier: None,
            address,
        };
        let applicable = rules.applicable(&Resource::parse("/a"), &caller);
        let plan = Plan::new(&applicable, None, &owners, tokens);
        let locals = fallback.ask_at(&plan, &owners, tokens, Operation::Take, now_us);
        plan.fallen_back(None, &locals)
    }

    #[test]
    fn each_algorithm_grants_its_share_and_tells_when_there_is_more() {
        for &algorithm in Algorithm::ALL {
            let mut draft = limited(25, 60, OnFailure::Limit);
            draft.algorithm = algorithm;
            let rules = rules([draft]);
            let fallback = Fallback::new(10);
            let at = |now_us| call(&fallback, &rules, 1, 1, now_us);
            // A leaky bucket lets one through at a time.
            let at_once = if algorithm == Algorithm::LeakyBucket {
                1
            } else {
                2
            };
            for left in (0..at_once).rev() {
                let passed = at(NOW);
                let told = passed.told.unwrap();
                assert!(passed.allowed && passed.degraded, "{algorithm}");
                assert_eq!((told.limit, told.remaining), (Some(25), Some(left)));
                assert_eq!(
                    (passed.policy[0].limit, passed.policy[0].window_seconds),
                    (25, 60)
                );
            }
            let denied = at(NOW);
            assert!(!denied.allowed && denied.degraded, "{algorithm}");
            assert_eq!(denied.reason, crate::Reason::StoreUnavailable);
            let wait = u64::try_from(denied.told.unwrap().wait.unwrap().as_micros()).unwrap();
            assert!(!at(NOW + wait - 1).allowed, "{algorithm}");
            assert!(at(NOW + wait).allowed, "{algorithm}");
            // However hard one asks for an hour, it is two a minute; of a window that slides, one at its start and none until its end.
            let passed = (0..3_600 * 5).filter(|n| at(NOW + wait + n * SECOND / 5).allowed);
            let passed = passed.count();
            let fewest =
                if algorithm == Algorithm::SlidingWindow || algorithm == Algorithm::SlidingLog {
                    59
                } else {
                    117
                };
            assert!((fewest..=122).contains(&passed), "{algorithm} {passed}");
        }
    }

    #[test]
    fn rules_that_say_limit_are_counted_all_or_none_and_one_that_says_allow_stops_nobody() {
        let rules = rules([
            limited(10, 3_600, OnFailure::Allow),
            limited(50, 60, OnFailure::Limit),
            limited(30, 86_400, OnFailure::Limit),
        ]);
        let fallback = Fallback::new(10);
        let now = |tokens| call(&fallback, &rules, 1, tokens, NOW);
        for left in [2, 1, 0] {
            let passed = now(1);
            assert!(passed.allowed);
            assert_eq!(passed.policy.len(), 2);
            assert_eq!(passed.told.unwrap().remaining, Some(left));
        }
        for _ in 0..20 {
            assert_eq!(now(1).told.unwrap().rule, Some(Uuid::from_u128(3)));
        }
        // What the day has no room for took nothing from the minute.
        assert_eq!(fallback.counters.lock().unwrap().len(), 2);
        let minute = call(&fallback, &rules, 1, 1, NOW + 86_400 * SECOND);
        assert!(minute.allowed);
    }

    #[test]
    fn what_is_more_than_a_share_holds_takes_nothing_and_is_to_come_back_in_a_second() {
        let rules = rules([limited(50, 86_400, OnFailure::Limit)]);
        let fallback = Fallback::new(10);
        let denied = call(&fallback, &rules, 1, 6, NOW);
        assert_eq!(
            (denied.allowed, denied.reason),
            (false, crate::Reason::StoreUnavailable)
        );
        let told = denied.told.unwrap();
        assert_eq!(
            (told.remaining, told.retry_after_seconds()),
            (Some(5), Some(1))
        );
        assert!(call(&fallback, &rules, 1, 5, NOW).allowed);
    }

    #[test]
    fn a_clock_that_jumps_locks_nobody_out() {
        for &algorithm in Algorithm::ALL {
            let mut draft = limited(10, 60, OnFailure::Limit);
            draft.algorithm = algorithm;
            let rules = rules([draft]);
            let fallback = Fallback::new(10);
            let at = |now_us| call(&fallback, &rules, 1, 1, now_us).allowed;
            let wrong = NOW + 3_155_760_000 * SECOND;
            assert!(at(wrong) && !at(wrong), "{algorithm}");
            // Back by a century: as long as the limit says, from then on.
            assert!(!at(NOW), "{algorithm}");
            assert!(at(NOW + 120 * SECOND), "{algorithm}");
            assert!(!at(0), "{algorithm}");
            assert!(at(120 * SECOND), "{algorithm}");
        }
    }

    #[test]
    fn no_number_of_callers_fills_the_container_and_who_insists_is_not_forgotten_for_them() {
        let rules = rules([limited(1, 3_600, OnFailure::Limit)]);
        let fallback = Fallback::new(10);
        let insistent = || call(&fallback, &rules, u32::MAX, 1, NOW).allowed;
        assert!(insistent());
        for address in 0..25_000 {
            assert!(call(&fallback, &rules, address, 1, NOW).allowed);
            assert!(address % 1_000 != 0 || !insistent());
        }
        let held = fallback.counters.lock().unwrap().len();
        assert_eq!(held, MOST_BUCKETS.get());
    }
}
