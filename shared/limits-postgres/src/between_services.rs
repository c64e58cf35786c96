//! The limit between two services: the one token bucket a second of a client for the name of another.

use limits::rule::Status;
use limits::{Draft, Fault, Pattern, Place, Quota, Rule};
use uuid::Uuid;

use crate::change_rules::{Put, Target, change, only};
use crate::database::{Database, DatabaseError};
use crate::record::RuleRecord;
use crate::refusal::{Expected, Refusal, WriteError};
use crate::session::Session;
use crate::write::{Write, Written};

/// One service and another that it calls, by the ids under which they are registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Services {
    /// The one that calls.
    pub source: String,
    /// The one that is called.
    pub destination: String,
}

impl Services {
    /// The rule where there is none yet.
    fn draft(&self) -> Draft {
        let window = Quota::BETWEEN_SERVICES.window_seconds();
        Draft {
            client: Some(self.source.clone()),
            ..Draft::new(self.destination.as_str(), None, window)
        }
    }

    /// Where the rule stands; faults where there can be none, since no resource is the destination.
    fn place(&self) -> Result<Place, Vec<Fault>> {
        if let Err(detail) = Pattern::service(&self.destination) {
            return Err(vec![Fault::new("resource", detail)]);
        }
        Ok(Rule::new(Uuid::nil(), self.draft())?.place())
    }
}

impl Database {
    /// The rule of this place; none where there is none, or where there can be none.
    ///
    /// # Errors
    /// Where either service is not registered, or the database is out.
    pub async fn service_limit(
        &self,
        between: &Services,
    ) -> Result<Option<RuleRecord>, WriteError> {
        let mut session = self.session().await?;
        registered(&mut session, between).await?;
        match between.place() {
            Ok(place) => Ok(there(&mut session, place).await?),
            Err(_) => Ok(None),
        }
    }

    /// Makes or replaces the rule of this place: so many requests a second, and not more at once. What this form does not speak of
    /// stays as it is.
    ///
    /// # Errors
    /// Where either service is not registered, the rule is not what it was taken to be or cannot be, or the database is out.
    pub async fn set_service_limit(
        &self,
        actor: &str,
        between: &Services,
        tps: u64,
        status: Status,
        expected: Expected,
    ) -> Result<Written<RuleRecord>, WriteError> {
        let place = between.place().map_err(Refusal::Faults)?;
        let mut write = self.begin(actor).await?;
        let outcome = async {
            registered(&mut write.session, between).await?;
            let before = there(&mut write.session, place).await?;
            let draft = Draft {
                limit: Some(tps),
                burst: None,
                status,
                ..before.map_or_else(|| between.draft(), |rule| rule.draft)
            };
            put(&mut write, draft, expected).await
        }
        .await;
        only(write.finish(outcome).await?)
    }
}

async fn put(
    write: &mut Write,
    draft: Draft,
    expected: Expected,
) -> Result<Vec<RuleRecord>, WriteError> {
    let rule = Rule::new(Uuid::nil(), draft.clone()).map_err(Refusal::Faults)?;
    let put = Put {
        field: String::new(),
        target: Target::Place,
        draft,
        expected,
    };
    change(write, vec![put], vec![rule], &[]).await
}

async fn there(session: &mut Session, place: Place) -> Result<Option<RuleRecord>, DatabaseError> {
    Ok(session.rules_in(&[place]).await?.pop())
}

/// Refuses where either is not registered. One that is terminated is.
async fn registered(session: &mut Session, between: &Services) -> Result<(), WriteError> {
    for name in [&between.source, &between.destination] {
        if session.client(name).await?.is_none() {
            return Err(Refusal::ServiceNotFound { name: name.clone() }.into());
        }
    }
    Ok(())
}
