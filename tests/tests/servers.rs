//! The private servers are what stories take them for.

use std::{
    fs,
    net::TcpStream,
    path::Path,
    time::{Duration, Instant},
};

use local::servers::{End, Postgres, Redis};
use redis::{Commands, Connection};
use serde_json::json;
use tests::{Container, Function, stores};
use tokio_postgres::NoTls;

fn connection(redis: &Redis) -> Connection {
    let client = redis::Client::open(redis.url()).unwrap();
    let wait = Duration::from_secs(5);
    let connection = client.get_connection_with_timeout(wait).unwrap();
    connection.set_read_timeout(Some(wait)).unwrap();
    connection
}

fn runs(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn redis_pid(redis: &Redis) -> u32 {
    let text: String = redis::cmd("INFO")
        .arg("server")
        .query(&mut connection(redis))
        .unwrap();
    let pid = text
        .lines()
        .find_map(|line| line.strip_prefix("process_id:"));
    pid.unwrap().trim().parse().unwrap()
}

#[test]
fn two_servers_do_not_see_each_other() {
    let (one, two) = (Redis::start().unwrap(), Redis::start().unwrap());
    let _: () = connection(&one).set("key", 1).unwrap();
    let elsewhere: Option<i32> = connection(&two).get("key").unwrap();
    assert_eq!(elsewhere, None);
    assert_ne!(one.port(), two.port());
}

#[test]
fn a_redis_comes_back_empty_on_its_port_after_a_crash() {
    let mut server = Redis::start().unwrap();
    let (url, pid) = (server.url(), redis_pid(&server));
    let _: () = connection(&server).set("key", 1).unwrap();
    server.stop(End::Kill);
    assert!(!runs(pid));
    assert!(
        redis::Client::open(server.url())
            .unwrap()
            .get_connection()
            .is_err()
    );
    server.restart().unwrap();
    assert_eq!(server.url(), url);
    let value: Option<i32> = connection(&server).get("key").unwrap();
    assert_eq!(value, None);
}

#[test]
fn a_paused_redis_answers_nothing_until_it_is_resumed() {
    let mut server = Redis::start().unwrap();
    let mut connection = connection(&server);
    server.pause();
    connection
        .set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    let late: redis::RedisResult<String> = redis::cmd("PING").query(&mut connection);
    assert!(late.unwrap_err().is_timeout());
    server.resume();
    redis_pid(&server);
}

#[test]
fn a_server_is_gone_with_its_folder_when_its_value_is_dropped() {
    let redis = Redis::start_with(&["--maxmemory", "8mb"]).unwrap();
    let (folder,): (String,) = redis::cmd("CONFIG")
        .arg("GET")
        .arg("dir")
        .query::<Vec<String>>(&mut connection(&redis))
        .map(|pair| (pair[1].clone(),))
        .unwrap();
    let limit: Vec<String> = redis::cmd("CONFIG")
        .arg("GET")
        .arg("maxmemory")
        .query(&mut connection(&redis))
        .unwrap();
    assert_eq!(limit[1], (8 * 1024 * 1024).to_string());
    let pid = redis_pid(&redis);
    assert!(runs(pid) && Path::new(&folder).exists());
    drop(redis);
    assert!(!runs(pid) && !Path::new(&folder).exists());
}

#[tokio::test]
async fn a_server_does_not_outlive_a_parent_that_is_killed() {
    // The parent is a process of its own: a container.
    let parent = Container::start(
        Function::Echo,
        [("TMPDIR", std::env::temp_dir().to_str().unwrap())],
    )
    .await;
    let answer = parent.invoke(&json!({ "redis": true })).await.unwrap();
    let address = ("127.0.0.1", answer["port"].as_u64().unwrap() as u16);
    assert!(TcpStream::connect(address).is_ok());
    drop(parent);
    let end = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(address).is_ok() {
        assert!(Instant::now() < end, "the Redis at {address:?} still runs");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn postgres(url: &str) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

#[tokio::test]
async fn postgres_keeps_its_data_over_a_restart_and_does_not_run_as_root() {
    let mut server = Postgres::start().unwrap();
    let client = postgres(&server.url()).await.unwrap();
    let made = "CREATE TABLE notes AS SELECT 7 AS note";
    client.batch_execute(made).await.unwrap();
    let row = client.query_one("SELECT pg_backend_pid()", &[]).await;
    let pid: i32 = row.unwrap().get(0);
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let users = status.lines().find(|line| line.starts_with("Uid:"));
    assert_ne!(users.unwrap().split_whitespace().nth(1), Some("0"));

    server.restart().unwrap();
    let client = postgres(&server.url()).await.unwrap();
    let row = client.query_one("SELECT note FROM notes", &[]).await;
    assert_eq!(row.unwrap().get::<_, i32>(0), 7);

    server.pause();
    let late = client.query_one("SELECT 1", &[]);
    let late = tokio::time::timeout(Duration::from_millis(100), late).await;
    assert!(late.is_err(), "a paused session answered");
    server.resume();
    client.query_one("SELECT 1", &[]).await.unwrap();
}

#[tokio::test]
async fn postgres_wants_its_password() {
    let server = stores::postgres();
    let wrong = format!("postgres://weir:wrong@127.0.0.1:{}/postgres", server.port());
    let error = postgres(&wrong).await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "28P01");
}

#[tokio::test]
async fn two_databases_do_not_see_each_other() {
    let (one, two) = (
        stores::empty_database().await,
        stores::empty_database().await,
    );
    let made = "CREATE TABLE notes (note int)";
    for url in [&one, &two] {
        let client = postgres(url).await.unwrap();
        client.batch_execute(made).await.unwrap();
    }
    assert_ne!(one, two);
}
