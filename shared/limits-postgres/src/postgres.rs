//! The store in Postgres.
//!
//! Parameters travel with unnamed statements in one round trip each, so that a pooler may give every transaction another server
//! connection. Rows travel as JSON: `to_jsonb` out, `jsonb_populate_recordset` in. Every wait has a deadline, and a connection on
//! which one ran out is closed, since its answer may still come.

mod audit;
mod clients;
mod connector;
mod feed;
mod migration;
mod resets;
mod rules;
mod transaction;
mod trust;

use std::time::Duration;

use aws::signer::Signer;
use deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime,
};
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Config, Row};

use self::connector::Connector;
use crate::database::DatabaseError;

/// How many connections one container holds: one for what it does, one for who comes at the same time.
const CONNECTIONS: usize = 2;
/// How long one waits until another has done with a connection.
const WAIT_DEADLINE: Duration = Duration::from_secs(1);
/// How long a connection of the pool may take to show that somebody is at its other end.
const RECYCLE_DEADLINE: Duration = Duration::from_millis(500);
/// How long a new connection may take to be had, TLS and login included.
const CONNECT_DEADLINE: Duration = Duration::from_secs(2);
/// How long a statement of a request may take.
const STATEMENT_DEADLINE: Duration = Duration::from_secs(2);
/// How long a statement may take that reads much: for the published copy, or many rules at once.
const BULK_DEADLINE: Duration = Duration::from_secs(15);

/// A parameter and its type.
pub(crate) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// A Postgres server.
#[derive(Clone)]
pub struct Postgres {
    connector: Connector,
    pool: Pool,
}

impl Postgres {
    /// The server of a URL; with a `signer` one logs in by IAM.
    ///
    /// # Errors
    /// What would be right; the URL, which may hold a password, is not quoted.
    pub(crate) fn parse(url: &str, signer: Option<Signer>) -> Result<Self, String> {
        let mut config: Config = url.parse().map_err(|error| malformed(&error))?;
        if config.get_hosts().is_empty() {
            return Err("must name a host".to_owned());
        }
        config
            .connect_timeout(CONNECT_DEADLINE)
            .tcp_user_timeout(STATEMENT_DEADLINE)
            .keepalives_idle(Duration::from_secs(30))
            .application_name("weir");
        let connector = match signer {
            Some(signer) => Connector::with_token(config, signer)?,
            None => Connector::with_password(config)?,
        };
        let manager = Manager::from_connect(
            connector.config().clone(),
            connector.clone(),
            ManagerConfig {
                // A function that was frozen may hold a connection that nobody is at the other end of.
                recycling_method: RecyclingMethod::Verified,
            },
        );
        let pool = Pool::builder(manager)
            .max_size(CONNECTIONS)
            .wait_timeout(Some(WAIT_DEADLINE))
            .create_timeout(Some(CONNECT_DEADLINE))
            .recycle_timeout(Some(RECYCLE_DEADLINE))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { connector, pool })
    }

    pub(crate) async fn connection(&self) -> Result<Connection, DatabaseError> {
        let client = self.pool.get().await.map_err(|error| {
            DatabaseError::Unavailable(match error {
                PoolError::Backend(error) => causes(&error),
                error => error.to_string(),
            })
        })?;
        Ok(Connection {
            client: Some(client),
            busy: false,
            demoted: false,
            in_transaction: false,
        })
    }
}

/// What is wrong with a URL. Of the driver's words only those that quote nothing are told.
fn malformed(error: &tokio_postgres::Error) -> String {
    let told = causes(error);
    if told.contains("`sslmode`") {
        "must have the sslmode disable, prefer or require: a certificate is always verified in full"
    } else if ["`sslrootcert`", "`sslcert`", "`sslkey`"]
        .iter()
        .any(|name| told.contains(name))
    {
        "must name no certificates: besides those that the system trusts, SSL_CERT_FILE names more"
    } else {
        "must be like postgres://user:password@host:5432/database"
    }
    .to_owned()
}

/// An error and what it was caused by.
fn causes(error: &dyn std::error::Error) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        told = format!("{told}: {error}");
        cause = error.source();
    }
    told
}

/// A connection out of the pool.
pub(crate) struct Connection {
    /// Taken out only by `drop`.
    client: Option<Object>,
    /// Whether a statement was sent that is not answered.
    busy: bool,
    /// Whether it leads to where nothing may be written, or not any more.
    demoted: bool,
    in_transaction: bool,
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(client) = self.client.take()
            && (self.busy || self.demoted || self.in_transaction)
        {
            // Closed, not given back: the next one must not read this one's answers, nor write in its transaction; and a new one may
            // lead to the server that took the place of this.
            drop(Object::take(client));
        }
    }
}

impl Connection {
    /// Awaits the answer to one statement.
    async fn answer<T>(
        &mut self,
        deadline: Duration,
        statement: impl AsyncFnOnce(&Object) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, DatabaseError> {
        let Some(client) = &self.client else {
            return Err(DatabaseError::Unexpected(
                "the connection is gone".to_owned(),
            ));
        };
        self.busy = true;
        let answer = timeout(deadline, statement(client)).await;
        match answer {
            Err(_) => Err(DatabaseError::Unavailable(format!(
                "no answer within {} s",
                deadline.as_secs()
            ))),
            Ok(answer) => {
                self.busy = client.is_closed();
                let demoted = |error: &tokio_postgres::Error| {
                    error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
                };
                self.demoted |= answer.as_ref().is_err_and(demoted);
                answer.map_err(told)
            }
        }
    }

    async fn rows(
        &mut self,
        deadline: Duration,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, DatabaseError> {
        self.answer(deadline, async |client| {
            client.query_typed(sql, parameters).await
        })
        .await
    }

    async fn execute(
        &mut self,
        deadline: Duration,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<(), DatabaseError> {
        self.answer(deadline, async |client| {
            client.execute_typed(sql, parameters).await
        })
        .await
        .map(|_| ())
    }
}

/// What an error of the driver means. The detail of a server's message may quote values and is left out.
fn told(error: tokio_postgres::Error) -> DatabaseError {
    let Some(server) = error.as_db_error() else {
        return if error.is_closed()
            || std::error::Error::source(&error).is_some_and(|s| s.is::<std::io::Error>())
        {
            DatabaseError::Unavailable(error.to_string())
        } else {
            DatabaseError::Unexpected(error.to_string())
        };
    };
    let code = server.code();
    let text = format!("{} ({})", server.message(), code.code());
    // Out of resources, shutting down, connection trouble, wrong password; a lock that was waited for too long, a transaction that
    // was ended; a node that may not write any more; a schema that is not there yet.
    let passing = ["08", "28", "53", "57", "58"]
        .iter()
        .any(|class| code.code().starts_with(class))
        || [
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
            SqlState::READ_ONLY_SQL_TRANSACTION,
            SqlState::UNDEFINED_TABLE,
            SqlState::INVALID_CATALOG_NAME,
        ]
        .contains(code);
    if passing {
        DatabaseError::Unavailable(text)
    } else {
        DatabaseError::Unexpected(text)
    }
}

/// One column of a row.
fn column<'a, T: tokio_postgres::types::FromSql<'a>>(
    row: &'a Row,
    index: usize,
) -> Result<T, DatabaseError> {
    row.try_get(index)
        .map_err(|error| DatabaseError::Unexpected(error.to_string()))
}

/// A number as SQL has it; none of ours comes near the bound.
fn bigint(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn revision(row: &Row, index: usize) -> Result<u64, DatabaseError> {
    column::<i64>(row, index).map(|n| u64::try_from(n).unwrap_or_default())
}

/// How many rows, as SQL has it.
fn rows_at_most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// The first column of each row, which is one record.
fn records<T: serde::de::DeserializeOwned>(rows: &[Row]) -> Result<Vec<T>, DatabaseError> {
    let mut records = Vec::with_capacity(rows.len());
    for row in rows {
        records.extend(crate::database::readable(column(row, 0)?));
    }
    Ok(records)
}

/// A list of parameters, each with its type.
macro_rules! with {
    ($($value:expr => $kind:ident),* $(,)?) => {
        &[$((&$value as &(dyn tokio_postgres::types::ToSql + Sync), tokio_postgres::types::Type::$kind)),*]
    };
}
use with;
