//! Why an operation has no good answer, as the problem that the caller is told.

use axum::http::StatusCode;
use axum::http::header::ETAG;
use axum::response::{IntoResponse, Response};
use http_events::Problem;
use limits::Fault;
use limits::registry::MOST_RESET;
use limits_postgres::{DatabaseError, Refusal, WriteError};
use tracing::error;

use crate::answer::etag;

/// A problem, whatever it came of.
#[derive(Debug)]
pub(crate) struct Failure(Problem);

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<DatabaseError> for Failure {
    fn from(error: DatabaseError) -> Self {
        Self(match error {
            DatabaseError::Unavailable(reason) => {
                error!(reason, "the database is out");
                Problem::store_out("the database is out; nothing was changed")
            }
            DatabaseError::Undecided(reason) => {
                error!(reason, "the database was lost while it wrote");
                Problem::store_out(
                    "the database was lost while it wrote: look whether the change was made before you try again",
                )
            }
            DatabaseError::Follows => conflict(
                "this region follows another: its database is a replica, which only reads. Write where the primary is, through the \
                 control API of its region; nothing was changed",
            ),
            DatabaseError::Unexpected(reason) => {
                error!(reason, "the database answered what nobody expects");
                Problem::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "this should not happen; the log says more",
                )
            }
        })
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self(match refusal {
            Refusal::NotFound(what) => Problem::not_found(format!("there is no such {what}")),
            Refusal::Faults(faults) => Problem::faults(faults),
            Refusal::Stale { present } => {
                let problem = Problem::new(
                    StatusCode::PRECONDITION_FAILED,
                    "it was changed since, or is not there: read it again",
                );
                match present {
                    Some(revision) => problem.header(ETAG, etag(revision)),
                    None => problem,
                }
            }
            Refusal::RuleExists(rivals) => {
                let errors = rivals.iter().map(|rival| {
                    Fault::new(
                        rival.field.as_str(),
                        format!("rule {} has this place", rival.id),
                    )
                });
                conflict("there is a rule for the same resource, client, tier, per, algorithm and time_window")
                    .with(errors.collect())
            }
            Refusal::SeveralRules(many) => conflict(format!(
                "there are {many} such rules: address one by its id, at /ratelimit/rules/{{id}}"
            )),
            Refusal::ServiceNotFound { name } => Problem::no_service(
                StatusCode::NOT_FOUND,
                &name,
                "this service is not registered",
            ),
            Refusal::ClientExists => {
                conflict("there is a client of this id").with(vec![Fault::new(
                    "client_id",
                    "must be one that is not taken",
                )])
            }
            Refusal::PrincipalTaken { client } => {
                conflict("another client comes as this principal").with(vec![Fault::new(
                    "principal",
                    format!("is that of client {client}"),
                )])
            }
            Refusal::TooManyResets => conflict(format!(
                "{MOST_RESET} single rules of this client were reset already: reset the client as a whole"
            )),
            Refusal::ClientNamed { rule } => conflict(format!(
                "rules name this client, {rule} for one: delete them first, or ask with ?cascade=true"
            )),
        })
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Refused(refusal) => refusal.into(),
            WriteError::Database(error) => error.into(),
        }
    }
}

fn conflict(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::CONFLICT, detail)
}
