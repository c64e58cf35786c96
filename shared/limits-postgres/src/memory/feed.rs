//! What the published copy is made from, in memory.

use std::collections::BTreeMap;

use limits::registry::Name;
use limits::{Client, Lane};
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::View;
use crate::feed::{Changes, Head, RegistryChange, entry_of};
use crate::record::shown;

impl View {
    pub(crate) fn head(&self) -> Head {
        self.state.head
    }

    pub(crate) fn changes(&self, since: Option<Head>) -> Changes {
        let since = since.filter(|head| self.state.revisions.get(&head.revision) == Some(&head.id));
        let named = self.state.names.iter().map(|(name, named)| RegistryChange {
            revision: named.revision,
            name: name.clone(),
            creation: named.creation,
        });
        let mut registry: Vec<RegistryChange> = match since {
            Some(since) => named
                .filter(|change| change.revision > since.revision)
                .collect(),
            None => {
                let mut newest = BTreeMap::<Lane, RegistryChange>::new();
                for change in named {
                    let lane = change.name.lane();
                    if newest
                        .get(&lane)
                        .is_none_or(|n| n.revision < change.revision)
                    {
                        newest.insert(lane, change);
                    }
                }
                newest.into_values().collect()
            }
        };
        registry.sort_by_key(|change| change.revision);
        let oldest = since.and_then(|since| {
            let mut audit = self.state.audit.iter();
            audit.find(|record| record.revision > since.revision)
        });
        Changes {
            head: self.state.head,
            known: since.is_some(),
            follows: false,
            oldest: oldest.map(|record| (OffsetDateTime::now_utc() - record.at).unsigned_abs()),
            chunks: match since {
                None => (0..limits::CHUNKS).collect(),
                Some(since) => {
                    let chunks = self.state.chunks.iter();
                    chunks
                        .filter(|(_, revision)| **revision > since.revision)
                        .map(|(chunk, _)| *chunk)
                        .collect()
                }
            },
            registry,
        }
    }

    pub(crate) fn chunks(&self, chunks: &[u16]) -> (Head, Vec<(u16, Value)>) {
        let rules = self.state.rules.values();
        let rules = rules
            .filter(|rule| chunks.contains(&rule.chunk))
            .map(|rule| {
                let mut published = shown(&rule.record);
                if let Some(fields) = published.as_object_mut() {
                    fields.retain(|name, _| name != "created_at" && name != "updated_at");
                    let reset = self.state.rule_resets.get(&rule.record.id);
                    fields.extend(reset.map(|at| ("generation".to_owned(), json!(at))));
                }
                (rule.chunk, published)
            });
        (self.state.head, rules.collect())
    }

    pub(crate) fn lane_revisions(&self) -> Vec<(Lane, u64)> {
        let mut newest = BTreeMap::<Lane, u64>::new();
        for named in self.state.names.values() {
            let revision = newest.entry(named.lane).or_default();
            *revision = named.revision.max(*revision);
        }
        newest.into_iter().collect()
    }

    pub(crate) fn lane_changes(&self, lane: Lane, since: u64) -> Vec<Name> {
        let names = self.state.names.iter();
        names
            .filter(|(_, named)| named.lane == lane && named.revision > since)
            .map(|(name, _)| name.clone())
            .collect()
    }

    pub(crate) fn lane_names(&self, lane: Lane, last: Option<&Name>, limit: usize) -> Vec<Name> {
        let names = self.state.names.range(super::rules::after(last.cloned()));
        names
            .filter(|(_, named)| named.lane == lane)
            .take(limit)
            .map(|(name, _)| name.clone())
            .collect()
    }

    pub(crate) fn entries(&self, names: &[Name]) -> (Head, Vec<(Name, Option<Client>)>) {
        let entries = names.iter().map(|name| (name.clone(), self.entry(name)));
        (self.state.head, entries.collect())
    }

    fn entry(&self, name: &Name) -> Option<Client> {
        match name {
            Name::Client(id) => {
                let resets = self.client_resets(id);
                entry_of(id, self.client(id), resets)
            }
            Name::Principal(principal) => {
                let id = self.client_of(principal)?;
                let resets = self.client_resets(&id);
                entry_of(&id, self.client(&id), resets)
            }
            Name::Key(hash) => {
                let key = self.state.keys.values().find(|key| key.hash == *hash)?;
                let client = self.client(&key.client_id)?;
                Some(Client {
                    expires_at: key.expires_at.map(|end| end.unix_timestamp()),
                    ..client.entry(self.client_resets(&key.client_id))
                })
            }
        }
    }
}
