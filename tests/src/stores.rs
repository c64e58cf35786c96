//! The stores that stories share: one Redis and one Postgres for each test process, started by the first that asks.
//!
//! Nobody sees another's data: a key prefix and a database for each story. A story that stops, fills or counts a store
//! starts its own (`local::servers`). The shared ones end with the process.

use std::{
    process,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use local::servers::{Postgres, Redis};
use serde_json::json;
use tokio::sync::OnceCell;
use tokio_postgres::NoTls;

use crate::{Container, Function};

/// The Redis of this test process.
pub fn redis() -> &'static Redis {
    static REDIS: OnceLock<Redis> = OnceLock::new();
    REDIS.get_or_init(|| Redis::start().unwrap_or_else(|error| panic!("{error}")))
}

/// The Postgres of this test process.
pub fn postgres() -> &'static Postgres {
    static POSTGRES: OnceLock<Postgres> = OnceLock::new();
    POSTGRES.get_or_init(|| Postgres::start().unwrap_or_else(|error| panic!("{error}")))
}

/// A name that nobody else has: for a key prefix, a database, a client.
pub fn unique(word: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{word}{}_{number}", process::id())
}

/// The URL of a new database with every migration applied.
pub async fn database() -> String {
    // Nobody writes to this one: every other is a copy of it.
    static MIGRATED: OnceCell<String> = OnceCell::const_new();
    let template = MIGRATED.get_or_init(|| async {
        let name = unique("migrated");
        execute(&format!("CREATE DATABASE {name}")).await;
        migrate(&postgres().url_of(&name)).await;
        name
    });
    copy(template.await).await
}

/// The URL of a new database without a table.
pub async fn empty_database() -> String {
    copy("template1").await
}

/// Applies every migration with the function that does it in a deployment.
pub async fn migrate(database: &str) {
    let container = Container::start(Function::Migrate, [("DATABASE_URL", database)]).await;
    if let Err(error) = container.invoke(&json!({})).await {
        panic!("the migrations fail: {error}\n{}", container.logs());
    }
}

async fn copy(template: &str) -> String {
    let name = unique("story");
    execute(&format!("CREATE DATABASE {name} TEMPLATE {template}")).await;
    postgres().url_of(&name)
}

async fn execute(statement: &str) {
    let (client, connection) = tokio_postgres::connect(&postgres().url(), NoTls)
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    client.batch_execute(statement).await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
}
