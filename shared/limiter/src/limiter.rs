//! Deciding one request.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use limits::counters::Operation;
use limits::{Lane, Quota, Resource};
use limits_redis::{Store, StoreError};
use tokio::time::Instant;

use crate::config::Config;
use crate::decision::{Refusal, Verdict};
use crate::denials::Denials;
use crate::explain::{Sheet, Supposition};
use crate::fallback::Fallback;
use crate::judge::Known;
use crate::looks::Looks;
use crate::news::News;
use crate::pair::Pair;
use crate::registry::Registry;
use crate::tally;
use crate::view::{View, Views};
use crate::who::{Who, unregistered};

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

impl Question<'_> {
    /// Whether it is a call, and no look at what one would be told.
    fn is_call(&self) -> bool {
        match self {
            Question::Request(request) => request.operation.takes(),
            Question::Pair(_) => true,
            Question::Supposition(..) => false,
        }
    }
}

/// Decides requests. One in a container, shared by all that it does at once.
#[derive(Debug)]
pub struct Limiter {
    config: Config,
    pub(crate) store: Store,
    pub(crate) views: Views,
    pub(crate) registry: Registry,
    pub(crate) looks: Looks,
    pub(crate) denials: Denials,
    pub(crate) fallback: Fallback,
    between_services: Quota,
    failing: News,
    stale: News,
    pub(crate) crowded: News,
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
            views: Views::granting(config.limit_percent),
            between_services: Quota::BETWEEN_SERVICES.percent(config.limit_percent),
            config: Config {
                default_limit: config
                    .default_limit
                    .map(|quota| quota.percent(config.limit_percent)),
                ..config
            },
            store,
            registry: Registry::default(),
            looks: Looks::default(),
            failing: News::default(),
            stale: News::default(),
            crowded: News::default(),
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

    /// What one service may call another where no rule fits the two.
    pub(crate) fn between_services(&self) -> &Quota {
        &self.between_services
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
        // In a box: it is rare, and all that every decision is made of would be as large.
        let caught_up = self
            .views
            .catch_up(behind, &self.store, &self.registry, patience);
        Box::pin(caught_up).await
    }

    /// Decides a request: who is it, which rules apply, is there room; once more where the container was behind.
    pub async fn decide(&self, request: &Request<'_>) -> Verdict {
        let call = tally::Call {
            since: Instant::now(),
            address: request.address,
            service: None,
        };
        let question = Question::Request(request);
        let verdict = self.answer(question).await;
        if question.is_call() {
            tally::note(&verdict, &call);
        }
        verdict
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
            self.note_stale(|| "these rules are of what was lost".to_owned());
        }
        match self.attempt(question, &view, deadline, lost).await {
            Ok(verdict) => return verdict,
            Err(Failure::StoreOut) => return Verdict::StoreOut,
            Err(Failure::Refused { refusal, .. }) => return Verdict::Refused(refusal),
            Err(Failure::Behind) => {}
        }
        // What is left of the conversation's time; catching up has its own, however often it takes.
        let mut left = deadline.saturating_duration_since(Instant::now());
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
                        self.note_stale(|| "a lane is newer than what is published".to_owned());
                    }
                    (view, nothing_new)
                }
                Err(error) => {
                    self.note_stale(|| format!("could not catch up: {error}"));
                    match self.views.current() {
                        Some(view) => (view, true),
                        None => return Verdict::StoreOut,
                    }
                }
            };
            let deadline = Instant::now() + left;
            match self.attempt(question, &view, deadline, stale).await {
                Ok(verdict) => return verdict,
                // Published again meanwhile.
                Err(Failure::Behind) if !stale => {
                    behind = view.stamp;
                    left = deadline.saturating_duration_since(Instant::now());
                }
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

    /// Notes that rules are known to be old which a question is answered by.
    fn note_stale(&self, why: impl FnOnce() -> String) {
        if self.stale.is_due() {
            tracing::error!(why = why(), "rules are not the newest");
        }
    }

    /// Notes that the store did not answer. That a server is out it tells itself; what else fails is told here, once a minute. A
    /// line for each request would drown that.
    pub(crate) fn note_failure(&self, error: &StoreError) {
        self.views.note_failure();
        if !error.is_told() && self.failing.is_due() {
            tracing::warn!(%error, "Redis does not do what it is asked");
        } else {
            tracing::debug!(%error, "no answer from the store");
        }
    }
}
