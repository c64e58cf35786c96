//! The registry and the audit in memory.

use uuid::Uuid;

use super::View;
use super::rules::after;
use crate::record::{AuditRecord, ClientRecord, KeyRecord};

impl View {
    pub(crate) fn client(&self, id: &str) -> Option<ClientRecord> {
        self.state.clients.get(id).cloned()
    }

    pub(crate) fn list_clients(&self, last: Option<&str>, limit: usize) -> Vec<ClientRecord> {
        let clients = self.state.clients.range::<str, _>(after(last));
        clients
            .take(limit)
            .map(|(_, client)| client.clone())
            .collect()
    }

    pub(crate) fn client_of(&self, principal: &str) -> Option<String> {
        let mut clients = self.state.clients.values();
        clients
            .find(|client| client.principal_name().as_deref() == Some(principal))
            .map(|client| client.client_id.clone())
    }

    pub(crate) fn put_client(&mut self, client: &ClientRecord) {
        let id = client.client_id.clone();
        self.copy().clients.insert(id, client.clone());
    }

    pub(crate) fn remove_client(&mut self, id: &str) {
        let state = self.copy();
        state.clients.remove(id);
        state.keys.retain(|_, key| key.client_id != id);
    }

    pub(crate) fn keys(&self, client: &str, last: Option<Uuid>, limit: usize) -> Vec<KeyRecord> {
        let keys = self.state.keys.range(after(last));
        keys.map(|(_, key)| key)
            .filter(|key| key.client_id == client)
            .take(limit)
            .cloned()
            .collect()
    }

    pub(crate) fn key(&self, id: Uuid) -> Option<KeyRecord> {
        self.state.keys.get(&id).cloned()
    }

    pub(crate) fn put_key(&mut self, key: &KeyRecord) {
        self.copy().keys.insert(key.key_id, key.clone());
    }

    pub(crate) fn remove_key(&mut self, id: Uuid) {
        self.copy().keys.remove(&id);
    }

    pub(crate) fn audit(
        &self,
        rule: Option<Uuid>,
        client: Option<&str>,
        last: Option<(u64, u32)>,
        limit: usize,
    ) -> Vec<AuditRecord> {
        let audit = self.state.audit.iter();
        audit
            .filter(|note| last.is_none_or(|last| (note.revision, note.position) > last))
            .filter(|note| rule.is_none() || note.rule == rule)
            .filter(|note| client.is_none_or(|own| note.clients.iter().any(|one| one == own)))
            .take(limit)
            .cloned()
            .collect()
    }
}
