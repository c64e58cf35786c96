//! The rules that this container has, and catching up with what was published since.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use foldhash::HashMap;
use limits::{Rule, RuleSet};
use limits_redis::published::{PAGE, PublishedRule, read_chunk};
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
#[derive(Debug, Default)]
pub struct Views {
    current: Mutex<Option<Arc<View>>>,
    /// One request catches up, the others wait for it. What was read is kept when its time is over, and gone on with.
    catching_up: tokio::sync::Mutex<Option<Progress>>,
}

#[derive(Debug)]
struct Progress {
    /// The stamp of the view that this leads on from.
    since: u64,
    changes: Changes,
    pending: Vec<u16>,
    read: Vec<(u16, Vec<PublishedRule>)>,
}

impl Views {
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
        let deadline = Instant::now() + patience;
        let gate = timeout_at(deadline, self.catching_up.lock()).await;
        let mut progress = gate.map_err(|_| StoreError::Timeout)?;
        let since = match self.current() {
            Some(view) if view.stamp > behind => return Ok(view),
            Some(view) => view.stamp,
            None => 0,
        };
        if progress
            .as_ref()
            .is_none_or(|progress| progress.since != since)
        {
            let changes = store
                .changes(since, deadline)
                .await?
                .ok_or(StoreError::LaneLost)?;
            *progress = Some(Progress::new(since, changes)?);
        }
        if let Some(progress) = progress.as_mut() {
            progress.read_on(store, deadline).await?;
        }
        // Nothing is awaited from here on.
        let Some(done) = progress.take() else {
            return Err(StoreError::Timeout);
        };
        registry.catch_up(done.changes.stamp, done.changes.forget, &done.changes.names);
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let view = Arc::make_mut(current.get_or_insert_default());
        view.apply(done);
        Ok(Arc::clone(current.get_or_insert_default()))
    }
}

impl Progress {
    fn new(since: u64, mut changes: Changes) -> Result<Self, StoreError> {
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
        while !self.pending.is_empty() {
            let page = &self.pending[..PAGE.min(self.pending.len())];
            let bodies = store.chunks(page, deadline).await?;
            if bodies.len() != page.len() {
                return Err(StoreError::Malformed("not a body for each chunk"));
            }
            self.read(bodies)?;
        }
        Ok(())
    }
}

impl View {
    fn apply(&mut self, progress: Progress) {
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
                    PublishedRule::Rule(rule) => self.rules.put(rule),
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
