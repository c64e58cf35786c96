//! The few connections of a container: never more than two, none that is dead, and through a pooler none that is its own.

use std::time::Duration;

use futures::future::join_all;
use local::servers::PgBouncer;
use serde_json::{Value, json};
use tests::{Container, Function, Line, Region, stores};
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::{Client, NoTls};

use crate::audit::{http, rest};
use crate::operations::{self, Asked, There};

/// What a caller waits at most, and something for a busy machine.
const PATIENCE: Duration = Duration::from_secs(8);

async fn psql(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// How many connections of ours the database of that session has.
async fn connections(psql: &Client) -> i64 {
    let count = "SELECT count(*) FROM pg_stat_activity
        WHERE application_name = 'weir' AND datname = current_database()";
    psql.query_one(count, &[]).await.unwrap().get(0)
}

fn rule(resource: &str) -> Value {
    rest(
        "POST",
        "/ratelimit/rules",
        &json!({"resource": resource, "limit": 5, "time_window": 60}),
    )
}

#[tokio::test]
async fn one_container_has_two_connections_however_many_ask_it_at_once() {
    let url = stores::database().await;
    let variables = [
        ("DATABASE_URL", url.as_str()),
        ("AWS_LAMBDA_MAX_CONCURRENCY", "50"),
    ];
    let container = Container::start(Function::Rules, variables).await;
    let psql = psql(&url).await;
    let mut most = 0;
    for round in 0..3 {
        let asked = join_all((0..50).map(|n| {
            let event = match n % 2 {
                0 => rule(&format!("/{round}/{n}")),
                _ => rest("GET", "/ratelimit/audit", &Value::Null),
            };
            let container = &container;
            async move { container.invoke(&event).await.unwrap() }
        }));
        let counted = async {
            loop {
                most = connections(&psql).await.max(most);
                sleep(Duration::from_millis(1)).await;
            }
        };
        let answers = tokio::select! {
            answers = asked => answers,
            never = counted => never,
        };
        let done = answers.iter().filter(|answer| answer["statusCode"] != 503);
        // On a busy machine some may have waited for too long.
        assert!(done.count() >= 10);
    }
    assert_eq!(most, 2);
}

#[tokio::test]
async fn a_connection_that_died_while_the_container_was_frozen_fails_no_request() {
    let url = stores::database().await;
    let psql = psql(&url).await;
    let line = Line::to(stores::postgres().port()).await;
    let through = line.through(&url);
    let container = Container::start(Function::Rules, [("DATABASE_URL", &through)]).await;
    let write = async |n: u32| {
        let event = rule(&format!("/{n}"));
        let answer = timeout(PATIENCE, container.invoke(&event)).await;
        let answer = answer.unwrap().unwrap();
        assert_eq!(
            answer["statusCode"],
            201,
            "{n}: {answer}\n{}",
            container.logs()
        );
    };
    write(0).await;
    for n in 1..=20 {
        container.freeze();
        let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
            WHERE application_name = 'weir' AND datname = current_database()";
        assert!(!psql.query(end, &[]).await.unwrap().is_empty());
        container.thaw();
        write(n).await;
    }
    // What is in between may forget a connection, or reset it.
    for n in 21..=23 {
        container.freeze();
        line.lose();
        container.thaw();
        write(n).await;
    }
    for n in 24..=26 {
        container.freeze();
        line.cut();
        container.thaw();
        write(n).await;
    }
}

/// What a REST API hands over for this.
fn event(asked: &Asked) -> Value {
    let (path, query) = asked.target.split_once('?').unwrap_or((&asked.target, ""));
    let mut event = rest(asked.method, path, &asked.body);
    if !query.is_empty() {
        let mut told = http(asked.method, path, query);
        told["body"] = event["body"].take();
        return told;
    }
    event
}

#[tokio::test]
async fn a_connection_to_where_nothing_may_be_written_any_more_is_not_used_again() {
    let url = stores::database().await;
    let psql = psql(&url).await;
    let name = url.rsplit('/').next().unwrap();
    let container = Container::start(Function::Rules, [("DATABASE_URL", &url)]).await;
    let write = async |n: u32| {
        let answer = container.invoke(&rule(&format!("/{n}"))).await.unwrap();
        answer["statusCode"].clone()
    };
    assert_eq!(write(0).await, 201);
    // As a primary that was demoted: what is connected from now on may only read.
    let demoted = format!(
        "ALTER DATABASE {name} SET default_transaction_read_only = on;
         SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
            WHERE application_name = 'weir' AND datname = current_database();"
    );
    psql.batch_execute(&demoted).await.unwrap();
    assert_eq!(write(1).await, 503);
    // Behind the same name there is another by now.
    let replaced = format!("ALTER DATABASE {name} RESET default_transaction_read_only");
    psql.batch_execute(&replaced).await.unwrap();
    assert_eq!(write(2).await, 201);
}

#[tokio::test]
async fn through_a_pooler_everything_is_done_many_times_at_once() {
    let direct = stores::database().await;
    let name = direct.rsplit('/').next().unwrap();
    // A transaction has another session than the one before.
    let few = [("default_pool_size", "3"), ("server_round_robin", "1")];
    let pool = PgBouncer::start_with(stores::postgres(), &few).unwrap();
    let region = Region::with(&stores::redis().url(), &pool.url_of(name)).await;
    let many = [("AWS_LAMBDA_MAX_CONCURRENCY", "4")];
    let rules = region.container_with(Function::Rules, &many).await;
    let clients = region.container_with(Function::Clients, &many).await;
    let refresh = region.container(Function::Refresh).await;
    refresh.invoke(&json!({})).await.unwrap();

    let walk = async |word: String| {
        let mut there = There::default();
        for asked in operations::all(&word) {
            let asked = asked.about(&there);
            let container = if asked.is_about_clients() {
                &clients
            } else {
                &rules
            };
            let event = event(&asked);
            // Who waited for too long on a busy machine asks again, as it is told.
            let end = Instant::now() + 4 * PATIENCE;
            let answer = loop {
                let answer = container.invoke(&event).await.unwrap();
                if answer["statusCode"] != 503 {
                    break answer;
                }
                assert!(
                    Instant::now() < end && container.logs().contains("Timeout"),
                    "{asked:?}: {answer}\n{}",
                    container.logs()
                );
            };
            let status = answer["statusCode"].as_u64().unwrap();
            assert!((200..300).contains(&status), "{asked:?}: {answer}");
            let body = answer["body"].as_str().unwrap_or_default();
            let body: Value = serde_json::from_str(body).unwrap_or_default();
            there.learn(&asked, &body);
        }
    };
    let publish = async {
        for _ in 0..4 {
            refresh.invoke(&json!({})).await.unwrap();
        }
    };
    tokio::join!(join_all((0..6).map(|n| walk(format!("w{n}")))), publish);

    let report = refresh.invoke(&json!({})).await.unwrap();
    let psql = psql(&direct).await;
    let head = psql.query_one("SELECT revision FROM head", &[]).await;
    let head: i64 = head.unwrap().get(0);
    assert_eq!(report["revision"], head);
    assert!(connections(&psql).await <= 3, "the pooler's");
    let left = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    let left: i64 = psql.query_one(left, &[]).await.unwrap().get(0);
    assert_eq!(left, 0);
}
