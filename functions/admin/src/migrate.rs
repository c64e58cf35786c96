//! Pending schema migrations.

use lambda_runtime::{Diagnostic, LambdaEvent};
use limits_postgres::{Database, DatabaseError};
use serde::Serialize;
use serde_json::Value;
use tracing::info;

/// What was done.
#[derive(Debug, Serialize)]
pub struct Migrated {
    /// The migrations that were applied now, in their order.
    pub applied: Vec<String>,
}

/// Applies what is pending, whatever the event says: by hand it is `{}`. Twice and at once are safe.
///
/// # Errors
/// Where the database is out, or its schema is not one that this version comes after.
pub async fn handle(
    database: &Database,
    _event: LambdaEvent<Value>,
) -> Result<Migrated, Diagnostic> {
    match database.migrate().await {
        Ok(applied) => {
            info!(?applied, "the schema is up to date");
            Ok(Migrated { applied })
        }
        Err(error) => Err(Diagnostic {
            error_type: match error {
                DatabaseError::Unavailable(_) | DatabaseError::Undecided(_) => "DatabaseOut",
                DatabaseError::Follows | DatabaseError::Unexpected(_) => "MigrationFailed",
            }
            .to_owned(),
            error_message: error.to_string(),
        }),
    }
}
