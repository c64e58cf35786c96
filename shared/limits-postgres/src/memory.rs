//! The store in the memory of this process.
//!
//! A conversation works on a copy, which takes the place of the store when it commits. Whoever talks holds the lock, so one at a
//! time.

mod feed;
mod registry;
mod resets;
mod rules;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use limits::Lane;
use limits::registry::{Name, Resets};
use time::OffsetDateTime;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout;
use uuid::Uuid;

use crate::database::DatabaseError;
use crate::feed::Head;
use crate::record::{AuditRecord, ClientRecord, KeyRecord};
use crate::session::StoredRule;
use crate::write::{Begun, Sealing};

/// How long one may wait for another.
const TURN_DEADLINE: Duration = Duration::from_secs(2);

/// All there is.
#[derive(Debug, Clone)]
struct State {
    head: Head,
    /// The id of every revision there ever was.
    revisions: BTreeMap<u64, Uuid>,
    rules: BTreeMap<Uuid, StoredRule>,
    chunks: BTreeMap<u16, u64>,
    clients: BTreeMap<String, ClientRecord>,
    keys: BTreeMap<Uuid, KeyRecord>,
    rule_resets: BTreeMap<Uuid, u64>,
    client_resets: BTreeMap<String, Resets>,
    names: BTreeMap<Name, Named>,
    audit: Vec<AuditRecord>,
}

/// A name that a registry entry was ever found by.
#[derive(Debug, Clone, Copy)]
struct Named {
    lane: Lane,
    /// The newest revision that touched it.
    revision: u64,
    creation: bool,
}

/// A store in this process.
#[derive(Clone)]
pub struct Memory {
    state: Arc<Mutex<Arc<State>>>,
}

impl Memory {
    pub(crate) fn new() -> Self {
        let head = Head {
            revision: 0,
            id: Uuid::new_v4(),
        };
        let state = State {
            head,
            revisions: BTreeMap::from([(head.revision, head.id)]),
            rules: BTreeMap::new(),
            chunks: BTreeMap::new(),
            clients: BTreeMap::new(),
            keys: BTreeMap::new(),
            rule_resets: BTreeMap::new(),
            client_resets: BTreeMap::new(),
            names: BTreeMap::new(),
            audit: Vec::new(),
        };
        Self {
            state: Arc::new(Mutex::new(Arc::new(state))),
        }
    }

    pub(crate) async fn view(&self) -> Result<View, DatabaseError> {
        let turn = Arc::clone(&self.state).lock_owned();
        match timeout(TURN_DEADLINE, turn).await {
            Ok(kept) => Ok(View {
                state: Arc::clone(&kept),
                kept,
            }),
            Err(_) => Err(DatabaseError::Unavailable("others are writing".to_owned())),
        }
    }
}

/// A conversation.
pub(crate) struct View {
    kept: OwnedMutexGuard<Arc<State>>,
    /// The store as it was, or a copy once something was written.
    state: Arc<State>,
}

impl View {
    /// The copy that is written.
    fn copy(&mut self) -> &mut State {
        Arc::make_mut(&mut self.state)
    }

    pub(crate) fn begin(&mut self) -> Begun {
        let head = Head {
            revision: self.state.head.revision + 1,
            id: Uuid::new_v4(),
        };
        self.copy().head = head;
        let now = OffsetDateTime::now_utc();
        Begun {
            revision: head.revision,
            id: head.id,
            at: now.replace_nanosecond(0).unwrap_or(now),
        }
    }

    pub(crate) fn seal(&mut self, sealing: &Sealing) {
        let Begun { revision, id, .. } = sealing.begun;
        let state = self.copy();
        state.revisions.insert(revision, id);
        state.audit.extend(sealing.audit.iter().cloned());
        let chunks = sealing.chunks.iter().map(|chunk| (*chunk, revision));
        state.chunks.extend(chunks);
        for name in &sealing.names {
            let named = Named {
                lane: name.lane(),
                revision,
                creation: !state.names.contains_key(name),
            };
            state.names.insert(name.clone(), named);
        }
    }

    pub(crate) fn commit(&mut self) {
        *self.kept = Arc::clone(&self.state);
    }

    pub(crate) fn roll_back(&mut self) {
        self.state = Arc::clone(&self.kept);
    }
}
