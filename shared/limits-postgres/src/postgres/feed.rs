//! What the published copy is made from, in Postgres: each answer is one statement, so that it is one snapshot.

use std::time::Duration;

use limits::registry::{Name, Resets};
use limits::{Client, Lane};
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    BULK_DEADLINE, Connection, STATEMENT_DEADLINE, bigint, column, revision, rows_at_most, with,
};
use crate::database::{DatabaseError, readable};
use crate::feed::{Changes, Head, RegistryChange, entry_of};
use crate::record::ClientRecord;

const CHANGES: &str = "
    WITH since AS (
        SELECT EXISTS (SELECT FROM revisions WHERE revision = $1 AND id = $2) AS known
    )
    SELECT head.revision, head.id, known,
        CASE WHEN known
            THEN ARRAY(SELECT chunk FROM rule_chunks WHERE revision > $1 ORDER BY chunk)
            ELSE ARRAY(SELECT generate_series(0, $3)::smallint)
        END,
        CASE WHEN known
            THEN (SELECT jsonb_agg(to_jsonb(name) ORDER BY revision) FROM registry_names AS name WHERE revision > $1)
            ELSE (SELECT jsonb_agg(to_jsonb(name) ORDER BY revision) FROM (
                SELECT DISTINCT ON (lane) * FROM registry_names ORDER BY lane, revision DESC
            ) AS name)
        END,
        pg_is_in_recovery(),
        (
            SELECT floor(greatest(0, extract(epoch FROM clock_timestamp() - at)) * 1000)::bigint
            FROM revisions WHERE known AND revision > $1 ORDER BY revision LIMIT 1
        )
    FROM head, since";

/// One that has replayed all that it was sent is not behind, however long nothing was written; one that nobody sends anything may be.
const REPLICA_LAG: &str = "
    SELECT CASE
        WHEN NOT pg_is_in_recovery() THEN NULL
        WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() AND EXISTS (SELECT FROM pg_stat_wal_receiver) THEN 0
        ELSE floor(greatest(0, extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())) * 1000)
    END::bigint";

const CHUNKS: &str = "
    SELECT head.revision, head.id, rules.chunk,
        to_jsonb(rules) - ARRAY['pattern', 'pattern_digest', 'head', 'chunk', 'created_at', 'updated_at']
            || CASE WHEN rule IS NULL THEN '{}' ELSE jsonb_build_object('generation', generation) END
    FROM head LEFT JOIN rules ON rules.chunk = ANY ($1) LEFT JOIN rule_resets ON rule = rules.id";

const ENTRIES: &str = "
    SELECT head.revision, head.id, place, to_jsonb(clients), floor(extract(epoch FROM api_keys.expires_at))::bigint,
        to_jsonb(client_resets)
    FROM head
    LEFT JOIN unnest($1, $2) WITH ORDINALITY AS name (kind, id, place) ON true
    LEFT JOIN api_keys ON name.kind = 'key' AND api_keys.hash = name.id
    LEFT JOIN clients AS owner ON name.kind = 'principal' AND owner.principal_name = name.id
    LEFT JOIN clients ON clients.client_id = CASE name.kind
        WHEN 'client' THEN name.id
        WHEN 'key' THEN api_keys.client_id
        ELSE owner.client_id
    END
    LEFT JOIN client_resets ON client_resets.client_id = CASE name.kind
        WHEN 'client' THEN name.id
        ELSE clients.client_id
    END
    ORDER BY place";

/// The head that stands in the first two columns.
fn head_of(row: &Row) -> Result<Head, DatabaseError> {
    Ok(Head {
        revision: revision(row, 0)?,
        id: column(row, 1)?,
    })
}

fn no_head() -> DatabaseError {
    DatabaseError::Unexpected("the head has no row".to_owned())
}

fn name_of(kind: &str, id: String) -> Result<Name, DatabaseError> {
    Name::from_parts(kind, id)
        .ok_or_else(|| DatabaseError::Unexpected("a name of an unknown kind".to_owned()))
}

fn names(rows: &[Row]) -> Result<Vec<Name>, DatabaseError> {
    rows.iter()
        .map(|row| name_of(column(row, 0)?, column(row, 1)?))
        .collect()
}

/// A row of `registry_names`.
#[derive(serde::Deserialize)]
struct NamedRow {
    kind: String,
    id: String,
    revision: u64,
    creation: bool,
}

impl Connection {
    pub(crate) async fn head(&mut self) -> Result<Head, DatabaseError> {
        let rows = self
            .rows(STATEMENT_DEADLINE, "SELECT revision, id FROM head", &[])
            .await?;
        head_of(rows.first().ok_or_else(no_head)?)
    }

    pub(crate) async fn replica_lag(&mut self) -> Result<Option<Duration>, DatabaseError> {
        let rows = self.rows(STATEMENT_DEADLINE, REPLICA_LAG, &[]).await?;
        let lag: Option<i64> = match rows.first() {
            Some(row) => column(row, 0)?,
            None => None,
        };
        Ok(lag.map(|ms| Duration::from_millis(ms.unsigned_abs())))
    }

    pub(crate) async fn changes(&mut self, since: Option<Head>) -> Result<Changes, DatabaseError> {
        // No revision is negative: nothing is known by this one.
        let (since, id) = since.map_or((-1, Uuid::nil()), |head| (bigint(head.revision), head.id));
        let last_chunk = i32::from(limits::CHUNKS) - 1;
        let rows = self
            .rows(
                BULK_DEADLINE,
                CHANGES,
                with![since => INT8, id => UUID, last_chunk => INT4],
            )
            .await?;
        let row = rows.first().ok_or_else(no_head)?;
        let chunks: Vec<i16> = column(row, 3)?;
        let registry: Option<Value> = column(row, 4)?;
        let oldest_ms: Option<i64> = column(row, 6)?;
        let registry: Vec<NamedRow> =
            serde_json::from_value(registry.unwrap_or_else(|| Value::Array(Vec::new())))
                .map_err(|error| DatabaseError::Unexpected(error.to_string()))?;
        Ok(Changes {
            head: head_of(row)?,
            known: column(row, 2)?,
            follows: column(row, 5)?,
            oldest: oldest_ms.map(|ms| Duration::from_millis(ms.unsigned_abs())),
            chunks: chunks
                .into_iter()
                .filter_map(|chunk| u16::try_from(chunk).ok())
                .collect(),
            registry: registry
                .into_iter()
                .map(|row| {
                    Ok(RegistryChange {
                        revision: row.revision,
                        name: name_of(&row.kind, row.id)?,
                        creation: row.creation,
                    })
                })
                .collect::<Result<_, DatabaseError>>()?,
        })
    }

    pub(crate) async fn chunks(
        &mut self,
        chunks: &[u16],
    ) -> Result<(Head, Vec<(u16, Value)>), DatabaseError> {
        let chunks: Vec<i16> = chunks
            .iter()
            .filter_map(|chunk| i16::try_from(*chunk).ok())
            .collect();
        let rows = self
            .rows(BULK_DEADLINE, CHUNKS, with![chunks => INT2_ARRAY])
            .await?;
        let head = head_of(rows.first().ok_or_else(no_head)?)?;
        let mut rules = Vec::with_capacity(rows.len());
        for row in &rows {
            let chunk: Option<i16> = column(row, 2)?;
            if let Some(chunk) = chunk.and_then(|chunk| u16::try_from(chunk).ok()) {
                rules.push((chunk, column(row, 3)?));
            }
        }
        Ok((head, rules))
    }

    pub(crate) async fn lane_revisions(&mut self) -> Result<Vec<(Lane, u64)>, DatabaseError> {
        let sql = "SELECT lane, revision FROM registry_lanes ORDER BY lane";
        let rows = self.rows(STATEMENT_DEADLINE, sql, &[]).await?;
        rows.iter()
            .map(|row| {
                let lane: i16 = column(row, 0)?;
                Ok((
                    Lane(u8::try_from(lane).unwrap_or_default()),
                    revision(row, 1)?,
                ))
            })
            .collect()
    }

    pub(crate) async fn lane_changes(
        &mut self,
        lane: Lane,
        since: u64,
    ) -> Result<Vec<Name>, DatabaseError> {
        let sql = "SELECT kind, id FROM registry_names WHERE lane = $1 AND revision > $2 ORDER BY kind, id";
        let with = with![i16::from(lane.0) => INT2, bigint(since) => INT8];
        let rows = self.rows(BULK_DEADLINE, sql, with).await?;
        names(&rows)
    }

    pub(crate) async fn lane_names(
        &mut self,
        lane: Lane,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<Name>, DatabaseError> {
        let sql = "SELECT kind, id FROM registry_names WHERE lane = $1 AND (kind, id) > ($2, $3)
            ORDER BY kind, id LIMIT $4";
        // No kind is empty: this is before all.
        let (kind, id) = after.map_or(("", ""), |name| (name.kind(), name.id()));
        let with = with![
            i16::from(lane.0) => INT2, kind => TEXT, id => TEXT, rows_at_most(limit) => INT8,
        ];
        let rows = self.rows(BULK_DEADLINE, sql, with).await?;
        names(&rows)
    }

    pub(crate) async fn entries(
        &mut self,
        asked: &[Name],
    ) -> Result<(Head, Vec<(Name, Option<Client>)>), DatabaseError> {
        let kinds: Vec<&str> = asked.iter().map(Name::kind).collect();
        let ids: Vec<&str> = asked.iter().map(Name::id).collect();
        let rows = self
            .rows(
                BULK_DEADLINE,
                ENTRIES,
                with![kinds => TEXT_ARRAY, ids => TEXT_ARRAY],
            )
            .await?;
        let head = head_of(rows.first().ok_or_else(no_head)?)?;
        let mut entries = Vec::with_capacity(asked.len());
        for row in &rows {
            let place: Option<i64> = column(row, 2)?;
            let name = place
                .and_then(|place| usize::try_from(place - 1).ok())
                .and_then(|place| asked.get(place));
            let Some(name) = name else { continue };
            let client: Option<Value> = column(row, 3)?;
            let expires_at: Option<i64> = column(row, 4)?;
            let resets: Option<Value> = column(row, 5)?;
            let client = client.map(readable::<ClientRecord>);
            let entry = match (client, resets.map_or(Some(Resets::default()), readable)) {
                // One that cannot be read is not told at all.
                (Some(None), _) | (_, None) => continue,
                (client, Some(resets)) => entry_of(name.id(), client.flatten(), resets),
            };
            let entry = entry.map(|client| Client {
                expires_at,
                ..client
            });
            entries.push((name.clone(), entry));
        }
        Ok((head, entries))
    }
}
