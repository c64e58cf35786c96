//! What the published copy is made from.

use std::time::Duration;

use limits::registry::{Name, Resets};
use limits::{Client, Lane};
use serde_json::Value;
use uuid::Uuid;

use crate::database::{Database, DatabaseError};
use crate::record::ClientRecord;

/// The newest write. The number alone says nothing after a restore: the id tells one history from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Head {
    /// Its revision.
    pub revision: u64,
    /// Its random id.
    pub id: Uuid,
}

/// A registry entry that is another one since some revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryChange {
    /// The newest revision that touched it.
    pub revision: u64,
    /// What it is found by.
    pub name: Name,
    /// Whether it was new at that revision and never there before, so that nobody can remember another.
    pub creation: bool,
}

/// What changed since a head, as one snapshot shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    /// The head of the snapshot.
    pub head: Head,
    /// Whether what was asked since is a revision of this history. If not, everything may differ.
    pub known: bool,
    /// Whether the database is a replica, which may lag: it may not know a revision yet that it will.
    pub follows: bool,
    /// How long ago the oldest of these changes was written, to the second; none where there is none, or `known` is false.
    pub oldest: Option<Duration>,
    /// The chunks of rules that changed, deletions included; every chunk where `known` is false.
    pub chunks: Vec<u16>,
    /// The registry entries that changed, by revision; where `known` is false the newest of each lane that has any.
    pub registry: Vec<RegistryChange>,
}

/// What the registry tells of a client's id: one that is not registered is told where its counters were reset.
pub(crate) fn entry_of(id: &str, client: Option<ClientRecord>, resets: Resets) -> Option<Client> {
    match client {
        Some(client) => Some(client.entry(resets)),
        None if resets.is_empty() => None,
        None => Some(Client {
            resets,
            ..Client::unregistered(id)
        }),
    }
}

impl Database {
    /// The newest write.
    ///
    /// # Errors
    /// Where the database is out.
    pub async fn head(&self) -> Result<Head, DatabaseError> {
        self.session().await?.head().await
    }

    /// How far a replica is behind what is written at its primary; none where this is a primary, or nothing was ever replayed.
    ///
    /// # Errors
    /// Where the database is out.
    pub async fn replica_lag(&self) -> Result<Option<Duration>, DatabaseError> {
        self.session().await?.replica_lag().await
    }

    /// What changed since a head, in one snapshot.
    ///
    /// # Errors
    /// Where the database is out.
    pub async fn changes(&self, since: Option<Head>) -> Result<Changes, DatabaseError> {
        self.session().await?.changes(since).await
    }

    /// The rules of some chunks as they are published, terminated ones included, in one snapshot, and its head. Every chunk that
    /// was asked for is told, the empty ones too. Columns that this code does not know pass through.
    ///
    /// # Errors
    /// Where the database is out.
    pub async fn chunks(
        &self,
        chunks: &[u16],
    ) -> Result<(Head, Vec<(u16, Vec<Value>)>), DatabaseError> {
        let (head, rules) = self.session().await?.chunks(chunks).await?;
        let mut told: std::collections::BTreeMap<u16, Vec<Value>> =
            chunks.iter().map(|chunk| (*chunk, Vec::new())).collect();
        for (chunk, rule) in rules {
            told.entry(chunk).or_default().push(rule);
        }
        Ok((head, told.into_iter().collect()))
    }

    /// The newest registry change of each lane that has any.
    ///
    /// # Errors
    /// Where the database is out.
    pub async fn lane_revisions(&self) -> Result<Vec<(Lane, u64)>, DatabaseError> {
        self.session().await?.lane_revisions().await
    }

    /// The names in a lane that changed after a revision.
    ///
    /// # Errors
    /// Where the database is out.
    pub async fn lane_changes(&self, lane: Lane, since: u64) -> Result<Vec<Name>, DatabaseError> {
        self.session().await?.lane_changes(lane, since).await
    }

    /// A page of every name that a lane ever had, those that are gone included, in the order of kind and id.
    ///
    /// # Errors
    /// Where the database is out.
    pub async fn lane_names(
        &self,
        lane: Lane,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<Name>, DatabaseError> {
        self.session().await?.lane_names(lane, after, limit).await
    }

    /// What the registry tells of each name, `None` where it is gone, in one snapshot, and its head. An entry that this code
    /// cannot read is not told at all, so that whoever has an older one keeps it.
    ///
    /// # Errors
    /// Where the database is out.
    pub async fn entries(
        &self,
        names: &[Name],
    ) -> Result<(Head, Vec<(Name, Option<Client>)>), DatabaseError> {
        self.session().await?.entries(names).await
    }
}
