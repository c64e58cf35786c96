//! Which server keeps a key: the only one there is, the one that sentinels name, or the one of the key's slot.
//!
//! What is known of that is kept until a server says otherwise. `MOVED` corrects one slot; a server that fails, or may not decide any
//! more, has the others asked anew, behind the back of whoever noticed. Hash slots are all the sharding there is.

mod cluster;
mod sentinel;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws::elasticache_token::ElastiCacheToken;
use aws::metrics::STORE_FAILURES;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared, join_all};
use limits::moment::Moment;
use redis::{Cmd, ToRedisArgs, Value};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::address::{Address, Arrangement, Target};
use crate::breaker::{Breaker, Standing};
use crate::fault::Fault;
use crate::keys::Place;
use crate::node::{Access, CONNECT_DEADLINE, Node};
use crate::script::Script;
use crate::store::StoreError;
use crate::tls;

/// How often a call is sent on: a slot that has moved is told in one hop, one that is moving in two, and a server that was demoted
/// costs one more.
const MOST_HOPS: usize = 3;

/// How old what sentinels told may be.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How many servers are known at most: one for each place, and some to which others have sent us on. A container has 1,024 files.
const MOST_NODES: usize = Place::COUNT + 64;

/// How long whoever has time waits before it asks again.
const RETRY: Duration = Duration::from_millis(20);

/// The servers, as they are known. Cheap to clone; clones share what is known.
#[derive(Debug, Clone)]
pub(crate) struct Topology {
    inner: Arc<Inner>,
    /// Whether whoever asks holds up nobody: what was not executed is tried again until the deadline is near.
    patient: bool,
}

#[derive(Debug)]
struct Inner {
    arrangement: Arrangement,
    access: Access,
    /// Whom to ask, beside those that are known.
    seeds: Vec<Arc<Node>>,
    known: Mutex<Known>,
    finding: Mutex<Option<(Moment, Finding)>>,
    /// Whether anybody is waited for where it is not known who keeps a place.
    search: Breaker,
}

/// A search for the servers; whether it found any.
type Finding = Shared<BoxFuture<'static, bool>>;

#[derive(Debug, Default)]
struct Known {
    nodes: HashMap<Address, Arc<Node>>,
    /// By place; one for all where there is no cluster.
    places: Vec<Option<Arc<Node>>>,
}

impl Topology {
    /// The servers of a target; speaks to none yet.
    ///
    /// # Errors
    /// Where TLS cannot be had.
    pub(crate) fn new(target: &Target, token: Option<ElastiCacheToken>) -> Result<Self, String> {
        let access = Access {
            login: target.login.clone(),
            token,
            tls: target.tls.then(tls::connector).transpose()?,
        };
        // Sentinels have users of their own, and none is told of them.
        let to_seed = match target.arrangement {
            Arrangement::Sentinel(_) => Access {
                login: redis::RedisConnectionInfo::default().set_skip_set_lib_name(),
                token: None,
                tls: access.tls.clone(),
            },
            Arrangement::One | Arrangement::Cluster => access.clone(),
        };
        let node = |address: &Address| Arc::new(Node::new(address.clone(), to_seed.clone()));
        let seeds: Vec<_> = target.seeds.iter().map(node).collect();
        let mut known = Known::default();
        if target.arrangement == Arrangement::One {
            known.places = vec![seeds.first().cloned()];
        }
        let inner = Inner {
            arrangement: target.arrangement.clone(),
            access,
            seeds,
            known: Mutex::new(known),
            finding: Mutex::default(),
            search: Breaker::default(),
        };
        Ok(Self {
            inner: Arc::new(inner),
            patient: false,
        })
    }

    /// The same servers, for someone who holds up nobody.
    pub(crate) fn patient(&self) -> Self {
        Self {
            patient: true,
            ..self.clone()
        }
    }

    /// Whether lanes may lie on several servers, so that no script can have more than one.
    pub(crate) fn is_cluster(&self) -> bool {
        self.inner.arrangement == Arrangement::Cluster
    }

    /// Asks one thing of the server that keeps a place, wherever that is by now.
    ///
    /// # Errors
    /// Where there is no answer by `deadline`; at once where the server is being left alone, unless one is patient.
    pub(crate) async fn ask(
        &self,
        place: Place,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<Value, StoreError> {
        loop {
            match self.ask_once(place, command, deadline).await {
                Err(error)
                    if self.patient && passes(&error) && Instant::now() + RETRY < deadline =>
                {
                    sleep(RETRY).await;
                }
                Err(error) => {
                    if let Some(kind) = error.failure() {
                        STORE_FAILURES.add(kind);
                    }
                    return Err(error);
                }
                answered => return answered,
            }
        }
    }

    async fn ask_once(
        &self,
        place: Place,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<Value, StoreError> {
        let mut node = self.node(place, deadline).await?;
        let mut asking = false;
        let mut demoted = false;
        for _ in 0..MOST_HOPS {
            let error = match node.ask(command, asking, deadline).await {
                Err(StoreError::Redis(error)) => error,
                Err(StoreError::Timeout) => {
                    drop(self.inner.find());
                    return Err(StoreError::Timeout);
                }
                answered => return answered,
            };
            asking = false;
            match Fault::of(&error) {
                Fault::Moved(_) if !self.is_cluster() => {
                    node.leave_alone(&StoreError::IsCluster);
                    return Err(StoreError::IsCluster);
                }
                Fault::Moved(Some(to)) => {
                    node = self.inner.known().node(to, &node, &self.inner);
                    self.inner.known().put(place, &node);
                }
                Fault::Ask(Some(to)) => {
                    node = self.inner.known().node(to, &node, &self.inner);
                    asking = true;
                }
                Fault::Demoted if !demoted => {
                    demoted = true;
                    // Where there is one name, a new connection may lead to the one that took its place.
                    if self.inner.arrangement != Arrangement::One {
                        if timeout_at(deadline, self.inner.find()).await.is_err() {
                            node.leave_alone(&StoreError::Redis(error));
                            return Err(StoreError::Timeout);
                        }
                        node = self.node(place, deadline).await?;
                    }
                }
                fault => {
                    let error = StoreError::Redis(error);
                    if fault == Fault::Demoted {
                        node.leave_alone(&error);
                    }
                    if fault.ends_connection()
                        || matches!(fault, Fault::Moved(None) | Fault::Ask(None))
                    {
                        drop(self.inner.find());
                    }
                    return Err(error);
                }
            }
        }
        Err(StoreError::Astray)
    }

    /// Asks each server that is known to keep anything of ours the same, all at once; one that gives no answer by `deadline` is left
    /// out.
    ///
    /// # Errors
    /// Where nobody is known by then.
    pub(crate) async fn ask_each(
        &self,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<Vec<Value>, StoreError> {
        // Whoever is not known yet is looked for.
        self.node(Place::Rules, deadline).await?;
        let known = self.inner.known().places.clone();
        let mut nodes: Vec<Arc<Node>> = Vec::new();
        for node in known.into_iter().flatten() {
            if !nodes.iter().any(|other| Arc::ptr_eq(other, &node)) {
                nodes.push(node);
            }
        }
        let answers = join_all(nodes.iter().map(|node| node.ask(command, false, deadline)));
        Ok(answers.await.into_iter().flatten().collect())
    }

    /// Calls a script by its hash, and once by its text where the server does not have it: that call was not executed, so nothing
    /// is charged twice.
    ///
    /// # Errors
    /// As [`Topology::ask`].
    pub(crate) async fn script(
        &self,
        place: Place,
        script: &Script,
        keys: &[String],
        arguments: &[impl ToRedisArgs],
        deadline: Instant,
    ) -> Result<Value, StoreError> {
        let by_hash = script.by_hash(keys, arguments);
        match self.ask(place, &by_hash, deadline).await {
            Err(error) if error.fault() == Some(Fault::NoScript) => {
                let by_text = script.by_text(keys, arguments);
                self.ask(place, &by_text, deadline).await
            }
            answered => answered,
        }
    }

    /// Reads keys that are parted between two servers, each by itself, the last first: so they are found wherever they are.
    ///
    /// # Errors
    /// As [`Topology::ask`].
    pub(crate) async fn each(
        &self,
        place: Place,
        keys: &[String],
        deadline: Instant,
    ) -> Result<Vec<Value>, StoreError> {
        let mut values = Vec::with_capacity(keys.len());
        for key in keys.iter().rev() {
            let mut command = redis::cmd("GET");
            command.arg(key);
            values.push(self.ask(place, &command, deadline).await?);
        }
        values.reverse();
        Ok(values)
    }

    /// Calls a script whose keys are all there, and waits while they are parted between two servers: they are soon together again.
    ///
    /// # Errors
    /// As [`Topology::ask`].
    pub(crate) async fn script_together(
        &self,
        place: Place,
        script: &Script,
        keys: &[String],
        arguments: &[String],
        deadline: Instant,
    ) -> Result<Value, StoreError> {
        loop {
            match self.script(place, script, keys, arguments, deadline).await {
                Err(error) if error.is_parted() && Instant::now() + RETRY < deadline => {
                    sleep(RETRY).await;
                }
                answered => return answered,
            }
        }
    }

    async fn node(&self, place: Place, deadline: Instant) -> Result<Arc<Node>, StoreError> {
        let known = self.inner.known().get(place);
        if let Some(node) = known {
            match node.standing() {
                // Others may have long put another in its place, and it does not know yet.
                Standing::Due if self.inner.arrangement != Arrangement::One => {
                    // If nobody says so soon enough, there is time left to try the one that is known.
                    let left = deadline.saturating_duration_since(Instant::now());
                    let _ = timeout(left / 2, self.inner.find()).await;
                    return Ok(self.inner.known().get(place).unwrap_or(node));
                }
                _ => {
                    self.inner.look_again();
                    return Ok(node);
                }
            }
        }
        // Nobody knows: one call in each pause waits for those who might.
        let admitted = self.inner.search.admit().ok_or(StoreError::Paused)?;
        let found = timeout_at(deadline, self.inner.find()).await;
        let node = self.inner.known().get(place);
        match (&node, &found) {
            (Some(_), _) => {
                admitted.succeeded();
            }
            // Nobody was waited for: each server is left alone by itself, and no longer than that.
            (None, Ok(false)) => drop(admitted),
            (None, _) => {
                admitted.failed();
            }
        }
        found.map_err(|_| StoreError::Timeout)?;
        node.ok_or(StoreError::Unserved)
    }
}

/// Whether what kept a call from being answered may soon be over: a server is left alone, or another takes its place.
fn passes(error: &StoreError) -> bool {
    match error {
        StoreError::Paused | StoreError::Unserved | StoreError::Astray => true,
        error => matches!(error.fault(), Some(Fault::Demoted | Fault::Unready)),
    }
}

impl Inner {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the sentinels anew from time to time, behind the back of whoever calls: one that they have replaced goes on for seconds as
    /// if it were the primary, and what it is told is lost.
    fn look_again(self: &Arc<Self>) {
        if let Arrangement::Sentinel(_) = self.arrangement {
            let finding = self.finding.lock().unwrap_or_else(PoisonError::into_inner);
            let due = finding
                .as_ref()
                .is_none_or(|(since, _)| since.elapsed() > LOOK_AGAIN);
            drop(finding);
            if due {
                drop(self.find());
            }
        }
    }

    /// The one of those to ask first that is at an address, and keeps slots itself: one server has one node, or it would be left
    /// alone by one and believed by the other.
    fn seed(&self, at: &Address) -> Option<Arc<Node>> {
        let mut seeds = self.seeds.iter();
        let is_cluster = self.arrangement == Arrangement::Cluster;
        seeds
            .find(|seed| is_cluster && seed.address == *at)
            .cloned()
    }

    /// Looks for the servers anew, once at a time. It goes on whoever waits for it.
    fn find(self: &Arc<Self>) -> Finding {
        let mut finding = self.finding.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, going_on)) = &*finding
            && going_on.peek().is_none()
            && since.elapsed() < CONNECT_DEADLINE
        {
            return going_on.clone();
        }
        let inner = Arc::clone(self);
        let found = async move {
            let deadline = Instant::now() + CONNECT_DEADLINE;
            let found = match &inner.arrangement {
                Arrangement::One => return true,
                Arrangement::Cluster => cluster::find(&inner, deadline).boxed(),
                Arrangement::Sentinel(name) => sentinel::find(&inner, name, deadline).boxed(),
            };
            matches!(timeout(CONNECT_DEADLINE, found).await, Ok(Some(())))
        };
        let found = found.boxed().shared();
        tokio::spawn(found.clone());
        *finding = Some((Moment::now(), found.clone()));
        found
    }
}

impl Known {
    fn get(&self, place: Place) -> Option<Arc<Node>> {
        match self.places.len() {
            0 => None,
            of => self.places[place.index() % of].clone(),
        }
    }

    fn put(&mut self, place: Place, node: &Arc<Node>) {
        if let Some(there) = self.places.get_mut(place.index()) {
            *there = Some(Arc::clone(node));
        }
    }

    /// The node at an address that `teller` told; an empty host is the teller's own.
    fn node(&mut self, mut at: Address, teller: &Node, inner: &Inner) -> Arc<Node> {
        if at.host.is_empty() {
            at.host.clone_from(&teller.address.host);
        }
        if self.nodes.len() >= MOST_NODES && !self.nodes.contains_key(&at) {
            self.forget(|_| true);
        }
        let node = || {
            let seed = inner.seed(&at);
            seed.unwrap_or_else(|| Arc::new(Node::new(at.clone(), inner.access.clone())))
        };
        Arc::clone(self.nodes.entry(at.clone()).or_insert_with(node))
    }

    /// Takes over what was found, and forgets servers that keep nothing of ours any more; not those that are out, lest one to
    /// which keys are on their way be waited for by every call.
    fn replace(&mut self, places: Vec<Option<Arc<Node>>>) {
        self.places = places;
        self.forget(|node| !node.is_out());
    }

    /// Forgets those of the servers that keep nothing of ours.
    fn forget(&mut self, which: impl Fn(&Node) -> bool) {
        let places = &self.places;
        self.nodes.retain(|_, node| {
            let mut kept = places.iter().flatten();
            kept.any(|keeper| Arc::ptr_eq(keeper, node)) || !which(node)
        });
    }
}
