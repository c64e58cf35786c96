//! The role that functions log in as.

use crate::database::{Database, DatabaseError};

/// The longest name of a role, in bytes: what is longer, Postgres cuts off.
const LONGEST_ROLE: usize = 63;

/// Why a role was not admitted.
#[derive(Debug, thiserror::Error)]
pub enum AdmitError {
    /// It cannot be the role of functions: what is wrong with it.
    #[error("{0}")]
    Refused(String),
    /// The store did not do its part.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl Database {
    /// Lets functions log in as `role`, which is made if it is not there: it may do in the schema what they do, and nothing else.
    /// Where the server has a role `rds_iam`, it logs in by IAM; elsewhere it has no password until it is given one. Twice and at
    /// once are safe. In memory there are no roles.
    ///
    /// # Errors
    /// Where it cannot be such a role: it has rights of another kind, its name is reserved, or whoever asks may not make roles;
    /// and where the database is out.
    pub async fn admit(&self, role: &str) -> Result<(), AdmitError> {
        if role.is_empty() || role.len() > LONGEST_ROLE || role.contains(char::is_control) {
            let right = format!("must have 1 to {LONGEST_ROLE} bytes without control characters");
            return Err(AdmitError::Refused(right));
        }
        match self {
            Database::Postgres(postgres) => postgres.admit(role).await,
            Database::Memory(_) => Ok(()),
        }
    }
}
