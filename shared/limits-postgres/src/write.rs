//! One write: the head is locked first, so that the order of revisions is the order of commits, and what is read after that is
//! all that was ever committed.

use std::collections::{BTreeMap, BTreeSet};

use limits::registry::Name;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::database::DatabaseError;
use crate::record::{Action, AuditRecord, ClientRecord, KeyRecord, RuleRecord, shown};
use crate::refusal::WriteError;
use crate::reset::Reset;
use crate::session::Session;

/// What a write made, and the revision that it made it at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written<T> {
    /// The revision of the write.
    pub revision: u64,
    /// What it made.
    pub value: T,
}

/// What a store tells of a write that begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    pub(crate) revision: u64,
    pub(crate) id: Uuid,
    pub(crate) at: OffsetDateTime,
}

/// What every write leaves beside what it is about.
#[derive(Debug)]
pub(crate) struct Sealing {
    pub(crate) begun: Begun,
    pub(crate) actor: String,
    pub(crate) audit: Vec<AuditRecord>,
    /// The chunks of the published rules that changed.
    pub(crate) chunks: BTreeSet<u16>,
    /// The registry entries that changed.
    pub(crate) names: BTreeSet<Name>,
}

/// A write that has begun.
pub(crate) struct Write {
    pub(crate) session: Session,
    sealing: Sealing,
}

impl Write {
    pub(crate) async fn begin(mut session: Session, actor: &str) -> Result<Self, DatabaseError> {
        let begun = session.begin().await?;
        let sealing = Sealing {
            begun,
            actor: actor.to_owned(),
            audit: Vec::new(),
            chunks: BTreeSet::new(),
            names: BTreeSet::new(),
        };
        Ok(Self { session, sealing })
    }

    pub(crate) fn revision(&self) -> u64 {
        self.sealing.begun.revision
    }

    /// The moment of the write, by the store's clock.
    pub(crate) fn at(&self) -> OffsetDateTime {
        self.sealing.begun.at
    }

    /// Notes that an entry of the registry is another one now.
    pub(crate) fn touch(&mut self, name: Name) {
        self.sealing.names.insert(name);
    }

    /// Notes what was done to a rule.
    pub(crate) fn note_rule(&mut self, before: Option<&RuleRecord>, after: Option<&RuleRecord>) {
        let both = || before.into_iter().chain(after);
        let clients: BTreeSet<String> = both().filter_map(|r| r.draft.client.clone()).collect();
        let rule = both().map(|rule| rule.id).next();
        self.sealing.chunks.extend(rule.map(limits::chunk_of));
        self.note(AuditRecord {
            rule,
            clients: clients.into_iter().collect(),
            before: before.map(shown),
            after: after.map(shown),
            ..self.blank(Action::of(before, after))
        });
    }

    /// Notes what was done to a client. The entry of its id and of its principals follow.
    pub(crate) fn note_client(
        &mut self,
        before: Option<&ClientRecord>,
        after: Option<&ClientRecord>,
    ) {
        let both = || before.into_iter().chain(after);
        let id = both().map(|client| client.client_id.clone()).next();
        self.sealing.names.extend(id.clone().map(Name::Client));
        let principals = both().filter_map(ClientRecord::principal_name);
        self.sealing.names.extend(principals.map(Name::Principal));
        self.note(AuditRecord {
            clients: id.into_iter().collect(),
            before: before.map(shown),
            after: after.map(shown),
            ..self.blank(Action::of(before, after))
        });
    }

    /// Notes what was done to a key. Its entry follows.
    pub(crate) fn note_key(&mut self, before: Option<&KeyRecord>, after: Option<&KeyRecord>) {
        if let Some(key) = before.or(after) {
            self.touch(Name::Key(key.hash.clone()));
            self.note(AuditRecord {
                clients: vec![key.client_id.clone()],
                key_id: Some(key.key_id),
                before: before.map(shown),
                after: after.map(shown),
                ..self.blank(Action::of(before, after))
            });
        }
    }

    /// Notes what was reset: of `rule` where it is told. The rule's place in the published copy follows where every owner's was.
    pub(crate) fn note_reset(&mut self, rule: Option<&RuleRecord>, before: &Reset, after: &Reset) {
        if after.client.is_none() {
            let chunk = rule.map(|rule| limits::chunk_of(rule.id));
            self.sealing.chunks.extend(chunk);
        }
        let named = rule.and_then(|rule| rule.draft.client.clone());
        self.note(AuditRecord {
            rule: after.rule_id,
            clients: after.client.clone().or(named).into_iter().collect(),
            before: Some(shown(before)),
            after: Some(shown(after)),
            ..self.blank(Action::Reset)
        });
    }

    fn blank(&self, action: Action) -> AuditRecord {
        AuditRecord {
            revision: self.revision(),
            position: 0,
            at: self.at(),
            actor: self.sealing.actor.clone(),
            action,
            rule: None,
            clients: Vec::new(),
            key_id: None,
            before: None,
            after: None,
        }
    }

    fn note(&mut self, record: AuditRecord) {
        let position = u32::try_from(self.sealing.audit.len()).unwrap_or(u32::MAX);
        self.sealing.audit.push(AuditRecord { position, ..record });
    }

    /// Commits what was done, or undoes it where it came to nothing.
    pub(crate) async fn finish<T>(
        mut self,
        outcome: Result<T, WriteError>,
    ) -> Result<Written<T>, WriteError> {
        match outcome {
            Ok(value) => {
                self.session.seal(&self.sealing).await?;
                self.session.commit().await?;
                Ok(Written {
                    revision: self.revision(),
                    value,
                })
            }
            Err(no) => {
                // The answer stands whether or not the connection lives to hear of it.
                let _ = self.session.roll_back().await;
                Err(no)
            }
        }
    }
}

/// What was there before, by what it is called.
pub(crate) fn by<K: Ord, T>(items: Vec<T>, key: impl Fn(&T) -> K) -> BTreeMap<K, T> {
    items.into_iter().map(|item| (key(&item), item)).collect()
}
