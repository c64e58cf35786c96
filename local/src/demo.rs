//! What there is to play with: two clients, their keys, and a rule for the tier of each.

use limits::Draft;
use limits::registry::key_hash;
use limits::rule::Tier;
use limits_postgres::change_clients::ClientDraft;
use limits_postgres::change_keys::KeyDraft;
use limits_postgres::page::MOST;
use limits_postgres::{Database, Refusal, WriteError};
use uuid::Uuid;

/// Who is named as having written it all.
const ACTOR: &str = "demo";
/// The pattern of the rules: everything.
const EVERYTHING: &str = "*";
/// The window of the rules, in seconds.
const MINUTE: u64 = 60;

/// A client that is there from the start.
#[derive(Debug, Clone, Copy)]
pub struct Demo {
    /// Its id.
    pub client: &'static str,
    /// Its API key. It opens nothing but what is on this machine.
    pub key: &'static str,
    /// Its tier.
    pub tier: Tier,
    /// How many requests a client of the tier may make in a minute.
    pub limit: u64,
}

/// A client of the free tier.
pub const FREE: Demo = Demo {
    client: "demo-free",
    key: "demo-free-key",
    tier: Tier::Free,
    limit: 10,
};

/// A client of the paid tier.
pub const PAID: Demo = Demo {
    client: "demo-paid",
    key: "demo-paid-key",
    tier: Tier::Paid,
    limit: 100,
};

/// Writes what is missing of both clients, and leaves alone what is there, whatever became of it since. Gives the ids of
/// the rules of the free and of the paid tier.
pub async fn seed(database: &Database) -> Result<[Uuid; 2], WriteError> {
    Ok([
        seed_one(database, FREE).await?,
        seed_one(database, PAID).await?,
    ])
}

async fn seed_one(database: &Database, demo: Demo) -> Result<Uuid, WriteError> {
    let client = ClientDraft::new(demo.tier);
    match database.create_client(ACTOR, demo.client, client).await {
        Ok(_) | Err(WriteError::Refused(Refusal::ClientExists)) => {}
        Err(error) => return Err(error),
    }
    let hash = key_hash(demo.key);
    let keys = database.list_keys(demo.client, None, MOST).await?;
    let known = keys.is_some_and(|keys| keys.items.iter().any(|key| key.hash == hash));
    if !known {
        database
            .create_key(ACTOR, demo.client, demo.key, KeyDraft::default())
            .await?;
    }
    let rule = Draft {
        tier: Some(demo.tier),
        description: format!("what a client of the tier {} may do", demo.tier.as_str()),
        ..Draft::new(EVERYTHING, Some(demo.limit), MINUTE)
    };
    match database.create_rule(ACTOR, rule).await {
        Ok(written) => Ok(written.value.id),
        Err(WriteError::Refused(Refusal::RuleExists(rivals))) if !rivals.is_empty() => {
            Ok(rivals[0].id)
        }
        Err(error) => Err(error),
    }
}
