//! Regions that one topic tells of every change: each enforces by its own Redis, none is in another's way, and one whose database
//! is a replica follows.

use std::time::{Duration, Instant};

use limits_redis::keys::Keys;
use limits_redis::{Published, Store};
use local::servers::{End, Postgres, Redis};
use local::topic::Mode;
use serde_json::{Value, json};
use tests::{Container, Function, FunctionError, Region, question, stores};
use tokio_postgres::{Client, NoTls};

use crate::denials;
use crate::operations::{self, There};
use crate::walks::{World, allowed, passed};

/// Longer than anything here should take on a slow and busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

const RULE: &str = "GET /orders/*";

/// The stores of two regions.
struct Stores {
    primary: Postgres,
    replica: Postgres,
    redis: [Redis; 2],
}

impl Stores {
    async fn start() -> Self {
        let primary = Postgres::start().unwrap();
        stores::migrate(&primary.url()).await;
        Self {
            replica: primary.replica().unwrap(),
            primary,
            redis: [Redis::start().unwrap(), Redis::start().unwrap()],
        }
    }

    /// Two regions, the second of which reads the replica.
    async fn regions(&self) -> [World; 2] {
        let [one, other] = &self.redis;
        let each = [
            (one.url(), self.primary.url()),
            (other.url(), self.replica.url()),
        ];
        worlds(&each).await
    }

    /// Waits until the replica has all that was written.
    async fn replayed(&self) {
        let written = "SELECT pg_current_wal_lsn()::text";
        let written: String = psql(&self.primary.url())
            .await
            .query_one(written, &[])
            .await
            .unwrap()
            .get(0);
        let replica = psql(&self.replica.url()).await;
        let has = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'");
        let end = Instant::now() + PATIENCE;
        while !replica
            .query_one(&has, &[])
            .await
            .unwrap()
            .get::<_, bool>(0)
        {
            assert!(Instant::now() < end, "{}", self.replica.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The replica falls behind, until it may go on.
    async fn pause_replay(&self) {
        self.replayed().await;
        on(&self.replica, "SELECT pg_wal_replay_pause()").await;
    }

    /// When a function last asked the replica something.
    async fn replica_asked(&self) -> Option<String> {
        let asked =
            "SELECT max(query_start)::text FROM pg_stat_activity WHERE application_name = 'weir'";
        let replica = psql(&self.replica.url()).await;
        replica.query_one(asked, &[]).await.unwrap().get(0)
    }

    async fn resume_replay(&self) {
        on(&self.replica, "SELECT pg_wal_replay_resume()").await;
    }
}

async fn worlds<const N: usize>(each: &[(String, String); N]) -> [World; N] {
    let stores = each
        .each_ref()
        .map(|(redis, database)| (redis.as_str(), database.as_str()));
    let mut worlds = Vec::with_capacity(N);
    for region in Region::each(stores).await {
        worlds.push(World::of(region).await);
    }
    worlds
        .try_into()
        .unwrap_or_else(|_| unreachable!("one for each"))
}

async fn psql(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn on(server: &Postgres, statement: &str) {
    let client = psql(&server.url()).await;
    client.batch_execute(statement).await.unwrap();
}

/// What a region has published.
async fn head(world: &World) -> Published {
    let variable = |name: &str| world.region.variable(name);
    let keys = Keys::new(variable("KEY_PREFIX")).unwrap();
    let store = Store::open(variable("REDIS_URL"), keys).unwrap();
    store.head().await.unwrap().unwrap()
}

async fn authorizer(world: &World) -> Container {
    world.region.container(Function::Authorizer).await
}

fn rule(limit: u64) -> Value {
    json!({"resource": RULE, "limit": limit, "time_window": 86_400})
}

async fn make_rule(world: &World, limit: u64) -> String {
    let made = world.say("POST", "/ratelimit/rules", rule(limit)).await;
    made["id"].as_str().unwrap().to_owned()
}

async fn replace_rule(world: &World, id: &str, limit: u64) {
    let path = format!("/ratelimit/rules/{id}");
    world.say("PUT", &path, rule(limit)).await;
}

fn refused() -> Result<bool, FunctionError> {
    Err(FunctionError {
        error_type: "Unauthorized".to_owned(),
        error_message: "Unauthorized".to_owned(),
    })
}

fn schedule() -> Value {
    serde_json::from_str(include_str!("../../events/refresh-schedule.json")).unwrap()
}

#[tokio::test]
async fn what_is_written_once_is_enforced_in_both_regions_each_by_its_own_count() {
    let stores = Stores::start().await;
    let [one, other] = stores.regions().await;
    let key = one.client("eve", "free").await;
    let id = make_rule(&one, 4).await;
    let here = [authorizer(&one).await, authorizer(&one).await];
    let there = [authorizer(&other).await, authorizer(&other).await];
    let (here, there) = (here.each_ref(), there.each_ref());
    assert_eq!(passed(&here, &key, 9).await, 4);
    assert_eq!(passed(&there, &key, 9).await, 4);

    replace_rule(&one, &id, 6).await;
    denials::are_forgotten().await;
    assert_eq!(passed(&here, &key, 9).await, 2);
    assert_eq!(passed(&there, &key, 9).await, 2);

    let keys = one.say("GET", "/clients/eve/keys", Value::Null).await;
    let key_id = keys["keys"][0]["key_id"].as_str().unwrap();
    let path = format!("/clients/eve/keys/{key_id}");
    one.say("DELETE", &path, Value::Null).await;
    denials::are_forgotten().await;
    for authorizer in here.into_iter().chain(there) {
        assert_eq!(allowed(authorizer, &key).await, refused());
    }
}

#[tokio::test]
async fn a_refresh_that_is_dead_in_one_region_is_missed_there_alone_until_the_schedule_finds_another()
 {
    let stores = Stores::start().await;
    let [one, other] = stores.regions().await;
    let key = one.client("eve", "free").await;
    let id = make_rule(&one, 3).await;
    let (here, there) = (authorizer(&one).await, authorizer(&other).await);
    assert_eq!(passed(&[&here], &key, 5).await, 3);
    assert_eq!(passed(&[&there], &key, 5).await, 3);

    other.region.refresh.kill();
    replace_rule(&one, &id, 5).await;
    denials::are_forgotten().await;
    assert_eq!(passed(&[&here], &key, 5).await, 2);
    assert_eq!(passed(&[&there], &key, 5).await, 0);
    assert_eq!(one.region.topic.failures().len(), 1);

    let another = other.region.container(Function::Refresh).await;
    another.invoke(&schedule()).await.unwrap();
    denials::are_forgotten().await;
    assert_eq!(passed(&[&there], &key, 5).await, 2);
}

#[tokio::test]
async fn a_redis_that_is_out_in_one_region_is_missed_there_alone() {
    let mut stores = Stores::start().await;
    let [one, other] = stores.regions().await;
    let key = one.client("eve", "free").await;
    let id = make_rule(&one, 3).await;
    let (here, there) = (authorizer(&one).await, authorizer(&other).await);
    assert_eq!(passed(&[&here], &key, 2).await, 2);
    assert_eq!(passed(&[&there], &key, 2).await, 2);

    stores.redis[1].stop(End::Kill);
    // What is said of it meanwhile is in force where it can be.
    replace_rule(&one, &id, 4).await;
    assert_eq!(passed(&[&here], &key, 5).await, 2);
    let fallen_back = there.invoke(&crate::walks::request(&key)).await.unwrap();
    assert_eq!(fallen_back["context"]["degraded"], "1");

    stores.redis[1].restart().unwrap();
    other.scheduled().await;
    let end = Instant::now() + PATIENCE;
    loop {
        let answer = there.invoke(&crate::walks::request(&key)).await;
        if answer.is_ok_and(|answer| answer["context"]["degraded"] == "") {
            break;
        }
        assert!(Instant::now() < end, "{}", there.logs());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // It began with nothing, and one call has been counted by now.
    assert_eq!(passed(&[&there], &key, 5).await, 3);
}

#[tokio::test]
async fn a_follower_waits_for_a_replica_that_lags_and_takes_nothing_back() {
    let stores = Stores::start().await;
    let [one, other] = stores.regions().await;
    let key = one.client("eve", "free").await;
    let id = make_rule(&one, 2).await;
    let (here, there) = (authorizer(&one).await, authorizer(&other).await);
    assert_eq!(passed(&[&there], &key, 4).await, 2);
    let before = head(&other).await;

    stores.pause_replay().await;
    let event = question::control("PUT", &format!("/ratelimit/rules/{id}"), &[], rule(5));
    one.rules.invoke(&event).await.unwrap();
    // The first has it as soon as it is told, the second is still waiting.
    let end = Instant::now() + PATIENCE;
    while head(&one).await.version.revision == before.version.revision {
        assert!(Instant::now() < end, "{}", one.region.refresh.logs());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(passed(&[&here], &key, 9).await, 5);
    denials::are_forgotten().await;
    assert_eq!(passed(&[&there], &key, 2).await, 0);
    assert!(!one.region.topic.settled(Duration::ZERO).await);

    stores.resume_replay().await;
    assert!(one.region.topic.settled(PATIENCE).await);
    denials::are_forgotten().await;
    assert_eq!(passed(&[&there], &key, 9).await, 3);

    // Somebody has published more than the replica knows: it read the primary.
    stores.pause_replay().await;
    other.region.topic.set(Mode::Drop);
    replace_rule(&one, &id, 7).await;
    let ahead = [("DATABASE_URL", one.region.variable("DATABASE_URL"))];
    let ahead = other.region.container_with(Function::Refresh, &ahead).await;
    ahead.invoke(&schedule()).await.unwrap();
    let published = head(&other).await;
    let asked = stores.replica_asked().await;
    let went_on = async {
        let end = Instant::now() + PATIENCE;
        while stores.replica_asked().await == asked {
            assert!(Instant::now() < end, "{}", other.region.refresh.logs());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stores.resume_replay().await;
    };
    let schedule = schedule();
    let (report, ()) = tokio::join!(other.region.refresh.invoke(&schedule), went_on);
    assert_eq!(report.unwrap()["revision"], published.version.revision);
    assert_eq!(head(&other).await, published);
    assert_eq!(published.version.history, before.version.history);
    denials::are_forgotten().await;
    assert_eq!(passed(&[&there], &key, 9).await, 2);
    assert_eq!(one.region.topic.failures(), Vec::<String>::new());
}

#[tokio::test]
async fn a_replica_behind_what_is_published_is_waited_for_and_one_of_another_history_is_not() {
    let stores = Stores::start().await;
    let [one, other] = stores.regions().await;
    let key = one.client("eve", "free").await;
    make_rule(&one, 100).await;
    let there = authorizer(&other).await;
    assert_eq!(allowed(&there, &key).await, Ok(true));

    // What the first region's database is restored to, later.
    disconnect(&stores.primary).await;
    on(
        &stores.primary,
        "CREATE DATABASE restored TEMPLATE postgres",
    )
    .await;
    let lost = one.client("late", "free").await;
    assert_eq!(allowed(&there, &lost).await, Ok(true));
    let before = head(&other).await;
    stores.replayed().await;

    let behind = [("DATABASE_URL", stores.replica.url_of("restored"))];
    let behind = behind.each_ref().map(|(name, url)| (*name, url.as_str()));
    let refresh = other
        .region
        .container_with(Function::Refresh, &behind)
        .await;
    let error = refresh.invoke(&schedule()).await.unwrap_err();
    assert_eq!(error.error_type, "Behind", "{error}");
    assert_eq!(head(&other).await, before);
    assert_eq!(allowed(&there, &lost).await, Ok(true));

    // The first region's own is no replica: it sees for itself that it was restored.
    let restored = [("DATABASE_URL", stores.primary.url_of("restored"))];
    let restored = restored.each_ref().map(|(name, url)| (*name, url.as_str()));
    let primary = one
        .region
        .container_with(Function::Refresh, &restored)
        .await;
    primary.invoke(&schedule()).await.unwrap();
    let here = authorizer(&one).await;
    assert_eq!(allowed(&here, &lost).await, refused());
    assert_eq!(allowed(&here, &key).await, Ok(true));
    let clients = one
        .region
        .container_with(Function::Clients, &restored)
        .await;
    let new = question::control("POST", "/clients", &[], json!({"client_id": "new"}));
    assert_eq!(clients.invoke(&new).await.unwrap()["statusCode"], 201);
    stores.replayed().await;

    // The second has to be told.
    let told = include_str!("../../events/refresh-restored.json");
    let told: Value = serde_json::from_str(told).unwrap();
    let report = refresh.invoke(&told).await.unwrap();
    let after = head(&other).await;
    assert!(after.version.history > before.version.history);
    assert_eq!(report["revision"], after.version.revision);
    assert!(after.version.revision < before.version.revision);
    assert_eq!(allowed(&there, &lost).await, refused());
    assert_eq!(allowed(&there, &key).await, Ok(true));

    // The other one again, which is past this and of another history: a replica too is believed there.
    other.region.refresh.invoke(&schedule()).await.unwrap();
    assert!(head(&other).await.version.history > after.version.history);
    assert_eq!(allowed(&there, &lost).await, Ok(true));
}

/// Ends all others' sessions: nobody may have one in a database that is copied.
async fn disconnect(server: &Postgres) {
    let others = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
        WHERE application_name = 'weir' AND datname = current_database()";
    on(server, others).await;
}

#[tokio::test]
async fn the_control_api_of_a_follower_reads_and_says_where_to_write_until_its_replica_is_promoted()
{
    let stores = Stores::start().await;
    let [one, other] = stores.regions().await;
    let clients = other.region.container(Function::Clients).await;
    let ask_follower = async |method: &str, target: &str, body: Value| {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let query: Vec<(&str, &str)> = query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .collect();
        let function = match path.starts_with("/clients") {
            true => &clients,
            false => &other.rules,
        };
        let event = question::control(method, path, &query, body);
        let answer = function.invoke(&event).await.unwrap();
        let body = answer["body"].as_str().unwrap_or("null");
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        (answer["statusCode"].as_u64().unwrap(), body)
    };
    let mut there = There::default();
    for asked in operations::all("there") {
        let asked = asked.about(&there);
        let target = asked.target.replace("%2F", "/");
        stores.replayed().await;
        let (status, body) = ask_follower(asked.method, &target, asked.body.clone()).await;
        if asked.method == "GET" || asked.path == "/ratelimit/refresh" {
            assert_eq!(status, 200, "{asked:?}: {body}");
        } else {
            assert_eq!(status, 409, "{asked:?}: {body}");
            let detail = body["detail"].as_str().unwrap();
            assert!(detail.contains("Write where the primary is"), "{detail}");
        }
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let query: Vec<(&str, &str)> = query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .collect();
        let answer = one
            .call_with(asked.method, path, &query, asked.body.clone())
            .await;
        assert!((200..300).contains(&answer.status), "{asked:?}: {answer:?}");
        there.learn(&asked, &answer.body);
    }
    // What was asked for in the follower was announced.
    let (_, told) = ask_follower("POST", "/ratelimit/refresh", Value::Null).await;
    assert_eq!(told["propagation"], "announced");
    for target in [
        "/health",
        "/ratelimit/explain?client=eve&resource=/orders/1",
    ] {
        let (status, body) = ask_follower("GET", target, Value::Null).await;
        assert_eq!(status, 200, "{target}: {body}");
    }

    on(&stores.replica, "SELECT pg_promote()").await;
    for (path, body) in [
        ("/clients", json!({"client_id": "promoted"})),
        ("/ratelimit/rules", rule(5)),
    ] {
        let (status, body) = ask_follower("POST", path, body).await;
        assert_eq!(status, 201, "{path}: {body}");
    }
}
