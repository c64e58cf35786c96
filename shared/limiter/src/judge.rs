//! Judging one question by one view: which rules apply, and is there room?

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use aws::metrics;
use limits::counters::Operation;
use limits::rule::OnFailure;
use limits::rule_set::{Caller, MOST_MET};
use limits::{Client, Lane, Moment, Quota, Resource};
use limits_redis::{Call, Reply, StoreError};
use tokio::time::Instant;

use crate::decision::{Refusal, Verdict};
use crate::explain::{Basis, Sheet};
use crate::limiter::{Failure, Limiter};
use crate::plan::{Owners, Plan};
use crate::view::View;

/// An epoch that no lane is ever newer than: sent where a container decides by rules that it knows to be old.
const ANY_EPOCH: u64 = (1 << 53) - 1;

/// A question by someone who is known.
pub(crate) struct Known<'a> {
    /// None for one known by its address alone.
    pub(crate) client: Option<Arc<Client>>,
    /// Whether the registry could not be asked about it.
    pub(crate) registry_out: bool,
    pub(crate) address: Option<IpAddr>,
    pub(crate) resource: &'a Resource<'a>,
    /// The service that the resource is, where two services are asked about.
    pub(crate) destination: Option<&'a Client>,
    pub(crate) tokens: u64,
    pub(crate) operation: Operation,
    /// What applies where no rule fits; none is unlimited.
    pub(crate) default_limit: Option<&'a Quota>,
    /// Where it is noted what the decision is made of, if anybody wants to know.
    pub(crate) sheet: Option<&'a Sheet>,
}

/// How the buckets of a plan are asked.
#[derive(Clone, Copy)]
struct Asking {
    operation: Operation,
    /// The stamp of the view that the plan was made by.
    epoch: u64,
    /// The lane of the caller.
    own: Lane,
    /// Whether a denial may be repeated that is not a second old.
    repeats: bool,
}

impl Limiter {
    /// Which rules apply, and is there room?
    pub(crate) async fn judge(
        &self,
        known: Known<'_>,
        view: &View,
        deadline: Instant,
        stale: bool,
    ) -> Result<Verdict, Failure> {
        // What is counted of calls is not of those who only look, or want to know why.
        let is_call = known.operation.takes() && known.sheet.is_none();
        let client = known.client;
        let owners = Owners {
            client: client.as_deref(),
            address: known.address,
            destination: known.destination,
        };
        let caller = Caller {
            client: client.as_deref().map(|client| client.id.as_str()),
            tier: client.as_deref().and_then(|client| client.tier),
            address: known.address,
        };
        let applicable = view.rules.applicable(known.resource, &caller);
        let met = applicable.active.len() + applicable.shadow.len();
        let crowded = met > MOST_MET;
        if crowded && self.crowded.is_due() {
            tracing::warn!(met, "a call meets more rules than it should");
        }
        let mut plan = Plan::new(&applicable, known.default_limit, &owners, known.tokens);
        let settled = plan.is_settled();
        let must_count = |mode| mode == OnFailure::Deny && !settled;
        if stale && must_count(plan.on_failure) {
            return Err(Failure::StoreOut);
        }
        // Nothing may be said, but a look is taken all the same: it tells when that has changed.
        let withheld = plan.unread.is_some_and(must_count);
        if withheld {
            plan.buckets.clear();
        }
        let decided = |decision| {
            if withheld {
                return Err(Failure::StoreOut);
            }
            // Only now: one that is behind is judged again.
            if is_call && crowded {
                metrics::CROWDED_CALLS.add(1);
            }
            if is_call && stale {
                metrics::STALE_DECISIONS.add(1);
            }
            Ok(Verdict::Decided(decision))
        };
        let degraded = stale || plan.unread.is_some();
        let own = owners.lane();
        if plan.buckets.is_empty()
            && !stale
            && !known.registry_out
            // Whoever wants to know why wants the newest answer.
            && known.sheet.is_none()
            && self.looked(own, view.stamp)
        {
            return decided(plan.unasked(client, degraded));
        }
        let counts = !settled && !degraded && !known.registry_out;
        let asking = Asking {
            operation: known.operation,
            epoch: if stale { ANY_EPOCH } else { view.stamp },
            own,
            // In memory there is no trip to save.
            repeats: counts && known.sheet.is_none() && !self.store.is_memory(),
        };
        let asked = Moment::now();
        // Which buckets are the caller's, only the registry knows: without it, none is asked.
        let reply = if known.registry_out {
            None
        } else {
            let reply = self.ask(&mut plan, asking, deadline).await;
            reply.inspect_err(|error| self.note_failure(error)).ok()
        };
        match reply {
            Some((Reply::Answers(answers), since)) => {
                if plan.buckets.is_empty() && !stale {
                    self.looks.remember(own, view.stamp, asked);
                }
                if let Some(sheet) = known.sheet
                    && !stale
                {
                    sheet.note(&Basis {
                        rules: &view.rules,
                        resource: known.resource,
                        caller: &caller,
                        client: client.as_ref(),
                        plan: &plan,
                        answers: &answers,
                    });
                }
                if is_call && since.is_some() {
                    metrics::DENY_CACHE_HITS.add(1);
                }
                let decision = plan.answered(client, &answers, degraded);
                decided(decision.told_later(since.unwrap_or_default()))
            }
            Some((Reply::Behind(_), _)) => Err(Failure::Behind),
            None => {
                if must_count(plan.on_failure) {
                    return Err(Failure::StoreOut);
                }
                let falls_back = !settled && plan.on_failure == OnFailure::Limit;
                let locals = if falls_back && known.sheet.is_none() {
                    self.fallback
                        .ask(&plan, &owners, known.tokens, known.operation)
                } else {
                    Vec::new()
                };
                let decision = plan.fallen_back(client, &locals);
                if is_call && !settled && !withheld {
                    let outcome = match (falls_back, decision.allowed) {
                        (false, _) => &metrics::FAILED_OPEN,
                        (true, true) => &metrics::FALLBACK_ALLOWED,
                        (true, false) => &metrics::FALLBACK_THROTTLED,
                    };
                    outcome.add(1);
                }
                decided(decision)
            }
        }
    }

    /// Asks the buckets of a plan; where nothing but shares of spread rules had no room, others of those, once. What was answered,
    /// and how long ago at least where Redis was not asked at all.
    async fn ask(
        &self,
        plan: &mut Plan<'_>,
        asking: Asking,
        deadline: Instant,
    ) -> Result<(Reply, Option<Duration>), StoreError> {
        let (first, since) = match self.ask_once(plan, asking, deadline).await? {
            (Reply::Answers(answers), since) => (answers, since),
            behind => return Ok(behind),
        };
        let earlier = plan.turn_elsewhere(&first);
        if earlier.is_empty() {
            return Ok((Reply::Answers(first), since));
        }
        match self.ask_once(plan, asking, deadline).await {
            Ok((Reply::Answers(mut answers), later)) => {
                plan.turn_back_to_longer(earlier, &mut answers);
                let since = since.zip(later).map(|(since, later)| since.min(later));
                Ok((Reply::Answers(answers), since))
            }
            Ok(behind) => Ok(behind),
            // Denied it is all the same.
            Err(error) => {
                self.note_failure(&error);
                for earlier in earlier {
                    plan.turn_back(earlier);
                }
                Ok((Reply::Answers(first), since))
            }
        }
    }

    async fn ask_once(
        &self,
        plan: &Plan<'_>,
        asking: Asking,
        deadline: Instant,
    ) -> Result<(Reply, Option<Duration>), StoreError> {
        if asking.repeats
            && let Some((answers, since)) = self.denials.recall(asking.epoch, &plan.buckets)
        {
            return Ok((Reply::Answers(answers), Some(since)));
        }
        let call = Call {
            operation: asking.operation,
            epoch: asking.epoch,
            lanes: &plan.lanes(asking.own),
            buckets: &plan.buckets,
        };
        let asked = Moment::now();
        // In a box: who is answered without it would carry it along as well.
        let reply = Box::pin(self.store.ask(&call, deadline)).await?;
        if asking.repeats
            && let Reply::Answers(answers) = &reply
        {
            self.denials
                .note(asking.epoch, &plan.buckets, answers, asked);
        }
        Ok((reply, None))
    }

    /// A refusal by what is remembered holds only beside a look at the lane, as any other decision without a bucket.
    pub(crate) async fn confirm_refusal(
        &self,
        refusal: Refusal,
        lane: Lane,
        view: &View,
        deadline: Instant,
    ) -> Result<Verdict, Failure> {
        let refused = Ok(Verdict::Refused(refusal));
        if self.looked(lane, view.stamp) {
            return refused;
        }
        let call = Call {
            operation: Operation::Look,
            epoch: view.stamp,
            lanes: &[lane],
            buckets: &[],
        };
        let asked = Moment::now();
        match Box::pin(self.store.ask(&call, deadline)).await {
            Ok(Reply::Behind(_)) => Err(Failure::Behind),
            Ok(Reply::Answers(_)) => {
                self.looks.remember(lane, view.stamp, asked);
                refused
            }
            Err(error) => {
                self.note_failure(&error);
                tracing::debug!("refused by the last that was known");
                refused
            }
        }
    }

    /// Whether a look at the lane serves. In memory there is no trip to save.
    fn looked(&self, lane: Lane, stamp: u64) -> bool {
        !self.store.is_memory() && self.looks.serve(lane, stamp)
    }
}
