//! A database that crashes in the middle of many writes: what was answered is what is there.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use local::servers::{End, Postgres};
use serde_json::{Value, json};
use tests::{Container, Function, stores};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tokio_postgres::{Client, NoTls};

use crate::audit::rest;

/// Writes that must have been answered as done.
const WRITES: usize = 1000;
/// How many rules are written at once, where several are.
const SEVERAL: i64 = 5;
const CRASHES: usize = 4;

/// What a writer was told of one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Written { revision: i64 },
    NothingChanged,
    LookFirst,
}

/// One write: every row that it makes has its number as description.
struct Attempt {
    number: usize,
    rows: i64,
    told: Told,
}

/// What all writers have done together.
#[derive(Default)]
struct Progress {
    begun: AtomicUsize,
    written: AtomicUsize,
}

impl Progress {
    fn is_over(&self) -> bool {
        self.written.load(Ordering::SeqCst) >= WRITES
    }
}

/// The event of a write, and how many rows it makes. `own` is a rule that was written before.
fn write(number: usize, own: Option<&str>) -> (Value, i64) {
    let rule = |part: i64| {
        let resource = format!("/w{number}/{part}");
        json!({"resource": resource, "limit": 1, "time_window": 1, "description": number.to_string()})
    };
    match (number % 3, own) {
        (0, _) => {
            let several: Vec<_> = (0..SEVERAL).map(rule).collect();
            let batch = json!({"upsert": several});
            (rest("POST", "/ratelimit/rules:batch", &batch), SEVERAL)
        }
        (1, Some(own)) => (rest("PUT", &format!("/ratelimit/rules/{own}"), &rule(0)), 1),
        _ => (rest("POST", "/ratelimit/rules", &rule(0)), 1),
    }
}

async fn write_rules(container: Container, progress: &Progress) -> Vec<Attempt> {
    let mut attempts = Vec::new();
    let mut own = None;
    while !progress.is_over() {
        let number = progress.begun.fetch_add(1, Ordering::SeqCst);
        let (event, rows) = write(number, own.as_deref());
        let (told, answer) = tell(&container, &event, progress).await;
        if let (Told::Written { .. }, Some(id)) = (told, answer["id"].as_str()) {
            own = Some(id.to_owned());
        }
        attempts.push(Attempt { number, rows, told });
    }
    attempts
}

async fn write_clients(container: Container, progress: &Progress) -> Vec<Attempt> {
    let mut attempts = Vec::new();
    while !progress.is_over() {
        let number = progress.begun.fetch_add(1, Ordering::SeqCst);
        let client = json!({"client_id": format!("c{number}"), "description": number.to_string()});
        let event = rest("POST", "/clients", &client);
        let (told, _) = tell(&container, &event, progress).await;
        let rows = 1;
        attempts.push(Attempt { number, rows, told });
    }
    attempts
}

/// Writes once, and reads what one is told.
async fn tell(container: &Container, event: &Value, progress: &Progress) -> (Told, Value) {
    let answer = container.invoke(event).await.unwrap();
    let body: Value = serde_json::from_str(answer["body"].as_str().unwrap()).unwrap();
    let told = match answer["statusCode"].as_u64() {
        Some(200 | 201) => {
            progress.written.fetch_add(1, Ordering::SeqCst);
            let revision = body["revision"].as_i64().unwrap();
            Told::Written { revision }
        }
        Some(503) => {
            assert_eq!(tests::answer::headers(&answer)["retry-after"], "1");
            // It is away for a while.
            sleep(Duration::from_millis(20)).await;
            match body["detail"].as_str().unwrap() {
                detail if detail.contains("nothing was changed") => Told::NothingChanged,
                detail if detail.contains("look whether") => Told::LookFirst,
                detail => panic!("{detail}"),
            }
        }
        _ => panic!("{answer}"),
    };
    (told, body)
}

/// Crashes it, each time when so many more writes are done.
async fn crash(mut server: Postgres, progress: &Progress) -> Postgres {
    for crash in 1..=CRASHES {
        let enough = crash * WRITES / (CRASHES + 1);
        while progress.written.load(Ordering::SeqCst) < enough {
            sleep(Duration::from_millis(1)).await;
        }
        let crashed = tokio::task::spawn_blocking(move || {
            server.stop(End::Quit);
            server.restart().unwrap();
            server
        });
        server = crashed.await.unwrap();
    }
    server
}

async fn psql(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_crashes_loses_nothing_that_was_answered_and_keeps_nothing_in_part() {
    let server = Postgres::start().unwrap();
    let url = server.url();
    stores::migrate(&url).await;
    let container = |function| Container::start(function, [("DATABASE_URL", url.as_str())]);
    let rules = join_all([Function::Rules; 4].map(container)).await;
    let clients = container(Function::Clients).await;

    let progress = Progress::default();
    let writers = join_all(
        rules
            .into_iter()
            .map(|container| write_rules(container, &progress)),
    );
    let (rules, clients, _server) = tokio::join!(
        writers,
        write_clients(clients, &progress),
        crash(server, &progress)
    );
    let attempts: Vec<Attempt> = rules.into_iter().flatten().chain(clients).collect();

    let psql = psql(&url).await;
    let mut counts = [0; 4];
    for Attempt { number, rows, told } in &attempts {
        let audited = psql
            .query(
                "SELECT revision FROM audit WHERE after->>'description' = $1",
                &[&number.to_string()],
            )
            .await
            .unwrap();
        let revisions: Vec<i64> = audited.iter().map(|row| row.get(0)).collect();
        let whole = revisions.len() == usize::try_from(*rows).unwrap()
            && revisions.iter().all(|revision| *revision == revisions[0]);
        match told {
            Told::Written { revision } => {
                assert!(
                    whole && revisions[0] == *revision,
                    "{number}: {revisions:?}"
                );
                counts[0] += 1;
            }
            Told::NothingChanged => {
                assert!(revisions.is_empty(), "{number}: {revisions:?}");
                counts[1] += 1;
            }
            Told::LookFirst => {
                assert!(whole || revisions.is_empty(), "{number}: {revisions:?}");
                counts[2 + usize::from(whole)] += 1;
            }
        }
    }
    let [written, nothing, lost, kept] = counts;
    println!(
        "{written} written, {nothing} refused, {lost} lost and {kept} kept while they were written"
    );
    assert!(written >= WRITES && nothing >= CRASHES, "{counts:?}");

    // What the audit tells is what there is, and each revision left all that belongs to it.
    for (what, sql) in [
        (
            "revisions have gaps or the head is another",
            "SELECT head.revision FROM head
                WHERE revision <> (SELECT count(*) - 1 FROM revisions)
                OR NOT EXISTS (SELECT FROM revisions WHERE (revision, id) = (head.revision, head.id))",
        ),
        (
            "revisions without an audit row",
            "SELECT revision FROM revisions WHERE revision > 0 AND revision NOT IN (SELECT revision FROM audit)",
        ),
        (
            "rules that are not what their newest audit row says",
            "SELECT coalesce(rules.revision, told.revision) FROM rules FULL JOIN (
                SELECT DISTINCT ON (rule) rule, revision, after FROM audit WHERE rule IS NOT NULL
                ORDER BY rule, revision DESC
            ) AS told ON told.rule = rules.id
            WHERE (rules.revision, rules.description) IS DISTINCT FROM (told.revision, told.after->>'description')",
        ),
        (
            "rules whose chunk does not know of them",
            "SELECT rules.revision FROM rules LEFT JOIN rule_chunks USING (chunk)
                WHERE rule_chunks.revision IS NULL OR rule_chunks.revision < rules.revision",
        ),
        (
            "chunks that know of what is not there",
            "SELECT revision FROM rule_chunks WHERE revision NOT IN (SELECT revision FROM rules)",
        ),
        (
            "clients that are not what their audit row says, or whose name is not known to have changed",
            "SELECT coalesce(clients.revision, told.revision, name.revision) FROM clients
                FULL JOIN (SELECT * FROM audit WHERE rule IS NULL) AS told ON told.after->>'client_id' = client_id
                FULL JOIN registry_names AS name ON name.id = client_id
                WHERE clients.revision IS DISTINCT FROM told.revision OR clients.revision IS DISTINCT FROM name.revision",
        ),
    ] {
        let found = psql.query(sql, &[]).await.unwrap();
        let found: Vec<i64> = found.iter().map(|row| row.get(0)).collect();
        assert!(found.is_empty(), "{what}: {found:?}");
    }
}

/// Stands before a server and ends the first conversation that commits: before the server hears of it, or before the client does.
async fn interrupt(server: u16, heard: bool) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut patient = false;
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, server))
                .await
                .unwrap();
            let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
            // One conversation after the other: the first one ends, and the second goes on for ever.
            loop {
                tokio::select! {
                    count = client.read(&mut asked) => {
                        let asked = &asked[..count.unwrap_or(0)];
                        let commits = asked.windows(7).any(|word| word == b"COMMIT\0") && !patient;
                        if asked.is_empty() || (commits && !heard) {
                            patient |= commits;
                            break;
                        }
                        server.write_all(asked).await.unwrap();
                        if commits {
                            let answer = server.read(&mut answered).await;
                            assert_ne!(answer.unwrap(), 0);
                            patient = true;
                            break;
                        }
                    }
                    count = server.read(&mut answered) => {
                        let count = count.unwrap_or(0);
                        if count == 0 || client.write_all(&answered[..count]).await.is_err() {
                            break;
                        }
                    }
                }
            }
        }
    });
    port
}

#[tokio::test]
async fn who_is_not_told_of_a_commit_is_told_to_look_and_finds_all_of_it_or_nothing() {
    for heard in [false, true] {
        let url = stores::database().await;
        let direct = stores::postgres().port().to_string();
        let port = interrupt(stores::postgres().port(), heard)
            .await
            .to_string();
        let through = url.replace(&direct, &port);
        let container = Container::start(Function::Rules, [("DATABASE_URL", &through)]).await;
        let progress = Progress::default();
        let (first, rows) = write(0, None);
        let (told, _) = tell(&container, &first, &progress).await;
        assert_eq!(told, Told::LookFirst);
        let psql = psql(&url).await;
        let count = async |table: &str| -> i64 {
            let count = format!("SELECT count(*) FROM {table}");
            psql.query_one(&count, &[]).await.unwrap().get(0)
        };
        let wanted = if heard { rows } else { 0 };
        assert_eq!(
            (count("rules").await, count("audit").await),
            (wanted, wanted)
        );
        // The next write is the next revision.
        let (told, _) = tell(&container, &write(2, None).0, &progress).await;
        let revision = 1 + i64::from(heard);
        assert_eq!(told, Told::Written { revision });
        assert_eq!(count("revisions").await, revision + 1);
    }
}
