//! What Postgres itself does: it refuses bad rows, is migrated, and is sometimes out.

use std::time::{Duration, Instant};

use futures::future::join_all;
use limits::Draft;
use limits::rule::{Algorithm, Per};
use limits_postgres::Database;
use local::servers::{End, Postgres};
use serde_json::{Value, json};
use tests::{Container, Function, stores};
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use crate::control::Control;

/// What a caller waits at most while the database is out, and something for a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);

async fn psql(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn rule(resource: &str) -> Value {
    json!({"resource": resource, "limit": 10, "time_window": 60})
}

#[tokio::test]
async fn migrations_are_safe_at_once_and_twice() {
    let url = stores::empty_database().await;
    let migrate = || async {
        let container = Container::start(Function::Migrate, [("DATABASE_URL", url.as_str())]).await;
        let applied = container.invoke(&json!({})).await;
        applied.unwrap_or_else(|error| panic!("{error}\n{}", container.logs()))
    };
    let both = join_all([migrate(), migrate()]).await;
    let mut counts: Vec<usize> = both
        .iter()
        .map(|told| told["applied"].as_array().unwrap().len())
        .collect();
    counts.sort_unstable();
    assert_eq!(counts[0], 0, "one found nothing left to do");
    assert!(counts[1] > 0);
    let control = Control::at(&url);
    control.rule(rule("/a")).await;
    assert_eq!(migrate().await, json!({"applied": []}));
    assert_eq!(
        control.pages("rules", "/ratelimit/rules?", 9).await.len(),
        1,
        "and nothing is lost"
    );
}

#[tokio::test]
async fn a_row_that_the_constructor_would_refuse_cannot_be_stored() {
    let url = stores::database().await;
    let control = Control::at(&url);
    control.rule(rule("/a")).await;
    control.rule(rule("/b")).await;
    control.post("/clients", json!({"client_id": "eve"})).await;
    let psql = psql(&url).await;
    for change in [
        "rules SET resource = ''",
        "rules SET resource = repeat('x', 1025)",
        "rules SET client = ''",
        "rules SET client = repeat('x', 257)",
        "rules SET client = E'a\\u0007'",
        "rules SET client = E'a\\u0085'",
        "rules SET client = 'eve', tier = 'free'",
        "rules SET tier = 'gold'",
        "rules SET per = 'galaxy'",
        "rules SET \"override\" = NULL",
        "rules SET split = 0, per = 'all'",
        "rules SET split = 65, per = 'all', \"limit\" = 100",
        "rules SET split = NULL",
        "rules SET algorithm = 'guess'",
        "rules SET \"limit\" = -1",
        "rules SET \"limit\" = 1000000001",
        "rules SET \"limit\" = 1000000000",
        "rules SET time_window = 0",
        "rules SET time_window = 31622401",
        "rules SET burst = 0",
        "rules SET burst = 1000000000",
        "rules SET on_failure = 'panic'",
        "rules SET status = 'on'",
        "rules SET description = repeat('x', 1025)",
        "rules SET chunk = 4096",
        "rules SET pattern = '/same'",
        "clients SET client_id = ''",
        "clients SET tier = NULL",
        "clients SET status = 'shadow'",
        "clients SET may_ask = 'all'",
        "clients SET principal = 'x'",
        "head SET revision = -1",
    ] {
        let refused = psql.execute(&format!("UPDATE {change}"), &[]).await;
        let code = refused
            .unwrap_err()
            .code()
            .map(|code| code.code().to_owned());
        // Checks, uniqueness, not null.
        assert!(
            matches!(code.as_deref(), Some("23514" | "23505" | "23502")),
            "{change}: {code:?}"
        );
    }
    // The same bounds as the constructor has, seen from the other side.
    for change in [
        "\"limit\" = NULL",
        "\"limit\" = 0, burst = 1000000000",
        "\"limit\" = 75059993, burst = NULL",
        "client = repeat('é', 128)",
    ] {
        let one = format!("UPDATE rules SET {change} WHERE pattern = '/a'");
        assert_eq!(psql.execute(&one, &[]).await.unwrap(), 1, "{change}");
    }
    let second = psql
        .execute(
            "INSERT INTO head (only_one, revision, id) VALUES (false, 1, gen_random_uuid())",
            &[],
        )
        .await;
    assert!(second.is_err(), "there is one head");
}

#[tokio::test]
async fn the_constraints_and_the_constructor_draw_the_same_line_for_every_algorithm() {
    let url = stores::database().await;
    let control = Control::at(&url);
    control.rule(rule("/a")).await;
    let psql = psql(&url).await;
    let exact = |window: u64| (1_i64 << 52) / i64::try_from(window).unwrap();
    let mut lines = [0, 0];
    for algorithm in Algorithm::ALL {
        for window in [1, 60, 61, 86_400, 86_401, 31_622_400] {
            let ticks = window * limits::Tick::of_window(window).per_second();
            let most = [exact(ticks), exact(ticks / window), 10_000];
            let edges = most.into_iter().flat_map(|most| [most, most + 1]);
            let limits = edges.clone().chain([0, 1, 1_000_000_000]);
            for limit in limits.filter(|limit| *limit <= 1_000_000_000) {
                for burst in [None, Some(1), Some(exact(ticks)), Some(exact(ticks) + 1)] {
                    if burst.is_some_and(|burst| burst > 1_000_000_000) {
                        continue;
                    }
                    let draft = Draft {
                        algorithm: *algorithm,
                        burst: burst.map(i64::unsigned_abs),
                        ..Draft::new("/a", Some(limit.unsigned_abs()), window)
                    };
                    let made = limits::Rule::new(Uuid::nil(), draft).is_ok();
                    let change = "UPDATE rules SET algorithm = $1, \"limit\" = $2, burst = $3, time_window = $4";
                    let window = i64::try_from(window).unwrap();
                    let stored = psql
                        .execute(change, &[&algorithm.as_str(), &limit, &burst, &window])
                        .await
                        .is_ok();
                    assert_eq!(made, stored, "{algorithm} {limit}/{window} {burst:?}");
                    lines[usize::from(made)] += 1;
                }
            }
        }
    }
    assert!(lines.iter().all(|met| *met > 100), "{lines:?}");
}

#[tokio::test]
async fn the_constraints_and_the_constructor_draw_the_same_line_for_every_split() {
    let url = stores::database().await;
    let control = Control::at(&url);
    control.rule(rule("/a")).await;
    let psql = psql(&url).await;
    let mut lines = [0, 0];
    for per in Per::ALL {
        for algorithm in Algorithm::ALL {
            for limit in [None, Some(0), Some(1), Some(3), Some(64)] {
                for burst in [None, Some(1), Some(2), Some(64)] {
                    for split in [-1_i64, 0, 1, 2, 3, 4, 64, 65] {
                        // No draft has it, and no row.
                        let made = u64::try_from(split).is_ok_and(|split| {
                            let draft = Draft {
                                per: *per,
                                split,
                                algorithm: *algorithm,
                                burst: burst.map(i64::unsigned_abs),
                                ..Draft::new("/a", limit.map(i64::unsigned_abs), 60)
                            };
                            limits::Rule::new(Uuid::nil(), draft).is_ok()
                        });
                        let change = "UPDATE rules SET per = $1, algorithm = $2, \"limit\" = $3, burst = $4, split = $5";
                        let stored = psql
                            .execute(
                                change,
                                &[&per.as_str(), &algorithm.as_str(), &limit, &burst, &split],
                            )
                            .await
                            .is_ok();
                        let rule = format!("{per} {algorithm} {limit:?} {burst:?} / {split}");
                        assert_eq!(made, stored, "{rule}");
                        lines[usize::from(made)] += 1;
                    }
                }
            }
        }
    }
    assert!(lines.iter().all(|met| *met > 100), "{lines:?}");
}

#[tokio::test]
async fn a_database_that_is_not_there_is_503_and_heals() {
    let mut server = Postgres::start().unwrap();
    let control = Control::at(&server.url());
    let refused = control.get("/ratelimit/rules").await;
    assert_eq!(
        refused.is_problem(503).header("retry-after"),
        "1",
        "without a schema"
    );
    control.database.migrate().await.unwrap();
    control.rule(rule("/a")).await;

    server.stop(End::Interrupt);
    all_are_503(&control).await;
    server.restart().unwrap();
    assert_eq!(
        control.get("/ratelimit/rules").await.status,
        200,
        "{}",
        server.log()
    );
    control.rule(rule("/b")).await;

    // It accepts connections and answers nothing.
    server.pause();
    all_are_503(&control).await;
    server.resume();
    let rules = control.pages("rules", "/ratelimit/rules?", 9).await;
    assert_eq!(rules.len(), 2, "what was refused was not written");
    control.rule(rule("/c")).await;
}

async fn all_are_503(control: &Control) {
    let id = "01979c4e-0000-7000-8000-000000000000";
    let start = Instant::now();
    for answer in [
        control.post("/ratelimit/rules", rule("/x")).await,
        control.get(&format!("/ratelimit/rules/{id}")).await,
    ] {
        assert_eq!(answer.is_problem(503).header("retry-after"), "1");
        let told = answer.body.to_string();
        assert!(
            !told.contains("127.0.0.1") && !told.contains("postgres:"),
            "nothing of the inside: {told}"
        );
    }
    assert!(start.elapsed() < 2 * PATIENCE, "{:?}", start.elapsed());
    // Faults of the input need no database.
    control
        .post("/ratelimit/rules", json!({}))
        .await
        .is_problem(400);
    // All who ask at once wait no longer than one.
    let start = Instant::now();
    let many = join_all((0..8).map(|_| control.get("/clients"))).await;
    assert!(many.iter().all(|answer| answer.status == 503));
    assert!(start.elapsed() < 2 * PATIENCE, "{:?}", start.elapsed());
}

#[tokio::test]
async fn whoever_holds_the_head_keeps_writers_waiting_and_readers_not() {
    let url = stores::database().await;
    let control = Control::at(&url);
    control.rule(rule("/a")).await;
    let holder = psql(&url).await;
    holder
        .batch_execute("BEGIN; UPDATE head SET revision = revision")
        .await
        .unwrap();
    let start = Instant::now();
    control
        .post("/ratelimit/rules", rule("/b"))
        .await
        .is_problem(503);
    assert!(start.elapsed() < PATIENCE);
    assert_eq!(
        control.pages("rules", "/ratelimit/rules?", 9).await.len(),
        1
    );
    holder.batch_execute("ROLLBACK").await.unwrap();
    control.rule(rule("/b")).await;
}

#[tokio::test]
async fn the_role_has_deadlines_for_those_who_stop_in_the_middle() {
    let server = Postgres::start().unwrap();
    Database::parse(&server.url())
        .unwrap()
        .migrate()
        .await
        .unwrap();
    let psql = psql(&server.url()).await;
    for (setting, value) in [
        ("idle_in_transaction_session_timeout", "5s"),
        ("lock_timeout", "1500ms"),
        ("statement_timeout", "20s"),
    ] {
        let row = psql
            .query_one(&format!("SHOW {setting}"), &[])
            .await
            .unwrap();
        assert_eq!(row.get::<_, String>(0), value, "{setting}");
    }
}

#[tokio::test]
async fn no_statement_of_a_request_is_a_named_one() {
    let mut server = Postgres::start().unwrap();
    let control = Control::at(&server.url());
    control.database.migrate().await.unwrap();
    let psql = psql(&server.url()).await;
    // Names show in the log of every statement that is executed.
    psql.batch_execute("ALTER SYSTEM SET log_statement = 'all'")
        .await
        .unwrap();
    psql.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    while psql
        .query_one("SHOW log_statement", &[])
        .await
        .unwrap()
        .get::<_, String>(0)
        != "all"
    {
        tokio::task::yield_now().await;
    }
    let id = control.rule(rule("/a")).await;
    control
        .put(&format!("/ratelimit/rules/{id}"), rule("/b"))
        .await;
    control.get("/ratelimit/rules?applies_to=/b").await;
    control.post("/clients", json!({"client_id": "eve"})).await;
    control.post("/clients/eve/keys", json!({})).await;
    control.delete("/clients/eve?cascade=true").await;
    control.get("/ratelimit/audit").await;
    control.database.changes(None).await.unwrap();
    let log = server.log();
    let executed = log.matches("execute <unnamed>: ").count();
    assert!(executed > 20, "the log tells of them: {executed}\n{log}");
    // The one named statement is this test's own.
    let own = log.matches("execute s").count();
    assert_eq!(own, log.matches("SHOW log_statement").count(), "{log}");
    server.stop(End::Kill);
}

#[tokio::test]
async fn a_setting_that_is_missing_or_wrong_stops_the_start_by_name() {
    let iam = |url: &'static str| {
        vec![
            ("DATABASE_URL", url),
            ("DATABASE_AUTH", "iam"),
            ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
        ]
    };
    for (variables, told) in [
        (vec![], vec!["DATABASE_URL is missing"]),
        (
            vec![
                ("DATABASE_URL", "mysql://secret@h/d"),
                ("DATABASE_AUTH", "ldap"),
                ("RULES_TOPIC_ARN", "rules"),
                ("REDIS_URL", "http://x"),
            ],
            vec![
                "DATABASE_URL must",
                "DATABASE_AUTH must be url or iam",
                "RULES_TOPIC_ARN must",
                "REDIS_URL must",
            ],
        ),
        (
            vec![(
                "DATABASE_URL",
                "postgres://u:secret@h/d?sslmode=verify-full",
            )],
            vec!["DATABASE_URL must have the sslmode disable, prefer or require"],
        ),
        (
            vec![("DATABASE_URL", "postgres://u:secret@h/d?sslrootcert=secret")],
            vec!["DATABASE_URL must name no certificates"],
        ),
        (
            vec![("DATABASE_URL", "postgres://u:secret@h/d?secret=secret")],
            vec!["DATABASE_URL must be like"],
        ),
        (
            vec![("DATABASE_AUTH", "iam")],
            vec![
                "DATABASE_URL is missing",
                "AWS_ACCESS_KEY_ID is missing",
                "AWS_SECRET_ACCESS_KEY is missing",
            ],
        ),
        (iam("memory://"), vec!["DATABASE_URL must be postgres://"]),
        (
            iam("postgres://u:secret@h/d"),
            vec!["DATABASE_URL must hold no password"],
        ),
        (iam("postgres://h/d"), vec!["DATABASE_URL must name a user"]),
        (
            iam("postgres://u@h,i/d"),
            vec!["DATABASE_URL must name one host"],
        ),
        (
            iam("postgres://u@%2Ftmp/d"),
            vec!["DATABASE_URL must name one host"],
        ),
        (
            iam("postgres://u@h/d?sslmode=disable"),
            vec!["DATABASE_URL must not have sslmode=disable"],
        ),
    ] {
        let container = Container::start(Function::Rules, variables).await;
        let error = container.ready().await.unwrap_err().to_string();
        for text in told {
            assert!(error.contains(text), "{text} in {error}");
        }
        assert!(!error.contains("secret"), "{error}");
    }
}
