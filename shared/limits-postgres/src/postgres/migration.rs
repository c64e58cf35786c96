//! Versioned changes of the schema.

use std::time::Duration;

use tokio::time::timeout;

use super::{CONNECT_DEADLINE, Postgres, causes, told};
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
        let opened = timeout(CONNECT_DEADLINE, self.connector.open()).await;
        let (mut client, connection) = match opened {
            Err(_) => {
                return Err(DatabaseError::Unavailable(format!(
                    "no connection within {} s",
                    CONNECT_DEADLINE.as_secs()
                )));
            }
            Ok(opened) => opened.map_err(|error| DatabaseError::Unavailable(causes(&error)))?,
        };
        let applied = async {
            client.batch_execute(TAKE_TURNS).await.map_err(told)?;
            embedded::migrations::runner()
                .run_async(&mut client)
                .await
                .map_err(|error| DatabaseError::Unexpected(causes(&error)))
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
