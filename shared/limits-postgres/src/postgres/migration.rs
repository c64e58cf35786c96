//! Versioned changes of the schema.

use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::NoTls;
use tracing::warn;

use super::{Postgres, told};
use crate::database::DatabaseError;

mod embedded {
    refinery::embed_migrations!("migrations");
}

/// How long all migrations together may take.
const DEADLINE: Duration = Duration::from_secs(300);

/// One migrates at a time in a database: the others wait here, then find nothing left to do. The role's own deadlines, made for
/// requests, are lifted. Both would pin the session of a proxy, so this goes to the server itself.
const TAKE_TURNS: &str = "SET statement_timeout = 0; SET lock_timeout = '120s'; \
    SET idle_in_transaction_session_timeout = 0; SELECT pg_advisory_lock(8465728101)";

impl Postgres {
    pub(crate) async fn migrate(&self) -> Result<Vec<String>, DatabaseError> {
        match timeout(DEADLINE, self.migrate_in_turn()).await {
            Ok(applied) => applied,
            Err(_) => Err(DatabaseError::Unavailable(format!(
                "the migrations took more than {} s",
                DEADLINE.as_secs()
            ))),
        }
    }

    async fn migrate_in_turn(&self) -> Result<Vec<String>, DatabaseError> {
        let (mut client, connection) = self.config.connect(NoTls).await.map_err(told)?;
        let connection = tokio::spawn(async move {
            if let Err(error) = connection.await {
                warn!(%error, "the migrating connection ended");
            }
        });
        let applied = async {
            client.batch_execute(TAKE_TURNS).await.map_err(told)?;
            embedded::migrations::runner()
                .run_async(&mut client)
                .await
                .map_err(|error| failed(&error))
        }
        .await;
        // Its end gives the lock back.
        drop(client);
        let _ = connection.await;
        Ok(applied?
            .applied_migrations()
            .iter()
            .map(ToString::to_string)
            .collect())
    }
}

/// Why a migration failed: the reason stands in what the error was caused by.
fn failed(error: &refinery::Error) -> DatabaseError {
    let mut reason = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        reason = format!("{reason}: {error}");
        cause = error.source();
    }
    DatabaseError::Unexpected(reason)
}
