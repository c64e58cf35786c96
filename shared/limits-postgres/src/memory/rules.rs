//! Rules in memory.

use std::ops::Bound;

use limits::Place;
use limits::rule::Status;
use uuid::Uuid;

use super::View;
use crate::record::RuleRecord;
use crate::session::{RuleFilter, StoredRule, Whose};

/// Everything after a key.
pub(super) fn after<K>(key: Option<K>) -> (Bound<K>, Bound<K>) {
    (
        key.map_or(Bound::Unbounded, Bound::Excluded),
        Bound::Unbounded,
    )
}

impl RuleFilter {
    fn fits(&self, rule: &StoredRule) -> bool {
        let draft = &rule.record.draft;
        self.client.as_ref().is_none_or(|own| *own == draft.client)
            && self.tier.is_none_or(|own| own == draft.tier)
            && self.status.is_none_or(|own| own == draft.status)
            && self.per.is_none_or(|own| own == draft.per)
            && self
                .pattern
                .as_ref()
                .is_none_or(|own| *own == rule.place.pattern)
    }
}

impl View {
    pub(crate) fn rules_by_id(&self, ids: &[Uuid]) -> Vec<RuleRecord> {
        ids.iter()
            .filter_map(|id| self.state.rules.get(id))
            .map(|rule| rule.record.clone())
            .collect()
    }

    pub(crate) fn rules_in(&self, places: &[Place]) -> Vec<RuleRecord> {
        let rules = self.state.rules.values();
        rules
            .filter(|rule| places.contains(&rule.place))
            .map(|rule| rule.record.clone())
            .collect()
    }

    pub(crate) fn patterns(&self, heads: &[String]) -> Vec<String> {
        let rules = self.state.rules.values();
        let mut patterns: Vec<String> = rules
            .filter(|rule| heads.contains(&rule.head))
            .map(|rule| rule.place.pattern.clone())
            .collect();
        patterns.sort_unstable();
        patterns.dedup();
        patterns
    }

    pub(crate) fn rules_of(
        &self,
        patterns: &[String],
        whose: Whose<'_>,
        after: Option<(usize, Uuid)>,
        limit: usize,
    ) -> Vec<(usize, RuleRecord)> {
        let asked = |rule: &StoredRule| match (whose, &rule.record.draft.client) {
            (Whose::Anybody, _) | (_, None) => true,
            (Whose::Shared(clients), Some(client)) => clients.contains(client),
        };
        let rules = self.state.rules.values();
        let mut rules: Vec<(usize, RuleRecord)> = rules
            .filter(|rule| rule.record.draft.status != Status::Terminated && asked(rule))
            .filter_map(|rule| {
                let place = patterns.iter().position(|own| *own == rule.place.pattern)?;
                Some((place, rule.record.clone()))
            })
            .filter(|(place, rule)| after.is_none_or(|after| (*place, rule.id) > after))
            .collect();
        rules.sort_unstable_by_key(|(place, rule)| (*place, rule.id));
        rules.truncate(limit);
        rules
    }

    pub(crate) fn list_rules(
        &self,
        filter: &RuleFilter,
        last: Option<Uuid>,
        limit: usize,
    ) -> Vec<RuleRecord> {
        let rules = self.state.rules.range(after(last));
        rules
            .map(|(_, rule)| rule)
            .filter(|rule| filter.fits(rule))
            .take(limit)
            .map(|rule| rule.record.clone())
            .collect()
    }

    pub(crate) fn put_rules(&mut self, rules: &[StoredRule]) {
        let rules = rules.iter().map(|rule| (rule.record.id, rule.clone()));
        self.copy().rules.extend(rules);
    }

    pub(crate) fn remove_rules(&mut self, ids: &[Uuid]) {
        self.copy().rules.retain(|id, _| !ids.contains(id));
    }
}
