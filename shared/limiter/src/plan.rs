//! From the rules that apply to what is asked of Redis, and from its answers to a decision.

mod spread;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use limits::bucket::{Bucket, BucketName, Owner};
use limits::counters::Answer;
use limits::rule::{Algorithm, OnFailure, Per};
use limits::rule_set::Applicable;
use limits::{Client, Lane, Quota, Rule};
use uuid::Uuid;

use crate::decision::{Decision, Policy, Reason, Told};
use crate::explain::BucketNow;
use crate::fallback::Local;

/// Who the buckets of a request belong to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owners<'a> {
    pub(crate) client: Option<&'a Client>,
    pub(crate) address: Option<IpAddr>,
    /// The service that the client calls, where it is one and not a path.
    pub(crate) destination: Option<&'a Client>,
}

impl<'a> Owners<'a> {
    /// The owner of the bucket of a rule; none is the default limit.
    pub(crate) fn of(&self, rule: Option<&Rule>) -> Owner<'a> {
        if let (None, Some(source), Some(destination)) = (rule, self.client, self.destination) {
            return Owner::Pair {
                source: &source.id,
                generation: source.resets.of(None),
                destination: &destination.id,
            };
        }
        let per = rule.map_or(Per::Client, |rule| rule.draft().per);
        match (per, self.client, self.address) {
            (Per::Client, Some(client), _) => Owner::Client {
                id: &client.id,
                generation: client.resets.of(rule.map(Rule::id)),
            },
            (Per::Client | Per::Ip, _, Some(address)) => Owner::Address(address),
            // No rule per address applies without one, and nobody without a client is known without one.
            (Per::All | Per::Client | Per::Ip, _, _) => Owner::All,
        }
    }

    /// The lane whose epoch stands for the caller.
    pub(crate) fn lane(&self) -> Lane {
        self.of(None).lane()
    }
}

/// What is to be asked.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    /// What is decided whatever the buckets say; none: they decide.
    settled: Option<Settled<'a>>,
    /// What is behind the buckets, in their order.
    counted: Vec<Counted<'a>>,
    /// Shadow rules that would deny without being asked.
    would_deny: Vec<Uuid>,
    pub(crate) buckets: Vec<Bucket<'a>>,
    /// The strictest of what the rules say for the time while Redis is out.
    pub(crate) on_failure: OnFailure,
    /// Where rules apply that are not understood: the strictest of what they say, since they are treated as if Redis were out.
    pub(crate) unread: Option<OnFailure>,
}

#[derive(Debug, Clone, Copy)]
struct Counted<'a> {
    /// None is the default limit.
    rule: Option<&'a Rule>,
    /// Of a rule that is spread, the share that is asked.
    share: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Settled<'a> {
    allowed: bool,
    reason: Reason,
    rule: Option<&'a Rule>,
}

impl<'a> Plan<'a> {
    pub(crate) fn new(
        applicable: &Applicable<'a>,
        default_limit: Option<&'a Quota>,
        owners: &Owners<'_>,
        tokens: u64,
    ) -> Self {
        let mut plan = Self {
            settled: settle(&applicable.active, tokens),
            counted: Vec::with_capacity(applicable.active.len() + applicable.shadow.len()),
            would_deny: Vec::new(),
            buckets: Vec::with_capacity(applicable.active.len() + applicable.shadow.len()),
            on_failure: strictest(&applicable.active).unwrap_or(OnFailure::Limit),
            unread: strictest(applicable.active.iter().filter(|rule| rule.is_stand_in())),
        };
        if plan.settled.is_none() {
            for rule in &applicable.active {
                plan.count(Some(rule), rule.quota(), owners, tokens, false);
            }
            if applicable.active.is_empty() {
                match default_limit {
                    None => {
                        plan.settled = Some(Settled {
                            allowed: true,
                            reason: Reason::Default,
                            rule: None,
                        });
                    }
                    Some(quota) => {
                        plan.count(None, Some(quota), owners, tokens, false);
                        if plan.buckets.is_empty() {
                            plan.settled = Some(Settled {
                                allowed: false,
                                reason: Reason::CostExceedsCapacity,
                                rule: None,
                            });
                        }
                    }
                }
            }
        }
        // What is refused anyway is counted nowhere, and no shadow has a say in it.
        if plan.settled.is_none_or(|settled| settled.allowed) {
            plan.watch(&applicable.shadow, owners, tokens);
        }
        plan
    }

    fn count(
        &mut self,
        rule: Option<&'a Rule>,
        quota: Option<&'a Quota>,
        owners: &Owners<'_>,
        tokens: u64,
        shadow: bool,
    ) {
        let Some((quota, cost)) = quota.and_then(|quota| Some((quota, quota.cost(tokens)?))) else {
            return;
        };
        let share = spread::any_share(rule);
        let of_share = rule
            .zip(share)
            .and_then(|(rule, share)| spread::bucket_of(rule, share, cost, shadow));
        let bucket = of_share.unwrap_or_else(|| {
            let owner = owners.of(rule);
            Bucket {
                lane: owner.lane(),
                name: BucketName::new(rule, &owner, quota),
                quota,
                cost,
                shadow,
            }
        });
        self.counted.push(Counted { rule, share });
        self.buckets.push(bucket);
    }

    /// Every shadow rule for itself: what one would deny says nothing of another.
    fn watch(&mut self, shadow: &[&'a Rule], owners: &Owners<'_>, tokens: u64) {
        if shadow.iter().any(|rule| rule.exempts()) && !shadow.iter().any(|rule| rule.blocks()) {
            return;
        }
        for rule in shadow {
            if rule.blocks() || rule.never_fits(tokens) {
                self.would_deny.push(rule.id());
            } else {
                self.count(Some(rule), rule.quota(), owners, tokens, true);
            }
        }
    }

    /// The lanes to compare epochs in: the caller's own and those of the buckets.
    pub(crate) fn lanes(&self, own: Lane) -> Vec<Lane> {
        let mut lanes = vec![own];
        for bucket in &self.buckets {
            if !lanes.contains(&bucket.lane) {
                lanes.push(bucket.lane);
            }
        }
        lanes
    }

    /// Whether Redis has no say in the answer.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled.is_some()
    }

    /// The decision without answers: what is settled, or a request that is let through while Redis is out.
    pub(crate) fn unasked(&self, client: Option<Arc<Client>>, degraded: bool) -> Decision {
        let settled = self.settled.unwrap_or(Settled {
            allowed: true,
            reason: self.passed(),
            rule: None,
        });
        Decision {
            allowed: settled.allowed,
            reason: settled.reason,
            client,
            told: settled.rule.map(|rule| Told {
                rule: Some(rule.id()),
                limit: rule.limit(),
                remaining: rule.blocks().then_some(0),
                reset: None,
                wait: None,
            }),
            policy: settled.rule.and_then(policy_of).into_iter().collect(),
            degraded,
            would_deny: self.would_deny.clone(),
        }
    }

    /// The rules that the request would be counted in, and what they count by as a whole; none is the default limit.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (Option<&'a Rule>, &'a Quota)> {
        let asked = self.counted.iter().zip(&self.buckets);
        let active = asked.filter(|(_, bucket)| !bucket.shadow);
        active.map(|(counted, bucket)| (counted.rule, counted.whole(bucket)))
    }

    /// The decision by the buckets of this container alone, Redis being out.
    pub(crate) fn fallen_back(
        &self,
        client: Option<Arc<Client>>,
        locals: &[Local<'a>],
    ) -> Decision {
        let mut decision = self.unasked(client, true);
        for local in locals {
            let told = Told {
                rule: local.rule.map(Rule::id),
                limit: Some(local.quota.limit()),
                remaining: Some(local.remaining),
                reset: Some(local.reset),
                wait: local.wait,
            };
            count_in(
                &mut decision,
                told,
                local.quota,
                local.room,
                Reason::StoreUnavailable,
            );
        }
        decision
    }

    /// How each bucket that was asked stands.
    pub(crate) fn each_now(&self, answers: &[Answer]) -> impl Iterator<Item = BucketNow> {
        let asked = self.counted.iter().zip(&self.buckets).zip(answers);
        asked.map(|((counted, bucket), answer)| {
            let whole = counted.whole(bucket);
            BucketNow {
                told: told_of(counted, bucket, answer),
                burst: match whole.algorithm() {
                    Algorithm::TokenBucket | Algorithm::LeakyBucket => Some(whole.most_at_once()),
                    _ => None,
                },
                share: counted.share,
                room: answer.room,
            }
        })
    }

    fn passed(&self) -> Reason {
        match self.counted.first() {
            Some(Counted { rule: None, .. }) => Reason::Default,
            _ => Reason::Rule,
        }
    }

    /// The decision by the answers of the buckets.
    pub(crate) fn answered(
        &self,
        client: Option<Arc<Client>>,
        answers: &[Answer],
        degraded: bool,
    ) -> Decision {
        let mut decision = self.unasked(client, degraded);
        for ((counted, bucket), answer) in self.counted.iter().zip(&self.buckets).zip(answers) {
            if !bucket.shadow {
                let told = told_of(counted, bucket, answer);
                count_in(
                    &mut decision,
                    told,
                    counted.whole(bucket),
                    answer.room,
                    Reason::Limit,
                );
            } else if !answer.room {
                decision.would_deny.extend(counted.rule.map(Rule::id));
            }
        }
        decision
    }
}

/// Adds to a decision what a bucket says: the caller is told of each, and how the tightest stands. `denial` is why, where it has no
/// room.
fn count_in(decision: &mut Decision, this: Told, quota: &Quota, room: bool, denial: Reason) {
    decision.policy.push(Policy {
        rule: this.rule,
        limit: quota.limit(),
        window_seconds: quota.window_seconds(),
    });
    if !room {
        decision.allowed = false;
        decision.reason = denial;
    }
    decision.told = Some(match decision.told {
        Some(other) if !tighter(&this, &other) => other,
        _ => this,
    });
}

impl<'a> Counted<'a> {
    /// What the rule counts by as a whole, of whose shares the bucket may be one.
    fn whole(&self, bucket: &Bucket<'a>) -> &'a Quota {
        self.rule.and_then(Rule::quota).unwrap_or(bucket.quota)
    }
}

/// How the bucket of a rule stands. Of a rule that is spread, as if all of its shares stood like the one that was asked.
fn told_of(counted: &Counted<'_>, bucket: &Bucket<'_>, answer: &Answer) -> Told {
    let quota = bucket.quota;
    let limit = counted.whole(bucket).limit();
    let split = counted.rule.map_or(1, |rule| rule.shares().len() as u64);
    let remaining = answer.reading.remaining(quota) * split;
    Told {
        rule: counted.rule.map(Rule::id),
        limit: Some(limit),
        remaining: Some(remaining.min(limit)),
        reset: Some(answer.reading.until_full(quota)),
        wait: (!answer.room).then(|| answer.reading.wait(quota, bucket.cost)),
    }
}

/// Whether `this` is to be told rather than `other`: the longer wait; else the less of its limit left, then the less left, then
/// the lower id.
fn tighter(this: &Told, other: &Told) -> bool {
    let wait = |told: &Told| told.wait.unwrap_or(Duration::ZERO);
    let left = |told: &Told| u128::from(told.remaining.unwrap_or_default());
    let limit = |told: &Told| u128::from(told.limit.unwrap_or_default());
    wait(other)
        .cmp(&wait(this))
        .then_with(|| (left(this) * limit(other)).cmp(&(left(other) * limit(this))))
        .then_with(|| left(this).cmp(&left(other)))
        .then_with(|| this.rule.cmp(&other.rule))
        .is_lt()
}

/// What rules settle without a bucket: a block before all, then an exemption, then a cost that could never fit. The lowest id
/// among equals is told.
fn settle<'a>(rules: &[&'a Rule], tokens: u64) -> Option<Settled<'a>> {
    let first = |which: &dyn Fn(&&Rule) -> bool| {
        rules
            .iter()
            .copied()
            .filter(|rule| which(rule))
            .min_by_key(|rule| rule.id())
    };
    let settled = |allowed, reason, rule| Settled {
        allowed,
        reason,
        rule: Some(rule),
    };
    first(&|rule| rule.blocks())
        .map(|rule| settled(false, Reason::Blocked, rule))
        .or_else(|| first(&|rule| rule.exempts()).map(|rule| settled(true, Reason::Exempt, rule)))
        .or_else(|| {
            first(&|rule| rule.never_fits(tokens))
                .map(|rule| settled(false, Reason::CostExceedsCapacity, rule))
        })
}

fn policy_of(rule: &Rule) -> Option<Policy> {
    Some(Policy {
        rule: Some(rule.id()),
        limit: rule.limit()?,
        window_seconds: rule.draft().time_window,
    })
}

/// The strictest mode among rules; none where there is no rule.
fn strictest<'a>(rules: impl IntoIterator<Item = &'a &'a Rule>) -> Option<OnFailure> {
    let strictness = |mode: &OnFailure| match mode {
        OnFailure::Allow => 0,
        OnFailure::Limit => 1,
        OnFailure::Deny => 2,
    };
    rules
        .into_iter()
        .map(|rule| rule.draft().on_failure)
        .max_by_key(strictness)
}
