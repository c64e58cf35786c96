//! Who is it, and who may ask about whom.

use std::sync::Arc;

use limits::Client;
use limits::moment::unix_us;
use limits::registry::{ClientStatus, MayAsk, Name, key_hash};
use limits::rule::Tier;
use limits_redis::Lookup;
use tokio::time::Instant;

use crate::decision::Refusal;
use crate::limiter::{Failure, Limiter, Request};
use crate::registry::Remembered;
use crate::view::View;

/// How a caller makes itself known.
#[derive(Debug, Clone, Copy)]
pub enum Who<'a> {
    /// By an API key.
    Key(&'a str),
    /// By something that was verified without Redis, such as a token.
    Verified {
        /// The client's id, registered or not.
        id: &'a str,
        /// Its tier, where the registry knows of none.
        tier: Option<Tier>,
    },
    /// By its address alone.
    Address,
    /// By nothing that counts.
    Nobody,
    /// Another asks in its name.
    Client {
        /// The client's id, registered or not.
        id: &'a str,
        /// Who asks.
        asker: Asker<'a>,
    },
}

/// Who asks about a client.
#[derive(Debug, Clone, Copy)]
pub enum Asker<'a> {
    /// Someone who may ask about everyone.
    Anyone,
    /// An IAM principal, as [`limits::registry::principal`] writes it.
    Principal(&'a str),
    /// Someone without a principal: may ask about nobody.
    Nobody,
}

impl Limiter {
    /// Whether this container knows, without a look-up, that an API key is good.
    pub fn knows(&self, api_key: &str) -> bool {
        let name = Remembered::from(&Name::Key(key_hash(api_key)));
        let known = self.registry.get(&name).flatten();
        known.is_some_and(|client| client.status == ClientStatus::Active && !has_ended(&client))
    }

    /// Who a request is from: none for one known by its address alone.
    pub(crate) async fn identify(
        &self,
        request: &Request<'_>,
        view: &View,
        deadline: Instant,
        fresh: bool,
    ) -> Result<Option<Arc<Client>>, Failure> {
        let (client, name) = match request.who {
            Who::Nobody => return Err(Failure::refused(Refusal::Unknown, None)),
            Who::Address if request.address.is_some() => return Ok(None),
            Who::Address => return Err(Failure::refused(Refusal::Unknown, None)),
            Who::Key(key) => {
                let name = Name::Key(key_hash(key));
                let client = self.look_up(&name, view, deadline, fresh).await?;
                let client = client.ok_or(Failure::refused(Refusal::Unknown, None))?;
                (client, name)
            }
            Who::Verified { id, tier } => {
                let name = Name::Client(id.to_owned());
                let client = match self.look_up(&name, view, deadline, fresh).await? {
                    Some(client) if client.registered => client,
                    Some(client) => Arc::new(Client {
                        tier,
                        ..Client::clone(&client)
                    }),
                    None => Arc::new(unregistered(id, tier)),
                };
                (client, name)
            }
            Who::Client { id, asker } => {
                let itself = |asker: &Client| asker.id == id;
                let name = Name::Client(id.to_owned());
                // Both in one trip; who may not ask is told nothing of what was found.
                let (asker, client) = tokio::join!(
                    self.may_ask(asker, itself, view, deadline, fresh),
                    self.look_up(&name, view, deadline, fresh),
                );
                asker?;
                let client = client?.unwrap_or_else(|| Arc::new(Client::unregistered(id)));
                (client, name)
            }
        };
        if has_ended(&client) {
            return Err(Failure::refused(Refusal::Unknown, None));
        }
        if client.status == ClientStatus::Terminated {
            return Err(Failure::refused(Refusal::Terminated, Some(name.lane())));
        }
        Ok(Some(client))
    }

    /// The client that asks, where it may; none where anyone may. `concerned`: whether it is asked about the asker itself.
    pub(crate) async fn may_ask(
        &self,
        asker: Asker<'_>,
        concerned: impl FnOnce(&Client) -> bool + Send,
        view: &View,
        deadline: Instant,
        fresh: bool,
    ) -> Result<Option<Arc<Client>>, Failure> {
        let name = match asker {
            Asker::Anyone => return Ok(None),
            Asker::Nobody => return Err(Failure::refused(Refusal::MayNotAsk, None)),
            Asker::Principal(principal) => Name::Principal(principal.to_owned()),
        };
        let asker = self.look_up(&name, view, deadline, fresh).await?;
        let asker = asker.ok_or(Failure::refused(Refusal::MayNotAsk, None))?;
        if asker.status == ClientStatus::Terminated {
            return Err(Failure::refused(Refusal::Terminated, Some(name.lane())));
        }
        if asker.may_ask != MayAsk::Any && !concerned(&asker) {
            return Err(Failure::refused(Refusal::MayNotAsk, Some(name.lane())));
        }
        Ok(Some(asker))
    }

    /// A name of the registry, as remembered or, where it is not or `fresh` is asked for, as Redis has it now.
    pub(crate) async fn look_up(
        &self,
        name: &Name,
        view: &View,
        deadline: Instant,
        fresh: bool,
    ) -> Result<Option<Arc<Client>>, Failure> {
        let remembered = Remembered::from(name);
        if !fresh && let Some(client) = self.registry.get(&remembered) {
            return Ok(client);
        }
        // In a box: it is rare, and all that every decision is made of would be as large.
        let found = Box::pin(self.store.lookup(name, deadline)).await;
        match found.inspect_err(|error| self.note_failure(error))? {
            Lookup::Found(client) => {
                let client = Arc::new(client);
                self.registry
                    .remember(view.stamp, remembered, Some(Arc::clone(&client)));
                Ok(Some(client))
            }
            Lookup::Absent => {
                // That there is no such key or principal is never remembered: nothing would tell when there is one. A client id
                // without an entry is decided by its buckets, whose lane tells.
                if let Name::Client(_) = name {
                    self.registry.remember(view.stamp, remembered, None);
                }
                Ok(None)
            }
        }
    }
}

/// A client of whom the registry knows nothing, with the tier that was verified.
pub(crate) fn unregistered(id: &str, tier: Option<Tier>) -> Client {
    Client {
        tier,
        ..Client::unregistered(id)
    }
}

/// Whether the key that stands for a client is one of the past.
fn has_ended(client: &Client) -> bool {
    let now = i64::try_from(unix_us() / 1_000_000).unwrap_or(i64::MAX);
    client.expires_at.is_some_and(|end| end <= now)
}
