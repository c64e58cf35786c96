//! The registry in Postgres.

use uuid::Uuid;

use super::{Connection, STATEMENT_DEADLINE, bigint, column, records, rows_at_most, with};
use crate::database::DatabaseError;
use crate::record::{ClientRecord, KeyRecord};

const PUT_CLIENT: &str = "
    INSERT INTO clients (client_id, tier, status, principal, principal_name, may_ask, description, revision, created_at,
        updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
    ON CONFLICT (client_id) DO UPDATE SET
        tier = excluded.tier, status = excluded.status, principal = excluded.principal,
        principal_name = excluded.principal_name, may_ask = excluded.may_ask, description = excluded.description,
        revision = excluded.revision, updated_at = excluded.updated_at";

const PUT_KEY: &str = "
    INSERT INTO api_keys (key_id, client_id, hash, description, revision, created_at, expires_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7)";

impl Connection {
    pub(crate) async fn client(&mut self, id: &str) -> Result<Option<ClientRecord>, DatabaseError> {
        let sql = "SELECT to_jsonb(clients) FROM clients WHERE client_id = $1";
        let rows = self
            .rows(STATEMENT_DEADLINE, sql, with![id => TEXT])
            .await?;
        Ok(records(&rows)?.pop())
    }

    pub(crate) async fn list_clients(
        &mut self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ClientRecord>, DatabaseError> {
        let sql = "SELECT to_jsonb(clients) FROM clients WHERE $1::text IS NULL OR client_id > $1
            ORDER BY client_id LIMIT $2";
        let with = with![after => TEXT, rows_at_most(limit) => INT8];
        let rows = self.rows(STATEMENT_DEADLINE, sql, with).await?;
        records(&rows)
    }

    pub(crate) async fn client_of(
        &mut self,
        principal: &str,
    ) -> Result<Option<String>, DatabaseError> {
        let sql = "SELECT client_id FROM clients WHERE principal_name = $1";
        let rows = self
            .rows(STATEMENT_DEADLINE, sql, with![principal => TEXT])
            .await?;
        rows.first().map(|row| column(row, 0)).transpose()
    }

    pub(crate) async fn put_client(&mut self, client: &ClientRecord) -> Result<(), DatabaseError> {
        let with = with![
            client.client_id => TEXT,
            client.tier.as_str() => TEXT,
            client.status.as_str() => TEXT,
            client.principal => TEXT,
            client.principal_name() => TEXT,
            client.may_ask.as_str() => TEXT,
            client.description => TEXT,
            bigint(client.revision) => INT8,
            client.created_at => TIMESTAMPTZ,
            client.updated_at => TIMESTAMPTZ,
        ];
        self.execute(STATEMENT_DEADLINE, PUT_CLIENT, with).await
    }

    pub(crate) async fn remove_client(&mut self, id: &str) -> Result<(), DatabaseError> {
        let sql = "DELETE FROM clients WHERE client_id = $1";
        self.execute(STATEMENT_DEADLINE, sql, with![id => TEXT])
            .await
    }

    pub(crate) async fn keys(
        &mut self,
        client: &str,
        after: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<KeyRecord>, DatabaseError> {
        let sql = "SELECT to_jsonb(api_keys) FROM api_keys
            WHERE client_id = $1 AND ($2::uuid IS NULL OR key_id > $2) ORDER BY key_id LIMIT $3";
        let with = with![client => TEXT, after => UUID, rows_at_most(limit) => INT8];
        let rows = self.rows(STATEMENT_DEADLINE, sql, with).await?;
        records(&rows)
    }

    pub(crate) async fn key(&mut self, id: Uuid) -> Result<Option<KeyRecord>, DatabaseError> {
        let sql = "SELECT to_jsonb(api_keys) FROM api_keys WHERE key_id = $1";
        let rows = self
            .rows(STATEMENT_DEADLINE, sql, with![id => UUID])
            .await?;
        Ok(records(&rows)?.pop())
    }

    pub(crate) async fn put_key(&mut self, key: &KeyRecord) -> Result<(), DatabaseError> {
        let with = with![
            key.key_id => UUID,
            key.client_id => TEXT,
            key.hash => TEXT,
            key.description => TEXT,
            bigint(key.revision) => INT8,
            key.created_at => TIMESTAMPTZ,
            key.expires_at => TIMESTAMPTZ,
        ];
        self.execute(STATEMENT_DEADLINE, PUT_KEY, with).await
    }

    pub(crate) async fn remove_key(&mut self, id: Uuid) -> Result<(), DatabaseError> {
        let sql = "DELETE FROM api_keys WHERE key_id = $1";
        self.execute(STATEMENT_DEADLINE, sql, with![id => UUID])
            .await
    }
}
