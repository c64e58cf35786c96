//! Rules, registry, revisions and audit in Postgres, or in memory.
