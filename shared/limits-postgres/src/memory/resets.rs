//! Resets in memory.

use limits::registry::Resets;
use uuid::Uuid;

use super::View;

impl View {
    pub(crate) fn rule_generation(&self, rule: Uuid) -> u64 {
        let generation = self.state.rule_resets.get(&rule);
        generation.copied().unwrap_or_default()
    }

    pub(crate) fn put_rule_generation(&mut self, rule: Uuid, generation: u64) {
        self.copy().rule_resets.insert(rule, generation);
    }

    pub(crate) fn client_resets(&self, client: &str) -> Resets {
        let resets = self.state.client_resets.get(client);
        resets.cloned().unwrap_or_default()
    }

    pub(crate) fn put_client_resets(&mut self, client: &str, resets: &Resets) {
        let client = client.to_owned();
        self.copy().client_resets.insert(client, resets.clone());
    }
}
