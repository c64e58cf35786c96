//! The connection to Redis of a container that is frozen between its calls: what a cut, a silence, a demotion cost.

use std::time::{Duration, Instant};

use crate::eve::{self, left, until_counted};
use local::servers::Redis;
use redis::Connection;
use tests::{Container, Function, Operator, RedisCluster, Sentinels};

/// What decisions are given here: on a busy machine, too.
const TIMEOUT: Duration = Duration::from_millis(200);

fn connect(redis: &Redis) -> Connection {
    let client = redis::Client::open(redis.url()).unwrap();
    client.get_connection().unwrap()
}

async fn authorizer(operator: &Operator) -> Container {
    let timeout = TIMEOUT.as_millis().to_string();
    let quick = [("REDIS_TIMEOUT_MS", timeout.as_str())];
    operator.container(Function::Authorizer, &quick).await
}

#[tokio::test]
async fn a_connection_that_was_cut_in_a_freeze_costs_the_first_call_nothing() {
    let redis = Redis::start().unwrap();
    let operator = eve::at(&redis.url()).await;
    let container = operator.container(Function::Authorizer, &[]).await;
    let mut console = connect(&redis);
    let mut before = left(&container).await.unwrap();
    for n in 0..100 {
        container.freeze();
        // The call is there when the container wakes, and so is the news of the connection.
        let thaw = async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            redis::cmd("CLIENT")
                .arg(&["KILL", "TYPE", "normal", "SKIPME", "yes"])
                .exec(&mut console)
                .unwrap();
            container.thaw();
        };
        let (now, ()) = futures::join!(left(&container), thaw);
        // Counted once, neither lost nor doubled.
        assert_eq!(now, Some(before - 1), "{n}: {}", container.logs());
        before -= 1;
    }
}

#[tokio::test]
async fn of_a_redis_that_hangs_the_first_call_waits_and_then_one_in_each_pause() {
    let mut redis = Redis::start().unwrap();
    let operator = eve::at(&redis.url()).await;
    let container = authorizer(&operator).await;
    until_counted(&container).await;
    redis.pause();
    let started = Instant::now();
    let mut waited = Vec::new();
    for n in 0..200 {
        let asked = Instant::now();
        assert_eq!(left(&container).await, None, "{n}");
        if asked.elapsed() >= TIMEOUT {
            waited.push(n);
        }
    }
    // Two hundred that wait would take forty seconds. Of those that did, each but the first had a pause before it.
    assert_eq!(waited.first(), Some(&0));
    assert!(waited.len() < 20, "{waited:?} in {:?}", started.elapsed());
    // An outage is told when it begins, not with every call.
    assert_eq!(
        container.logs().matches("Redis is out").count(),
        1,
        "{}",
        container.logs()
    );
    println!(
        "of 200 calls in {:?} these waited: {waited:?}",
        started.elapsed()
    );
    redis.resume();
    let resumed = Instant::now();
    until_counted(&container).await;
    println!("counted again after {:?}", resumed.elapsed());
    container.logged("answers again").await;
}

/// Fifty calls to a container that has loaded nothing, and whose Redis hangs.
async fn fifty_wait_no_longer_than_any(operator: &Operator) -> Container {
    let container = operator
        .container(
            Function::Authorizer,
            &[
                ("REDIS_TIMEOUT_MS", "100"),
                ("RULES_LOAD_TIMEOUT_MS", "3000"),
            ],
        )
        .await;
    container.ready().await.unwrap();
    let asked = Instant::now();
    for _ in 0..50 {
        let answer = container.invoke(&eve::call()).await;
        assert_eq!(answer.unwrap_err().error_type, "StoreUnavailable");
    }
    // Nobody waits for three seconds again: in fifty calls there are a few pauses, and a tenth of a second for each.
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}");
    container
}

#[tokio::test]
async fn a_cold_container_whose_redis_hangs_waits_once_to_load_and_then_no_longer_than_any() {
    let mut redis = Redis::start().unwrap();
    let operator = eve::at(&redis.url()).await;
    redis.pause();
    let container = fifty_wait_no_longer_than_any(&operator).await;
    redis.resume();
    let end = Instant::now() + Duration::from_secs(15);
    while container.invoke(&eve::call()).await.is_err() {
        assert!(Instant::now() < end, "{}", container.logs());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn nor_does_one_whose_whole_cluster_hangs_or_whose_sentinels_do() {
    let mut cluster = RedisCluster::start(0).await;
    let operator = Operator::at(&cluster.url()).await;
    for node in 0..cluster.size() {
        cluster.node_mut(node).pause();
    }
    fifty_wait_no_longer_than_any(&operator).await;
    let mut watched = Sentinels::start(0).await;
    let operator = Operator::at(&watched.url()).await;
    for sentinel in 0..3 {
        watched.sentinel_mut(sentinel).pause();
    }
    fifty_wait_no_longer_than_any(&operator).await;
}

#[tokio::test]
async fn a_primary_that_was_demoted_decides_nothing_and_is_asked_again_when_it_may() {
    let redis = Redis::start().unwrap();
    let operator = eve::at(&redis.url()).await;
    let container = authorizer(&operator).await;
    let before = left(&container).await.unwrap();
    let mut console = connect(&redis);
    let replica_of = |console: &mut Connection, of: &[&str]| {
        redis::cmd("REPLICAOF").arg(of).exec(console).unwrap();
    };
    // Nobody is there to follow: it keeps its data, and may not write.
    replica_of(&mut console, &["127.0.0.1", "1"]);
    for _ in 0..5 {
        assert_eq!(left(&container).await, None);
    }
    replica_of(&mut console, &["no", "one"]);
    until_counted(&container).await;
    // What was answered without it is not counted in it.
    assert_eq!(left(&container).await, Some(before - 2));
    // Cut off from all who copy it: another may be primary by now, and it may not even deny.
    let needs = |console: &mut Connection, replicas: &str| {
        redis::cmd("CONFIG")
            .arg(&["SET", "min-replicas-to-write", replicas])
            .exec(console)
            .unwrap();
    };
    needs(&mut console, "1");
    for _ in 0..5 {
        assert_eq!(left(&container).await, None);
    }
    needs(&mut console, "0");
    until_counted(&container).await;
}

#[tokio::test]
async fn what_a_busy_or_full_redis_refuses_is_no_outage() {
    let redis = Redis::start_with(&[
        "--busy-reply-threshold",
        "10",
        "--maxmemory-policy",
        "noeviction",
    ])
    .unwrap();
    let operator = eve::at(&redis.url()).await;
    let container = authorizer(&operator).await;
    until_counted(&container).await;
    let mut console = connect(&redis);
    // Full: nothing is executed, and it is asked again at once when there is room.
    let full = |console: &mut Connection, bytes: &str| {
        redis::cmd("CONFIG")
            .arg(&["SET", "maxmemory", bytes])
            .exec(console)
            .unwrap();
    };
    full(&mut console, "1");
    assert_eq!(left(&container).await, None);
    full(&mut console, "0");
    assert!(left(&container).await.is_some());
    // Busy with a script of somebody else's.
    let busy = std::thread::spawn({
        let client = redis::Client::open(redis.url()).unwrap();
        move || {
            let mut connection = client.get_connection().unwrap();
            let looping = redis::cmd("EVAL")
                .arg("while true do end")
                .arg(0)
                .exec(&mut connection);
            looping.unwrap_err();
        }
    });
    let mut ping = connect(&redis);
    while redis::cmd("PING").exec(&mut ping).is_ok() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(left(&container).await, None);
    redis::cmd("SCRIPT").arg("KILL").exec(&mut ping).unwrap();
    busy.join().unwrap();
    assert!(left(&container).await.is_some());
    // Its scripts are forgotten.
    redis::cmd("SCRIPT")
        .arg("FLUSH")
        .exec(&mut console)
        .unwrap();
    assert!(left(&container).await.is_some());
    assert!(
        !container.logs().contains("Redis is out"),
        "{}",
        container.logs()
    );
}

#[tokio::test]
async fn a_container_holds_one_connection_however_many_call_at_once() {
    let redis = Redis::start().unwrap();
    let operator = eve::at(&redis.url()).await;
    let container = operator
        .container(
            Function::Authorizer,
            &[("AWS_LAMBDA_MAX_CONCURRENCY", "16")],
        )
        .await;
    container.ready().await.unwrap();
    let mut console = connect(&redis);
    let mut connected = || -> usize {
        let list: String = redis::cmd("CLIENT")
            .arg("LIST")
            .query(&mut console)
            .unwrap();
        list.lines().count()
    };
    let before = connected();
    let call = eve::call();
    let calls = (0..200).map(|_| container.invoke(&call));
    for answer in futures::future::join_all(calls).await {
        assert_eq!(answer.unwrap()["context"]["degraded"], "");
    }
    assert!(connected() <= before + 1);
}
