//! Pending schema migrations, and what a deployment puts into a database beside them.
//!
//! By hand the event is `{}`. A deployment sends what CloudFormation asks of a custom resource (`request`): then the role that
//! functions log in as and the [`canary`] follow the migrations, and CloudFormation is told (`answer`), whatever happens: a
//! stack that hears nothing waits for an hour.

mod answer;
pub mod canary;
mod request;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws::metrics::MIGRATION_FAILURES;
use lambda_runtime::{Diagnostic, LambdaEvent};
use limits_postgres::admit::AdmitError;
use limits_postgres::{Database, DatabaseError, WriteError};
use serde::Serialize;
use serde_json::Value;
use tokio::time::timeout;
use tracing::{error, info};

use self::answer::{Answer, DeliveryError};
use self::request::{Properties, Request, RequestType};

/// How long one invocation may take where its deadline is not known.
const USUAL_TIME: Duration = Duration::from_secs(300);

/// What is kept of that time to tell CloudFormation.
const TIME_TO_ANSWER: Duration = Duration::from_secs(20);

/// What was done.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Done {
    /// Migrations were applied.
    Migrated {
        /// Those that were applied now, in their order.
        applied: Vec<String>,
    },
    /// CloudFormation was told so.
    Answered(Answer),
}

impl Done {
    fn is_success(&self) -> bool {
        match self {
            Done::Migrated { .. } => true,
            Done::Answered(answer) => answer.is_success(),
        }
    }
}

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// The event is neither `{}` nor what CloudFormation sends.
    #[error("the event must be {{}}, or a request of CloudFormation: {0}")]
    Event(serde_json::Error),
    /// The custom resource has a property that cannot be.
    #[error("{property} {detail}")]
    Property {
        /// Its name.
        property: &'static str,
        /// What would be right.
        detail: String,
    },
    /// The canary cannot be registered.
    #[error("the canary is not registered: {0}")]
    Canary(WriteError),
    /// The database is out, or its schema is not one that this version comes after.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The time was over.
    #[error("not done within {} s; what has begun may still be done", .0.as_secs())]
    Late(Duration),
    /// CloudFormation could not be told.
    #[error("CloudFormation was not told: {0}")]
    Delivery(#[from] DeliveryError),
}

impl From<MigrateError> for Diagnostic {
    fn from(error: MigrateError) -> Self {
        let error_type = match &error {
            MigrateError::Event(_) => "BadEvent",
            MigrateError::Property { .. } => "BadProperty",
            MigrateError::Canary(_) => "CanaryNotRegistered",
            MigrateError::Database(DatabaseError::Unavailable(_) | DatabaseError::Undecided(_)) => {
                "DatabaseOut"
            }
            MigrateError::Database(DatabaseError::Follows | DatabaseError::Unexpected(_)) => {
                "MigrationFailed"
            }
            MigrateError::Late(_) => "OutOfTime",
            MigrateError::Delivery(_) => "CloudFormationNotTold",
        };
        Self {
            error_type: error_type.to_owned(),
            error_message: error.to_string(),
        }
    }
}

/// Applies what is pending, and does what CloudFormation asks where it is that which asks. Twice and at once are safe.
///
/// # Errors
/// By hand, where the database is out, or its schema is not one that this version comes after. Where CloudFormation asks, only if
/// it could not be told: Lambda would try again whatever else failed, and who has been told does not listen any more.
pub async fn handle(database: &Database, event: LambdaEvent<Value>) -> Result<Done, MigrateError> {
    let done = invoked(database, event).await;
    if !done.as_ref().is_ok_and(Done::is_success) {
        MIGRATION_FAILURES.add(1);
    }
    done
}

async fn invoked(database: &Database, event: LambdaEvent<Value>) -> Result<Done, MigrateError> {
    let (event, context) = event.into_parts();
    if event.get("RequestType").is_none() {
        let applied = migrate(database).await?;
        return Ok(Done::Migrated { applied });
    }
    let request = Request::read(event).map_err(MigrateError::Event)?;
    let time = time_left(context.deadline, SystemTime::now());
    let time_to_answer = TIME_TO_ANSWER.min(time / 2);
    let time_to_work = time - time_to_answer;
    let worked = timeout(time_to_work, work(database, &request)).await;
    let worked = worked.unwrap_or(Err(MigrateError::Late(time_to_work)));
    if let Err(error) = &worked {
        error!(%error, "CloudFormation is told that this failed");
    }
    let answer = Answer::of(&request, worked);
    let delivery = timeout(time_to_answer, answer.deliver(&request)).await;
    delivery.unwrap_or(Err(DeliveryError::Late(time_to_answer)))?;
    Ok(Done::Answered(answer))
}

/// How long the invocation may still take. A deadline that has passed was never one: `cargo lambda watch` has none.
fn time_left(deadline_ms: u64, now: SystemTime) -> Duration {
    let deadline = UNIX_EPOCH + Duration::from_millis(deadline_ms);
    deadline.duration_since(now).unwrap_or(USUAL_TIME)
}

async fn work(database: &Database, request: &Request) -> Result<Vec<String>, MigrateError> {
    if request.request_type == RequestType::Delete {
        // What a stack leaves behind is the operators' to keep or to drop.
        return Ok(Vec::new());
    }
    let properties = Properties::read(&request.resource_properties)?;
    let applied = migrate(database).await?;
    if let Some(role) = &properties.database_role {
        database.admit(role).await.map_err(|error| match error {
            AdmitError::Refused(detail) => MigrateError::Property {
                property: "DatabaseRole",
                detail,
            },
            AdmitError::Database(error) => error.into(),
        })?;
        info!(role, "the role of the functions is admitted");
    }
    if let Some(principal) = &properties.canary_principal {
        canary::register(database, principal).await?;
        info!(principal, "the canary is registered");
    }
    Ok(applied)
}

async fn migrate(database: &Database) -> Result<Vec<String>, DatabaseError> {
    let applied = database.migrate().await?;
    info!(?applied, "the schema is up to date");
    Ok(applied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_in_the_past_is_not_known() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000);
        assert_eq!(time_left(1_030_000, now), Duration::from_secs(30));
        assert_eq!(time_left(600_000, now), USUAL_TIME);
        assert_eq!(time_left(0, now), USUAL_TIME);
    }
}
