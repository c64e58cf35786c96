//! A thousand containers that lose Redis in the same instant: how they come back.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use limiter::{Config, Limiter, Request, Verdict, Who};
use limits::Resource;
use limits::counters::Operation;
use limits::settings::Settings;
use limits_redis::{Store, keys::Keys};
use local::servers::{End, Redis};
use rand::RngExt;
use serde_json::json;
use tests::{Operator, console};

const CONTAINERS: usize = 1000;

/// A container in this process, with a connection of its own.
fn container(redis: &Redis, operator: &Operator) -> Limiter {
    let keys = Keys::new(operator.prefix()).unwrap();
    let store = Store::open(&redis.url(), keys).unwrap();
    // A thousand on one processor take their time.
    let slow = |name: &str| match name {
        "REDIS_TIMEOUT_MS" => Some("1000".to_owned()),
        "RULES_LOAD_TIMEOUT_MS" => Some("20000".to_owned()),
        _ => None,
    };
    let mut settings = Settings::new(&slow);
    let config = Config::read(&mut settings).unwrap();
    Limiter::new(config, store)
}

/// Whether a call of a container's client was counted in Redis.
async fn counted(limiter: &Limiter, client: &str) -> bool {
    let request = Request {
        who: Who::Verified {
            id: client,
            tier: None,
        },
        address: None,
        resource: Resource::parse("GET /x"),
        tokens: 1,
        operation: Operation::Take,
    };
    match limiter.decide(&request).await {
        Verdict::Decided(decision) => !decision.degraded,
        Verdict::StoreOut => false,
        Verdict::Refused(refusal) => panic!("{refusal:?}"),
    }
}

async fn connections_so_far(redis: &Redis) -> usize {
    let stats: String = console::ask(redis, "INFO stats").await.unwrap();
    let received = console::line(&stats, "total_connections_received");
    received.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_containers_that_lose_redis_at_once_come_back_over_time_and_connect_once() {
    let mut redis = Redis::start().unwrap();
    let operator = Operator::at(&redis.url()).await;
    let rule = json!({ "resource": "*", "limit": 1_000_000, "time_window": 60 });
    operator.rule(rule).await;
    let over = Arc::new(AtomicBool::new(false));
    let out = Arc::new(AtomicUsize::new(0));
    let back: Arc<Mutex<Vec<Instant>>> = Arc::default();
    // Whether Redis has been away and is here again.
    let returned = Arc::new(AtomicBool::new(false));
    let containers = (0..CONTAINERS).map(|n| {
        let limiter = container(&redis, &operator);
        let (over, out) = (Arc::clone(&over), Arc::clone(&out));
        let (back, returned) = (Arc::clone(&back), Arc::clone(&returned));
        tokio::spawn(async move {
            let client = format!("client-{n}");
            let (mut was_out, mut is_back) = (false, false);
            while !over.load(Ordering::Relaxed) {
                let counted = counted(&limiter, &client).await;
                if !counted && !was_out {
                    was_out = true;
                    out.fetch_add(1, Ordering::Relaxed);
                }
                if counted && was_out && !is_back && returned.load(Ordering::Relaxed) {
                    is_back = true;
                    back.lock().unwrap().push(Instant::now());
                }
                // Two calls a second, as they come.
                let pause = rand::rng().random_range(300..700);
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
        })
    });
    let containers: Vec<_> = containers.collect();
    let wait_for = async |what: &str, until: &dyn Fn() -> bool| {
        let end = Instant::now() + Duration::from_secs(60);
        while !until() {
            assert!(Instant::now() < end, "{what}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    // All are connected.
    tokio::time::sleep(Duration::from_secs(1)).await;
    while connections_so_far(&redis).await < CONTAINERS {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    out.store(0, Ordering::Relaxed);
    redis.stop(End::Kill);
    wait_for("all notice", &|| out.load(Ordering::Relaxed) >= CONTAINERS).await;
    // By now all are in the longest of their pauses.
    tokio::time::sleep(Duration::from_secs(6)).await;
    redis.restart().unwrap();
    operator.publish().await;
    let since = Instant::now();
    returned.store(true, Ordering::Relaxed);
    let all_back = || back.lock().unwrap().len() == CONTAINERS;
    wait_for("all are back", &all_back).await;
    let connections = connections_so_far(&redis).await;
    over.store(true, Ordering::Relaxed);
    for container in containers {
        container.await.unwrap();
    }
    let mut after: Vec<f64> = back
        .lock()
        .unwrap()
        .iter()
        .map(|at| at.duration_since(since).as_secs_f64())
        .collect();
    after.sort_by(f64::total_cmp);
    println!(
        "back after {:.2} / {:.2} / {:.2} s (first / half / all); {connections} connections",
        after[0],
        after[CONTAINERS / 2],
        after[CONTAINERS - 1]
    );
    // Each connected once; beside them the operator, whoever asked here, and what a busy machine broke.
    assert!(connections < CONTAINERS + CONTAINERS / 10, "{connections}");
    // Spread over the pause: in no half second a third of them. A pause is five seconds at most, the rest is the machine's.
    let most_at_once = (0..after.len())
        .map(|first| {
            after[first..]
                .iter()
                .take_while(|at| **at < after[first] + 0.5)
                .count()
        })
        .max();
    assert!(most_at_once.unwrap() < CONTAINERS / 3, "{most_at_once:?}");
    assert!(after[CONTAINERS - 1] < 15.0, "{after:?}");
}
