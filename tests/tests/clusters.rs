//! A request whose buckets lie on several servers: all are counted, or none, while slots move and servers fail.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use limits::{Lane, registry::Name};
use limits_redis::keys::Keys;
use serde_json::{Value, json};
use tests::{Container, Function, Operator, RedisCluster};

const ANYONE: [(&str, &str); 1] = [("CHECK_ANONYMOUS", "allow")];

/// Asks about a client; `method` as the check API has it.
async fn ask(container: &Container, method: &str, client: &str) -> Value {
    let mut event: Value =
        serde_json::from_str(include_str!("../../events/check-url.json")).unwrap();
    let path = format!("/ratelimit/status/{client}");
    event["rawPath"] = path.as_str().into();
    event["requestContext"]["http"]["path"] = path.into();
    event["requestContext"]["http"]["method"] = method.into();
    event["isBase64Encoded"] = false.into();
    event["body"] = match method {
        "POST" => r#"{"resource": "GET /x"}"#.into(),
        _ => Value::Null,
    };
    event["rawQueryString"] = match method {
        "POST" => "".into(),
        _ => "resource=GET%20/x".into(),
    };
    container.invoke(&event).await.unwrap()
}

/// What came of it: whether it passed, and what is left. Every rule here says 503 for the time while Redis is out, so that whatever
/// is answered else was counted.
async fn answered(container: &Container, method: &str, client: &str) -> (bool, u64) {
    let answer = ask(container, method, client).await;
    let status = answer["statusCode"].as_u64().unwrap();
    assert!(
        [200, 429].contains(&status),
        "{answer}\n{}",
        container.logs()
    );
    let body: Value = serde_json::from_str(answer["body"].as_str().unwrap()).unwrap();
    (
        body["status"] == "allowed",
        body["remaining"].as_u64().unwrap(),
    )
}

/// A rule whose counts are exact whenever one looks: what is counted does not come back within the day.
fn day(per: &str, limit: u64) -> Value {
    let (limit, window) = (json!(limit), json!(31_622_400));
    json!({ "resource": "*", "per": per, "limit": limit, "time_window": window, "algorithm": "fixed_window", "on_failure": "deny" })
}

/// A client whose lane lies on a server of the cluster, and not with what all share.
pub(crate) async fn client_on(cluster: &RedisCluster, node: usize) -> String {
    let keys = Keys::default();
    for n in 0.. {
        let client = format!("client-{n}");
        let lane = Name::Client(client.clone()).lane();
        let slot = cluster.slot_of(&keys.epoch(lane)).await;
        if lane != Lane::SHARED && cluster.primary_of(slot).await == node {
            return client;
        }
    }
    unreachable!()
}

async fn check(operator: &Operator) -> Container {
    operator.container(Function::Check, &ANYONE).await
}

#[tokio::test]
async fn who_is_throttled_takes_nothing_of_what_all_share() {
    let cluster = RedisCluster::start(0).await;
    let operator = Operator::at(&cluster.url()).await;
    operator
        .rules(vec![day("client", 5), day("all", 1000)])
        .await;
    let container = check(&operator).await;
    for node in 0..3 {
        let client = client_on(&cluster, node).await;
        let mut passed = 0;
        for _ in 0..50 {
            passed += u64::from(answered(&container, "POST", &client).await.0);
        }
        assert_eq!(passed, 5, "{client}");
        // Told to somebody who has taken nothing: of the two, the shared bucket has the least part left.
        let left = answered(&container, "GET", "somebody-else").await.1;
        assert_eq!(left, 1000 - 5 * (node as u64 + 1));
    }
}

#[tokio::test]
async fn of_many_who_race_for_the_last_exactly_the_limit_passes_and_who_lost_is_charged_nothing() {
    let cluster = RedisCluster::start(0).await;
    let operator = Operator::at(&cluster.url()).await;
    operator.rule(day("client", 1000)).await;
    let shared = operator.rule(day("all", 40)).await;
    let mut containers = Vec::new();
    for _ in 0..4 {
        containers.push(check(&operator).await);
    }
    let clients: Vec<String> = (0..8).map(|n| format!("client-{n}")).collect();
    let calls = containers.iter().enumerate().map(|(n, container)| {
        let clients = &clients;
        async move {
            let mut passed = vec![0; clients.len()];
            for round in 0..40 {
                let who = (n + round) % clients.len();
                passed[who] += u64::from(answered(container, "POST", &clients[who]).await.0);
            }
            passed
        }
    });
    let passed = join_all(calls).await;
    let all: u64 = passed.iter().flatten().sum();
    assert_eq!(all, 40);
    // Of two rules the tighter is told: without what all share, each client's own.
    operator.delete_rule(shared).await;
    for (who, client) in clients.iter().enumerate() {
        let own: u64 = passed.iter().map(|of| of[who]).sum();
        // A denial may be told for a second after it was one.
        let left = loop {
            let (allowed, left) = answered(&containers[0], "GET", client).await;
            if allowed {
                break left;
            }
        };
        assert_eq!(left, 1000 - own, "{client}");
    }
}

#[tokio::test]
async fn while_a_slot_is_half_moved_every_call_is_counted_once() {
    let cluster = RedisCluster::start(0).await;
    let operator = Operator::at(&cluster.url()).await;
    // Of two buckets in one lane, neither is served with the other.
    let mut other = day("client", 1001);
    other["resource"] = "GET /x".into();
    operator
        .rules(vec![day("client", 1000), other, day("all", 5000)])
        .await;
    let container = check(&operator).await;
    let keys = Keys::default();
    let mut taken = 0;
    for node in 0..3 {
        let client = client_on(&cluster, node).await;
        let fresh = format!("{client}-x");
        let own = cluster
            .slot_of(&keys.epoch(Name::Client(client.clone()).lane()))
            .await;
        let shared = cluster.slot_of(&keys.epoch(Lane::SHARED)).await;
        let rules = cluster.slot_of("{rules}").await;
        let mut calls = async |passes: u64| {
            for n in 1..=passes {
                assert!(answered(&container, "POST", &client).await.0);
                taken += 1;
                let left = answered(&container, "GET", &client).await.1;
                assert!(left <= 1000 - n);
            }
            // Somebody whose buckets and whose registry entry are not there yet.
            answered(&container, "GET", &fresh).await;
        };
        calls(1).await;
        for slot in [own, shared, rules] {
            let to = (cluster.primary_of(slot).await + 1) % 3;
            let moving = cluster.begin_move(slot, to).await;
            calls(2).await;
            let mut moved = 0;
            while cluster.move_keys(&moving, 1).await > 0 {
                moved += 1;
                if slot != rules && moved == 1 {
                    // Publishing goes on, too.
                    let mut elsewhere = day("client", 1);
                    elsewhere["resource"] = format!("GET /{node}/{slot}").into();
                    operator.rule(elsewhere).await;
                    operator
                        .client(&format!("{client}-{node}-{slot}-{moved}"), json!({}))
                        .await;
                }
                calls(2).await;
            }
            assert!(moved > 1, "the slot holds keys that can be parted");
            cluster.end_move(moving).await;
            calls(2).await;
        }
    }
    // One for each call that passed, whichever server counted it.
    let left = answered(&container, "GET", "somebody-else").await.1;
    assert_eq!(left, 5000 - taken);
}

#[tokio::test]
async fn slots_that_move_under_traffic_cost_no_caller_an_answer() {
    let cluster = RedisCluster::start(0).await;
    let operator = Operator::at(&cluster.url()).await;
    operator
        .rules(vec![day("client", 100_000), day("all", 1_000_000)])
        .await;
    let containers = [check(&operator).await, check(&operator).await];
    let (done, taken) = (AtomicBool::new(false), AtomicU64::new(0));
    let traffic = containers.iter().map(async |container| {
        for n in 0.. {
            if done.load(Ordering::Relaxed) {
                break;
            }
            assert!(
                answered(container, "POST", &format!("client-{}", n % 50))
                    .await
                    .0
            );
            taken.fetch_add(1, Ordering::Relaxed);
        }
    });
    let moves = async {
        // Every lane's slot that the first server has goes to the second, the shared one among them.
        let keys = Keys::default();
        for lane in Lane::all().take(86).step_by(3) {
            let slot = cluster.slot_of(&keys.epoch(lane)).await;
            if cluster.primary_of(slot).await == 0 {
                cluster.move_slots(slot..=slot, 1).await;
            }
        }
        done.store(true, Ordering::Relaxed);
    };
    futures::join!(join_all(traffic), moves);
    let left = answered(&containers[0], "GET", "somebody-else").await.1;
    assert_eq!(left, 1_000_000 - taken.load(Ordering::Relaxed));
    assert!(taken.load(Ordering::Relaxed) > 50);
}

#[tokio::test]
async fn a_server_that_fails_costs_its_own_lanes_and_no_other_until_its_replica_has_taken_over() {
    let mut cluster = RedisCluster::start(1).await;
    let operator = Operator::at(&cluster.url()).await;
    operator.rule(day("client", 1000)).await;
    let container = operator
        .container(Function::Check, &[ANYONE[0], ("REDIS_TIMEOUT_MS", "200")])
        .await;
    let mut clients = Vec::new();
    for node in 0..3 {
        clients.push(client_on(&cluster, node).await);
    }
    for client in &clients {
        answered(&container, "POST", client).await;
    }
    cluster.node_mut(1).pause();
    // Its own wait once, and are then answered without it.
    let waited = Instant::now();
    for _ in 0..20 {
        assert_eq!(
            ask(&container, "POST", &clients[1]).await["statusCode"],
            503
        );
        answered(&container, "POST", &clients[0]).await;
        answered(&container, "POST", &clients[2]).await;
    }
    assert!(
        waited.elapsed() < Duration::from_secs(20 * 200 / 1000 + 2),
        "{:?}",
        waited.elapsed()
    );
    let end = Instant::now() + Duration::from_secs(40);
    while ask(&container, "POST", &clients[1]).await["statusCode"] != 200 {
        assert!(Instant::now() < end, "{}", container.logs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_node_of_a_cluster_that_is_addressed_as_if_it_were_alone_says_what_is_wrong() {
    let cluster = RedisCluster::start(0).await;
    let container = Container::start(
        Function::Check,
        [
            ("REDIS_URL", cluster.node(0).url()),
            ("CHECK_ANONYMOUS", "allow".to_owned()),
        ],
    )
    .await;
    for n in 0..20 {
        let answer = ask(&container, "POST", &format!("client-{n}")).await;
        assert_eq!(answer["statusCode"], 503);
    }
    container
        .logged("REDIS_URL must begin with redis+cluster://")
        .await;
}
