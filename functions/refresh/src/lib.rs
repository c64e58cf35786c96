//! Publishes what Postgres holds into this region's Redis, and moves the epochs.
//!
//! A reconciler: SNS, the schedule and the cache's own events merely wake it. Each run compares, writes what differs, moves the
//! lanes up, and goes round again until nothing differs. Two at once, twice, or in the wrong order converge.

pub mod event;
mod lanes;
mod reconcile;

use std::time::Duration;

use limits_postgres::{Database, DatabaseError};
use limits_redis::{Store, StoreError};
use thiserror::Error;
use tokio::time::{Instant, sleep};

/// How long a run waits for a database that has not yet what was announced: a replica that lags.
const REPLICA_PATIENCE: Duration = Duration::from_secs(10);

/// How often it looks meanwhile.
const REPLICA_POLL: Duration = Duration::from_millis(200);

/// How long a run goes round while the database moves.
const RUN: Duration = Duration::from_secs(50);

/// Why a run failed; it is tried again by whoever woke it, and by the schedule.
#[derive(Debug, Error)]
pub enum RefreshError {
    /// Postgres did not answer.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// Redis did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The database is behind the announcement: a replica that has not caught up.
    #[error("the database is at revision {at}, {announced} was announced")]
    Behind {
        /// Its revision.
        at: u64,
        /// The one that was announced.
        announced: u64,
    },
    /// The time of a run was over before all was published.
    #[error("not finished in {RUN:?}")]
    Unfinished,
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
}

/// The reconciler of one region.
#[derive(Debug, Clone)]
pub struct Refresh {
    database: Database,
    store: Store,
}

impl Refresh {
    /// Between a database and a region's store.
    pub fn new(database: Database, store: Store) -> Self {
        Self { database, store }
    }

    /// Publishes until nothing differs. `announced`: the revision that must be among it, 0 for none.
    ///
    /// # Errors
    /// Where a store is out, time is over, or the database does not reach `announced`. What was published stays.
    pub async fn run(&self, announced: u64) -> Result<Report, RefreshError> {
        let started = Instant::now();
        let mut report = Report::default();
        loop {
            loop {
                match self.round(&mut report).await {
                    Ok(false) => break,
                    Ok(true) => report.rounds += 1,
                    // Another run began a new history meanwhile, or what this one went on from was lost: compare again.
                    Err(RefreshError::Store(StoreError::LaneLost)) => sleep(REPLICA_POLL).await,
                    Err(error) => return Err(error),
                }
                if started.elapsed() > RUN {
                    return Err(RefreshError::Unfinished);
                }
            }
            if report.revision >= announced {
                return Ok(report);
            }
            if started.elapsed() > REPLICA_PATIENCE {
                return Err(RefreshError::Behind {
                    at: report.revision,
                    announced,
                });
            }
            sleep(REPLICA_POLL).await;
        }
    }
}
