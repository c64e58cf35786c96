//! What at most one rule stands for.

use serde::Serialize;

use crate::rule::Rule;
use crate::words::{Algorithm, Per, Tier};

/// The place of a rule. Two rules of one place would be two limits where one is meant: the second is refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Place {
    /// The resource, in the one text of all its spellings ([`Pattern::canonical`](crate::Pattern::canonical)).
    pub pattern: String,
    /// The client; none is anyone.
    pub client: Option<String>,
    /// The tier; none is anyone.
    pub tier: Option<Tier>,
    /// Who shares a bucket.
    pub per: Per,
    /// How its buckets count.
    pub algorithm: Algorithm,
    /// The window, in seconds.
    pub time_window: u64,
}

impl Rule {
    /// Its place.
    pub fn place(&self) -> Place {
        let draft = self.draft();
        Place {
            pattern: self.pattern().canonical().to_owned(),
            client: draft.client.clone(),
            tier: draft.tier,
            per: draft.per,
            algorithm: draft.algorithm,
            time_window: draft.time_window,
        }
    }
}
