//! Writing the one token bucket of a pair: a client, what it calls, or both.

use limits::{Draft, Rule};

use crate::change_rules::{Deletion, Put, Target, change, only};
use crate::database::Database;
use crate::find_rules::{Pair, rules_of_pair};
use crate::record::RuleRecord;
use crate::refusal::{Expected, Refusal, WriteError};
use crate::write::{Write, Written};

/// How much a pair may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Requests a window; none is an exemption, 0 a block.
    pub limit: Option<u64>,
    /// The window, in seconds.
    pub time_window: u64,
    /// Capacity, in requests; none is the limit.
    pub burst: Option<u64>,
}

impl Database {
    /// Makes the bucket of a pair.
    ///
    /// # Errors
    /// Where the pair has one already, whatever its window; else as for any rule.
    pub async fn create_pair(
        &self,
        actor: &str,
        pair: &Pair,
        resource: &str,
        allowance: Allowance,
    ) -> Result<Written<RuleRecord>, WriteError> {
        let mut write = self.begin(actor).await?;
        let outcome = async {
            let there = rules_of_pair(&mut write.session, pair).await?;
            if !there.is_empty() {
                let rivals = there.iter().map(|rule| crate::refusal::Rival {
                    field: String::new(),
                    id: rule.id,
                });
                return Err(Refusal::RuleExists(rivals.collect()).into());
            }
            let draft = Draft {
                client: pair.client.clone(),
                per: pair.per(),
                ..Draft::new(resource, None, 1)
            };
            put(
                &mut write,
                Target::New,
                draft,
                allowance,
                Expected::Whatever,
            )
            .await
        }
        .await;
        only(write.finish(outcome).await?)
    }

    /// Replaces how much a pair may take. What this form does not speak of stays as it is.
    ///
    /// # Errors
    /// Where the pair has none, several, or not what it was taken to have; else as for any rule.
    pub async fn replace_pair(
        &self,
        actor: &str,
        pair: &Pair,
        allowance: Allowance,
        expected: Expected,
    ) -> Result<Written<RuleRecord>, WriteError> {
        let mut write = self.begin(actor).await?;
        let outcome = async {
            let there = the_one(&mut write, pair).await?;
            let target = Target::There(there.id);
            put(&mut write, target, there.draft, allowance, expected).await
        }
        .await;
        only(write.finish(outcome).await?)
    }

    /// Deletes the bucket of a pair.
    ///
    /// # Errors
    /// Where the pair has none, several, or not what it was taken to have, or the database is out.
    pub async fn delete_pair(
        &self,
        actor: &str,
        pair: &Pair,
        expected: Expected,
    ) -> Result<Written<()>, WriteError> {
        let mut write = self.begin(actor).await?;
        let outcome = async {
            let deletion = Deletion {
                field: String::new(),
                id: the_one(&mut write, pair).await?.id,
                expected,
            };
            change(&mut write, Vec::new(), Vec::new(), &[deletion]).await?;
            Ok(())
        }
        .await;
        write.finish(outcome).await
    }
}

async fn the_one(write: &mut Write, pair: &Pair) -> Result<RuleRecord, WriteError> {
    let mut there = rules_of_pair(&mut write.session, pair).await?;
    match (there.pop(), there.len()) {
        (Some(one), 0) => Ok(one),
        (Some(_), others) => Err(Refusal::SeveralRules(others + 1).into()),
        (None, _) => Err(Refusal::NotFound("rule").into()),
    }
}

async fn put(
    write: &mut Write,
    target: Target,
    draft: Draft,
    allowance: Allowance,
    expected: Expected,
) -> Result<Vec<RuleRecord>, WriteError> {
    let draft = Draft {
        limit: allowance.limit,
        time_window: allowance.time_window,
        burst: allowance.burst,
        ..draft
    };
    let rule = Rule::new(uuid::Uuid::nil(), draft.clone()).map_err(Refusal::Faults)?;
    let put = Put {
        field: String::new(),
        target,
        draft,
        expected,
    };
    change(write, vec![put], vec![rule], &[]).await
}
