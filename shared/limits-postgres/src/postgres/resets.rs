//! Resets in Postgres.

use limits::registry::Resets;
use uuid::Uuid;

use super::{Connection, STATEMENT_DEADLINE, bigint, column, revision, with};
use crate::database::DatabaseError;
use crate::record::shown;

const PUT_RULE: &str = "
    INSERT INTO rule_resets (rule, generation) VALUES ($1, $2)
    ON CONFLICT (rule) DO UPDATE SET generation = excluded.generation";

const PUT_CLIENT: &str = "
    INSERT INTO client_resets (client_id, generation, generations) VALUES ($1, $2, $3)
    ON CONFLICT (client_id) DO UPDATE SET generation = excluded.generation, generations = excluded.generations";

impl Connection {
    pub(crate) async fn rule_generation(&mut self, rule: Uuid) -> Result<u64, DatabaseError> {
        let sql = "SELECT generation FROM rule_resets WHERE rule = $1";
        let rows = self
            .rows(STATEMENT_DEADLINE, sql, with![rule => UUID])
            .await?;
        rows.first().map_or(Ok(0), |row| revision(row, 0))
    }

    pub(crate) async fn put_rule_generation(
        &mut self,
        rule: Uuid,
        generation: u64,
    ) -> Result<(), DatabaseError> {
        let with = with![rule => UUID, bigint(generation) => INT8];
        self.execute(STATEMENT_DEADLINE, PUT_RULE, with).await
    }

    pub(crate) async fn client_resets(&mut self, client: &str) -> Result<Resets, DatabaseError> {
        let sql = "SELECT to_jsonb(client_resets) FROM client_resets WHERE client_id = $1";
        let rows = self
            .rows(STATEMENT_DEADLINE, sql, with![client => TEXT])
            .await?;
        match rows.first() {
            None => Ok(Resets::default()),
            // What is written next replaces it: it must be understood.
            Some(row) => serde_json::from_value(column(row, 0)?)
                .map_err(|error| DatabaseError::Unexpected(error.to_string())),
        }
    }

    pub(crate) async fn put_client_resets(
        &mut self,
        client: &str,
        resets: &Resets,
    ) -> Result<(), DatabaseError> {
        let with = with![
            client => TEXT,
            bigint(resets.generation) => INT8,
            shown(&resets.generations) => JSONB,
        ];
        self.execute(STATEMENT_DEADLINE, PUT_CLIENT, with).await
    }
}
