//! Publishes what Postgres holds into this region's Redis, and moves the epochs.
//!
//! A reconciler: SNS, the schedule and the cache's own events merely wake it. Each run compares, writes what differs, moves the
//! lanes up, and goes round again until nothing differs. Two at once, twice, or in the wrong order converge.

pub mod event;
pub mod health;
mod lanes;
mod reconcile;

use std::time::Duration;

use aws::metrics;
use lambda_runtime::Diagnostic;
use limits_postgres::{Database, DatabaseError};
use limits_redis::{Store, StoreError};
use thiserror::Error;
use tokio::time::{Instant, sleep, timeout};

use crate::health::Examiner;

/// How long a run waits for a database that has not yet what was announced, or what is published: a replica that lags.
const REPLICA_PATIENCE: Duration = Duration::from_secs(10);

/// How often it looks meanwhile.
const REPLICA_POLL: Duration = Duration::from_millis(200);

/// How long a run may take, with whatever it waits for: Lambda, which gives it two minutes, would end it without a word, and a look at
/// the stores comes after it.
const RUN: Duration = Duration::from_secs(100);

/// Why a run failed; it is tried again by whoever woke it, and by the schedule.
#[derive(Debug, Error)]
pub enum RefreshError {
    /// Postgres did not answer.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// Redis did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The database is behind what was announced or is published: a replica that has not caught up, or one of a database that was
    /// restored to an earlier point, which nobody has said yet.
    #[error("the database is at revision {at}, and {expected} was announced or is published")]
    Behind {
        /// Its revision.
        at: u64,
        /// The one that it will have, if it lags.
        expected: u64,
    },
    /// The time of a run was over before all was published.
    #[error("not finished in {RUN:?}")]
    Unfinished,
}

impl From<RefreshError> for Diagnostic {
    fn from(error: RefreshError) -> Self {
        let error_type = match error {
            RefreshError::Database(_) => "Database",
            RefreshError::Store(_) => "Store",
            RefreshError::Behind { .. } => "Behind",
            RefreshError::Unfinished => "Unfinished",
        };
        Diagnostic {
            error_type: error_type.to_owned(),
            error_message: error.to_string(),
        }
    }
}

/// What a run did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Report {
    /// The revision that is published.
    pub revision: u64,
    /// Rounds that found something to do.
    pub rounds: u32,
    /// Chunks written.
    pub chunks: usize,
    /// Registry entries written.
    pub entries: usize,
    /// Lanes moved.
    pub lanes: usize,
    /// Lanes that had lost their data and were written again.
    pub rebuilt: usize,
    /// How often all was published anew, as a new history.
    pub histories: u32,
    /// How long the oldest change had waited when it was published, in milliseconds; none where there was no change.
    pub lag_ms: Option<u64>,
}

/// The reconciler of one region.
#[derive(Debug, Clone)]
pub struct Refresh {
    database: Database,
    store: Store,
    restored: bool,
}

impl Refresh {
    /// Between a database and a region's store.
    pub fn new(database: Database, store: Store) -> Self {
        Self {
            database,
            store,
            restored: false,
        }
    }

    /// The same, told whether the database was restored to an earlier point: then a replica that is behind what is published does
    /// not lag, and everything is taken back to what it holds.
    #[must_use]
    pub fn restored(self, restored: bool) -> Self {
        Self { restored, ..self }
    }

    /// Publishes until nothing differs. `announced`: the revision that must be among it, 0 for none.
    ///
    /// # Errors
    /// Where a store is out, time is over, or the database does not reach `announced`. What was published stays.
    pub async fn run(&self, announced: u64) -> Result<Report, RefreshError> {
        let started = Instant::now();
        let mut report = Report::default();
        let published = timeout(RUN, self.publish_all(announced, started, &mut report));
        let outcome = published.await.unwrap_or(Err(RefreshError::Unfinished));
        count(&report, started.elapsed(), outcome.is_ok());
        outcome.map(|()| report)
    }

    /// Looks at the stores between which this is, as [`Examiner::look`] does.
    pub async fn look(&self, examiner: &Examiner) {
        examiner.look(&self.database, &self.store).await;
    }

    async fn publish_all(
        &self,
        announced: u64,
        started: Instant,
        report: &mut Report,
    ) -> Result<(), RefreshError> {
        loop {
            let round = match self.round(report).await {
                Ok(false) if report.revision < announced => Err(RefreshError::Behind {
                    at: report.revision,
                    expected: announced,
                }),
                round => round,
            };
            match round {
                Ok(false) => return Ok(()),
                Ok(true) => report.rounds += 1,
                // Another run began a new history meanwhile, or what this one went on from was lost: compare again.
                Err(RefreshError::Store(StoreError::LaneLost)) => sleep(REPLICA_POLL).await,
                Err(RefreshError::Behind { .. }) if started.elapsed() < REPLICA_PATIENCE => {
                    sleep(REPLICA_POLL).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Counts a run, whatever became of it: what it has published is.
fn count(report: &Report, took: Duration, well: bool) {
    match well {
        true => metrics::REFRESH_RUNS.add(1),
        false => metrics::REFRESH_FAILURES.add(1),
    }
    metrics::REFRESH_LATENCY.record_ms(took);
    if let Some(ms) = report.lag_ms {
        metrics::REFRESH_LAG.record_ms(Duration::from_millis(ms));
    }
    metrics::CHUNKS_WRITTEN.add(report.chunks as u64);
    metrics::ENTRIES_WRITTEN.add(report.entries as u64);
    metrics::LANES_MOVED.add(report.lanes as u64);
    metrics::LANES_REBUILT.add(report.rebuilt as u64);
    metrics::REBUILDS.add(report.histories.into());
}
