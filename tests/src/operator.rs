//! What operators have said: rules, clients and keys, published without a control API in between.

use limits::{Draft, Fields};
use limits_postgres::{
    Database, Expected,
    change_clients::ClientDraft,
    change_keys::KeyDraft,
    change_rules::{Put, Target},
};
use limits_redis::{Store, keys::Keys};
use refresh::Refresh;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{Container, Function, stores};

const ACTOR: &str = "operator";

/// A database in memory, and what is published from it into a Redis under a key prefix of its own. Every change is published
/// before it returns.
pub struct Operator {
    /// What operators have said.
    pub database: Database,
    /// What is published of it.
    pub store: Store,
    refresh: Refresh,
    redis: String,
    prefix: String,
}

impl Operator {
    /// In the Redis that stories share.
    pub async fn new() -> Self {
        Self::at(&stores::redis().url()).await
    }

    /// In a Redis by URL.
    pub async fn at(redis: &str) -> Self {
        let prefix = stores::unique("o");
        let store = Store::open(redis, Keys::new(&prefix).unwrap()).unwrap();
        let database = Database::memory();
        let operator = Self {
            refresh: Refresh::new(database.clone(), store.clone()),
            store,
            database,
            redis: redis.to_owned(),
            prefix,
        };
        operator.publish().await;
        operator
    }

    /// A container of a function that asks this Redis, with more variables. A slow machine is no outage: it has a second for
    /// each decision.
    pub async fn container(&self, function: Function, more: &[(&str, &str)]) -> Container {
        let own = [
            ("REDIS_URL", self.redis.as_str()),
            ("KEY_PREFIX", &self.prefix),
            ("REDIS_TIMEOUT_MS", "1000"),
        ];
        Container::start(function, own.into_iter().chain(more.iter().copied())).await
    }

    /// Makes a client; `fields` are those of its body.
    pub async fn client(&self, id: &str, fields: Value) {
        let draft = read(&fields, ClientDraft::read);
        let made = self.database.create_client(ACTOR, id, draft).await;
        made.unwrap();
        self.publish().await;
    }

    /// Replaces a client.
    pub async fn replace_client(&self, id: &str, fields: Value) {
        let draft = read(&fields, ClientDraft::read);
        let made = self
            .database
            .replace_client(ACTOR, id, draft, Expected::Whatever);
        made.await.unwrap();
        self.publish().await;
    }

    /// Gives a client an API key, and tells the key's id.
    pub async fn key(&self, client: &str, api_key: &str) -> Uuid {
        let draft = read(&json!({}), KeyDraft::read);
        let made = self.database.create_key(ACTOR, client, api_key, draft);
        let id = made.await.unwrap().value.key_id;
        self.publish().await;
        id
    }

    /// Takes a key away.
    pub async fn delete_key(&self, client: &str, key: Uuid) {
        self.database.delete_key(ACTOR, client, key).await.unwrap();
        self.publish().await;
    }

    /// Makes a rule out of a body, and tells its id.
    pub async fn rule(&self, body: Value) -> Uuid {
        let draft = read(&body, |fields| Draft::read(fields).unwrap());
        let made = self.database.create_rule(ACTOR, draft).await.unwrap();
        self.publish().await;
        made.value.id
    }

    /// Makes many rules at once.
    pub async fn rules(&self, bodies: Vec<Value>) {
        let put = |body: &Value| Put {
            field: String::new(),
            target: Target::New,
            draft: read(body, |fields| Draft::read(fields).unwrap()),
            expected: Expected::Whatever,
        };
        let puts = bodies.iter().map(put).collect();
        let made = self.database.change_rules(ACTOR, puts, Vec::new()).await;
        made.unwrap();
        self.publish().await;
    }

    /// Replaces a rule.
    pub async fn replace_rule(&self, id: Uuid, body: Value) {
        let draft = read(&body, |fields| Draft::read(fields).unwrap());
        let made = self
            .database
            .replace_rule(ACTOR, id, draft, Expected::Whatever);
        made.await.unwrap();
        self.publish().await;
    }

    /// Takes a rule away.
    pub async fn delete_rule(&self, id: Uuid) {
        let gone = self.database.delete_rule(ACTOR, id, Expected::Whatever);
        gone.await.unwrap();
        self.publish().await;
    }

    /// The first part of every key.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Publishes all that differs, as the schedule does: a run that fails, as on a connection that a restart has cut, is
    /// followed by another.
    pub async fn publish(&self) {
        if self.refresh.run(0).await.is_err() {
            self.refresh.run(0).await.unwrap();
        }
    }
}

fn read<T>(body: &Value, read: impl FnOnce(&mut Fields<'_>) -> T) -> T {
    let mut fields = Fields::of(body).unwrap();
    let read = read(&mut fields);
    assert_eq!(fields.finish(), [], "{body}");
    read
}
