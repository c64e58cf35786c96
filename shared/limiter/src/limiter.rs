//! Deciding one request.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use limits::counters::Operation;
use limits::rule::OnFailure;
use limits::rule_set::{Caller, MOST_MET};
use limits::{Client, Lane, Moment, Quota, Resource};
use limits_redis::{Call, Reply, Store, StoreError};
use tokio::time::Instant;

use crate::config::Config;
use crate::decision::{Refusal, Verdict};
use crate::denials::Denials;
use crate::explain::{Basis, Sheet, Supposition};
use crate::fallback::Fallback;
use crate::looks::Looks;
use crate::pair::Pair;
use crate::plan::{Owners, Plan};
use crate::registry::Registry;
use crate::view::{View, Views};
use crate::who::{Who, unregistered};

/// An epoch that no lane is ever newer than: sent where a container decides by rules that it knows to be old.
const ANY_EPOCH: u64 = (1 << 53) - 1;

/// One request.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Who it is from.
    pub who: Who<'a>,
    /// Where it comes from, if that is known.
    pub address: Option<IpAddr>,
    /// What it asks for.
    pub resource: Resource<'a>,
    /// What it costs, in requests; at least 1.
    pub tokens: u64,
    /// Whether it is counted, or only looked at.
    pub operation: Operation,
}

/// What is to be decided.
#[derive(Clone, Copy)]
pub(crate) enum Question<'a> {
    Request(&'a Request<'a>),
    Pair(&'a Pair<'a>),
    Supposition(&'a Supposition<'a>, &'a Sheet),
}

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

/// Decides requests. One in a container, shared by all that it does at once.
#[derive(Debug)]
pub struct Limiter {
    config: Config,
    pub(crate) store: Store,
    views: Views,
    pub(crate) registry: Registry,
    looks: Looks,
    denials: Denials,
    fallback: Fallback,
}

/// Why a try ended without a verdict.
pub(crate) enum Failure {
    /// A lane has moved on.
    Behind,
    /// Redis did not answer what had to be known.
    StoreOut,
    Refused {
        refusal: Refusal,
        /// The lane of the entry that says so. None where nothing was remembered: it was looked up just now, or needs no look.
        by: Option<Lane>,
    },
}

impl Failure {
    pub(crate) fn refused(refusal: Refusal, by: Option<Lane>) -> Self {
        Failure::Refused { refusal, by }
    }
}

impl From<StoreError> for Failure {
    fn from(_: StoreError) -> Self {
        Failure::StoreOut
    }
}

impl Limiter {
    /// A limiter that has loaded nothing yet.
    pub fn new(config: Config, store: Store) -> Self {
        Self {
            denials: Denials::default(),
            fallback: Fallback::new(config.fallback_percent),
            config,
            store,
            views: Views::default(),
            registry: Registry::default(),
            looks: Looks::default(),
        }
    }

    /// Where it counts, for whoever wants to know how that is.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// What applies where no rule fits; none is unlimited.
    pub(crate) fn default_limit(&self) -> Option<&Quota> {
        self.config.default_limit.as_ref()
    }

    /// Loads the rules, for the time before the first request. Never fatal: the first request goes on with it.
    pub async fn load(&self) {
        if let Err(error) = self.catch_up(0, self.config.load_timeout).await {
            tracing::warn!(%error, "the rules could not be loaded at start");
        }
    }

    /// Catches up within `patience`. Once that has passed without any answer, it is only tried for as long as a decision may take:
    /// what was read is kept, and a Redis that answers again is waited for as before.
    async fn catch_up(&self, behind: u64, patience: Duration) -> Result<Arc<View>, StoreError> {
        let patience = match self.views.is_unanswered() {
            true => patience.min(self.config.redis_timeout),
            false => patience,
        };
        self.views
            .catch_up(behind, &self.store, &self.registry, patience)
            .await
    }

    /// Decides a request: who is it, which rules apply, is there room; once more where the container was behind.
    pub async fn decide(&self, request: &Request<'_>) -> Verdict {
        self.answer(Question::Request(request)).await
    }

    pub(crate) async fn answer(&self, question: Question<'_>) -> Verdict {
        let deadline = Instant::now() + self.config.redis_timeout;
        let patience = self.config.load_timeout;
        let deadline = self
            .views
            .resolve_doubt(&self.store, &self.registry, deadline, patience)
            .await;
        let (view, deadline) = match self.views.current() {
            Some(view) => (view, deadline),
            None => match self.catch_up(0, self.config.load_timeout).await {
                Ok(view) => (view, Instant::now() + self.config.redis_timeout),
                Err(error) => {
                    tracing::debug!(%error, "the rules could not be loaded");
                    return Verdict::StoreOut;
                }
            },
        };
        let lost = self.views.is_lost();
        if lost {
            tracing::error!(stale_decisions = 1, "these rules are of what was lost");
        }
        match self.attempt(question, &view, deadline, lost).await {
            Ok(verdict) => return verdict,
            Err(Failure::StoreOut) => return Verdict::StoreOut,
            Err(Failure::Refused { refusal, .. }) => return Verdict::Refused(refusal),
            Err(Failure::Behind) => {}
        }
        // What is left of the conversation's time; catching up has its own, however often it takes.
        let left = deadline.saturating_duration_since(Instant::now());
        let patience = Instant::now() + self.config.load_timeout;
        let mut behind = view.stamp;
        drop(view);
        loop {
            let remaining = patience.saturating_duration_since(Instant::now());
            let (view, stale) = match self.catch_up(behind, remaining).await {
                Ok(view) => {
                    // A lane may be newer than all that is published, until that is told again: nothing to be had by asking on.
                    let nothing_new = view.stamp <= behind;
                    if nothing_new {
                        tracing::error!(
                            stale_decisions = 1,
                            "a lane is newer than what is published"
                        );
                    }
                    (view, nothing_new)
                }
                Err(error) => {
                    tracing::error!(%error, stale_decisions = 1, "could not catch up");
                    match self.views.current() {
                        Some(view) => (view, true),
                        None => return Verdict::StoreOut,
                    }
                }
            };
            match self
                .attempt(question, &view, Instant::now() + left, stale)
                .await
            {
                Ok(verdict) => return verdict,
                // Published again meanwhile.
                Err(Failure::Behind) if !stale => behind = view.stamp,
                Err(Failure::Behind | Failure::StoreOut) => return Verdict::StoreOut,
                Err(Failure::Refused { refusal, .. }) => return Verdict::Refused(refusal),
            }
        }
    }

    /// Decides by one view. `stale`: by rules that are known to be old, identity then being judged by a fresh look-up.
    async fn attempt(
        &self,
        question: Question<'_>,
        view: &View,
        deadline: Instant,
        stale: bool,
    ) -> Result<Verdict, Failure> {
        let attempted = match question {
            Question::Request(request) => {
                self.attempt_request(request, view, deadline, stale).await
            }
            Question::Pair(pair) => self.attempt_pair(pair, view, deadline, stale).await,
            Question::Supposition(supposed, sheet) => {
                self.attempt_supposed(supposed, sheet, view, deadline, stale)
                    .await
            }
        };
        match attempted {
            // A refusal must be as fresh as any answer: what is remembered may have been lifted.
            Err(Failure::Refused {
                refusal,
                by: Some(lane),
            }) if !stale => self.confirm_refusal(refusal, lane, view, deadline).await,
            attempted => attempted,
        }
    }

    async fn attempt_request(
        &self,
        request: &Request<'_>,
        view: &View,
        deadline: Instant,
        stale: bool,
    ) -> Result<Verdict, Failure> {
        let identified = self.identify(request, view, deadline, stale).await;
        let (client, registry_out) = match (identified, request.who) {
            (Ok(client), _) => (client, false),
            // Known all the same. That the client is terminated is not seen.
            (Err(Failure::StoreOut), Who::Verified { id, tier }) => {
                (Some(Arc::new(unregistered(id, tier))), true)
            }
            (Err(failure), _) => return Err(failure),
        };
        let known = Known {
            client,
            registry_out,
            address: request.address,
            resource: &request.resource,
            destination: None,
            tokens: request.tokens,
            operation: request.operation,
            default_limit: self.default_limit(),
            sheet: None,
        };
        self.judge(known, view, deadline, stale).await
    }

    /// Which rules apply, and is there room?
    pub(crate) async fn judge(
        &self,
        known: Known<'_>,
        view: &View,
        deadline: Instant,
        stale: bool,
    ) -> Result<Verdict, Failure> {
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
        if met > MOST_MET {
            tracing::warn!(
                crowded_calls = 1,
                met,
                "a call meets more rules than it should"
            );
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
                Err(Failure::StoreOut)
            } else {
                Ok(Verdict::Decided(decision))
            }
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
                let decision = plan.answered(client, &answers, degraded);
                decided(decision.told_later(since))
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
                decided(plan.fallen_back(client, &locals))
            }
        }
    }

    /// Asks the buckets of a plan; where nothing but shares of spread rules had no room, others of those, once. What was answered,
    /// and how long ago at least.
    async fn ask(
        &self,
        plan: &mut Plan<'_>,
        asking: Asking,
        deadline: Instant,
    ) -> Result<(Reply, Duration), StoreError> {
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
                Ok((Reply::Answers(answers), since.min(later)))
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
    ) -> Result<(Reply, Duration), StoreError> {
        if asking.repeats
            && let Some((answers, since)) = self.denials.recall(asking.epoch, &plan.buckets)
        {
            return Ok((Reply::Answers(answers), since));
        }
        let call = Call {
            operation: asking.operation,
            epoch: asking.epoch,
            lanes: &plan.lanes(asking.own),
            buckets: &plan.buckets,
        };
        let asked = Moment::now();
        let reply = self.store.ask(&call, deadline).await?;
        if asking.repeats
            && let Reply::Answers(answers) = &reply
        {
            self.denials
                .note(asking.epoch, &plan.buckets, answers, asked);
        }
        Ok((reply, Duration::ZERO))
    }

    /// A refusal by what is remembered holds only beside a look at the lane, as any other decision without a bucket.
    async fn confirm_refusal(
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
        match self.store.ask(&call, deadline).await {
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

    /// Notes that the store did not answer. That a server is out it tells itself; what else fails is told here, once a minute. A
    /// line for each request would drown that.
    pub(crate) fn note_failure(&self, error: &StoreError) {
        self.views.note_failure();
        if !error.is_told() && self.views.failure_is_news() {
            tracing::warn!(%error, "Redis does not do what it is asked");
        } else {
            tracing::debug!(%error, "no answer from the store");
        }
    }

    /// Whether a look at the lane serves. In memory there is no trip to save.
    fn looked(&self, lane: Lane, stamp: u64) -> bool {
        !self.store.is_memory() && self.looks.serve(lane, stamp)
    }
}
