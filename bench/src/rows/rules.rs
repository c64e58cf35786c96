//! What many rules in force cost a container: a cold load, one change, and two hundred cold loads at once.

use std::{
    fs,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use futures::future::join_all;
use limiter::{
    registry::Registry,
    view::{View, Views},
};
use limits::{
    CHUNKS, Lane, Quota,
    bucket::{Bucket, BucketName, Owner},
    chunk_of,
    counters::Operation,
    rule::Algorithm,
};
use limits_redis::{
    Call, Page, Reply, Store, Version,
    keys::Keys,
    publish::{End, chunk_body},
    published::{PAGE, next_page},
};
use local::servers::Redis;
use serde_json::{Value, json};
use simulation::markdown::count;
use tokio::runtime::Runtime;
use uuid::Uuid;

use crate::{
    pin::{HERE, on},
    report::Report,
    timing::{Timings, current_thread},
};

const SIZES: [u64; 3] = [10_000, 100_000, 1_000_000];
/// The set that many containers load at once.
const STORMED: u64 = 100_000;
const CONTAINERS: usize = 200;
/// Changes a round.
const CHANGES: usize = 15;
const PATIENCE: Duration = Duration::from_secs(60);
const SECTION: &str = "rules";

/// Rules that are published in a Redis of their own.
struct Published {
    size: u64,
    redis: Redis,
    store: Store,
    /// The rules of each chunk.
    chunks: Vec<Vec<Value>>,
    /// The last publication.
    revision: u64,
    /// What a container has of them, and since when.
    views: Views,
    stamp: u64,
    runtime: Runtime,
}

/// The rows.
pub struct Rules(Vec<Published>);

impl Rules {
    /// Publishes all sets, each in a Redis that runs [`HERE`].
    pub fn new() -> Self {
        Self(SIZES.map(Published::new).into())
    }

    /// Measures every row once.
    pub fn round(&mut self, report: &mut Report) {
        for published in &mut self.0 {
            let size = published.size;
            let name = |what: &str| format!("{} rules, {what}", count(size as f64));
            let base = format!("{} rules, ", count(STORMED as f64));
            let base = |what: &str| base.clone() + what;
            let (load, change) = on(HERE, || (published.load(), published.change()));
            let what = "cold load";
            report.note(SECTION, &name(what), "ms", Some(&base(what)), load);
            let what = "catching up by one change";
            report.note(SECTION, &name(what), "ms", Some(&base(what)), change);
            let what = "memory";
            report.note(
                SECTION,
                &name(what),
                "MiB",
                Some(&base(what)),
                published.weigh(),
            );
            if size == STORMED {
                let (all, slowest) = published.storm();
                let storm = |what: &str| {
                    format!(
                        "{CONTAINERS} containers load {} rules at once: {what}",
                        count(size as f64)
                    )
                };
                report.note(SECTION, &storm("all have them"), "ms", None, all);
                report.note(
                    SECTION,
                    &storm("slowest decision meanwhile"),
                    "ms",
                    None,
                    slowest,
                );
            }
        }
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self::new()
    }
}

impl Published {
    fn new(size: u64) -> Self {
        let redis = on(HERE, Redis::start).unwrap_or_else(|error| panic!("{error}"));
        let store = Store::open(&redis.url(), Keys::new("weir").unwrap()).unwrap();
        let mut chunks = vec![Vec::new(); usize::from(CHUNKS)];
        for i in 0..size {
            let (id, rule) = rule(i);
            chunks[usize::from(chunk_of(id))].push(rule);
        }
        let runtime = current_thread();
        let (views, view) = runtime.block_on(async {
            store.claim(1, 0).await.unwrap();
            let all: Vec<u16> = (0..CHUNKS).collect();
            publish(&store, 1, &chunks, &all).await;
            load(&store, size).await
        });
        Self {
            size,
            redis,
            store,
            chunks,
            revision: 1,
            views,
            stamp: view.stamp,
            runtime,
        }
    }

    /// Milliseconds of a cold load.
    fn load(&self) -> f64 {
        let started = Instant::now();
        let loaded = self.runtime.block_on(load(&self.store, self.size));
        let took = started.elapsed();
        drop(loaded);
        took.as_secs_f64() * 1e3
    }

    /// Milliseconds of catching up by one change, in the median of some.
    fn change(&mut self) -> f64 {
        let mut timings = Timings::default();
        for _ in 0..CHANGES {
            self.revision += 1;
            let chunk = chunk_of(rule(self.revision % self.size).0);
            let changed = &mut self.chunks[usize::from(chunk)][0];
            changed["limit"] = json!(self.revision);
            let id = changed["id"].as_str().unwrap().parse().unwrap();
            self.runtime.block_on(async {
                publish(&self.store, self.revision, &self.chunks, &[chunk]).await;
                let started = Instant::now();
                let registry = Registry::default();
                let view = self
                    .views
                    .catch_up(self.stamp, &self.store, &registry, PATIENCE);
                let view = view.await.unwrap();
                timings.add(started.elapsed());
                let limit = view.rules.get(id).unwrap().draft().limit;
                assert_eq!(limit, Some(self.revision));
                self.stamp = view.stamp;
            });
        }
        timings.quantile(0.5) / 1e3
    }

    /// MiB that the loaded rules take, in a process that does nothing else.
    fn weigh(&self) -> f64 {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let output = command.args(["weigh", &self.redis.url()]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.trim().parse().unwrap_or_else(|_| panic!("{text}"))
    }

    /// Milliseconds until many readers that begin at once, on a thread of their own, have all rules; and the slowest decision
    /// meanwhile, on this one.
    fn storm(&self) -> (f64, f64) {
        let over = Arc::new(AtomicBool::new(false));
        let (url, done) = (self.redis.url(), Arc::clone(&over));
        let readers = thread::spawn(move || {
            let started = Instant::now();
            current_thread().block_on(join_all((0..CONTAINERS).map(|_| read(&url))));
            done.store(true, Ordering::Relaxed);
            started.elapsed()
        });
        let slowest = self
            .runtime
            .block_on(decide_until(&self.redis.url(), &over));
        let all = readers.join().unwrap();
        (all.as_secs_f64() * 1e3, slowest.as_secs_f64() * 1e3)
    }
}

fn rule(i: u64) -> (Uuid, Value) {
    let id = Uuid::from_u128(u128::from(i) << 64 | 7);
    let rule = match i % 2 {
        0 => {
            json!({ "id": id, "resource": format!("GET /service{i}/orders/*"), "limit": 100, "time_window": 60 })
        }
        _ => {
            json!({ "id": id, "resource": "*", "client": format!("client{i}"), "limit": i, "time_window": 60 })
        }
    };
    (id, rule)
}

async fn publish(store: &Store, revision: u64, rules: &[Vec<Value>], chunks: &[u16]) {
    let version = Version {
        history: 1,
        revision,
    };
    let pages: Vec<_> = chunks.chunks(PAGE).collect();
    for (i, page) in pages.iter().enumerate() {
        let body = |chunk: &u16| (*chunk, chunk_body(version, &rules[usize::from(*chunk)]));
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

async fn load(store: &Store, size: u64) -> (Views, Arc<View>) {
    let (views, registry) = (Views::granting(100), Registry::default());
    let view = views.catch_up(0, store, &registry, PATIENCE).await.unwrap();
    assert_eq!(view.rules.len() as u64, size);
    (views, view)
}

/// What a container reads at its start.
async fn read(url: &str) {
    let store = Store::open(url, Keys::new("weir").unwrap()).unwrap();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let changes = store.changes(0, deadline).await.unwrap().unwrap();
    let mut left = &changes.chunks[changes.bodies.len()..];
    let mut size = PAGE;
    while !left.is_empty() {
        let (page, rest) = left.split_at(size.min(left.len()));
        let bodies = store.chunks(page, deadline).await.unwrap();
        size = next_page(&bodies);
        left = rest;
    }
}

/// Decides again and again: how long the slowest took.
async fn decide_until(url: &str, over: &AtomicBool) -> Duration {
    let store = Store::open(url, Keys::new("weir").unwrap()).unwrap();
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
    let mut slowest = Duration::ZERO;
    while !over.load(Ordering::Relaxed) {
        let started = Instant::now();
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let reply = store.ask(&call, deadline).await.unwrap();
        assert!(matches!(reply, Reply::Answers(_)));
        slowest = slowest.max(started.elapsed());
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
    slowest
}

/// Loads the rules that are published in a Redis, and prints how many MiB this process, which did nothing before, has grown by.
pub fn weigh(url: &str) {
    let resident = || {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next());
        kib.unwrap().parse::<f64>().unwrap() / 1024.0
    };
    current_thread().block_on(async {
        let store = Store::open(url, Keys::new("weir").unwrap()).unwrap();
        store.head().await.unwrap();
        let before = resident();
        let (views, registry) = (Views::granting(100), Registry::default());
        let loaded = views.catch_up(0, &store, &registry, PATIENCE);
        let loaded = loaded.await.unwrap();
        println!("{}", resident() - before);
        drop(loaded);
    });
}
