//! What 100,000 rules in force cost a container: a cold start, one change, and two hundred cold starts at once.
// A benchmark is test code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use limiter::registry::Registry;
use limiter::view::{View, Views};
use limits::bucket::{Bucket, BucketName, Owner};
use limits::counters::Operation;
use limits::rule::Algorithm;
use limits::{CHUNKS, Lane, Quota, chunk_of};
use limits_redis::keys::Keys;
use limits_redis::publish::{End, chunk_body};
use limits_redis::published::PAGE;
use limits_redis::{Call, Page, Reply, Store, Version};
use local::servers::Redis;
use serde_json::{Value, json};
use uuid::Uuid;

const RULES: u64 = 100_000;
const CONTAINERS: usize = 200;
const PATIENCE: Duration = Duration::from_secs(60);

fn rule(i: u64) -> Value {
    let id = Uuid::from_u128(u128::from(i) << 64 | 7);
    match i % 2 {
        0 => {
            json!({"id": id, "resource": format!("GET /service{i}/orders/*"), "limit": 100, "time_window": 60})
        }
        _ => {
            json!({"id": id, "resource": "*", "client": format!("client{i}"), "limit": i, "time_window": 60})
        }
    }
}

async fn publish(store: &Store, revision: u64, rules: &[Value], chunks: &[u16]) {
    let version = Version {
        history: 1,
        revision,
    };
    let mut by_chunk = vec![Vec::new(); usize::from(CHUNKS)];
    for rule in rules {
        let id = rule["id"].as_str().unwrap().parse().unwrap();
        by_chunk[usize::from(chunk_of(id))].push(rule.clone());
    }
    let pages: Vec<_> = chunks.chunks(PAGE).collect();
    for (i, page) in pages.iter().enumerate() {
        let body = |chunk: &u16| (*chunk, chunk_body(version, &by_chunk[usize::from(*chunk)]));
        let end = (i + 1 == pages.len()).then_some(End {
            revision,
            change: Uuid::nil(),
            all: true,
            fresh: false,
            forget: false,
        });
        let page = Page {
            version,
            chunks: page.iter().map(body).collect(),
            end,
            ..Page::default()
        };
        store.put(&page).await.unwrap();
    }
    let stamp = store.head().await.unwrap().unwrap().stamp;
    let lanes: Vec<_> = Lane::all().map(|lane| (lane, Some(version))).collect();
    store.move_lanes(stamp, &lanes).await.unwrap();
}

/// Resident memory of this process, in MiB.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS"))
        .unwrap();
    let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib / 1024.0
}

fn spread(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    format!(
        "{:.2} / {:.2} / {:.2} ms",
        ms(times[0]),
        ms(times[times.len() / 2]),
        ms(times[times.len() - 1])
    )
}

async fn load(store: &Store) -> (Duration, Views, Arc<View>) {
    let (views, registry) = (Views::granting(100), Registry::default());
    let started = Instant::now();
    let view = views.catch_up(0, store, &registry, PATIENCE).await.unwrap();
    assert_eq!(view.rules.len() as u64, RULES);
    (started.elapsed(), views, view)
}

/// With the address of a Redis: loads the rules from there and tells what memory they take, in a process that did nothing else.
async fn weigh(url: &str) {
    let store = Store::open(url, Keys::new("weir").unwrap()).unwrap();
    store.head().await.unwrap();
    let before = resident();
    let loaded = load(&store).await;
    println!("memory of the loaded rules: {:.1} MiB", resident() - before);
    drop(loaded);
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    match std::env::args()
        .nth(1)
        .filter(|argument| argument.starts_with("redis://"))
    {
        Some(url) => runtime.block_on(weigh(&url)),
        None => runtime.block_on(measure()),
    }
}

async fn measure() {
    let server = Redis::start().unwrap();
    let keys = Keys::new("weir").unwrap();
    let store = Store::open(&server.url(), keys.clone()).unwrap();
    let mut rules: Vec<Value> = (0..RULES).map(rule).collect();
    store.claim(1, 0).await.unwrap();
    let all: Vec<u16> = (0..CHUNKS).collect();
    publish(&store, 1, &rules, &all).await;
    println!("{RULES} rules; times are min / median / max");

    let loaded = std::env::current_exe()
        .map(Command::new)
        .unwrap()
        .arg(server.url())
        .output();
    print!("{}", String::from_utf8(loaded.unwrap().stdout).unwrap());
    let registry = Registry::default();
    let mut loads = Vec::new();
    for _ in 0..9 {
        loads.push(load(&store).await.0);
    }
    println!("cold load: {}", spread(loads));

    let (_, views, view) = load(&store).await;
    let mut behind = view.stamp;
    drop(view);
    let mut times = Vec::new();
    for i in 0..50 {
        let changed = usize::try_from(i * 1_999).unwrap();
        rules[changed]["limit"] = json!(7);
        let id = rules[changed]["id"].as_str().unwrap().parse().unwrap();
        publish(&store, 2 + i, &rules, &[chunk_of(id)]).await;
        let started = Instant::now();
        let view = views
            .catch_up(behind, &store, &registry, PATIENCE)
            .await
            .unwrap();
        times.push(started.elapsed());
        assert_eq!(view.rules.get(id).unwrap().draft().limit, Some(7));
        behind = view.stamp;
    }
    println!("catching up by one change: {}", spread(times));
    storm(&server, &keys).await;
}

/// Two hundred readers that begin at once, on a thread of their own; decisions meanwhile on this one.
async fn storm(server: &Redis, keys: &Keys) {
    let over = Arc::new(AtomicBool::new(false));
    let (url, readers_keys, done) = (server.url(), keys.clone(), Arc::clone(&over));
    let readers = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let started = Instant::now();
            let readers = (0..CONTAINERS).map(|_| {
                let store = Store::open(&url, readers_keys.clone()).unwrap();
                tokio::spawn(async move {
                    let deadline = tokio::time::Instant::now() + PATIENCE;
                    let changes = store.changes(0, deadline).await.unwrap().unwrap();
                    for page in changes.chunks[changes.bodies.len()..].chunks(PAGE) {
                        store.chunks(page, deadline).await.unwrap();
                    }
                })
            });
            for reader in readers.collect::<Vec<_>>() {
                reader.await.unwrap();
            }
            done.store(true, Ordering::Relaxed);
            started.elapsed()
        })
    });
    let store = Store::open(&server.url(), keys.clone()).unwrap();
    let quota = Quota::new(Algorithm::TokenBucket, 1_000_000, None, 60).unwrap();
    let bucket = [Bucket {
        lane: Lane(9),
        name: BucketName::new(None, &Owner::All, &quota),
        quota: &quota,
        cost: quota.cost(1).unwrap(),
        shadow: false,
    }];
    let call = Call {
        operation: Operation::Take,
        epoch: (1 << 53) - 1,
        lanes: &[Lane(9)],
        buckets: &bucket,
    };
    let mut decisions = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let started = Instant::now();
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let reply = store.ask(&call, deadline).await.unwrap();
        assert!(matches!(reply, Reply::Answers(_)));
        decisions.push(started.elapsed());
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
    let took = readers.join().unwrap();
    println!(
        "{CONTAINERS} containers that load them at once: {:.2} s; {} decisions meanwhile: {}",
        took.as_secs_f64(),
        decisions.len(),
        spread(decisions)
    );
}
