//! Deciding one request.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use limits::counters::Operation;
use limits::lane::LANES;
use limits::registry::{ClientStatus, MayAsk, Name, key_hash};
use limits::rule::{OnFailure, Tier};
use limits::rule_set::Caller;
use limits::{Client, Lane, Resource};
use limits_redis::{Call, Lookup, Reply, Store, StoreError};
use tokio::time::Instant;

use crate::config::Config;
use crate::decision::{Refusal, Verdict};
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
enum Failure {
    /// A lane has moved on.
    Behind,
    /// Redis did not answer what had to be known.
    StoreOut,
    Refused(Refusal),
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
        match self.attempt(request, &view, deadline, false).await {
            Ok(verdict) => return verdict,
            Err(Failure::StoreOut) => return Verdict::StoreOut,
            Err(Failure::Refused(refusal)) => return Verdict::Refused(refusal),
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
                .attempt(request, &view, Instant::now() + left, stale)
                .await
            {
                Ok(verdict) => return verdict,
                // Published again meanwhile.
                Err(Failure::Behind) if !stale => behind = view.stamp,
                Err(Failure::Behind | Failure::StoreOut) => return Verdict::StoreOut,
                Err(Failure::Refused(refusal)) => return Verdict::Refused(refusal),
            }
        }
    }

    /// Decides by one view. `stale`: by rules that are known to be old, identity then being judged by a fresh look-up.
    async fn attempt(
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
            // A refusal must be as fresh as any answer: what is remembered may have been lifted.
            (Err(Failure::Refused(refusal)), _) if !stale => {
                return self.confirm_refusal(request, view, deadline, refusal).await;
            }
            (Err(failure), _) => return Err(failure),
        };
        let owners = Owners {
            client: client.as_deref(),
            address: request.address,
        };
        let caller = Caller {
            client: client.as_deref().map(|client| client.id.as_str()),
            tier: client.as_deref().and_then(|client| client.tier),
            address: request.address,
        };
        let applicable = view.rules.applicable(&request.resource, &caller);
        let mut plan = Plan::new(
            &applicable,
            self.config.default_limit.as_ref(),
            &owners,
            request.tokens,
        );
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
        if plan.buckets.is_empty() && !stale && !registry_out && self.looked(own, view.stamp) {
            return decided(plan.unasked(client, degraded));
        }
        let lanes = plan.lanes(own);
        let call = Call {
            operation: request.operation,
            epoch: if stale { ANY_EPOCH } else { view.stamp },
            lanes: &lanes,
            buckets: &plan.buckets,
        };
        let asked = (Instant::now(), SystemTime::now());
        // Which buckets are the caller's, only the registry knows: without it, none is asked.
        let reply = if registry_out {
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
        let client = match request.who {
            Who::Nobody => return Err(Failure::Refused(Refusal::Unknown)),
            Who::Address if request.address.is_some() => return Ok(None),
            Who::Address => return Err(Failure::Refused(Refusal::Unknown)),
            Who::Key(key) => {
                let name = Name::Key(key_hash(key));
                let client = self.look_up(name, view, deadline, fresh).await?;
                client.ok_or(Failure::Refused(Refusal::Unknown))?
            }
            Who::Verified { id, tier } => {
                let name = Name::Client(id.to_owned());
                match self.look_up(name, view, deadline, fresh).await? {
                    Some(client) if client.registered => client,
                    Some(client) => Arc::new(Client {
                        tier,
                        ..Client::clone(&client)
                    }),
                    None => Arc::new(unregistered(id, tier)),
                }
            }
            Who::Client { id, asker } => {
                self.may_ask(asker, id, view, deadline, fresh).await?;
                let name = Name::Client(id.to_owned());
                let client = self.look_up(name, view, deadline, fresh).await?;
                client.unwrap_or_else(|| Arc::new(Client::unregistered(id)))
            }
        };
        if has_ended(&client) {
            return Err(Failure::Refused(Refusal::Unknown));
        }
        if client.status == ClientStatus::Terminated {
            return Err(Failure::Refused(Refusal::Terminated));
        }
        Ok(Some(client))
    }

    async fn may_ask(
        &self,
        asker: Asker<'_>,
        about: &str,
        view: &View,
        deadline: Instant,
        fresh: bool,
    ) -> Result<(), Failure> {
        let principal = match asker {
            Asker::Anyone => return Ok(()),
            Asker::Nobody => return Err(Failure::Refused(Refusal::MayNotAsk)),
            Asker::Principal(principal) => Name::Principal(principal.to_owned()),
        };
        match self.look_up(principal, view, deadline, fresh).await? {
            Some(asker) if asker.status == ClientStatus::Terminated => {
                Err(Failure::Refused(Refusal::Terminated))
            }
            Some(asker) if asker.may_ask == MayAsk::Any || asker.id == about => Ok(()),
            _ => Err(Failure::Refused(Refusal::MayNotAsk)),
        }
    }

    /// A name of the registry, as remembered or, where it is not or `fresh` is asked for, as Redis has it now.
    async fn look_up(
        &self,
        name: Name,
        view: &View,
        deadline: Instant,
        fresh: bool,
    ) -> Result<Option<Arc<Client>>, Failure> {
        let remembered = Remembered::from(&name);
        if !fresh && let Some(client) = self.registry.get(&remembered) {
            return Ok(client);
        }
        match self.store.lookup(&name, deadline).await? {
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
        request: &Request<'_>,
        view: &View,
        deadline: Instant,
        refusal: Refusal,
    ) -> Result<Verdict, Failure> {
        let refused = Ok(Verdict::Refused(refusal));
        let name = match (request.who, refusal) {
            (Who::Key(key), Refusal::Terminated) => Name::Key(key_hash(key)),
            (Who::Verified { id, .. } | Who::Client { id, .. }, Refusal::Terminated) => {
                Name::Client(id.to_owned())
            }
            (
                Who::Client {
                    asker: Asker::Principal(principal),
                    ..
                },
                Refusal::MayNotAsk,
            ) => Name::Principal(principal.to_owned()),
            // Nothing was remembered: it was looked up just now, or needs no look.
            _ => return refused,
        };
        let lane = name.lane();
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
            // Refused by the last that was known.
            Err(_) => refused,
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
