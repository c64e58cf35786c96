//! How many decisions a Redis core makes: `take.lua` beside the least script that limits anything.

use std::time::{Duration, Instant};

use floor::GCRA;
use futures::future::join_all;
use limits::{
    Lane, Quota,
    bucket::{Bucket, BucketName, Owner},
    counters::Operation,
    rule::Algorithm,
};
use limits_redis::{Call, keys::Keys, take};
use local::servers::Redis;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, Value, aio::MultiplexedConnection};
use tokio::runtime::Runtime;

use crate::{
    pin::{AWAY, on},
    report::Report,
    timing::current_thread,
};

const CALLS: u32 = 96_000;
/// Existing buckets of each variant.
const BUCKETS: u32 = 1_000;
/// Buckets in a call.
const SIZES: [usize; 3] = [1, 2, 4];
const CONNECTIONS: u32 = 50;
/// Calls in flight on each.
const IN_FLIGHT: u32 = 16;
/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(30);
const LANE: Lane = Lane(7);
const EPOCH: u64 = 1_764_500_000_000;
const SECTION: &str = "take.lua, one core of Redis";

/// The least script for several keys, all or none, with an array in the reply.
const GCRA_OF_MANY: &str = "
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local nexts = {}
for i = 1, #KEYS do
  local arrival = tonumber(redis.call('GET', KEYS[i]) or now)
  if arrival < now then arrival = now end
  local next = arrival + tonumber(ARGV[2 * i - 1])
  if next - now > tonumber(ARGV[2 * i]) then return { 0, 0, next - now } end
  nexts[i] = next
end
for i = 1, #KEYS do
  redis.call('SET', KEYS[i], string.format('%d', nexts[i]), 'PX', 60000)
end
return { 1, nexts[1] - now, 0 }
";

/// The name of an algorithm in the rows. A leaky bucket is counted as a token bucket is.
const ALGORITHMS: [(Algorithm, &str); 4] = [
    (Algorithm::TokenBucket, "token bucket"),
    (Algorithm::FixedWindow, "fixed window"),
    (Algorithm::SlidingWindow, "sliding window"),
    (Algorithm::SlidingLog, "sliding log"),
];

struct Variant {
    name: String,
    script: String,
    /// The quota of each bucket; without any it is the least script that is called.
    quotas: Vec<Quota>,
    size: usize,
    base: String,
}

/// The rows.
pub struct Take {
    connection: redis::Connection,
    load: Load,
    variants: Vec<Variant>,
}

impl Take {
    /// With a Redis that runs [`HERE`](crate::pin::HERE).
    pub fn new(redis: &Redis) -> Self {
        let client = redis::Client::open(redis.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        let script = prepare(&mut connection, LANE);
        let mut variants = Vec::new();
        for size in SIZES {
            let text = if size == 1 { GCRA } else { GCRA_OF_MANY };
            variants.push(Variant {
                name: least_name(size),
                script: load_script(&mut connection, text),
                quotas: Vec::new(),
                size,
                base: least_name(size),
            });
        }
        for (algorithm, word) in ALGORITHMS {
            // One a month, which the first calls use up.
            let empty = Quota::new(algorithm, 1, None, 2_592_000).unwrap();
            for size in SIZES {
                let allowed = format!("{word} ×{size}, allowed");
                let denied = format!("{word} ×{size}, denied");
                for (name, quota, base) in [
                    (allowed.clone(), roomy(algorithm), least_name(size)),
                    (denied, empty.clone(), allowed),
                ] {
                    variants.push(Variant {
                        name,
                        script: script.clone(),
                        quotas: vec![quota; size],
                        size,
                        base,
                    });
                }
            }
        }
        Self {
            load: Load::new(&client),
            connection,
            variants,
        }
    }

    /// Measures every row once.
    pub fn round(&mut self, report: &mut Report) {
        for variant in &self.variants {
            let base = Some(variant.base.as_str());
            let mut reset = redis::cmd("CONFIG");
            reset.arg("RESETSTAT").exec(&mut self.connection).unwrap();
            let speed = self.load.throughput(CALLS, |n| variant.call(n % BUCKETS));
            report.note(SECTION, &variant.name, "thousand/s", base, speed / 1e3);
            let time = server_time(&mut self.connection);
            report.note("take.lua, server time", &variant.name, "µs", base, time);
        }
        for (algorithm, word) in ALGORITHMS {
            let quota = [roomy(algorithm)];
            let bytes = memory(&mut self.connection, &quota);
            report.note("bytes a key", word, "bytes", None, bytes);
        }
    }
}

impl Variant {
    fn call(&self, number: u32) -> Cmd {
        match self.quotas.as_slice() {
            [] => {
                let mut call = redis::cmd("EVALSHA");
                call.arg(&self.script).arg(self.size);
                for i in 0..self.size {
                    call.arg(bucket(LANE, "least", i, number));
                }
                for _ in 0..self.size {
                    call.arg(1).arg(1_000_000_000);
                }
                call
            }
            quotas => call(&self.script, LANE, quotas, number),
        }
    }
}

fn least_name(size: usize) -> String {
    format!("least script ×{size}")
}

/// So much that nothing is ever denied. A log is as long as it is allowed to be.
pub fn roomy(algorithm: Algorithm) -> Quota {
    let limit = match algorithm {
        Algorithm::SlidingLog => 10_000,
        _ => 1_000_000,
    };
    Quota::new(algorithm, limit, None, 60).unwrap()
}

fn load_script(connection: &mut redis::Connection, text: &str) -> String {
    let mut command = redis::cmd("SCRIPT");
    command.arg("LOAD").arg(text).query(connection).unwrap()
}

/// Gives a lane its epoch, and tells the hash of `take.lua`.
pub fn prepare(connection: &mut redis::Connection, lane: Lane) -> String {
    let mut set = redis::cmd("SET");
    let set = set.arg(epoch(lane)).arg(EPOCH);
    set.exec(connection).unwrap();
    load_script(connection, take::text())
}

fn epoch(lane: Lane) -> String {
    Keys::new("weir").unwrap().epoch(lane)
}

/// The key of a bucket, as long as all are.
pub fn bucket(lane: Lane, word: &str, i: usize, number: u32) -> String {
    epoch(lane).replace("epoch", &format!("{word:_<8}{i}{number:010}"))
}

/// A call of `take.lua` to a bucket of each quota. A number in their names says which of them.
pub fn call(script: &str, lane: Lane, quotas: &[Quota], number: u32) -> Cmd {
    let buckets: Vec<Bucket<'_>> = quotas
        .iter()
        .map(|quota| Bucket {
            lane,
            name: BucketName::new(None, &Owner::All, quota),
            quota,
            cost: quota.cost(1).unwrap(),
            shadow: false,
        })
        .collect();
    let asked = Call {
        operation: Operation::Take,
        epoch: EPOCH,
        lanes: &[lane],
        buckets: &buckets,
    };
    let mut call = redis::cmd("EVALSHA");
    call.arg(script).arg(1 + quotas.len()).arg(epoch(lane));
    for (i, quota) in quotas.iter().enumerate() {
        let words = quota.algorithm().as_str().split('_');
        let initials: String = words.map(|word| &word[..1]).collect();
        let room = if quota.limit() == 1 { "none" } else { "room" };
        call.arg(bucket(lane, &format!("{initials}{room}"), i, number));
    }
    call.arg(take::arguments(&asked));
    call
}

/// The key of the first bucket of a call.
pub fn first_bucket(call: &Cmd) -> &[u8] {
    let Some(redis::Arg::Simple(key)) = call.args_iter().nth(4) else {
        panic!("a call has a bucket");
    };
    key
}

/// As many calls as a server takes: from 50 connections, with 16 in flight on each.
pub struct Load {
    runtime: Runtime,
    connections: Vec<MultiplexedConnection>,
}

impl Load {
    /// From the processor that is [`AWAY`].
    pub fn new(client: &redis::Client) -> Self {
        let runtime = current_thread();
        // A slow machine is no failure.
        let settings = AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
        let connect = || client.get_multiplexed_async_connection_with_config(&settings);
        let connections = runtime.block_on(join_all((0..CONNECTIONS).map(|_| connect())));
        Self {
            runtime,
            connections: connections.into_iter().map(Result::unwrap).collect(),
        }
    }

    /// Makes about so many calls, which are made by their number beforehand: how many a second.
    pub fn throughput(&mut self, calls: u32, call: impl Fn(u32) -> Cmd) -> f64 {
        self.make(&prepared(calls, call))
    }

    /// Makes calls that are prepared: how many a second.
    pub fn make(&mut self, prepared: &Prepared) -> f64 {
        let started = Instant::now();
        on(AWAY, || {
            let all = self.connections.iter_mut().zip(prepared);
            let all = all.map(async |(connection, own)| {
                for pipeline in own {
                    let _: Vec<Value> = pipeline.query_async(connection).await.unwrap();
                }
            });
            self.runtime.block_on(join_all(all));
        });
        let calls: usize = prepared.iter().flatten().map(Pipeline::len).sum();
        calls as f64 / started.elapsed().as_secs_f64()
    }
}

/// What each connection asks, one pipeline after the other.
pub type Prepared = Vec<Vec<Pipeline>>;

/// About so many calls, by their number.
pub fn prepared(calls: u32, call: impl Fn(u32) -> Cmd) -> Prepared {
    let each = calls.div_ceil(CONNECTIONS * IN_FLIGHT);
    let mut numbers = 0..;
    let mut pipeline = || {
        let mut pipeline = redis::pipe();
        for number in numbers.by_ref().take(IN_FLIGHT as usize) {
            pipeline.add_command(call(number));
        }
        pipeline
    };
    let mut own = || (0..each).map(|_| pipeline()).collect();
    (0..CONNECTIONS).map(|_| own()).collect()
}

/// Microseconds that an `EVALSHA` took in the server, by its own account since that was last reset.
fn server_time(connection: &mut redis::Connection) -> f64 {
    let mut command = redis::cmd("INFO");
    let text: String = command.arg("commandstats").query(connection).unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with("cmdstat_evalsha"));
    let (_, rest) = line.unwrap().split_once("usec_per_call=").unwrap();
    rest.split(',').next().unwrap().parse().unwrap()
}

/// What Redis spends on a bucket that is allowed, by `MEMORY USAGE`.
fn memory(connection: &mut redis::Connection, quotas: &[Quota]) -> f64 {
    let lane = Lane(9);
    let script = prepare(connection, lane);
    // Of a value that the server made room for in another call, more is kept: it is replaced.
    for _ in 0..2 {
        call(&script, lane, quotas, 0).exec(connection).unwrap();
    }
    let asked = call(&script, lane, quotas, 0);
    let mut usage = redis::cmd("MEMORY");
    let usage = usage.arg("USAGE").arg(first_bucket(&asked));
    usage.query(connection).unwrap()
}
