//! May one service call another?
//!
//! Both are clients of the registry. The service that is called is the resource, by its name; where no rule fits the two of them,
//! they have a limit to themselves.

use std::sync::Arc;

use limits::counters::Operation;
use limits::registry::{ClientStatus, Name};
use limits::{Client, Resource};
use tokio::time::Instant;

use crate::decision::{Party, Refusal, Verdict};
use crate::judge::Known;
use crate::limiter::{Failure, Limiter, Question};
use crate::tally;
use crate::view::View;
use crate::who::Asker;

/// One call of a service to another.
#[derive(Debug, Clone, Copy)]
pub struct Pair<'a> {
    /// The id of the one that calls.
    pub source: &'a str,
    /// The id of the one that is called; none is whoever asks.
    pub destination: Option<&'a str>,
    /// Who asks. It may be either of the two.
    pub asker: Asker<'a>,
}

impl Limiter {
    /// Decides whether a service may call another, and counts the call. Refused where the asker may not ask, where the source is
    /// not registered, and where the destination is not, in this order: who is registered is told to none who may not ask.
    pub async fn decide_between(&self, pair: &Pair<'_>) -> Verdict {
        let since = Instant::now();
        let verdict = self.answer(Question::Pair(pair)).await;
        let call = tally::Call {
            since,
            address: None,
            // Where no destination is told, it is the asker, whose name is the registry's to tell.
            service: pair.destination,
        };
        tally::note(&verdict, &call);
        verdict
    }

    pub(crate) async fn attempt_pair(
        &self,
        pair: &Pair<'_>,
        view: &View,
        deadline: Instant,
        stale: bool,
    ) -> Result<Verdict, Failure> {
        let (source, destination) = self.both(pair, view, deadline, stale).await?;
        let known = Known {
            client: Some(source),
            registry_out: false,
            address: None,
            resource: &Resource::service(&destination.id),
            destination: Some(&destination),
            tokens: 1,
            operation: Operation::Take,
            default_limit: Some(self.between_services()),
            sheet: None,
        };
        self.judge(known, view, deadline, stale).await
    }

    /// The two services, both of them registered and not terminated.
    async fn both(
        &self,
        pair: &Pair<'_>,
        view: &View,
        deadline: Instant,
        fresh: bool,
    ) -> Result<(Arc<Client>, Arc<Client>), Failure> {
        let concerned = |asker: &Client| {
            // Where no destination is told, it is the asker.
            pair.destination.is_none_or(|id| id == asker.id) || pair.source == asker.id
        };
        let destination = async {
            let id = pair.destination?;
            let service = self.service(id, Party::Destination, view, deadline, fresh);
            Some(service.await)
        };
        // All in one trip; what refuses first is told, and nothing of the others.
        let (asker, source, destination) = tokio::join!(
            self.may_ask(pair.asker, concerned, view, deadline, fresh),
            self.service(pair.source, Party::Source, view, deadline, fresh),
            destination,
        );
        let (asker, source) = (asker?, source?);
        // One who may ask without being anyone is no service.
        let nobody = || Failure::refused(Refusal::NotRegistered(Party::Destination), None);
        let destination = destination.unwrap_or_else(|| asker.ok_or_else(nobody))?;
        Ok((source, destination))
    }

    async fn service(
        &self,
        id: &str,
        party: Party,
        view: &View,
        deadline: Instant,
        fresh: bool,
    ) -> Result<Arc<Client>, Failure> {
        let name = Name::Client(id.to_owned());
        let client = self.look_up(&name, view, deadline, fresh).await?;
        client
            .filter(|client| client.registered && client.status == ClientStatus::Active)
            .ok_or_else(|| Failure::refused(Refusal::NotRegistered(party), Some(name.lane())))
    }
}
