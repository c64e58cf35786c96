//! Peers of Weir in Rust, and the floor under all of them, one round of calls at a time.
//!
//! Started as `peer REDIS_URL`. Its first line tells the variants: `{"variants": [{"name": "...", "in_flight": [1, 50]}]}`; then each
//! line read, `{"variant": 0, "in_flight": 1, "calls": 1000}`, is answered by one, `{"p50_us": 1.0, "p99_us": 1.0, "per_second": 1.0}`.
//! Ends with its standard input. Every answer is checked: one that is not as expected ends it with an error.

use std::collections::HashMap;
use std::error::Error;
use std::io::{Write, stdin, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use governor::{DefaultKeyedRateLimiter, Quota};
use limitador::errors::LimitadorError;
use limitador::limit::{Context, Expression, Limit, Namespace};
use limitador::storage::redis::AsyncRedisStorage;
use limitador::{AsyncRateLimiter, CheckResult, RateLimiter};
use redis::Script;
use redis::aio::MultiplexedConnection;
use serde::{Deserialize, Serialize};
use serde_json::json;

type Failure = Box<dyn Error + Send + Sync>;

/// Calls rotate among these.
const USERS: usize = 1_000;

/// What a user may do in a window, where all is to be allowed: more than any run asks for.
const PLENTY: u32 = 1_000_000;

/// Longer than a run, in seconds: no counter starts anew within one.
const WINDOW: u32 = 3_600;

/// A call that does not leave the process takes about as long as the clock takes to read: so many are timed as one.
const IN_MEMORY_AT_ONCE: u32 = 100;

fn main() -> Result<(), Failure> {
    let url = std::env::args()
        .nth(1)
        .ok_or("which Redis? peer REDIS_URL")?;
    // One thread: pinned to one CPU, a second would only take turns with it; and Weir's functions run on one, too.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let variants = runtime.block_on(variants(&url))?;
    let users: Arc<[String]> = (0..USERS).map(|user| format!("user-{user}")).collect();
    // Whoever is to be denied has used up what he may.
    for variant in variants.iter().filter(|variant| !variant.allowed) {
        for user in users.iter() {
            runtime.block_on(variant.limiter.allows(user))?;
        }
    }

    let told: Vec<_> = variants
        .iter()
        .map(|variant| json!({ "name": variant.name, "in_flight": variant.limiter.in_flight() }))
        .collect();
    answer(&json!({ "variants": told }))?;
    for line in stdin().lines() {
        let round: Round = serde_json::from_str(&line?)?;
        let variant = variants.get(round.variant).ok_or("no such variant")?;
        if !variant.limiter.in_flight().contains(&round.in_flight) {
            return Err(format!("{} not with {} in flight", variant.name, round.in_flight).into());
        }
        let sample = runtime.block_on(round.run(variant, &users))?;
        answer(&sample)?;
    }
    Ok(())
}

fn answer(line: &impl Serialize) -> Result<(), Failure> {
    let mut stdout = stdout().lock();
    writeln!(stdout, "{}", serde_json::to_string(line)?)?;
    Ok(stdout.flush()?)
}

/// All that can be measured.
async fn variants(url: &str) -> Result<Vec<Arc<Variant>>, Failure> {
    let floor = Floor {
        connection: redis::Client::open(url)?
            .get_multiplexed_async_connection()
            .await?,
        script: Script::new(include_str!("gcra.lua")),
    };
    let mut variants = vec![Variant {
        name: "EVALSHA of the least script, redis-rs".to_owned(),
        allowed: true,
        limiter: Limiter::Floor(floor),
    }];

    // Without limitador's CachedRedisStorage: one task that asks it in a loop hangs (0.14.0).
    for (count, limits) in [(1, "1 limit"), (4, "4 limits")] {
        for (allowed, outcome, most) in [(true, "allowed", PLENTY), (false, "denied", 1)] {
            let name = format!("limitador AsyncRedisStorage, {limits}, {outcome}");
            let limiter =
                AsyncRateLimiter::new_with_storage(Box::new(AsyncRedisStorage::new(url).await?));
            for limit in limitador_limits(&name, count, most)? {
                limiter.add_limit(limit);
            }
            let namespace = Namespace::from(name.as_str());
            variants.push(Variant {
                name,
                allowed,
                limiter: Limiter::LimitadorRedis(limiter, namespace),
            });
        }
    }

    let name = "limitador in memory, 1 limit, allowed".to_owned();
    let limiter = RateLimiter::new(10 * USERS as u64);
    for limit in limitador_limits(&name, 1, PLENTY)? {
        limiter.add_limit(limit);
    }
    let namespace = Namespace::from(name.as_str());
    let limiter = Limiter::LimitadorMemory(limiter, namespace);
    variants.push(Variant {
        name,
        allowed: true,
        limiter,
    });

    let quota = Quota::per_hour(PLENTY.try_into()?);
    variants.push(Variant {
        name: "governor in memory, allowed".to_owned(),
        allowed: true,
        limiter: Limiter::Governor(DefaultKeyedRateLimiter::dashmap(quota)),
    });
    Ok(variants.into_iter().map(Arc::new).collect())
}

/// So many limits that apply to every user, each with a window of its own.
fn limitador_limits(namespace: &str, count: u32, most: u32) -> Result<Vec<Limit>, Failure> {
    (1..=count)
        .map(|nth| {
            let user: Expression = "user".try_into()?;
            Ok(Limit::new(
                namespace,
                most.into(),
                (nth * WINDOW).into(),
                [],
                [user],
            ))
        })
        .collect()
}

fn limitador_context(user: &str) -> Context<'static> {
    HashMap::from([("user".to_owned(), user.to_owned())]).into()
}

/// What it answered. Its error cannot leave its thread, only what it says can.
fn limitador_allows(checked: Result<CheckResult, LimitadorError>) -> Result<bool, Failure> {
    Ok(!checked.map_err(|error| error.to_string())?.limited)
}

/// One row of a benchmark.
struct Variant {
    name: String,
    /// What every call must be answered.
    allowed: bool,
    limiter: Limiter,
}

enum Limiter {
    Floor(Floor),
    LimitadorRedis(AsyncRateLimiter, Namespace),
    LimitadorMemory(RateLimiter, Namespace),
    Governor(DefaultKeyedRateLimiter<String>),
}

struct Floor {
    connection: MultiplexedConnection,
    script: Script,
}

impl Limiter {
    /// How many calls can be under way at once.
    fn in_flight(&self) -> &'static [u32] {
        match self {
            Self::Floor(_) | Self::LimitadorRedis(..) => &[1, 50],
            Self::LimitadorMemory(..) | Self::Governor(_) => &[1],
        }
    }

    /// How many calls are timed as one.
    fn at_once(&self) -> u32 {
        match self {
            Self::Floor(_) | Self::LimitadorRedis(..) => 1,
            Self::LimitadorMemory(..) | Self::Governor(_) => IN_MEMORY_AT_ONCE,
        }
    }

    /// Whether the user may make a call, which is counted.
    async fn allows(&self, user: &String) -> Result<bool, Failure> {
        Ok(match self {
            Self::Floor(floor) => floor.allows(user).await?,
            Self::LimitadorRedis(limiter, namespace) => {
                let context = limitador_context(user);
                let check = limiter.check_rate_limited_and_update(namespace, &context, 1);
                limitador_allows(check.await)?
            }
            Self::LimitadorMemory(limiter, namespace) => {
                let context = limitador_context(user);
                limitador_allows(limiter.check_rate_limited_and_update(namespace, &context, 1))?
            }
            Self::Governor(limiter) => limiter.check_key(user).is_ok(),
        })
    }
}

impl Floor {
    async fn allows(&self, user: &str) -> Result<bool, Failure> {
        let mut connection = self.connection.clone();
        let fullness: i64 = self
            .script
            .key(user)
            .arg(1)
            .arg(1_000_000_000)
            .invoke_async(&mut connection)
            .await?;
        Ok(fullness >= 0)
    }
}

/// One round, as asked for.
#[derive(Deserialize)]
struct Round {
    variant: usize,
    in_flight: u32,
    calls: u32,
}

/// What a round gave.
#[derive(Serialize)]
struct Sample {
    p50_us: f64,
    p99_us: f64,
    per_second: f64,
}

impl Round {
    async fn run(&self, variant: &Arc<Variant>, users: &Arc<[String]>) -> Result<Sample, Failure> {
        let at_once = variant.limiter.at_once();
        let groups = self.calls.div_ceil(at_once);
        let next = Arc::new(AtomicU32::new(0));
        let start = Instant::now();
        let tasks: Vec<_> = (0..self.in_flight)
            .map(|_| {
                let (variant, users, next) = (variant.clone(), users.clone(), next.clone());
                tokio::spawn(async move { calls(&variant, &users, &next, groups * at_once).await })
            })
            .collect();
        let mut times = Vec::with_capacity(groups as usize);
        for task in tasks {
            times.extend(task.await??);
        }
        let elapsed = start.elapsed();

        times.sort_unstable();
        let percentile = |percent: usize| -> Result<f64, Failure> {
            let time = times.get(times.len() * percent / 100).ok_or("no calls")?;
            Ok(time.as_secs_f64() * 1e6 / f64::from(at_once))
        };
        Ok(Sample {
            p50_us: percentile(50)?,
            p99_us: percentile(99)?,
            per_second: f64::from(groups * at_once) / elapsed.as_secs_f64(),
        })
    }
}

/// Calls one after the other, until `all` are begun by this task and its like: `next` counts them. How long each took.
async fn calls(
    variant: &Variant,
    users: &[String],
    next: &AtomicU32,
    all: u32,
) -> Result<Vec<Duration>, Failure> {
    let at_once = variant.limiter.at_once();
    let mut times = Vec::new();
    loop {
        let first = next.fetch_add(at_once, Ordering::Relaxed);
        if first >= all {
            return Ok(times);
        }
        let start = Instant::now();
        for call in first..first + at_once {
            if variant
                .limiter
                .allows(&users[call as usize % USERS])
                .await?
                != variant.allowed
            {
                return Err(format!("{}: answered otherwise", variant.name).into());
            }
        }
        times.push(start.elapsed());
    }
}
