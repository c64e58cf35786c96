//! A walk through the runbook: each failure that an alarm is for is made to happen, and what the containers write then is read as the
//! alarm reads it.

use std::collections::BTreeSet;
use std::time::Duration;

use limits::lane::Lane;
use limits_redis::keys::Keys;
use local::servers::{End, Postgres, Redis};
use local::topic::Mode;
use serde_json::{Value, json};
use tests::question::control;
use tests::{
    AwsHealth, Bridge, Container, Function, Line, Manner, Operator, Region, stores, until,
};
use time::OffsetDateTime;
use tokio_postgres::NoTls;

use crate::alarms::{Series, alarms, watched, whole};
use crate::canary;
use crate::check::event;
use crate::walks::request;

const KEY: &str = "a-key-of-eve";

/// Whatever a container counts it tells at once.
const AT_ONCE: (&str, &str) = ("METRICS_INTERVAL_SECONDS", "0");

/// What containers have written of metrics.
struct Emitted(Vec<Value>);

impl Emitted {
    fn by(containers: &[&Container]) -> Self {
        let logs = containers.iter().map(|container| container.logs());
        let lines = logs.flat_map(|logs| {
            let lines = logs.lines().map(serde_json::from_str::<Value>);
            lines.filter_map(Result::ok).collect::<Vec<_>>()
        });
        Self(lines.filter(|line| line.get("_aws").is_some()).collect())
    }

    /// The values of a series, each as often as it says.
    fn values(&self, series: &Series) -> Vec<f64> {
        let of_it = |line: &&Value| {
            let directives = line["_aws"]["CloudWatchMetrics"].as_array().unwrap();
            let named = directives.iter().any(|directive| {
                let mut names = directive["Metrics"].as_array().unwrap().iter();
                let by_function = directive["Dimensions"] == json!([["Function"]]);
                by_function && names.any(|metric| metric["Name"] == series.metric.as_str())
            });
            let [(_, function)] = series.dimensions.as_slice() else {
                panic!("{series:?}");
            };
            let function = function.as_deref();
            named && function.is_none_or(|function| line["Function"] == function)
        };
        let told = self
            .0
            .iter()
            .filter(of_it)
            .map(|line| &line[&series.metric]);
        told.flat_map(|told| match told.as_f64() {
            Some(value) => vec![value],
            None => {
                let values = told["Values"].as_array().unwrap();
                values.iter().map(|value| value.as_f64().unwrap()).collect()
            }
        })
        .collect()
    }
}

/// An alarm whose threshold nobody waits for: that its metric moves is enough.
const SLOW: &str = "DatabaseReplicaLagAlarm";

/// Whether what was written is what an alarm is for: a count that is more than none, or a value on the wrong side of the threshold.
fn is_told(id: &str, emitted: &Emitted) -> bool {
    let alarm = alarms(whole())[id];
    let threshold = match &alarm["Threshold"] {
        Value::String(parameter) => parameter.parse().unwrap(),
        number => number.as_f64().unwrap(),
    };
    let counts = alarm["Statistic"] == "Sum"
        || alarm["Metrics"].as_array().is_some_and(|queries| {
            let mut stats = queries.iter().filter_map(|query| query.get("MetricStat"));
            stats.all(|stat| stat["Stat"] == "Sum")
        });
    let too_few = alarm["ComparisonOperator"] == "LessThanThreshold";
    let names: BTreeSet<_> = watched(alarm).into_iter().map(|one| one.metric).collect();
    names.iter().all(|name| {
        let series = watched(alarm).into_iter().filter(|one| one.metric == *name);
        let values: Vec<f64> = series.flat_map(|one| emitted.values(&one)).collect();
        match (counts, too_few) {
            (true, true) => values.iter().sum::<f64>() < threshold,
            (true, false) => values.iter().sum::<f64>() > 0.0,
            (false, true) => values.iter().any(|value| *value < threshold),
            (false, false) if id == SLOW => values.iter().any(|value| *value > 0.0),
            (false, false) => values.iter().any(|value| *value > threshold),
        }
    })
}

/// Each failure, the alarms that tell of it, and how it comes about.
macro_rules! walk {
    ($($failure:ident => [$($alarm:literal),+];)+) => {
        const WALK: &[(&str, &[&str])] = &[$((stringify!($failure), &[$($alarm),+])),+];

        mod walk {
            $(
                #[tokio::test]
                async fn $failure() {
                    let containers = super::$failure().await;
                    super::hold(stringify!($failure), &containers.iter().collect::<Vec<_>>());
                }
            )+
        }
    };
}

walk! {
    redis_is_killed => ["StoreFailuresAlarm", "BreakerAlarm", "DegradedAlarm", "FailedOpenAlarm", "StoreOutAlarm", "AuthorizerStoreOutAlarm"];
    redis_hangs => ["StoreFailuresAlarm", "BreakerAlarm", "DegradedAlarm"];
    redis_is_slow => ["DecisionLatencyAlarm", "RedisLatencyAlarm"];
    redis_is_flushed => ["RebuildsAlarm", "StoreOutAlarm"];
    a_lane_is_lost => ["LanesRebuiltAlarm"];
    redis_is_full => ["EvictionsAlarm"];
    a_lane_is_newer_than_what_is_published => ["StaleDecisionsAlarm", "DegradedAlarm"];
    a_limit_is_used_up => ["ThrottledShareAlarm", "AuthorizerThrottledShareAlarm", "CheckThrottledShareAlarm"];
    a_call_meets_too_many_rules => ["CrowdedCallsAlarm"];
    somebody_guesses_keys => ["AnonymousLimitedAlarm"];
    postgres_is_out => ["RefreshFailuresAlarm", "RefreshSilentAlarm"];
    postgres_is_another => ["RebuildsAlarm"];
    a_change_waits => ["RefreshLagAlarm"];
    the_topic_is_out => ["PendingAnnouncementsAlarm"];
    a_migration_is_refused => ["MigrationFailuresAlarm"];
    stores_are_unwell => ["CacheUnhealthyAlarm", "CacheNodesAlarm", "DatabaseUnhealthyAlarm", "FailoversAlarm"];
    a_replica_lags => ["DatabaseReplicaLagAlarm"];
    aws_does_not_answer => ["HealthUnknownAlarm"];
    limits_are_not_enforced => ["CanaryFailedAlarm", "CanarySilentAlarm"];
}

fn hold(failure: &str, containers: &[&Container]) {
    let emitted = Emitted::by(containers);
    let (_, told) = WALK.iter().find(|(name, _)| *name == failure).unwrap();
    for alarm in *told {
        let lines = json!(emitted.0);
        assert!(
            is_told(alarm, &emitted),
            "{failure}: {alarm} reads nothing of it in {lines}"
        );
    }
}

#[test]
fn every_alarm_on_metrics_of_ours_is_walked_to() {
    let of_ours = |alarm: &&Value| {
        let series = watched(alarm);
        !series.is_empty() && series.iter().all(|one| one.ours().is_some())
    };
    let all = alarms(whole())
        .into_iter()
        .filter(|(_, alarm)| of_ours(alarm));
    let walked = WALK.iter().flat_map(|(_, alarms)| alarms.iter().copied());
    assert_eq!(
        walked.collect::<BTreeSet<_>>(),
        all.map(|(id, _)| id).collect()
    );
}

/// A call of eve's through the gateway.
fn call(path: &str) -> Value {
    let mut call = request(KEY);
    call["path"] = path.into();
    call
}

/// Whether the client may call a path, asked as a service does.
fn ask(client: &str, path: &str) -> Value {
    let mut event = event("POST", &format!("/ratelimit/status/{client}"), "", None);
    event["body"] = json!({ "resource": path }).to_string().into();
    event
}

/// Eve, with a key, and rules for what she calls.
async fn operator(redis: &Redis) -> Operator {
    let operator = Operator::at(&redis.url()).await;
    operator.client("eve", json!({})).await;
    operator.key("eve", KEY).await;
    let rule = |name: &str| json!({"resource": format!("/{name}"), "limit": 50, "time_window": 86_400, "on_failure": name});
    let rules = ["limit", "allow", "deny"].map(rule);
    operator.rules(rules.to_vec()).await;
    operator
}

/// Containers of both functions that decide, which know eve and the rules.
async fn deciding(operator: &Operator, more: &[(&str, &str)]) -> [Container; 2] {
    let mut settings = vec![AT_ONCE, ("CHECK_ANONYMOUS", "allow")];
    settings.extend(more);
    let authorizer = operator.container(Function::Authorizer, &settings).await;
    let check = operator.container(Function::Check, &settings).await;
    authorizer.invoke(&call("/limit")).await.unwrap();
    check.invoke(&ask("eve", "/limit")).await.unwrap();
    [authorizer, check]
}

async fn call_each([authorizer, check]: &[Container; 2]) {
    for path in ["/limit", "/allow", "/deny"] {
        // Some are answered, and some are told that Redis is out.
        let _ = authorizer.invoke(&call(path)).await;
        check.invoke(&ask("eve", path)).await.unwrap();
    }
}

async fn redis_is_killed() -> [Container; 2] {
    let mut redis = Redis::start().unwrap();
    let containers = deciding(&operator(&redis).await, &[]).await;
    redis.stop(End::Kill);
    call_each(&containers).await;
    containers
}

async fn redis_hangs() -> [Container; 2] {
    let mut redis = Redis::start().unwrap();
    let containers = deciding(&operator(&redis).await, &[]).await;
    redis.pause();
    call_each(&containers).await;
    containers
}

async fn redis_is_slow() -> [Container; 2] {
    let redis = Redis::start().unwrap();
    let operator = operator(&redis).await;
    let line = Line::to(redis.port()).await;
    let through = line.through(&redis.url());
    let containers = deciding(
        &operator,
        &[("REDIS_URL", &through), ("REDIS_TIMEOUT_MS", "5000")],
    )
    .await;
    line.delay(Duration::from_millis(100));
    call_each(&containers).await;
    containers
}

/// A container of refresh, and one that asks about eve, in a region of their own.
async fn region(redis: &Redis) -> (Region, Container) {
    let region = Region::with(&redis.url(), &stores::database().await).await;
    let refresh = region.container_with(Function::Refresh, &[AT_ONCE]).await;
    refresh.invoke(&schedule()).await.unwrap();
    (region, refresh)
}

fn schedule() -> Value {
    serde_json::from_str(include_str!("../../events/refresh-schedule.json")).unwrap()
}

async fn command(redis: &Redis, words: &[&str]) -> redis::Value {
    let client = redis::Client::open(redis.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut command = redis::cmd(words[0]);
    command
        .arg(&words[1..])
        .query_async(&mut connection)
        .await
        .unwrap()
}

async fn make_a_rule(rules: &Container) {
    let rule = json!({"resource": "/orders", "limit": 5, "time_window": 60});
    let made = rules
        .invoke(&control("POST", "/ratelimit/rules", &[], rule))
        .await
        .unwrap();
    assert_eq!(made["statusCode"], 201);
}

async fn redis_is_flushed() -> [Container; 2] {
    let redis = Redis::start().unwrap();
    let (region, refresh) = region(&redis).await;
    let check = region
        .container_with(Function::Check, &[AT_ONCE, ("CHECK_ANONYMOUS", "allow")])
        .await;
    check.invoke(&ask("eve", "/limit")).await.unwrap();
    command(&redis, &["FLUSHALL"]).await;
    check.invoke(&ask("bob", "/limit")).await.unwrap();
    refresh.invoke(&schedule()).await.unwrap();
    [refresh, check]
}

async fn a_lane_is_lost() -> [Container; 1] {
    let redis = Redis::start().unwrap();
    let (region, refresh) = region(&redis).await;
    let keys = Keys::new(region.variable("KEY_PREFIX")).unwrap();
    command(&redis, &["DEL", &keys.epoch(Lane::of("eve"))]).await;
    refresh.invoke(&schedule()).await.unwrap();
    [refresh]
}

async fn redis_is_full() -> [Container; 1] {
    let room = ["--maxmemory", "8mb", "--maxmemory-policy", "volatile-lru"];
    let redis = Redis::start_with(&room).unwrap();
    let (_region, refresh) = region(&redis).await;
    // Three times as much as there is room for.
    let bucket = "x".repeat(1 << 20);
    for n in 0..24 {
        command(
            &redis,
            &["SET", &format!("bucket-{n}"), &bucket, "EX", "3600"],
        )
        .await;
    }
    refresh.invoke(&schedule()).await.unwrap();
    [refresh]
}

async fn a_lane_is_newer_than_what_is_published() -> [Container; 2] {
    let redis = Redis::start().unwrap();
    let operator = operator(&redis).await;
    let containers = deciding(&operator, &[]).await;
    let keys = Keys::new(operator.prefix()).unwrap();
    for lane in Lane::all() {
        command(&redis, &["INCRBY", &keys.epoch(lane), "1000000"]).await;
    }
    call_each(&containers).await;
    containers
}

async fn a_limit_is_used_up() -> [Container; 2] {
    let redis = Redis::start().unwrap();
    let operator = operator(&redis).await;
    operator
        .rule(json!({"resource": "/once", "limit": 1, "time_window": 86_400}))
        .await;
    let containers = deciding(&operator, &[]).await;
    for _ in 0..2 {
        containers[0].invoke(&call("/once")).await.unwrap();
        containers[1].invoke(&ask("eve", "/once")).await.unwrap();
    }
    containers
}

async fn a_call_meets_too_many_rules() -> [Container; 2] {
    let redis = Redis::start().unwrap();
    let operator = operator(&redis).await;
    // Neither half meets the other by its own pattern.
    let rules = (0..20).flat_map(|n| {
        ["/*/orders", "/eve/*"]
            .map(|resource| json!({"resource": resource, "limit": 50, "time_window": 1_000 + n}))
    });
    operator.rules(rules.collect()).await;
    let containers = deciding(&operator, &[]).await;
    containers[1]
        .invoke(&ask("eve", "/eve/orders"))
        .await
        .unwrap();
    containers
}

async fn somebody_guesses_keys() -> [Container; 2] {
    let redis = Redis::start().unwrap();
    let containers = deciding(&operator(&redis).await, &[("ANONYMOUS_LIMIT", "1/3600s")]).await;
    for guess in ["a", "b", "c"] {
        containers[0].invoke(&request(guess)).await.unwrap_err();
    }
    containers
}

async fn postgres_is_out() -> [Container; 1] {
    let line = Line::to(stores::postgres().port()).await;
    let database = line.through(&stores::database().await);
    line.refuse().await;
    let region = Region::with(&stores::redis().url(), &database).await;
    let refresh = region.container_with(Function::Refresh, &[AT_ONCE]).await;
    refresh.invoke(&schedule()).await.unwrap_err();
    [refresh]
}

async fn postgres_is_another() -> [Container; 1] {
    let redis = Redis::start().unwrap();
    let (region, refresh) = region(&redis).await;
    let rules = region.container(Function::Rules).await;
    make_a_rule(&rules).await;
    refresh.invoke(&schedule()).await.unwrap();
    let other = stores::database().await;
    let restored = region
        .container_with(Function::Refresh, &[AT_ONCE, ("DATABASE_URL", &other)])
        .await;
    restored.invoke(&schedule()).await.unwrap();
    [restored]
}

async fn the_topic_is_out() -> [Container; 1] {
    let region = Region::new().await;
    region.topic.set(Mode::Refuse);
    let rules = region.container_with(Function::Rules, &[AT_ONCE]).await;
    make_a_rule(&rules).await;
    [rules]
}

async fn a_migration_is_refused() -> [Container; 1] {
    let line = Line::to(stores::postgres().port()).await;
    let database = line.through(&stores::empty_database().await);
    line.refuse().await;
    let migrate = Container::start(
        Function::Migrate,
        [("DATABASE_URL", database.as_str()), AT_ONCE],
    )
    .await;
    migrate.invoke(&json!({})).await.unwrap_err();
    [migrate]
}

async fn a_change_waits() -> [Container; 1] {
    let redis = Redis::start().unwrap();
    let (region, refresh) = region(&redis).await;
    region.topic.set(Mode::Drop);
    make_a_rule(&region.container(Function::Rules).await).await;
    // Time moves in what is stored.
    let earlier = "UPDATE revisions SET at = at - interval '2 minutes'";
    let client = psql(region.variable("DATABASE_URL")).await;
    client.batch_execute(earlier).await.unwrap();
    refresh.invoke(&schedule()).await.unwrap();
    [refresh]
}

async fn psql(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn a_replica_lags() -> [Container; 1] {
    let primary = Postgres::start().unwrap();
    stores::migrate(&primary.url()).await;
    let replica = primary.replica().unwrap();
    let (writing, reading) = (psql(&primary.url()).await, psql(&replica.url()).await);
    let holds = async |what: &str| {
        let row = reading.query_one(what, &[]).await.unwrap();
        row.get::<_, bool>(0)
    };
    writing
        .batch_execute("CREATE TABLE replayed ()")
        .await
        .unwrap();
    until(async || holds("SELECT to_regclass('replayed') IS NOT NULL").await).await;
    reading
        .batch_execute("SELECT pg_wal_replay_pause()")
        .await
        .unwrap();
    writing
        .batch_execute("CREATE TABLE received ()")
        .await
        .unwrap();
    until(async || holds("SELECT pg_last_wal_receive_lsn() > pg_last_wal_replay_lsn()").await)
        .await;
    let region = Region::with(&stores::redis().url(), &replica.url()).await;
    let refresh = region.container_with(Function::Refresh, &[AT_ONCE]).await;
    refresh.invoke(&schedule()).await.unwrap();
    [refresh]
}

/// A refresh that has asked AWS how its stores are.
async fn asking(aws: &AwsHealth) -> [Container; 1] {
    let region = Region::new().await;
    let variables = aws.variables();
    let variables = variables
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let settings = [&variables[..], &[AT_ONCE]].concat();
    let refresh = region.container_with(Function::Refresh, &settings).await;
    refresh.invoke(&schedule()).await.unwrap();
    [refresh]
}

async fn stores_are_unwell() -> [Container; 1] {
    let aws = AwsHealth::start().await;
    aws.say(|said| {
        said.part = "deleting".to_owned();
        said.database = "storage-full".to_owned();
        said.cache_failovers.push(OffsetDateTime::now_utc());
    });
    asking(&aws).await
}

async fn aws_does_not_answer() -> [Container; 1] {
    let aws = AwsHealth::start().await;
    aws.say(|said| said.manner = Manner::Refuses);
    asking(&aws).await
}

async fn limits_are_not_enforced() -> [Container; 1] {
    let settings = [("CHECK_ANONYMOUS", "allow"), ("DEFAULT_LIMIT", "unlimited")];
    let check = Operator::new()
        .await
        .container(Function::Check, &settings)
        .await;
    let bridge = Bridge::function_url(check).await;
    let mut variables = canary::asking(bridge.url());
    variables.push((AT_ONCE.0.to_owned(), AT_ONCE.1.to_owned()));
    let canary = Container::start(Function::Canary, variables).await;
    canary.invoke(&json!({})).await.unwrap_err();
    [canary]
}
