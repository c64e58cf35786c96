//! Deciding one request.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use limits::counters::Operation;
use limits::lane::LANES;
use limits::registry::{ClientStatus, MayAsk, Name, key_hash};
use limits::rule::{OnFailure, Tier};
use limits::rule_set::{Caller, MOST_MET};
use limits::{Client, Lane, Quota, Resource};
use limits_redis::{Call, Lookup, Reply, Store, StoreError};
use tokio::time::Instant;

use crate::config::Config;
use crate::decision::{Refusal, Verdict};
use crate::explain::{Basis, Sheet, Supposition};
use crate::pair::Pair;
use crate::plan::{Owners, Plan};
use crate::registry::{Registry, Remembered};
use crate::view::{View, Views};

/// An epoch that no lane is ever newer than: sent where a container decides by rules that it knows to be old.
const ANY_EPOCH: u64 = (1 << 53) - 1;

/// For how long a look at a lane serves requests that touch no bucket.
const LOOK_LASTS: Duration = Duration::from_secs(1);

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

/// How a caller makes itself known.
#[derive(Debug, Clone, Copy)]
pub enum Who<'a> {
    /// By an API key.
    Key(&'a str),
    /// By something that was verified without Redis, such as a token.
    Verified {
        /// The client's id, registered or not.
        id: &'a str,
        /// Its tier, where the registry knows of none.
        tier: Option<Tier>,
    },
    /// By its address alone.
    Address,
    /// By nothing that counts.
    Nobody,
    /// Another asks in its name.
    Client {
        /// The client's id, registered or not.
        id: &'a str,
        /// Who asks.
        asker: Asker<'a>,
    },
}

/// Who asks about a client.
#[derive(Debug, Clone, Copy)]
pub enum Asker<'a> {
    /// Someone who may ask about everyone.
    Anyone,
    /// An IAM principal, as [`limits::registry::principal`] writes it.
    Principal(&'a str),
    /// Someone without a principal: may ask about nobody.
    Nobody,
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

/// Decides requests. One in a container, shared by all that it does at once.
#[derive(Debug)]
pub struct Limiter {
    config: Config,
    store: Store,
    views: Views,
    registry: Registry,
    looks: Mutex<[Option<Look>; LANES]>,
}

/// When a lane was found not to be newer than a view.
#[derive(Debug, Clone, Copy)]
struct Look {
    stamp: u64,
    at: Instant,
    wall: SystemTime,
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
    fn from(error: StoreError) -> Self {
        tracing::warn!(%error, "no answer from the store");
        Failure::StoreOut
    }
}

impl Limiter {
    /// A limiter that has loaded nothing yet.
    pub fn new(config: Config, store: Store) -> Self {
        Self {
            config,
            store,
            views: Views::default(),
            registry: Registry::default(),
            looks: Mutex::new([None; LANES]),
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

    async fn catch_up(&self, behind: u64, patience: Duration) -> Result<Arc<View>, StoreError> {
        self.views
            .catch_up(behind, &self.store, &self.registry, patience)
            .await
    }

    /// Whether this container knows, without a look-up, that an API key is good.
    pub fn knows(&self, api_key: &str) -> bool {
        let name = Remembered::from(&Name::Key(key_hash(api_key)));
        let known = self.registry.get(&name).flatten();
        known.is_some_and(|client| client.status == ClientStatus::Active && !has_ended(&client))
    }

    /// Decides a request: who is it, which rules apply, is there room; once more where the container was behind.
    pub async fn decide(&self, request: &Request<'_>) -> Verdict {
        self.answer(Question::Request(request)).await
    }

    pub(crate) async fn answer(&self, question: Question<'_>) -> Verdict {
        let view = match self.views.current() {
            Some(view) => view,
            None => match self.catch_up(0, self.config.load_timeout).await {
                Ok(view) => view,
                Err(error) => {
                    tracing::warn!(%error, "the rules could not be loaded");
                    return Verdict::StoreOut;
                }
            },
        };
        let started = Instant::now();
        let deadline = started + self.config.redis_timeout;
        match self.attempt(question, &view, deadline, false).await {
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
        let lanes = plan.lanes(own);
        let call = Call {
            operation: known.operation,
            epoch: if stale { ANY_EPOCH } else { view.stamp },
            lanes: &lanes,
            buckets: &plan.buckets,
        };
        let asked = (Instant::now(), SystemTime::now());
        // Which buckets are the caller's, only the registry knows: without it, none is asked.
        let reply = if known.registry_out {
            None
        } else {
            let reply = self.store.ask(&call, deadline).await;
            reply
                .inspect_err(|error| tracing::warn!(%error, "no answer from the store"))
                .ok()
        };
        match reply {
            Some(Reply::Answers(answers)) => {
                if plan.buckets.is_empty() && !stale {
                    self.remember_look(own, view.stamp, asked);
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
                decided(plan.answered(client, &answers, degraded))
            }
            Some(Reply::Behind(_)) => Err(Failure::Behind),
            None => {
                if must_count(plan.on_failure) {
                    return Err(Failure::StoreOut);
                }
                decided(plan.unasked(client, true))
            }
        }
    }

    /// Who a request is from: none for one known by its address alone.
    async fn identify(
        &self,
        request: &Request<'_>,
        view: &View,
        deadline: Instant,
        fresh: bool,
    ) -> Result<Option<Arc<Client>>, Failure> {
        let (client, name) = match request.who {
            Who::Nobody => return Err(Failure::refused(Refusal::Unknown, None)),
            Who::Address if request.address.is_some() => return Ok(None),
            Who::Address => return Err(Failure::refused(Refusal::Unknown, None)),
            Who::Key(key) => {
                let name = Name::Key(key_hash(key));
                let client = self.look_up(&name, view, deadline, fresh).await?;
                let client = client.ok_or(Failure::refused(Refusal::Unknown, None))?;
                (client, name)
            }
            Who::Verified { id, tier } => {
                let name = Name::Client(id.to_owned());
                let client = match self.look_up(&name, view, deadline, fresh).await? {
                    Some(client) if client.registered => client,
                    Some(client) => Arc::new(Client {
                        tier,
                        ..Client::clone(&client)
                    }),
                    None => Arc::new(unregistered(id, tier)),
                };
                (client, name)
            }
            Who::Client { id, asker } => {
                let itself = |asker: &Client| asker.id == id;
                let name = Name::Client(id.to_owned());
                // Both in one trip; who may not ask is told nothing of what was found.
                let (asker, client) = tokio::join!(
                    self.may_ask(asker, itself, view, deadline, fresh),
                    self.look_up(&name, view, deadline, fresh),
                );
                asker?;
                let client = client?.unwrap_or_else(|| Arc::new(Client::unregistered(id)));
                (client, name)
            }
        };
        if has_ended(&client) {
            return Err(Failure::refused(Refusal::Unknown, None));
        }
        if client.status == ClientStatus::Terminated {
            return Err(Failure::refused(Refusal::Terminated, Some(name.lane())));
        }
        Ok(Some(client))
    }

    /// The client that asks, where it may; none where anyone may. `concerned`: whether it is asked about the asker itself.
    pub(crate) async fn may_ask(
        &self,
        asker: Asker<'_>,
        concerned: impl FnOnce(&Client) -> bool + Send,
        view: &View,
        deadline: Instant,
        fresh: bool,
    ) -> Result<Option<Arc<Client>>, Failure> {
        let name = match asker {
            Asker::Anyone => return Ok(None),
            Asker::Nobody => return Err(Failure::refused(Refusal::MayNotAsk, None)),
            Asker::Principal(principal) => Name::Principal(principal.to_owned()),
        };
        let asker = self.look_up(&name, view, deadline, fresh).await?;
        let asker = asker.ok_or(Failure::refused(Refusal::MayNotAsk, None))?;
        if asker.status == ClientStatus::Terminated {
            return Err(Failure::refused(Refusal::Terminated, Some(name.lane())));
        }
        if asker.may_ask != MayAsk::Any && !concerned(&asker) {
            return Err(Failure::refused(Refusal::MayNotAsk, Some(name.lane())));
        }
        Ok(Some(asker))
    }

    /// A name of the registry, as remembered or, where it is not or `fresh` is asked for, as Redis has it now.
    pub(crate) async fn look_up(
        &self,
        name: &Name,
        view: &View,
        deadline: Instant,
        fresh: bool,
    ) -> Result<Option<Arc<Client>>, Failure> {
        let remembered = Remembered::from(name);
        if !fresh && let Some(client) = self.registry.get(&remembered) {
            return Ok(client);
        }
        match self.store.lookup(name, deadline).await? {
            Lookup::Found(client) => {
                let client = Arc::new(client);
                self.registry
                    .remember(view.stamp, remembered, Some(Arc::clone(&client)));
                Ok(Some(client))
            }
            Lookup::Absent => {
                // That there is no such key or principal is never remembered: nothing would tell when there is one. A client id
                // without an entry is decided by its buckets, whose lane tells.
                if let Name::Client(_) = name {
                    self.registry.remember(view.stamp, remembered, None);
                }
                Ok(None)
            }
        }
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
        let asked = (Instant::now(), SystemTime::now());
        match self.store.ask(&call, deadline).await {
            Ok(Reply::Behind(_)) => Err(Failure::Behind),
            Ok(Reply::Answers(_)) => {
                self.remember_look(lane, view.stamp, asked);
                refused
            }
            Err(error) => {
                tracing::warn!(%error, "refused by the last that was known: no answer from the store");
                refused
            }
        }
    }

    /// Whether a lane was looked at less than a second ago, by both clocks. In memory there is no trip to save.
    fn looked(&self, lane: Lane, stamp: u64) -> bool {
        if self.store.is_memory() {
            return false;
        }
        let looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        looks[usize::from(lane.0)].is_some_and(|look| {
            look.stamp == stamp
                && look.at.elapsed() < LOOK_LASTS
                && look.wall.elapsed().is_ok_and(|since| since < LOOK_LASTS)
        })
    }

    fn remember_look(&self, lane: Lane, stamp: u64, (at, wall): (Instant, SystemTime)) {
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        looks[usize::from(lane.0)] = Some(Look { stamp, at, wall });
    }
}

/// A client of whom the registry knows nothing, with the tier that was verified.
fn unregistered(id: &str, tier: Option<Tier>) -> Client {
    Client {
        tier,
        ..Client::unregistered(id)
    }
}

/// Whether the key that stands for a client is one of the past.
fn has_ended(client: &Client) -> bool {
    client.expires_at.is_some_and(|end| end <= unix_seconds())
}

fn unix_seconds() -> i64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}
