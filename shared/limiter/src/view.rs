//! The rules that this container has, and catching up with what was published since.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws::metrics;
use foldhash::HashMap;
use limits::{Moment, Rule, RuleSet};
use limits_redis::published::{PAGE, PublishedRule, next_page, read_chunk};
use limits_redis::{Changes, Store, StoreError};
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use crate::registry::Registry;

/// The rules as of one publication. A request holds one view from start to end.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The stamp that it has caught up to: the epoch that decisions by it send.
    pub stamp: u64,
    /// The rules.
    pub rules: RuleSet,
    chunks: HashMap<u16, Vec<Uuid>>,
}

/// The view in force, and the way to the next.
#[derive(Debug)]
pub struct Views {
    /// Of each rule, how many percent this region grants.
    percent: u64,
    current: Mutex<Option<Arc<View>>>,
    /// One request catches up, the others wait for it. What was read is kept when its time is over, and gone on with.
    catching_up: tokio::sync::Mutex<Option<Progress>>,
    doubt: Mutex<Doubt>,
    /// Whether the last that tried to catch up got no answer at all.
    unanswered: AtomicBool,
}

/// Whether what is published may have been replaced by something older: lost, and published again by a clock that was set back.
/// No lane would ever tell, as none is newer than the view.
#[derive(Debug, Default)]
struct Doubt {
    trust: Trust,
    /// When that was last looked into.
    asked: Option<Moment>,
}

/// How far the view in force is trusted.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// Every lane tells when it is old.
    #[default]
    Whole,
    /// Redis did not answer, or had lost something: it may be another one.
    Doubted,
    /// What is published is older: these rules are of what was lost.
    Lost,
}

/// How often a doubt is looked into at most.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Progress {
    /// The stamp of the view that this leads on from.
    since: u64,
    changes: Changes,
    pending: Vec<u16>,
    read: Vec<(u16, Vec<PublishedRule>)>,
}

impl Views {
    /// No view yet, of rules of which so many percent are granted.
    pub fn granting(percent: u64) -> Self {
        Self {
            percent,
            current: Mutex::default(),
            catching_up: tokio::sync::Mutex::default(),
            doubt: Mutex::default(),
            unanswered: AtomicBool::default(),
        }
    }

    /// The view in force; none where the container has not yet loaded the rules.
    pub fn current(&self) -> Option<Arc<View>> {
        self.current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Catches up from the stamp of a view that was found to be behind (0: a cold start) and gives the newer view. The caller
    /// lets go of the old one first: where nobody holds it, it is changed in place.
    ///
    /// # Errors
    /// Where that did not succeed in `patience`; nothing that was read is lost.
    pub async fn catch_up(
        &self,
        behind: u64,
        store: &Store,
        registry: &Registry,
        patience: Duration,
    ) -> Result<Arc<View>, StoreError> {
        self.lead_on(Some(behind), store, registry, patience).await
    }

    /// Leads on from a view that was found to be behind; from none: begins afresh.
    async fn lead_on(
        &self,
        behind: Option<u64>,
        store: &Store,
        registry: &Registry,
        patience: Duration,
    ) -> Result<Arc<View>, StoreError> {
        let begun = Instant::now();
        let deadline = begun + patience;
        let gate = timeout_at(deadline, self.catching_up.lock()).await;
        let mut progress = gate.map_err(|_| StoreError::Timeout)?;
        let since = match (self.current(), behind) {
            (Some(view), Some(behind)) if view.stamp > behind => return Ok(view),
            (Some(view), Some(_)) => view.stamp,
            // Another one has begun afresh meanwhile.
            (Some(view), None) if self.doubt().trust == Trust::Whole => return Ok(view),
            (_, None) | (None, _) => 0,
        };
        if progress
            .as_ref()
            .is_none_or(|progress| progress.since != since)
        {
            let changes = store.changes(since, deadline).await;
            self.note_answer(&changes);
            let changes = changes?.ok_or(StoreError::LaneLost)?;
            *progress = Some(Progress::new(since, changes)?);
        }
        if let Some(progress) = progress.as_mut() {
            let before = progress.pending.len();
            let read = progress.read_on(store, deadline).await;
            if progress.pending.len() < before {
                self.unanswered.store(false, Ordering::Relaxed);
            } else {
                self.note_answer(&read);
            }
            read?;
        }
        // Nothing is awaited from here on.
        let Some(done) = progress.take() else {
            return Err(StoreError::Timeout);
        };
        registry.catch_up(done.changes.stamp, done.changes.forget, &done.changes.names);
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let view = Arc::make_mut(current.get_or_insert_default());
        metrics::EPOCH_IN_FORCE.set(done.changes.stamp);
        metrics::REVISION_IN_FORCE.set(done.changes.revision);
        view.apply(done, self.percent);
        metrics::CATCH_UPS.add(1);
        metrics::CATCH_UP_LATENCY.record_ms(begun.elapsed());
        if since == 0 {
            self.doubt().trust = Trust::Whole;
        }
        Ok(Arc::clone(current.get_or_insert_default()))
    }

    /// Whether nobody who tried to catch up was answered of late: then it is not waited for as long again.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.unanswered.load(Ordering::Relaxed)
    }

    fn note_answer<T>(&self, answer: &Result<T, StoreError>) {
        let unanswered = match answer {
            Ok(_) => false,
            // It was not asked at all.
            Err(StoreError::Paused) => return,
            Err(_) => true,
        };
        self.unanswered.store(unanswered, Ordering::Relaxed);
    }

    fn doubt(&self) -> MutexGuard<'_, Doubt> {
        self.doubt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that Redis did not answer, or had lost something.
    pub(crate) fn note_failure(&self) {
        let mut doubt = self.doubt();
        if doubt.trust == Trust::Whole {
            doubt.trust = Trust::Doubted;
        }
    }

    /// Whether the view in force is known to be of what was lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.doubt().trust == Trust::Lost
    }

    /// Whether a doubt is to be looked into, by whoever is told so.
    fn doubt_is_due(&self) -> bool {
        let mut doubt = self.doubt();
        let due = doubt.trust != Trust::Whole && doubt.asked.is_none_or(|at| at.elapsed() >= PAUSE);
        if due {
            doubt.asked = Some(Moment::now());
        }
        due
    }

    /// Looks into a doubt, once a second at most, by `deadline`: whether what is published is older than the view in force. Where it
    /// is, that view is replaced, in `patience`; as long as that does not succeed, it is lost. Gives the deadline back, which that
    /// patience is not taken from. Half of the time until then is left for the decision, which another server may be asked for.
    pub(crate) async fn resolve_doubt(
        &self,
        store: &Store,
        registry: &Registry,
        deadline: Instant,
        patience: Duration,
    ) -> Instant {
        let Some(view) = self.current().filter(|_| self.doubt_is_due()) else {
            return deadline;
        };
        // In a box: it is rare, and all that every decision is made of would be as large.
        Box::pin(self.look_into_doubt(view, store, registry, deadline, patience)).await
    }

    async fn look_into_doubt(
        &self,
        view: Arc<View>,
        store: &Store,
        registry: &Registry,
        deadline: Instant,
        patience: Duration,
    ) -> Instant {
        let now = Instant::now();
        let half = now + deadline.saturating_duration_since(now) / 2;
        match store.changes(view.stamp, half).await {
            Ok(Some(changes)) if changes.stamp >= view.stamp => self.doubt().trust = Trust::Whole,
            Ok(Some(_)) => {
                drop(view);
                let begun = Instant::now();
                tracing::warn!(
                    "what is published is older than what was: the rules are loaded afresh"
                );
                self.doubt().trust = Trust::Lost;
                if let Err(error) = self.lead_on(None, store, registry, patience).await {
                    tracing::debug!(%error, "the rules could not be loaded afresh");
                }
                return deadline + begun.elapsed();
            }
            // Nothing is published, or nothing was answered: no news.
            Ok(None) | Err(_) => {}
        }
        deadline
    }
}

impl Progress {
    fn new(since: u64, mut changes: Changes) -> Result<Self, StoreError> {
        // From the beginning, whatever is not among it is no more.
        changes.fresh |= since == 0;
        changes.forget |= since == 0;
        let bodies = std::mem::take(&mut changes.bodies);
        let mut progress = Self {
            since,
            pending: std::mem::take(&mut changes.chunks),
            read: Vec::with_capacity(bodies.len()),
            changes,
        };
        progress.read(bodies)?;
        Ok(progress)
    }

    /// Takes in the bodies of the first chunks that are pending.
    fn read(&mut self, bodies: Vec<Option<Vec<u8>>>) -> Result<(), StoreError> {
        let bodies: Vec<Vec<PublishedRule>> = bodies
            .into_iter()
            .map(|body| body.map_or(Ok(Vec::new()), |body| read_chunk(&body)))
            .collect::<Result<_, _>>()?;
        // Only now: a chunk that cannot be read is pending still, and its rules are not taken for none.
        let read = self.pending.drain(..bodies.len().min(self.pending.len()));
        self.read.extend(read.zip(bodies));
        Ok(())
    }

    async fn read_on(&mut self, store: &Store, deadline: Instant) -> Result<(), StoreError> {
        let mut size = PAGE;
        while !self.pending.is_empty() {
            let page = &self.pending[..size.min(self.pending.len())];
            let bodies = store.chunks(page, deadline).await?;
            size = next_page(&bodies);
            if bodies.len() != page.len() {
                return Err(StoreError::Malformed("not a body for each chunk"));
            }
            self.read(bodies)?;
        }
        Ok(())
    }
}

impl View {
    /// Takes in what was read. Every rule is put in by the share of it that is granted, so that no decision has to think of it.
    fn apply(&mut self, progress: Progress, percent: u64) {
        let last_good = if progress.changes.fresh {
            self.chunks.clear();
            std::mem::take(&mut self.rules)
        } else {
            RuleSet::new()
        };
        for (chunk, published) in progress.read {
            let before = self.chunks.remove(&chunk).unwrap_or_default();
            let now: Vec<Uuid> = published.iter().map(PublishedRule::id).collect();
            for gone in before.iter().filter(|id| !now.contains(id)) {
                self.rules.remove(*gone);
            }
            for rule in published {
                match rule {
                    PublishedRule::Rule(rule) if percent == 100 => self.rules.put(rule),
                    PublishedRule::Rule(rule) => {
                        let granted = Arc::unwrap_or_clone(rule).percent(percent);
                        self.rules.put(Arc::new(granted));
                    }
                    PublishedRule::Unread { id, stand_in } => {
                        let good =
                            |set: &RuleSet| set.get(id).filter(|rule| !rule.is_stand_in()).cloned();
                        let kept: Option<Rule> = good(&self.rules).or_else(|| good(&last_good));
                        if let Some(rule) = kept.map(Arc::new).or(stand_in) {
                            self.rules.put(rule);
                        }
                    }
                }
            }
            if !now.is_empty() {
                self.chunks.insert(chunk, now);
            }
        }
        self.stamp = progress.changes.stamp;
    }
}
