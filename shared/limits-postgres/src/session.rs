//! One conversation with a store, in the words that the operations are written in.

use std::time::Duration;

use limits::registry::{Name, Resets};
use limits::rule::{Per, Status, Tier};
use limits::{Client, Lane, Place};
use serde_json::Value;
use uuid::Uuid;

use crate::database::DatabaseError;
use crate::feed::{Changes, Head};
use crate::memory::View;
use crate::postgres::Connection;
use crate::record::{AuditRecord, ClientRecord, KeyRecord, RuleRecord};
use crate::write::{Begun, Sealing};

/// Which rules a list is about. `None` is any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RuleFilter {
    /// For this client; the inner `None` is for no client.
    pub(crate) client: Option<Option<String>>,
    /// For this tier; the inner `None` is for no tier.
    pub(crate) tier: Option<Option<Tier>>,
    pub(crate) status: Option<Status>,
    /// The canonical text.
    pub(crate) pattern: Option<String>,
    pub(crate) per: Option<Per>,
}

/// A rule to be stored, with what it is found by.
#[derive(Debug, Clone)]
pub(crate) struct StoredRule {
    pub(crate) record: RuleRecord,
    pub(crate) place: Place,
    pub(crate) head: String,
    pub(crate) chunk: u16,
}

/// Whose rules are asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Whose<'a> {
    Anybody,
    /// Those of no client, or of one of these.
    Shared(&'a [String]),
}

/// A conversation with either store. Reads stand for themselves; writes are between [`Session::begin`] and [`Session::commit`].
pub(crate) enum Session {
    Postgres(Box<Connection>),
    Memory(View),
}

/// The same operation of either store.
macro_rules! either {
    ($session:expr, $store:ident => $call:expr, $view:ident => $memory:expr) => {
        match $session {
            Session::Postgres($store) => $call.await,
            Session::Memory($view) => Ok($memory),
        }
    };
}

type Answer<T> = Result<T, DatabaseError>;

impl Session {
    pub(crate) async fn begin(&mut self) -> Answer<Begun> {
        either!(self, c => c.begin(), v => v.begin())
    }

    /// Writes the revision, the audit rows and what the published copy must follow.
    pub(crate) async fn seal(&mut self, sealing: &Sealing) -> Answer<()> {
        either!(self, c => c.seal(sealing), v => v.seal(sealing))
    }

    pub(crate) async fn commit(&mut self) -> Answer<()> {
        either!(self, c => c.commit(), v => v.commit())
    }

    pub(crate) async fn roll_back(&mut self) -> Answer<()> {
        either!(self, c => c.roll_back(), v => v.roll_back())
    }

    pub(crate) async fn rules_by_id(&mut self, ids: &[Uuid]) -> Answer<Vec<RuleRecord>> {
        either!(self, c => c.rules_by_id(ids), v => v.rules_by_id(ids))
    }

    pub(crate) async fn rules_in(&mut self, places: &[Place]) -> Answer<Vec<RuleRecord>> {
        either!(self, c => c.rules_in(places), v => v.rules_in(places))
    }

    /// The distinct canonical patterns with one of these heads.
    pub(crate) async fn patterns(&mut self, heads: &[String]) -> Answer<Vec<String>> {
        either!(self, c => c.patterns(heads), v => v.patterns(heads))
    }

    /// The rules of these patterns that are not terminated, in the patterns' order and then by id, each with its pattern's
    /// place in the list; after that place and id.
    pub(crate) async fn rules_of(
        &mut self,
        patterns: &[String],
        whose: Whose<'_>,
        after: Option<(usize, Uuid)>,
        limit: usize,
    ) -> Answer<Vec<(usize, RuleRecord)>> {
        either!(self, c => c.rules_of(patterns, whose, after, limit), v => v.rules_of(patterns, whose, after, limit))
    }

    pub(crate) async fn list_rules(
        &mut self,
        filter: &RuleFilter,
        after: Option<Uuid>,
        limit: usize,
    ) -> Answer<Vec<RuleRecord>> {
        either!(self, c => c.list_rules(filter, after, limit), v => v.list_rules(filter, after, limit))
    }

    pub(crate) async fn put_rules(&mut self, rules: &[StoredRule]) -> Answer<()> {
        either!(self, c => c.put_rules(rules), v => v.put_rules(rules))
    }

    pub(crate) async fn remove_rules(&mut self, ids: &[Uuid]) -> Answer<()> {
        either!(self, c => c.remove_rules(ids), v => v.remove_rules(ids))
    }

    pub(crate) async fn client(&mut self, id: &str) -> Answer<Option<ClientRecord>> {
        either!(self, c => c.client(id), v => v.client(id))
    }

    pub(crate) async fn list_clients(
        &mut self,
        after: Option<&str>,
        limit: usize,
    ) -> Answer<Vec<ClientRecord>> {
        either!(self, c => c.list_clients(after, limit), v => v.list_clients(after, limit))
    }

    /// The id of the client that comes as a principal, as it is compared.
    pub(crate) async fn client_of(&mut self, principal: &str) -> Answer<Option<String>> {
        either!(self, c => c.client_of(principal), v => v.client_of(principal))
    }

    pub(crate) async fn put_client(&mut self, client: &ClientRecord) -> Answer<()> {
        either!(self, c => c.put_client(client), v => v.put_client(client))
    }

    /// Takes a client out, and its keys with it.
    pub(crate) async fn remove_client(&mut self, id: &str) -> Answer<()> {
        either!(self, c => c.remove_client(id), v => v.remove_client(id))
    }

    pub(crate) async fn keys(
        &mut self,
        client: &str,
        after: Option<Uuid>,
        limit: usize,
    ) -> Answer<Vec<KeyRecord>> {
        either!(self, c => c.keys(client, after, limit), v => v.keys(client, after, limit))
    }

    pub(crate) async fn key(&mut self, id: Uuid) -> Answer<Option<KeyRecord>> {
        either!(self, c => c.key(id), v => v.key(id))
    }

    pub(crate) async fn put_key(&mut self, key: &KeyRecord) -> Answer<()> {
        either!(self, c => c.put_key(key), v => v.put_key(key))
    }

    pub(crate) async fn remove_key(&mut self, id: Uuid) -> Answer<()> {
        either!(self, c => c.remove_key(id), v => v.remove_key(id))
    }

    /// The newest reset of all counters of a rule; 0 where there was none.
    pub(crate) async fn rule_generation(&mut self, rule: Uuid) -> Answer<u64> {
        either!(self, c => c.rule_generation(rule), v => v.rule_generation(rule))
    }

    pub(crate) async fn put_rule_generation(&mut self, rule: Uuid, generation: u64) -> Answer<()> {
        either!(self, c => c.put_rule_generation(rule, generation), v => v.put_rule_generation(rule, generation))
    }

    /// The resets of a client, registered or not.
    pub(crate) async fn client_resets(&mut self, client: &str) -> Answer<Resets> {
        either!(self, c => c.client_resets(client), v => v.client_resets(client))
    }

    pub(crate) async fn put_client_resets(&mut self, client: &str, resets: &Resets) -> Answer<()> {
        either!(self, c => c.put_client_resets(client, resets), v => v.put_client_resets(client, resets))
    }

    pub(crate) async fn audit(
        &mut self,
        rule: Option<Uuid>,
        client: Option<&str>,
        after: Option<(u64, u32)>,
        limit: usize,
    ) -> Answer<Vec<AuditRecord>> {
        either!(self, c => c.audit(rule, client, after, limit), v => v.audit(rule, client, after, limit))
    }

    pub(crate) async fn head(&mut self) -> Answer<Head> {
        either!(self, c => c.head(), v => v.head())
    }

    pub(crate) async fn replica_lag(&mut self) -> Answer<Option<Duration>> {
        either!(self, c => c.replica_lag(), _v => None)
    }

    pub(crate) async fn changes(&mut self, since: Option<Head>) -> Answer<Changes> {
        either!(self, c => c.changes(since), v => v.changes(since))
    }

    pub(crate) async fn chunks(&mut self, chunks: &[u16]) -> Answer<(Head, Vec<(u16, Value)>)> {
        either!(self, c => c.chunks(chunks), v => v.chunks(chunks))
    }

    pub(crate) async fn lane_revisions(&mut self) -> Answer<Vec<(Lane, u64)>> {
        either!(self, c => c.lane_revisions(), v => v.lane_revisions())
    }

    pub(crate) async fn lane_changes(&mut self, lane: Lane, since: u64) -> Answer<Vec<Name>> {
        either!(self, c => c.lane_changes(lane, since), v => v.lane_changes(lane, since))
    }

    pub(crate) async fn lane_names(
        &mut self,
        lane: Lane,
        after: Option<&Name>,
        limit: usize,
    ) -> Answer<Vec<Name>> {
        either!(self, c => c.lane_names(lane, after, limit), v => v.lane_names(lane, after, limit))
    }

    pub(crate) async fn entries(
        &mut self,
        names: &[Name],
    ) -> Answer<(Head, Vec<(Name, Option<Client>)>)> {
        either!(self, c => c.entries(names), v => v.entries(names))
    }
}
