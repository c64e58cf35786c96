//! What a spread rule admits of what it allows, by how many shares it has and how it is asked: a thousand limiters over one Redis,
//! as a thousand containers have them.
//!
//! What is measured are numbers of requests, so that any profile will do: `cargo bench -p tests --bench spread --profile dev`.
// A benchmark is test code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use futures::future::join_all;
use limiter::{Config, Limiter, Request, Verdict, Who};
use limits::Resource;
use limits::counters::Operation;
use limits::settings::Settings;
use limits_redis::Store;
use limits_redis::keys::Keys;
use local::servers::Redis;
use rand::RngExt;
use serde_json::json;
use tests::Operator;
use tokio::time::{Instant, sleep_until};

const LIMITERS: usize = 1_000;
/// So many of them share a connection.
const ON_ONE_CONNECTION: usize = 50;
/// A window in which nothing comes back.
const LONG: u64 = 31_622_400;
const SPLITS: [u64; 4] = [1, 2, 8, 64];

/// A rule in a key space of its own, and whoever asks for it.
struct Field {
    limiters: Vec<Limiter>,
    limit: u64,
    burst: u64,
    window: u64,
}

impl Field {
    async fn new(redis: &str, split: u64, limit: u64, burst: u64, window: u64) -> Self {
        let operator = Operator::at(redis).await;
        let rule = json!({
            "resource": "/hot", "per": "all", "split": split, "limit": limit, "burst": burst, "time_window": window,
        });
        operator.rule(rule).await;
        // A slow machine is no outage.
        let lookup = |name: &str| (name == "REDIS_TIMEOUT_MS").then(|| "10000".to_owned());
        let config = Config::read(&mut Settings::new(&lookup)).unwrap();
        let mut limiters = Vec::new();
        for _ in 0..LIMITERS / ON_ONE_CONNECTION {
            let store = Store::open(redis, Keys::new(operator.prefix()).unwrap()).unwrap();
            let more = (0..ON_ONE_CONNECTION).map(|_| Limiter::new(config.clone(), store.clone()));
            limiters.extend(more);
        }
        join_all(limiters.iter().map(Limiter::load)).await;
        Self {
            limiters,
            limit,
            burst,
            window,
        }
    }

    /// What the rule allows in a time.
    fn allowed(&self, time: Duration) -> f64 {
        self.burst as f64 + self.limit as f64 * time.as_secs_f64() / self.window as f64
    }
}

/// Whether one request passes.
async fn passes(limiter: &Limiter) -> bool {
    let request = Request {
        who: Who::Client {
            id: "eve",
            asker: limiter::Asker::Anyone,
        },
        address: None,
        resource: Resource::parse("/hot"),
        tokens: 1,
        operation: Operation::Take,
    };
    match limiter.decide(&request).await {
        Verdict::Decided(decision) => {
            assert!(!decision.degraded, "the machine is too slow");
            decision.allowed
        }
        refused => panic!("{refused:?}"),
    }
}

/// All limiters at once, so many requests each, one after the other: how many pass.
async fn at_once(field: &Field, each: u64) -> u64 {
    let one = async |limiter: &Limiter| {
        let mut admitted = 0;
        for _ in 0..each {
            admitted += u64::from(passes(limiter).await);
        }
        admitted
    };
    let admitted: Vec<u64> = join_all(field.limiters.iter().map(one)).await;
    admitted.iter().sum()
}

/// Each limiter again and again after the same pause, begun at a random moment of it, together so many requests a second, for a
/// while: what was asked, admitted and allowed.
async fn steadily(field: &Field, per_second: f64, time: Duration) -> (u64, u64, f64) {
    let pause = Duration::from_secs_f64(field.limiters.len() as f64 / per_second);
    let start = Instant::now();
    let one = async |limiter: &Limiter| {
        let (mut asked, mut admitted, mut last) = (0, 0, Duration::ZERO);
        let mut next = pause.mul_f64(rand::rng().random::<f64>());
        while next < time {
            sleep_until(start + next).await;
            asked += 1;
            admitted += u64::from(passes(limiter).await);
            last = start.elapsed();
            next += pause;
        }
        (asked, admitted, last)
    };
    let all: Vec<(u64, u64, Duration)> = join_all(field.limiters.iter().map(one)).await;
    let asked = all.iter().map(|(asked, ..)| asked).sum();
    let admitted = all.iter().map(|(_, admitted, _)| admitted).sum();
    let last = all.iter().map(|(.., last)| *last).max();
    (asked, admitted, field.allowed(last.unwrap_or_default()))
}

/// One limiter alone: how many requests pass before the first that does not, and of as many as are allowed.
async fn alone(field: &Field) -> (u64, u64) {
    let (mut first, mut admitted) = (None, 0);
    for asked in 0..field.burst {
        if passes(&field.limiters[0]).await {
            admitted += 1;
        } else {
            first.get_or_insert(asked);
        }
    }
    (first.unwrap_or(field.burst), admitted)
}

fn percent(part: u64, whole: f64) -> String {
    let percent = 100.0 * part as f64 / whole;
    assert!(
        part as f64 <= whole.floor(),
        "more than the rule allows: {part} of {whole}"
    );
    format!("{percent:.1} %")
}

async fn table() {
    let server = Redis::start().unwrap();
    let redis = server.url();
    println!(
        "| shares | limit | {LIMITERS} limiters at once, asking 100 % | 150 % | 300 % | one alone, to its first denial | asking 100 % |"
    );
    println!("|---|---|---|---|---|---|---|");
    for limit in [2_000, 6_000] {
        for split in SPLITS {
            let mut cells = Vec::new();
            for asked in [1.0, 1.5, 3.0] {
                let field = Field::new(&redis, split, limit, limit, LONG).await;
                let each = limit as f64 * asked / LIMITERS as f64;
                let admitted = at_once(&field, each.round() as u64).await;
                cells.push(percent(admitted, limit as f64));
            }
            let field = Field::new(&redis, split, limit, limit, LONG).await;
            let (first, admitted) = alone(&field).await;
            cells.extend([
                percent(first, limit as f64),
                percent(admitted, limit as f64),
            ]);
            println!("| {split} | {limit} | {} |", cells.join(" | "));
        }
    }
    println!();
    println!(
        "| shares | 400 a second, burst | asking 100 %: admitted of asked | of allowed | asking 150 %: of allowed |"
    );
    println!("|---|---|---|---|---|");
    for burst in [64, 200, 400] {
        for split in SPLITS {
            let time = Duration::from_secs(8);
            let field = Field::new(&redis, split, 400, burst, 1).await;
            let (asked, admitted, allowed) = steadily(&field, 400.0, time).await;
            let field = Field::new(&redis, split, 400, burst, 1).await;
            let (_, more, all) = steadily(&field, 600.0, time).await;
            println!(
                "| {split} | {burst} | {} | {} | {} |",
                percent(admitted, asked as f64),
                percent(admitted, allowed),
                percent(more, all)
            );
        }
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(table());
}
