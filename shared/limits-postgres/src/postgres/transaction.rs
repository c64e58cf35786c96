//! A write as one transaction.

use serde_json::Value;
use time::OffsetDateTime;
use tokio_postgres::SimpleQueryMessage;
use uuid::Uuid;

use super::{BULK_DEADLINE, Connection, STATEMENT_DEADLINE, bigint, column, with};
use crate::database::DatabaseError;
use crate::record::shown;
use crate::write::{Begun, Sealing};

/// The head's row is locked before anything is read, at an isolation where what is read later is what was committed until then.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; \
    UPDATE head SET revision = revision + 1, id = gen_random_uuid() \
    RETURNING revision, id, floor(extract(epoch FROM clock_timestamp()))::bigint";

const SEAL: &str = "
    WITH the_revision AS (
        INSERT INTO revisions (revision, id, at, actor) VALUES ($1, $2, to_timestamp($3), $4)
    ), the_chunks AS (
        INSERT INTO rule_chunks (chunk, revision) SELECT unnest($5), $1
        ON CONFLICT (chunk) DO UPDATE SET revision = excluded.revision
    ), the_names AS (
        INSERT INTO registry_names (kind, id, lane, revision, creation)
        SELECT name.kind, name.id, name.lane, $1, true FROM unnest($6, $7, $8) AS name (kind, id, lane)
        ON CONFLICT (kind, id) DO UPDATE SET revision = excluded.revision, creation = false
    ), the_lanes AS (
        INSERT INTO registry_lanes (lane, revision) SELECT DISTINCT unnest($8), $1
        ON CONFLICT (lane) DO UPDATE SET revision = excluded.revision
    )
    INSERT INTO audit (revision, position, action, rule, clients, key_id, before, after)
    SELECT $1, position, action, rule, clients, key_id, before, after
    FROM jsonb_to_recordset($9) AS note
        (position int, action text, rule uuid, clients text[], key_id uuid, before jsonb, after jsonb)";

impl Connection {
    pub(crate) async fn begin(&mut self) -> Result<Begun, DatabaseError> {
        self.in_transaction = true;
        let begun = self
            .answer(STATEMENT_DEADLINE, async |client| {
                client.simple_query(BEGIN).await
            })
            .await;
        match begun {
            Ok(messages) => begun_by(&messages),
            Err(error) => {
                // Whoever waited in vain for the lock keeps the connection.
                let _ = self.roll_back().await;
                match self.demoted && self.follows().await {
                    true => Err(DatabaseError::Follows),
                    false => Err(error),
                }
            }
        }
    }

    /// Whether this leads to a replica; to a primary that was only set to read, it does not.
    async fn follows(&mut self) -> bool {
        let rows = self
            .rows(STATEMENT_DEADLINE, "SELECT pg_is_in_recovery()", &[])
            .await;
        rows.ok()
            .and_then(|rows| column(rows.first()?, 0).ok())
            .unwrap_or_default()
    }

    pub(crate) async fn seal(&mut self, sealing: &Sealing) -> Result<(), DatabaseError> {
        let Begun { revision, id, at } = sealing.begun;
        let chunks: Vec<i16> = sealing
            .chunks
            .iter()
            .filter_map(|chunk| i16::try_from(*chunk).ok())
            .collect();
        let kinds: Vec<&str> = sealing.names.iter().map(|name| name.kind()).collect();
        let ids: Vec<&str> = sealing.names.iter().map(|name| name.id()).collect();
        let lanes: Vec<i16> = sealing
            .names
            .iter()
            .map(|name| i16::from(name.lane().0))
            .collect();
        let notes: Vec<Value> = sealing.audit.iter().map(note).collect();
        self.execute(
            BULK_DEADLINE,
            SEAL,
            with![
                bigint(revision) => INT8,
                id => UUID,
                at.unix_timestamp() as f64 => FLOAT8,
                sealing.actor => TEXT,
                chunks => INT2_ARRAY,
                kinds => TEXT_ARRAY,
                ids => TEXT_ARRAY,
                lanes => INT2_ARRAY,
                Value::Array(notes) => JSONB,
            ],
        )
        .await
    }

    pub(crate) async fn commit(&mut self) -> Result<(), DatabaseError> {
        let committed = self
            .answer(STATEMENT_DEADLINE, async |client| {
                client.batch_execute("COMMIT").await
            })
            .await;
        match committed {
            Ok(()) => {
                self.in_transaction = false;
                Ok(())
            }
            Err(DatabaseError::Unavailable(why)) => Err(DatabaseError::Undecided(why)),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn roll_back(&mut self) -> Result<(), DatabaseError> {
        if self.busy {
            // Nobody listens: closing it undoes the same.
            return Ok(());
        }
        self.answer(STATEMENT_DEADLINE, async |client| {
            client.batch_execute("ROLLBACK").await
        })
        .await?;
        self.in_transaction = false;
        Ok(())
    }
}

/// An audit row without its nulls: a JSON null in a column of JSON is a value, and there is none.
fn note(record: &crate::record::AuditRecord) -> Value {
    let mut note = shown(record);
    if let Some(fields) = note.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    note
}

fn begun_by(messages: &[SimpleQueryMessage]) -> Result<Begun, DatabaseError> {
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let read = || -> Option<Begun> {
        let row = row?;
        let seconds: i64 = row.get(2)?.parse().ok()?;
        Some(Begun {
            revision: row.get(0)?.parse().ok()?,
            id: Uuid::try_parse(row.get(1)?).ok()?,
            at: OffsetDateTime::from_unix_timestamp(seconds).ok()?,
        })
    };
    read().ok_or_else(|| DatabaseError::Unexpected("the head has no row".to_owned()))
}
