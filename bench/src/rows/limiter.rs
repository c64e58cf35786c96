//! A decision by the limiter itself, as `authorizer` and `check` ask it: no event, no HTTP.

use std::time::Instant;

use futures::future::join_all;
use limiter::{Asker, Config, Limiter, Request, Verdict, Who};
use limits::{Resource, counters::Operation, settings::Settings};
use limits_redis::{Store, keys::Keys};
use local::servers::{End, Redis};
use redis::{Cmd, aio::MultiplexedConnection};
use serde_json::json;
use tests::Operator;
use tokio::runtime::Runtime;

use super::round_trip::gcra;
use crate::{
    pin::{HERE, on},
    report::Report,
    timing::{Timings, current_thread},
};

/// The table that these rows stand in.
pub const SECTION: &str = "limiter, work";
const FLOOR: &str = "EVALSHA of the least script, redis-rs";
const CALLS: u32 = 5_000;
const USERS: u32 = 1_000;
const IN_FLIGHT: u32 = 50;

/// What is asked.
const QUESTIONS: [(&str, &str); 3] = [
    ("1 limit, allowed", "/one"),
    ("4 limits, allowed", "/four"),
    ("1 limit, known to be empty", "/none"),
];

/// The rows.
pub struct InProcess {
    runtime: Runtime,
    limiter: Limiter,
    without_redis: Limiter,
    evalsha: Cmd,
    connection: MultiplexedConnection,
    users: Vec<String>,
    _operator: Operator,
}

impl InProcess {
    /// With a Redis that runs [`HERE`].
    pub fn new(redis: &Redis) -> Self {
        let runtime = current_thread();
        let client = redis::Client::open(redis.url()).unwrap();
        let operator = runtime.block_on(async {
            let operator = Operator::at(&redis.url()).await;
            for (resource, windows) in [("/one", 1), ("/four", 4)] {
                for window in 1..=windows {
                    let rule = json!({ "resource": resource, "limit": 1_000_000, "time_window": 60 * window });
                    operator.rule(rule).await;
                }
            }
            operator.rule(json!({ "resource": "/none", "limit": 1, "time_window": 2_592_000 })).await;
            operator
        });
        let limiter = limiter(&redis.url(), &operator);
        let connection = runtime.block_on(client.get_multiplexed_async_connection());
        runtime.block_on(limiter.load());
        let users: Vec<String> = (0..USERS).map(|i| format!("user{i}")).collect();
        let without_redis = runtime.block_on(without_redis(&users));
        let rows = Self {
            evalsha: gcra(&client),
            connection: connection.unwrap(),
            runtime,
            limiter,
            without_redis,
            users,
            _operator: operator,
        };
        // Who they are is looked up once, and who has no room asked.
        rows.runtime.block_on(async {
            for (_, resource) in QUESTIONS {
                for user in &rows.users {
                    decide(&rows.limiter, user, resource).await;
                }
            }
        });
        rows
    }

    /// Measures every row once.
    pub fn round(&mut self, report: &mut Report) {
        on(HERE, || self.runtime.block_on(self.measure(report)));
    }

    async fn measure(&self, report: &mut Report) {
        let floor = async |_: u32| {
            let mut connection = self.connection.clone();
            let _: i64 = self.evalsha.query_async(&mut connection).await.unwrap();
        };
        one_by_one(report, FLOOR, floor).await;
        at_once(report, FLOOR, floor).await;
        for (name, resource) in QUESTIONS {
            let users = self.users.len() as u32;
            let allowed = resource != "/none";
            let ask = async |number: u32| {
                // Of those without room few, so that none of them is forgotten in between.
                let user = if allowed { number % users } else { number % 10 };
                let answer = decide(&self.limiter, &self.users[user as usize], resource).await;
                assert_eq!(answer, allowed, "{name}");
            };
            one_by_one(report, name, ask).await;
            at_once(report, name, ask).await;
        }
        let name = "1 limit, Redis out";
        let ask = async |number: u32| {
            let user = &self.users[(number % USERS) as usize];
            decide(&self.without_redis, user, "/one").await;
        };
        one_by_one(report, name, ask).await;
    }
}

fn limiter(redis: &str, operator: &Operator) -> Limiter {
    // A slow machine is no outage.
    let lookup = |name: &str| (name == "REDIS_TIMEOUT_MS").then(|| "5000".to_owned());
    let config = Config::read(&mut Settings::new(&lookup)).unwrap();
    let store = Store::open(redis, Keys::new(operator.prefix()).unwrap());
    Limiter::new(config, store.unwrap())
}

/// One that has loaded its rules and knows the users, and whose Redis has gone since.
async fn without_redis(users: &[String]) -> Limiter {
    let mut redis = Redis::start().unwrap_or_else(|error| panic!("{error}"));
    let operator = Operator::at(&redis.url()).await;
    let rule = json!({ "resource": "/one", "limit": 1_000_000, "time_window": 60 });
    operator.rule(rule).await;
    let limiter = limiter(&redis.url(), &operator);
    limiter.load().await;
    for user in users {
        decide(&limiter, user, "/one").await;
    }
    redis.stop(End::Kill);
    limiter
}

/// Whether a call by a user passes.
async fn decide(limiter: &Limiter, user: &str, resource: &str) -> bool {
    let request = Request {
        who: Who::Client {
            id: user,
            asker: Asker::Anyone,
        },
        address: None,
        resource: Resource::parse(resource),
        tokens: 1,
        operation: Operation::Take,
    };
    match limiter.decide(&request).await {
        Verdict::Decided(decision) => decision.allowed,
        refused => panic!("{refused:?}"),
    }
}

async fn one_by_one(report: &mut Report, name: &str, ask: impl AsyncFn(u32)) {
    let mut timings = Timings::default();
    for number in 0..CALLS {
        let started = Instant::now();
        ask(number).await;
        timings.add(started.elapsed());
    }
    timings.note(report, SECTION, name, Some(FLOOR));
}

async fn at_once(report: &mut Report, name: &str, ask: impl AsyncFn(u32)) {
    let ask = &ask;
    let started = Instant::now();
    let each = CALLS / IN_FLIGHT;
    let asking = (0..IN_FLIGHT).map(async |task| {
        for number in task * each..(task + 1) * each {
            ask(number).await;
        }
    });
    join_all(asking).await;
    let speed = f64::from(each * IN_FLIGHT) / started.elapsed().as_secs_f64();
    let of = |name: &str| format!("{name}, {IN_FLIGHT} in flight");
    report.note(
        SECTION,
        &of(name),
        "thousand/s",
        Some(&of(FLOOR)),
        speed / 1e3,
    );
}
