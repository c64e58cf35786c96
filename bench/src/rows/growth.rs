//! What becomes of it as there is more of everything: containers, buckets, shards, callers.

use std::{
    process::Command,
    slice,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use limits::{Lane, Quota, rule::Algorithm};
use local::servers::Redis;
use serde_json::{Value, json};
use tests::{Operator, RedisCluster, console::line};

use super::{
    authorizer::{event, published, variables},
    take::{Load, Prepared, call, first_bucket, prepare, prepared, roomy},
};
use crate::{
    function::{Event, Function, binary},
    open_loop::OpenLoop,
    pin::{HERE, on},
    report::Report,
    timing::current_thread,
};

const SECTION: &str = "growth";
const CONTAINERS: [usize; 4] = [1, 2, 4, 8];
/// For how long containers are driven.
const TIME: Duration = Duration::from_millis(500);
const BUCKETS: [u32; 5] = [10, 1_000, 100_000, 1_000_000, 10_000_000];
/// With fewer buckets, what Redis needs for itself is much of it.
const WEIGHED: u32 = 1_000_000;
/// Buckets that are made at once.
const STEP: u32 = 100_000;
const CALLS: u32 = 64_000;
/// A lane of each shard: a third of the lanes lies in each.
const LANES: [Lane; 3] = [Lane(40), Lane(120), Lane(200)];
const SERVICES: usize = 1_000;
const SERVICES_RATE: u32 = 10_000;
const SERVICES_TIME: Duration = Duration::from_secs(3);

/// Makes untouched token buckets for an hour: `ARGV` how many, the number of the first. They are named as `KEYS[1]` is, whose last ten
/// characters are a number.
const FILL: &str = "
local name, state = string.sub(KEYS[1], 1, -11), struct.pack('<dd', 0, 0)
for number = ARGV[2], ARGV[2] + ARGV[1] - 1 do
  redis.call('PSETEX', name .. string.format('%010d', number), 3600000, state)
end
";

/// The rows.
pub struct Growth {
    containers: Containers,
    buckets: Vec<Buckets>,
    shards: Shards,
    services: Services,
}

impl Growth {
    /// The containers with a Redis that runs [`HERE`]; all else with servers of its own.
    pub fn new(redis: &Redis) -> Self {
        Self {
            containers: Containers::new(redis),
            buckets: BUCKETS.map(Buckets::new).into(),
            shards: Shards::new(),
            services: Services::new(redis),
        }
    }

    /// Measures every row once.
    pub fn round(&mut self, report: &mut Report) {
        self.containers.round(report);
        for buckets in &mut self.buckets {
            buckets.round(report);
        }
        self.shards.round(report);
        self.services.round(report);
    }
}

/// Authorizers that are asked all at once.
struct Containers {
    event: Event,
    functions: Vec<Function>,
    _operator: Operator,
}

impl Containers {
    fn new(redis: &Redis) -> Self {
        let operator = published(&redis.url(), 1_000);
        let variables = variables(redis, &operator);
        let start = |_| Function::start(&mut Command::new(binary("authorizer")), &variables);
        Self {
            event: event("roomy-key"),
            functions: (0..CONTAINERS[3]).map(start).collect(),
            _operator: operator,
        }
    }

    fn round(&mut self, report: &mut Report) {
        for count in CONTAINERS {
            let speed = at_once(&mut self.functions[..count], |function| {
                saturated(function, &self.event)
            });
            let name = |count: usize| format!("containers at once: {count}");
            let base = name(1);
            report.note(SECTION, &name(count), "decisions/s", Some(&base), speed);
        }
    }
}

/// Decisions a second of a container that is asked again as soon as it has answered.
fn saturated(container: &mut Function, event: &Event) -> f64 {
    let (started, mut decisions) = (Instant::now(), 0);
    while started.elapsed() < TIME {
        container.invoke(event);
        decisions += 1;
    }
    f64::from(decisions) / started.elapsed().as_secs_f64()
}

/// The sum of what is measured of each, of all at the same time.
fn at_once<T: Send>(all: &mut [T], measure: impl Fn(&mut T) -> f64 + Sync) -> f64 {
    let start = Barrier::new(all.len());
    let measure = |one| {
        start.wait();
        measure(one)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = all
            .iter_mut()
            .map(|one| scope.spawn(|| measure(one)))
            .collect();
        let measured = threads.into_iter().map(|thread| thread.join().unwrap());
        measured.sum()
    })
}

/// A Redis with so many buckets, of which each call asks one at random.
struct Buckets {
    count: u32,
    script: String,
    quota: Quota,
    load: Load,
    bytes: f64,
    _redis: Redis,
}

impl Buckets {
    fn new(count: u32) -> Self {
        let redis = on(HERE, Redis::start).unwrap_or_else(|error| panic!("{error}"));
        let client = redis::Client::open(redis.url()).unwrap();
        let connection = &mut client.get_connection().unwrap();
        let script = prepare(connection, LANES[0]);
        // What is taken comes back so slowly that no bucket is forgotten meanwhile.
        let quota = Quota::new(Algorithm::TokenBucket, 1, Some(1_000_000), 3_600).unwrap();
        let first = call(&script, LANES[0], slice::from_ref(&quota), 0);
        let before = used_memory(connection);
        for from in (0..count).step_by(STEP as usize) {
            let mut fill = redis::cmd("EVAL");
            fill.arg(FILL).arg(1).arg(first_bucket(&first));
            fill.arg(STEP.min(count - from)).arg(from);
            fill.exec(connection).unwrap();
        }
        let bytes = (used_memory(connection) - before) / f64::from(count);
        Self {
            count,
            script,
            quota,
            load: Load::new(&client),
            bytes,
            _redis: redis,
        }
    }

    fn round(&mut self, report: &mut Report) {
        let name = |count: u32| format!("buckets: {count}");
        let quota = slice::from_ref(&self.quota);
        let any = |_| call(&self.script, LANES[0], quota, fastrand::u32(..self.count));
        let speed = self.load.throughput(CALLS, any) / 1e3;
        let base = name(BUCKETS[1]);
        report.note(SECTION, &name(self.count), "thousand/s", Some(&base), speed);
        if self.count >= WEIGHED {
            let name = format!("bytes a bucket, of {}", self.count);
            report.note(SECTION, &name, "bytes", None, self.bytes);
        }
    }
}

fn used_memory(connection: &mut redis::Connection) -> f64 {
    let mut info = redis::cmd("INFO");
    let text: String = info.arg("memory").query(connection).unwrap();
    line(&text, "used_memory").parse().unwrap()
}

/// A cluster, and what is asked of each of its shards.
struct Shards {
    loads: Vec<(Load, Prepared)>,
    _cluster: RedisCluster,
}

impl Shards {
    fn new() -> Self {
        let cluster = current_thread().block_on(RedisCluster::start(0));
        let load = |(index, lane): (usize, &Lane)| {
            let client = redis::Client::open(cluster.node(index).url()).unwrap();
            let script = prepare(&mut client.get_connection().unwrap(), *lane);
            let quota = [roomy(Algorithm::TokenBucket)];
            let calls = prepared(CALLS, |n| call(&script, *lane, &quota, n % BUCKETS[1]));
            (Load::new(&client), calls)
        };
        Self {
            loads: LANES.iter().enumerate().map(load).collect(),
            _cluster: cluster,
        }
    }

    fn round(&mut self, report: &mut Report) {
        for count in 1..=self.loads.len() {
            let speed = at_once(&mut self.loads[..count], |(load, calls)| load.make(calls)) / 1e3;
            let name = |count: usize| format!("shards at once: {count}");
            let base = name(1);
            report.note(SECTION, &name(count), "thousand/s", Some(&base), speed);
        }
    }
}

/// Services that ask about their calls of another, all at the same rate.
struct Services {
    events: Vec<Event>,
    containers: Vec<Function>,
    _operator: Operator,
}

impl Services {
    fn new(redis: &Redis) -> Self {
        let operator = current_thread().block_on(async {
            let operator = Operator::at(&redis.url()).await;
            for service in 0..SERVICES {
                operator.client(&service_name(service), json!({})).await;
            }
            operator.client("orders", json!({})).await;
            operator
        });
        let mut variables = variables(redis, &operator);
        variables.push(("CHECK_ANONYMOUS", "allow".to_owned()));
        let start = |_| Function::start(&mut Command::new(binary("check")), &variables);
        Self {
            events: (0..SERVICES).map(question).collect(),
            containers: (0..2).map(start).collect(),
            _operator: operator,
        }
    }

    fn round(&mut self, report: &mut Report) {
        let load = OpenLoop {
            events: &self.events,
            rate: SERVICES_RATE,
            time: SERVICES_TIME,
            words: [r#""statusCode":200"#, r#""statusCode":429"#],
        };
        let outcome = load.drive(&mut self.containers);
        let name = |what: &str| format!("{SERVICES} services at 10 a second each: {what}");
        for (what, share) in [("p50", 0.5), ("p99", 0.99)] {
            let value = outcome.quantile(share);
            report.note(SECTION, &name(what), "µs", None, value);
        }
        let seconds = SERVICES_TIME.as_secs() as usize;
        let served: u64 = outcome.answered.iter().take(seconds).sum();
        let share = 100.0 * served as f64 / load.calls() as f64;
        report.note(SECTION, &name("served in time"), "%", None, share);
    }
}

fn service_name(number: usize) -> String {
    format!("service{number}")
}

/// What a service asks as it calls another.
fn question(service: usize) -> Event {
    let text = include_str!("../../../events/check-url.json");
    let mut event: Value = serde_json::from_str(text).unwrap();
    let path = format!("/ratelimit/status/{}", service_name(service));
    event["rawPath"] = path.clone().into();
    event["requestContext"]["http"]["path"] = path.into();
    event["body"] = json!({ "resource": "orders" }).to_string().into();
    Event::new(&event)
}
