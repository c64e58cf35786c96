//! Versioned changes of the schema, and who may use it.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::{CONNECT_DEADLINE, Postgres, causes, told, with};
use crate::admit::AdmitError;
use crate::database::DatabaseError;

mod embedded {
    refinery::embed_migrations!("migrations");
}

/// How long all migrations together may take, or an admission.
const DEADLINE: Duration = Duration::from_secs(300);

/// One migrates at a time in a database: the others wait here, then find nothing left to do. The role's own deadlines, made for
/// requests, are lifted. Both would pin the session of a proxy, so this goes to the server itself.
const TAKE_TURNS: &str = "SET statement_timeout = 0; SET lock_timeout = '120s'; \
    SET idle_in_transaction_session_timeout = 0; SELECT pg_advisory_lock(8465728101)";

/// A session that is alone in making changes to the schema.
struct Turn {
    client: Client,
    connection: JoinHandle<()>,
}

impl Turn {
    /// Its end gives the lock back.
    async fn end(self) {
        drop(self.client);
        let _ = self.connection.await;
    }
}

impl Postgres {
    pub(crate) async fn migrate(&self) -> Result<Vec<String>, DatabaseError> {
        in_time(async {
            let mut turn = self.turn().await?;
            let applied = embedded::migrations::runner()
                .run_async(&mut turn.client)
                .await;
            turn.end().await;
            let applied = applied.map_err(|error| DatabaseError::Unexpected(causes(&error)))?;
            let applied = applied.applied_migrations().iter();
            Ok(applied.map(ToString::to_string).collect())
        })
        .await
    }

    pub(crate) async fn admit(&self, role: &str) -> Result<(), AdmitError> {
        in_time(async {
            let turn = self.turn().await?;
            let admitted = admit(&turn.client, role).await;
            turn.end().await;
            admitted.map_err(refused)
        })
        .await
    }

    async fn turn(&self) -> Result<Turn, DatabaseError> {
        let opened = timeout(CONNECT_DEADLINE, self.connector.open()).await;
        let (client, connection) = match opened {
            Err(_) => {
                return Err(DatabaseError::Unavailable(format!(
                    "no connection within {} s",
                    CONNECT_DEADLINE.as_secs()
                )));
            }
            Ok(opened) => opened.map_err(|error| DatabaseError::Unavailable(causes(&error)))?,
        };
        client.batch_execute(TAKE_TURNS).await.map_err(told)?;
        Ok(Turn { client, connection })
    }
}

async fn in_time<T, E: From<DatabaseError>>(
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    timeout(DEADLINE, work).await.unwrap_or_else(|_| {
        let late = format!("it took more than {} s", DEADLINE.as_secs());
        Err(DatabaseError::Unavailable(late).into())
    })
}

/// The name reaches the server as a value, and is quoted there.
async fn admit(client: &Client, role: &str) -> Result<(), tokio_postgres::Error> {
    let name = "SELECT set_config('weir.role', $1, false)";
    client.query_typed(name, with![role => TEXT]).await?;
    // One statement, and so one transaction: nobody sees the role between what it loses and what it gets.
    client.batch_execute(include_str!("admit.sql")).await
}

fn refused(error: tokio_postgres::Error) -> AdmitError {
    match error.as_db_error() {
        Some(server)
            if [
                SqlState::INVALID_ROLE_SPECIFICATION,
                SqlState::RESERVED_NAME,
                SqlState::INSUFFICIENT_PRIVILEGE,
            ]
            .contains(server.code()) =>
        {
            AdmitError::Refused(server.message().to_owned())
        }
        _ => told(error).into(),
    }
}
