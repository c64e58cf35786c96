//! Rules in Postgres.

use limits::Place;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{BULK_DEADLINE, Connection, STATEMENT_DEADLINE, column, records, rows_at_most, with};
use crate::database::{DatabaseError, readable};
use crate::record::{RuleRecord, shown};
use crate::session::{RuleFilter, StoredRule, Whose};

/// In two parts, so that each can go by the index: `IS NOT DISTINCT FROM` cannot, and a pattern may have a rule for each of a
/// hundred thousand clients.
const RULES_IN: &str = r#"
    WITH place AS (
        SELECT * FROM jsonb_to_recordset($1)
            AS place (pattern text, client text, tier text, per text, algorithm text, time_window bigint)
    )
    SELECT to_jsonb(rules) FROM place JOIN rules
        ON rules.pattern_digest = md5(place.pattern) AND rules.client = place.client
        AND rules.pattern = place.pattern AND rules.tier IS NOT DISTINCT FROM place.tier
        AND (rules.per, rules.algorithm, rules.time_window) = (place.per, place.algorithm, place.time_window)
    UNION ALL
    SELECT to_jsonb(rules) FROM place JOIN rules
        ON rules.pattern_digest = md5(place.pattern) AND rules.client IS NULL AND place.client IS NULL
        AND rules.pattern = place.pattern AND rules.tier IS NOT DISTINCT FROM place.tier
        AND (rules.per, rules.algorithm, rules.time_window) = (place.per, place.algorithm, place.time_window)"#;

const RULES_OF_ANYBODY: &str = r#"
    SELECT to_jsonb(rules), place FROM unnest($1) WITH ORDINALITY AS met (pattern, place) JOIN rules
        ON rules.pattern_digest = md5(met.pattern) AND rules.pattern = met.pattern
    WHERE rules.status <> 'terminated' AND (place, rules.id) > ($2, $3)
    ORDER BY place, rules.id LIMIT $4"#;

/// In two parts for the same reason.
const RULES_OF_SOME: &str = r#"
    SELECT * FROM (
        SELECT to_jsonb(rules), place, rules.id FROM unnest($1) WITH ORDINALITY AS met (pattern, place) JOIN rules
            ON rules.pattern_digest = md5(met.pattern) AND rules.client IS NULL AND rules.pattern = met.pattern
        WHERE rules.status <> 'terminated'
        UNION ALL
        SELECT to_jsonb(rules), place, rules.id FROM unnest($1) WITH ORDINALITY AS met (pattern, place) JOIN rules
            ON rules.pattern_digest = md5(met.pattern) AND rules.client = ANY ($5) AND rules.pattern = met.pattern
        WHERE rules.status <> 'terminated'
    ) AS met
    WHERE (place, id) > ($2, $3)
    ORDER BY place, id LIMIT $4"#;

/// The client is compared twice, since only the second comparison can go by the index.
const LIST_RULES: &str = r#"
    SELECT to_jsonb(rules) FROM rules
    WHERE ($1 OR client IS NOT DISTINCT FROM $2) AND ($1 OR $2 IS NULL OR client = $2)
        AND ($3 OR tier IS NOT DISTINCT FROM $4)
        AND ($5::text IS NULL OR status = $5)
        AND ($6::text IS NULL OR (pattern_digest = md5($6) AND pattern = $6))
        AND ($7::text IS NULL OR per = $7)
        AND ($8::uuid IS NULL OR id > $8)
    ORDER BY id LIMIT $9"#;

const PUT_RULES: &str = r#"
    INSERT INTO rules (id, resource, pattern, head, client, tier, per, "override", split, algorithm, "limit", time_window, burst,
        on_failure, status, description, chunk, revision, created_at, updated_at)
    SELECT id, resource, pattern, head, client, tier, per, "override", split, algorithm, "limit", time_window, burst,
        on_failure, status, description, chunk, revision, created_at, updated_at
    FROM jsonb_populate_recordset(NULL::rules, $1)
    ON CONFLICT (id) DO UPDATE SET
        resource = excluded.resource, pattern = excluded.pattern, head = excluded.head, client = excluded.client,
        tier = excluded.tier, per = excluded.per, "override" = excluded."override", split = excluded.split,
        algorithm = excluded.algorithm, "limit" = excluded."limit", time_window = excluded.time_window, burst = excluded.burst,
        on_failure = excluded.on_failure, status = excluded.status, description = excluded.description,
        revision = excluded.revision, updated_at = excluded.updated_at"#;

impl Connection {
    pub(crate) async fn rules_by_id(
        &mut self,
        ids: &[Uuid],
    ) -> Result<Vec<RuleRecord>, DatabaseError> {
        let rows = self
            .rows(
                STATEMENT_DEADLINE,
                "SELECT to_jsonb(rules) FROM rules WHERE id = ANY ($1)",
                with![ids => UUID_ARRAY],
            )
            .await?;
        records(&rows)
    }

    pub(crate) async fn rules_in(
        &mut self,
        places: &[Place],
    ) -> Result<Vec<RuleRecord>, DatabaseError> {
        let places = Value::Array(places.iter().map(shown).collect());
        let rows = self
            .rows(BULK_DEADLINE, RULES_IN, with![places => JSONB])
            .await?;
        records(&rows)
    }

    pub(crate) async fn patterns(
        &mut self,
        heads: &[String],
    ) -> Result<Vec<String>, DatabaseError> {
        let rows = self
            .rows(
                BULK_DEADLINE,
                "SELECT DISTINCT pattern FROM rules WHERE head = ANY ($1)",
                with![heads => TEXT_ARRAY],
            )
            .await?;
        rows.iter().map(|row| column(row, 0)).collect()
    }

    pub(crate) async fn rules_of(
        &mut self,
        patterns: &[String],
        whose: Whose<'_>,
        after: Option<(usize, Uuid)>,
        limit: usize,
    ) -> Result<Vec<(usize, RuleRecord)>, DatabaseError> {
        // Places count from 1 in SQL, so that 0 is before all.
        let (place, id) = after.map_or((0, Uuid::nil()), |(place, id)| {
            (rows_at_most(place) + 1, id)
        });
        let limit = rows_at_most(limit);
        let rows = match whose {
            Whose::Anybody => {
                let with = with![patterns => TEXT_ARRAY, place => INT8, id => UUID, limit => INT8];
                self.rows(BULK_DEADLINE, RULES_OF_ANYBODY, with).await?
            }
            Whose::Shared(clients) => {
                let with = with![
                    patterns => TEXT_ARRAY, place => INT8, id => UUID, limit => INT8, clients => TEXT_ARRAY,
                ];
                self.rows(BULK_DEADLINE, RULES_OF_SOME, with).await?
            }
        };
        let mut rules = Vec::with_capacity(rows.len());
        for row in &rows {
            let place: i64 = column(row, 1)?;
            let place = usize::try_from(place - 1).unwrap_or_default();
            rules.extend(readable(column(row, 0)?).map(|rule| (place, rule)));
        }
        Ok(rules)
    }

    pub(crate) async fn list_rules(
        &mut self,
        filter: &RuleFilter,
        after: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<RuleRecord>, DatabaseError> {
        let client = filter.client.clone().flatten();
        let tier = filter.tier.flatten().map(|tier| tier.as_str());
        let status = filter.status.map(|status| status.as_str());
        let per = filter.per.map(|per| per.as_str());
        let rows = self
            .rows(
                STATEMENT_DEADLINE,
                LIST_RULES,
                with![
                    filter.client.is_none() => BOOL,
                    client => TEXT,
                    filter.tier.is_none() => BOOL,
                    tier => TEXT,
                    status => TEXT,
                    filter.pattern => TEXT,
                    per => TEXT,
                    after => UUID,
                    rows_at_most(limit) => INT8,
                ],
            )
            .await?;
        records(&rows)
    }

    pub(crate) async fn put_rules(&mut self, rules: &[StoredRule]) -> Result<(), DatabaseError> {
        let rules = rules
            .iter()
            .map(|rule| {
                let mut row = shown(&rule.record);
                row["pattern"] = json!(rule.place.pattern);
                row["head"] = json!(rule.head);
                row["chunk"] = json!(rule.chunk);
                row
            })
            .collect();
        self.execute(
            BULK_DEADLINE,
            PUT_RULES,
            with![Value::Array(rules) => JSONB],
        )
        .await
    }

    pub(crate) async fn remove_rules(&mut self, ids: &[Uuid]) -> Result<(), DatabaseError> {
        self.execute(
            BULK_DEADLINE,
            "DELETE FROM rules WHERE id = ANY ($1)",
            with![ids => UUID_ARRAY],
        )
        .await
    }
}
