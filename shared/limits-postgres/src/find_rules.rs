//! Reading rules.

use std::collections::BTreeSet;

use limits::rule::{Per, Status, Tier};
use limits::{Pattern, Resource};
use uuid::Uuid;

use crate::crowd::met_patterns;
use crate::database::{Database, DatabaseError};
use crate::page::Page;
use crate::record::RuleRecord;
use crate::session::{RuleFilter, Session, Whose};

/// Which rules a list is about. `None` is any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// For this client.
    pub client: Option<String>,
    /// For this tier.
    pub tier: Option<Tier>,
    /// In this state.
    pub status: Option<Status>,
    /// About exactly this.
    pub resource: Option<Pattern>,
}

/// After what a page of the rules that a call could meet begins: the canonical pattern and the id of the last one told.
pub type MetCursor = (String, Uuid);

impl Database {
    /// The rule of that id.
    ///
    /// # Errors
    /// Where the database is out.
    pub async fn rule(&self, id: Uuid) -> Result<Option<RuleRecord>, DatabaseError> {
        let mut session = self.session().await?;
        Ok(session.rules_by_id(&[id]).await?.pop())
    }

    /// A page of rules, by id.
    ///
    /// # Errors
    /// Where the database is out.
    pub async fn list_rules(
        &self,
        filter: &Filter,
        after: Option<Uuid>,
        limit: usize,
    ) -> Result<Page<RuleRecord, Uuid>, DatabaseError> {
        let filter = RuleFilter {
            client: filter.client.clone().map(Some),
            tier: filter.tier.map(Some),
            status: filter.status,
            pattern: filter
                .resource
                .as_ref()
                .map(|pattern| pattern.canonical().to_owned()),
            per: None,
        };
        let mut session = self.session().await?;
        let rules = session.list_rules(&filter, after, limit + 1).await?;
        Ok(Page::cut(rules, limit, |rule| rule.id))
    }

    /// A page of every rule, active or shadow, that a call to `resource` could meet, most specific first and then by id. A
    /// resource without a method stands for a call by any.
    ///
    /// # Errors
    /// Where the database is out.
    pub async fn rules_met(
        &self,
        resource: &str,
        after: Option<MetCursor>,
        limit: usize,
    ) -> Result<Page<RuleRecord, MetCursor>, DatabaseError> {
        let mut session = self.session().await?;
        let calls = calls(&mut session, resource).await?;
        let calls: Vec<Resource<'_>> = calls.iter().map(|call| Resource::parse(call)).collect();
        let met = met_patterns(&mut session, &calls).await?;
        // What was told already is more specific than the rest; its pattern may have gone in the meantime.
        let (met, after) = match after {
            None => (met, None),
            Some((canonical, id)) => {
                let last = Some(Pattern::from_canonical(&canonical));
                let rest: Vec<Pattern> = met
                    .into_iter()
                    .filter(|pattern| last.as_ref().is_none_or(|last| pattern <= last))
                    .collect();
                let within = rest.first() == last.as_ref();
                (rest, within.then_some((0, id)))
            }
        };
        let patterns: Vec<String> = met.iter().map(|p| p.canonical().to_owned()).collect();
        let rules = session
            .rules_of(&patterns, Whose::Anybody, after, limit + 1)
            .await?;
        let page = Page::cut(rules, limit, |(place, rule)| (*place, rule.id));
        Ok(Page {
            next: page
                .next
                .and_then(|(place, id)| Some((patterns.get(place)?.clone(), id))),
            items: page.items.into_iter().map(|(_, rule)| rule).collect(),
        })
    }

    /// The token buckets of a pair, by id: of `client`, or of nobody's, for exactly this pattern.
    ///
    /// # Errors
    /// Where the database is out.
    pub async fn rules_of_pair(&self, pair: &Pair) -> Result<Vec<RuleRecord>, DatabaseError> {
        rules_of_pair(&mut self.session().await?, pair).await
    }
}

/// A client and what it calls, as the form of `/rule` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// Whose bucket; none is everybody's.
    pub client: Option<String>,
    /// What is called.
    pub resource: Pattern,
}

impl Pair {
    /// Who shares its bucket.
    pub fn per(&self) -> Per {
        match self.client {
            Some(_) => Per::Client,
            None => Per::All,
        }
    }
}

pub(crate) async fn rules_of_pair(
    session: &mut Session,
    pair: &Pair,
) -> Result<Vec<RuleRecord>, DatabaseError> {
    let filter = RuleFilter {
        client: Some(pair.client.clone()),
        tier: Some(None),
        status: None,
        pattern: Some(pair.resource.canonical().to_owned()),
        per: Some(pair.per()),
    };
    let mut rules = session.list_rules(&filter, None, crate::page::MOST).await?;
    rules.retain(|rule| rule.draft.algorithm == limits::rule::Algorithm::TokenBucket);
    Ok(rules)
}

/// The calls that a resource stands for: itself, and without a method also one by each method that a rule of its path has.
async fn calls(session: &mut Session, resource: &str) -> Result<Vec<String>, DatabaseError> {
    let mut calls = vec![resource.to_owned()];
    if resource.starts_with('/') {
        let heads = Resource::parse(resource).heads();
        let heads: Vec<String> = heads
            .into_iter()
            .filter(|head| !head.contains(char::is_control))
            .collect();
        let patterns = session.patterns(&heads).await?;
        let methods: BTreeSet<&str> = patterns
            .iter()
            .filter_map(|canonical| canonical.split_once(' '))
            .map(|(method, _)| method)
            .collect();
        calls.extend(methods.iter().map(|method| format!("{method} {resource}")));
    }
    Ok(calls)
}
