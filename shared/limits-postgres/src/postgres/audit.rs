//! Who did what, in Postgres.

use uuid::Uuid;

use super::{Connection, STATEMENT_DEADLINE, bigint, records, rows_at_most, with};
use crate::database::DatabaseError;
use crate::record::AuditRecord;

const AUDIT: &str = "
    SELECT to_jsonb(audit) || jsonb_build_object('at', revisions.at, 'actor', revisions.actor)
    FROM audit JOIN revisions USING (revision)
    WHERE ($1::uuid IS NULL OR rule = $1)
        AND ($2::text IS NULL OR clients @> ARRAY[$2])
        AND (audit.revision, position) > ($3, $4)
    ORDER BY audit.revision, position LIMIT $5";

impl Connection {
    pub(crate) async fn audit(
        &mut self,
        rule: Option<Uuid>,
        client: Option<&str>,
        after: Option<(u64, u32)>,
        limit: usize,
    ) -> Result<Vec<AuditRecord>, DatabaseError> {
        let (revision, position) = after.map_or((-1, -1), |(revision, position)| {
            (
                bigint(revision),
                i32::try_from(position).unwrap_or(i32::MAX),
            )
        });
        let rows = self
            .rows(
                STATEMENT_DEADLINE,
                AUDIT,
                with![
                    rule => UUID,
                    client => TEXT,
                    revision => INT8,
                    position => INT4,
                    rows_at_most(limit) => INT8,
                ],
            )
            .await?;
        records(&rows)
    }
}
