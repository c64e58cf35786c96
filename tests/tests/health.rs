//! How the stores are: looked at by `refresh` on its schedule, told in metrics and at `/health`, and in nobody's way.

use std::time::Duration;

use limits_postgres::Database;
use limits_redis::keys::Keys;
use local::servers::{Postgres, Redis};
use redis::AsyncCommands;
use serde_json::{Value, json};
use tests::{
    AwsHealth, Container, Function, Manner, RedisCluster, Region, question, stores, until,
};
use time::OffsetDateTime;

use crate::denials::connection;

/// A region in a Redis of its own, and a container of `refresh` that asks AWS how its stores are.
struct Scene<R = Redis> {
    redis: R,
    region: Region,
    aws: AwsHealth,
    refresh: Container,
    rules: Container,
}

impl Scene {
    async fn new() -> Self {
        Self::with(&[]).await
    }

    async fn with(more: &[(&str, &str)]) -> Self {
        let redis = Redis::start().unwrap();
        let url = redis.url();
        Self::within(redis, &url, more).await
    }
}

impl<R> Scene<R> {
    async fn within(redis: R, url: &str, more: &[(&str, &str)]) -> Self {
        let region = Region::with(url, &stores::database().await).await;
        let aws = AwsHealth::start().await;
        let variables = aws.variables();
        let variables = variables
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        let variables = [&variables[..], more].concat();
        Self {
            refresh: region.container_with(Function::Refresh, &variables).await,
            rules: region.container(Function::Rules).await,
            redis,
            region,
            aws,
        }
    }

    /// A run by the schedule, which must succeed; the metrics that it told.
    async fn scheduled(&self) -> Metrics {
        let schedule = include_str!("../../events/refresh-schedule.json");
        self.run(&serde_json::from_str(schedule).unwrap()).await
    }

    async fn run(&self, event: &Value) -> Metrics {
        let before = Metrics::of(&self.refresh).0.len();
        self.refresh.invoke(event).await.unwrap();
        Metrics(Metrics::of(&self.refresh).0.split_off(before))
    }

    /// What `/health` tells of the last look.
    async fn seen(&self) -> Value {
        let event = question::control("GET", "/health", &[], Value::Null);
        let answer = self.rules.invoke(&event).await.unwrap();
        assert_eq!(answer["statusCode"], 200, "{answer}");
        let body: Value = serde_json::from_str(answer["body"].as_str().unwrap()).unwrap();
        body["seen"].clone()
    }
}

/// The lines of metrics that a container has written.
struct Metrics(Vec<Value>);

impl Metrics {
    fn of(container: &Container) -> Self {
        let logs = container.logs();
        let lines = logs
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        Self(
            lines
                .filter(|line: &Value| line["_aws"].is_object())
                .collect(),
        )
    }

    /// What is told under a name; null where nothing is.
    fn told(&self, name: &str) -> &Value {
        let mut told = self.0.iter().map(|line| &line[name]);
        told.rfind(|value| !value.is_null()).unwrap_or(&Value::Null)
    }

    /// What was counted under a name.
    fn sum(&self, name: &str) -> u64 {
        self.0.iter().filter_map(|line| line[name].as_u64()).sum()
    }

    /// How many values a distribution has, and the greatest.
    fn values(&self, name: &str) -> (u64, f64) {
        let counts = self
            .0
            .iter()
            .filter_map(|line| line[name]["Counts"].as_array());
        let values = self
            .0
            .iter()
            .filter_map(|line| line[name]["Values"].as_array());
        (
            counts.flatten().filter_map(Value::as_u64).sum(),
            values
                .flatten()
                .filter_map(Value::as_f64)
                .fold(0.0, f64::max),
        )
    }
}

#[tokio::test]
async fn the_stores_are_looked_at_on_the_schedule_and_told_in_metrics_and_at_health() {
    let scene = Scene::new().await;
    assert_eq!(scene.seen().await, Value::Null);
    let announced: Value =
        serde_json::from_str(include_str!("../../events/refresh-sns.json")).unwrap();
    let rule = json!({"resource": "/a", "limit": 1, "time_window": 60});
    let made = question::control("POST", "/ratelimit/rules", &[], rule);
    assert_eq!(scene.rules.invoke(&made).await.unwrap()["statusCode"], 201);
    let metrics = scene.run(&announced).await;
    assert_eq!(scene.aws.asked(), Vec::<String>::new());
    assert_eq!(metrics.told("CacheHealthy"), &Value::Null);

    let metrics = scene.scheduled().await;
    let asked = [
        "DescribeDBInstances",
        "DescribeEvents",
        "DescribeEvents",
        "DescribeReplicationGroups",
    ];
    assert_eq!(scene.aws.asked(), asked);
    for (name, value) in [
        ("CacheHealthy", 1),
        ("DatabaseHealthy", 1),
        ("CacheNodesUnavailable", 0),
    ] {
        assert_eq!(metrics.told(name), value, "{name}: {:?}", metrics.0);
    }
    assert_eq!(
        (metrics.sum("HealthUnknown"), metrics.sum("Failovers")),
        (0, 0)
    );
    assert_eq!(metrics.told("DatabaseReplicaLag"), &Value::Null);
    let seen = scene.seen().await;
    assert_eq!(seen["old"], false, "{seen}");
    let cache = json!({"status": "available", "healthy": true, "nodes_unavailable": 0, "last_failover": null});
    assert_eq!(seen["cache"], cache);
    let database = json!({"status": "available", "healthy": true, "last_failover": null});
    assert_eq!(
        (&seen["database_instance"], &seen["replica_lag_ms"]),
        (&database, &Value::Null)
    );
    assert_eq!(seen["servers"][0]["primary"], true);

    // A failover is counted once, whenever AWS tells of it; of two nodes one is missed.
    let at = OffsetDateTime::now_utc().replace_nanosecond(0).unwrap();
    scene.aws.say(|said| {
        said.cache = "modifying".to_owned();
        said.nodes = 2;
        said.database = "storage-full".to_owned();
        said.cache_failovers = vec![
            at - Duration::from_secs(1_000),
            at - Duration::from_secs(900),
        ];
        said.database_failovers = vec![at];
    });
    let metrics = scene.scheduled().await;
    for (name, value) in [
        ("CacheHealthy", 1),
        ("DatabaseHealthy", 0),
        ("CacheNodesUnavailable", 1),
    ] {
        assert_eq!(metrics.told(name), value, "{name}");
    }
    assert_eq!(metrics.sum("Failovers"), 3);
    let seen = scene.seen().await;
    assert_eq!(seen["database_instance"]["healthy"], false);
    let told = seen["database_instance"]["last_failover"].as_str().unwrap();
    let format = time::format_description::well_known::Rfc3339;
    assert_eq!(OffsetDateTime::parse(told, &format).unwrap(), at);
    assert_eq!(scene.scheduled().await.sum("Failovers"), 0);

    scene.aws.say(|said| said.part = "deleting".to_owned());
    let metrics = scene.scheduled().await;
    assert_eq!(metrics.told("CacheHealthy"), 0);
    assert_eq!(metrics.told("CacheNodesUnavailable"), 2);
}

#[tokio::test]
async fn a_serverless_cache_is_asked_about_as_such() {
    let scene = Scene::with(&[
        ("REDIS_CACHE_NAME", "serverless:weir"),
        ("DATABASE_INSTANCE", ""),
    ])
    .await;
    let metrics = scene.scheduled().await;
    assert_eq!(
        scene.aws.asked(),
        ["DescribeEvents", "DescribeServerlessCaches"]
    );
    assert_eq!(metrics.told("CacheHealthy"), 1);
    assert_eq!(metrics.told("DatabaseHealthy"), &Value::Null);
    let seen = scene.seen().await;
    assert_eq!(
        (&seen["cache"]["healthy"], &seen["database_instance"]),
        (&json!(true), &Value::Null)
    );
    scene
        .aws
        .say(|said| said.cache = "create-failed".to_owned());
    assert_eq!(scene.scheduled().await.told("CacheHealthy"), 0);
}

#[tokio::test]
async fn aws_is_not_asked_where_it_is_said_so_though_the_stores_have_names() {
    let scene = Scene::with(&[("STORE_HEALTH", "false")]).await;
    let metrics = scene.scheduled().await;
    assert!(scene.aws.asked().is_empty());
    assert_eq!(metrics.told("CacheHealthy"), &Value::Null);
    assert_eq!(metrics.sum("HealthUnknown"), 0);
    let seen = scene.seen().await;
    assert_eq!(seen["servers"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn whatever_aws_does_instead_of_answering_a_run_publishes_and_says_that_it_does_not_know() {
    let scene = Scene::new().await;
    assert_eq!(scene.scheduled().await.told("CacheHealthy"), 1);
    for (n, manner) in [
        Manner::Refuses,
        Manner::Garbage,
        Manner::Empty,
        Manner::Silent,
        Manner::Slow,
    ]
    .into_iter()
    .enumerate()
    {
        scene.aws.say(|said| said.manner = manner);
        let rule = json!({"resource": format!("/{n}"), "limit": 1, "time_window": 60});
        let made = question::control("POST", "/ratelimit/rules", &[], rule);
        assert_eq!(scene.rules.invoke(&made).await.unwrap()["statusCode"], 201);
        let metrics = scene.scheduled().await;
        assert_eq!(metrics.sum("HealthUnknown"), 2, "{manner:?}");
        assert_eq!(
            metrics.told("RevisionPublished"),
            metrics.told("RevisionInDatabase")
        );
        for name in ["CacheHealthy", "DatabaseHealthy", "CacheNodesUnavailable"] {
            assert_eq!(metrics.told(name), &Value::Null, "{manner:?}: {name}");
        }
        let seen = scene.seen().await;
        assert_eq!(
            (&seen["cache"], &seen["old"]),
            (&Value::Null, &json!(false)),
            "{manner:?}"
        );
        assert_eq!(seen["servers"].as_array().unwrap().len(), 1);
    }
    scene.aws.say(|said| said.manner = Manner::Answers);
    assert_eq!(scene.scheduled().await.told("CacheHealthy"), 1);
}

#[tokio::test]
async fn what_redis_evicts_between_two_looks_is_counted_and_what_it_did_before_is_not() {
    let scene = Scene::new().await;
    let mut connection = connection(&scene.redis).await;
    evict(&mut connection, "nobodys").await;
    assert_eq!(scene.scheduled().await.sum("Evictions"), 0);
    let before = evicted(&mut connection).await;
    evict(&mut connection, "nobodys").await;
    let more = evicted(&mut connection).await - before;
    assert_eq!(scene.scheduled().await.sum("Evictions"), more);
    assert_eq!(scene.scheduled().await.sum("Evictions"), 0);
    assert_eq!(
        scene.seen().await["servers"][0]["evicted_keys"],
        before + more
    );
}

#[tokio::test]
async fn a_server_of_a_cluster_that_hangs_is_missed_and_the_others_say_how_they_are_all_the_same() {
    let cluster = RedisCluster::start(0).await;
    let url = cluster.url();
    let mut scene = Scene::within(cluster, &url, &[]).await;
    scene.aws.say(|said| said.nodes = 3);
    let keys = Keys::new(scene.region.variable("KEY_PREFIX")).unwrap();
    let of_rules = scene.redis.slot_of(&keys.look()).await;
    // Not the one that is told what the look saw.
    let hanging = (scene.redis.primary_of(of_rules).await + 1) % 3;
    let other = (hanging + 1) % 3;
    let (name, other_name) = (
        name_on(&scene.redis, hanging).await,
        name_on(&scene.redis, other).await,
    );
    let mut of_hanging = connection(scene.redis.node(hanging)).await;
    let mut of_other = connection(scene.redis.node(other)).await;
    evict(&mut of_hanging, &name).await;
    evict(&mut of_other, &other_name).await;
    let before = evicted(&mut of_other).await;
    let evicted_keys = evicted(&mut of_hanging).await + before;

    let metrics = scene.scheduled().await;
    let counted = (
        metrics.told("CacheNodesUnavailable"),
        metrics.sum("Evictions"),
    );
    assert_eq!(counted, (&json!(0), 0));
    let each = scene.seen().await["servers"].as_array().unwrap().clone();
    let told = each
        .iter()
        .map(|server| server["evicted_keys"].as_u64().unwrap());
    assert_eq!((each.len(), told.sum()), (3, evicted_keys));

    scene.redis.node_mut(hanging).pause();
    evict(&mut of_other, &other_name).await;
    let more = evicted(&mut of_other).await - before;
    let lines = Metrics::of(&scene.refresh).0.len();
    let error = scene.refresh.invoke(&json!({})).await.unwrap_err();
    assert_eq!(error.error_type, "Store", "{error}");
    let metrics = Metrics(Metrics::of(&scene.refresh).0.split_off(lines));
    let counted = (
        metrics.told("CacheNodesUnavailable"),
        metrics.sum("Evictions"),
    );
    assert_eq!(counted, (&json!(1), more));
    let seen = scene.seen().await;
    assert_eq!(seen["servers"].as_array().unwrap().len(), 2, "{seen}");
    assert_eq!(seen["cache"]["nodes_unavailable"], 1);

    // What it evicted before it hung is not counted when it is seen again.
    scene.redis.node_mut(hanging).resume();
    scene.redis.settled().await;
    until(async || scene.refresh.invoke(&json!({})).await.is_ok()).await;
    assert_eq!(
        scene.seen().await["servers"].as_array().unwrap().len(),
        3,
        "{}",
        scene.refresh.logs()
    );
    let metrics = Metrics(Metrics::of(&scene.refresh).0.split_off(lines));
    assert_eq!(metrics.sum("Evictions"), more);
}

/// What the names of keys begin with that lie on a server of a cluster.
async fn name_on(cluster: &RedisCluster, node: usize) -> String {
    for n in 0.. {
        let name = format!("{{{n}}}");
        let slot = cluster.slot_of(&name).await;
        if cluster.primary_of(slot).await == node {
            return name;
        }
    }
    unreachable!()
}

async fn info(connection: &mut redis::aio::MultiplexedConnection, field: &str) -> u64 {
    let info: String = redis::cmd("INFO").query_async(connection).await.unwrap();
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{field}:")));
    line.unwrap().trim().parse().unwrap()
}

async fn evicted(connection: &mut redis::aio::MultiplexedConnection) -> u64 {
    info(connection, "evicted_keys").await
}

/// Lets Redis have too little memory until it has evicted something that is nobody's, whose name begins so.
async fn evict(connection: &mut redis::aio::MultiplexedConnection, name: &str) {
    let before = evicted(connection).await;
    let used = info(connection, "used_memory").await;
    let same = connection.clone();
    let set = async |name: &str, value: &str| {
        let mut command = redis::cmd("CONFIG");
        command.arg("SET").arg(name).arg(value);
        command.exec_async(&mut same.clone()).await.unwrap();
    };
    set("maxmemory-policy", "volatile-lru").await;
    set("maxmemory", &(used + (1 << 20)).to_string()).await;
    let mut n = 0;
    while evicted(connection).await == before {
        let _: () = connection
            .set_ex(format!("{name}{n}"), vec![0_u8; 100_000], 600)
            .await
            .unwrap();
        n += 1;
    }
    set("maxmemory", "0").await;
}

#[tokio::test]
async fn a_replica_tells_how_far_it_is_behind_and_a_primary_that_it_is_none() {
    let primary = Postgres::start().unwrap();
    let replica = primary.replica().unwrap();
    let (of_primary, of_replica) = (
        Database::parse(&primary.url()).unwrap(),
        Database::parse(&replica.url()).unwrap(),
    );
    assert_eq!(of_primary.replica_lag().await.unwrap(), None);
    let on = async |server: &Postgres, statement: &str| {
        let (client, connection) = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        client.batch_execute(statement).await.unwrap();
    };
    on(&primary, "CREATE TABLE something (n int)").await;
    until(async || of_replica.replica_lag().await.unwrap() == Some(Duration::ZERO)).await;
    on(&replica, "SELECT pg_wal_replay_pause()").await;
    on(&primary, "INSERT INTO something VALUES (1)").await;
    until(async || of_replica.replica_lag().await.unwrap() > Some(Duration::ZERO)).await;
    on(&replica, "SELECT pg_wal_replay_resume()").await;
    until(async || of_replica.replica_lag().await.unwrap() == Some(Duration::ZERO)).await;
}

#[tokio::test]
async fn a_run_tells_what_it_published_and_how_long_that_had_waited() {
    let scene = Scene::new().await;
    let metrics = scene.scheduled().await;
    assert_eq!(
        (metrics.sum("RefreshRuns"), metrics.sum("RefreshFailures")),
        (1, 0)
    );
    // Nothing was published: a history began.
    assert_eq!(
        (metrics.sum("Rebuilds"), metrics.sum("LanesMoved")),
        (1, 256)
    );
    assert_eq!(metrics.values("RefreshLatency").0, 1);
    assert_eq!(metrics.values("RefreshLag").0, 0);

    let rule = json!({"resource": "/a", "limit": 1, "time_window": 60});
    let made = question::control("POST", "/ratelimit/rules", &[], rule);
    scene.region.topic.set(local::topic::Mode::Drop);
    assert_eq!(scene.rules.invoke(&made).await.unwrap()["statusCode"], 201);
    let client = question::control("POST", "/clients", &[], json!({"client_id": "eve"}));
    let clients = scene.region.container(Function::Clients).await;
    assert_eq!(clients.invoke(&client).await.unwrap()["statusCode"], 201);
    // As if the older of the two had been written a minute ago.
    let url = scene.region.variable("DATABASE_URL");
    let (psql, connection_to) = tokio_postgres::connect(url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection_to);
    psql.batch_execute("UPDATE revisions SET at = at - interval '60s' WHERE revision = 1")
        .await
        .unwrap();
    let metrics = scene.scheduled().await;
    assert_eq!(
        (metrics.sum("ChunksWritten"), metrics.sum("EntriesWritten")),
        (1, 1)
    );
    assert_eq!(
        (metrics.sum("Rebuilds"), metrics.sum("LanesRebuilt")),
        (0, 0)
    );
    assert_eq!(
        (
            metrics.told("RevisionInDatabase"),
            metrics.told("RevisionPublished")
        ),
        (&json!(2), &json!(2))
    );
    let (runs, lag_ms) = metrics.values("RefreshLag");
    assert!(runs == 1 && lag_ms > 50_000.0, "{runs} {lag_ms}");

    let mut connection = connection(&scene.redis).await;
    let prefix = scene.region.variable("KEY_PREFIX");
    let lanes: Vec<String> = connection.keys(format!("{prefix}:*:epoch")).await.unwrap();
    let _: u64 = connection.del(&lanes[..3]).await.unwrap();
    assert_eq!(scene.scheduled().await.sum("LanesRebuilt"), 3);

    let nowhere = [("DATABASE_URL", "postgres://weir:secret@127.0.0.1:1/weir")];
    let refresh = scene
        .region
        .container_with(Function::Refresh, &nowhere)
        .await;
    let error = refresh.invoke(&json!({})).await.unwrap_err();
    assert_eq!(error.error_type, "Database", "{error}");
    let metrics = Metrics::of(&refresh);
    assert_eq!(
        (metrics.sum("RefreshRuns"), metrics.sum("RefreshFailures")),
        (0, 1)
    );
    assert_eq!(metrics.told("RevisionInDatabase"), &Value::Null);
}
