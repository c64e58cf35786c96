//! Letting counters start fresh: nothing is deleted anywhere, the buckets get other names.

use limits::Fault;
use limits::registry::{MOST_RESET, Name, Resets};
use limits::rule::Per;
use serde::Serialize;
use uuid::Uuid;

use crate::change_clients::touch_keys;
use crate::database::Database;
use crate::record::RuleRecord;
use crate::refusal::{Refusal, WriteError};
use crate::write::{Write, Written};

/// Whose counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whose {
    /// All of a client, whatever the rule, the default limit's among them.
    Client(String),
    /// All of a rule, whoever owns them.
    Rule(Uuid),
    /// That of a client by one rule.
    ClientByRule(String, Uuid),
}

/// What was reset, as the API and the audit show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reset {
    /// The client; none where it was every owner's.
    pub client: Option<String>,
    /// The rule; none where it was every rule's.
    pub rule_id: Option<Uuid>,
    /// Since when they count: seconds since 1970, or one more than the last reset where that is greater. 0 where they were never
    /// reset.
    pub generation: u64,
}

impl Database {
    /// Lets counters start fresh. A client need not be registered: it is not by this, and may be later.
    ///
    /// # Errors
    /// Where there is no such rule, the rule keeps no counter of that client, too many single rules of the client were reset
    /// already, or the database is out.
    pub async fn reset(&self, actor: &str, whose: &Whose) -> Result<Written<Reset>, WriteError> {
        let mut write = self.begin(actor).await?;
        let outcome = reset(&mut write, whose).await;
        write.finish(outcome).await
    }
}

async fn reset(write: &mut Write, whose: &Whose) -> Result<Reset, WriteError> {
    let now = u64::try_from(write.at().unix_timestamp()).unwrap_or_default();
    let (client, rule, last, generation) = match whose {
        Whose::Client(client) => {
            let mut resets = write.session.client_resets(client).await?;
            let last = resets.of(None);
            let generation = whole(&mut resets, now);
            put(write, client, &resets).await?;
            (Some(client), None, last, generation)
        }
        Whose::Rule(id) => {
            let rule = present(write, *id).await?;
            let session = &mut write.session;
            let last = session.rule_generation(*id).await?;
            let generation = now.max(last + 1);
            session.put_rule_generation(*id, generation).await?;
            (None, Some(rule), last, generation)
        }
        Whose::ClientByRule(client, id) => {
            let rule = present(write, *id).await?;
            check_counter(&rule, client)?;
            let mut resets = write.session.client_resets(client).await?;
            let last = resets.of(Some(*id));
            let generation = now.max(last + 1);
            single(write, &mut resets, *id, generation).await?;
            put(write, client, &resets).await?;
            (Some(client), Some(rule), last, generation)
        }
    };
    let after = Reset {
        client: client.cloned(),
        rule_id: rule.as_ref().map(|rule| rule.id),
        generation,
    };
    let before = Reset {
        generation: last,
        ..after.clone()
    };
    write.note_reset(rule.as_ref(), &before, &after);
    Ok(after)
}

async fn present(write: &mut Write, id: Uuid) -> Result<RuleRecord, WriteError> {
    let rule = write.session.rules_by_id(&[id]).await?.pop();
    Ok(rule.ok_or(Refusal::NotFound("rule"))?)
}

/// Refuses what would reset nothing.
fn check_counter(rule: &RuleRecord, client: &str) -> Result<(), Refusal> {
    let detail = match (&rule.draft.client, rule.draft.per) {
        (Some(own), _) if own != client => "must not be a rule for another client",
        (_, Per::All | Per::Ip) => {
            "must be a rule per client: this one keeps no counter of one client; reset it without `client`"
        }
        (_, Per::Client) => return Ok(()),
    };
    Err(Refusal::Faults(vec![Fault::new("rule_id", detail)]))
}

/// A reset of all is newer than all there was, which need not be kept any more.
fn whole(resets: &mut Resets, now: u64) -> u64 {
    let single = resets.generations.values();
    let last = single.copied().max().unwrap_or(0).max(resets.generation);
    *resets = Resets {
        generation: now.max(last + 1),
        ..Resets::default()
    };
    resets.generation
}

async fn single(
    write: &mut Write,
    resets: &mut Resets,
    rule: Uuid,
    generation: u64,
) -> Result<(), WriteError> {
    let all = &mut resets.generations;
    all.insert(rule, generation);
    if all.len() > MOST_RESET {
        // Rules that are gone make room. One that came back under its id, which a batch may give it, might find what is left of
        // its bucket from before this reset: stricter for the time of its window, and never laxer.
        let ids: Vec<Uuid> = all.keys().copied().collect();
        let there = write.session.rules_by_id(&ids).await?;
        all.retain(|id, _| there.iter().any(|rule| rule.id == *id));
    }
    if all.len() > MOST_RESET {
        return Err(Refusal::TooManyResets.into());
    }
    Ok(())
}

/// Keeps the resets of a client. The entries of its id, principal and keys follow.
async fn put(write: &mut Write, client: &str, resets: &Resets) -> Result<(), WriteError> {
    write.session.put_client_resets(client, resets).await?;
    write.touch(Name::Client(client.to_owned()));
    if let Some(registered) = write.session.client(client).await? {
        if let Some(principal) = registered.principal_name() {
            write.touch(Name::Principal(principal));
        }
        touch_keys(write, client).await?;
    }
    Ok(())
}
