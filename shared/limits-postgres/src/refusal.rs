//! When the answer to a write is no.

use limits::Fault;
use uuid::Uuid;

use crate::database::DatabaseError;

/// What a writer takes to be there: the revisions of which one must be the present one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Expected {
    /// Nothing is taken for granted.
    #[default]
    Whatever,
    /// It is there, at whatever revision.
    Something,
    /// It is there at one of these revisions.
    Revisions(Vec<u64>),
}

impl Expected {
    /// Whether what is there is what was expected.
    pub(crate) fn check(&self, present: Option<u64>) -> Result<(), Refusal> {
        let fits = match (self, present) {
            (Expected::Whatever, _) => true,
            (Expected::Something, present) => present.is_some(),
            (Expected::Revisions(revisions), Some(present)) => revisions.contains(&present),
            (Expected::Revisions(_), None) => false,
        };
        if fits {
            Ok(())
        } else {
            Err(Refusal::Stale { present })
        }
    }
}

/// Why nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// What was addressed is not there.
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// The input is wrong.
    #[error("the input is wrong")]
    Faults(Vec<Fault>),
    /// It is not at the revision that the writer takes it to be.
    #[error("it is at another revision")]
    Stale {
        /// The revision it is at; none where it is not there.
        present: Option<u64>,
    },
    /// Another rule stands for the same (resource, client, tier, per, algorithm, window).
    #[error("another rule stands in this place")]
    RuleExists(Vec<Rival>),
    /// The pair of client and resource has several token buckets, so that none is meant.
    #[error("there are {0} such rules")]
    SeveralRules(usize),
    /// A service that a limit is about is not registered.
    #[error("the service is not registered")]
    ServiceNotFound {
        /// Its name.
        name: String,
    },
    /// A client of that id is there.
    #[error("there is a client of this id")]
    ClientExists,
    /// Another client comes as that principal.
    #[error("the principal is another client's")]
    PrincipalTaken {
        /// The other client.
        client: String,
    },
    /// As many single rules of the client were reset as can be remembered.
    #[error("too many single rules of the client were reset")]
    TooManyResets,
    /// Rules name the client.
    #[error("rules name the client")]
    ClientNamed {
        /// One of them.
        rule: Uuid,
    },
}

/// Two rules that want one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rival {
    /// The field of the input that holds the one that was refused; empty where the input is that rule.
    pub field: String,
    /// The rule that has the place.
    pub id: Uuid,
}

/// Why a write did not happen.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The answer is no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store did not do its part.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}
