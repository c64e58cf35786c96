//! How many decisions a Redis core makes: `take.lua` beside the least script that limits anything.
//!
//! `redis-benchmark`, 50 connections, 16 calls in flight on each, a thousand existing buckets; the variants take turns, and
//! every ratio is one of a single round.
// A benchmark is test code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::Command;

use limits::rule::Algorithm;
use limits::{Lane, Quota};
use limits_redis::keys::Keys;
use limits_redis::take;
use local::servers::Redis;

const ROUNDS: usize = 5;
const CALLS: u32 = 200_000;

/// The generic cell rate algorithm and nothing else: one key, no epoch, one integer in the reply.
const LEAST: &str = "
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local arrival = tonumber(redis.call('GET', KEYS[1]) or now)
if arrival < now then arrival = now end
local interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local next = arrival + interval
if next - now > burst then return -1 end
redis.call('SET', KEYS[1], string.format('%d', next), 'PX', 60000)
return next - now
";

/// The same for several keys, all or none, with an array in the reply.
const LEAST_OF_MANY: &str = "
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

struct Variant {
    name: &'static str,
    call: Vec<String>,
    /// The variant that its throughput is compared with.
    base: usize,
}

fn load(connection: &mut redis::Connection, script: &str) -> String {
    redis::cmd("SCRIPT")
        .arg("LOAD")
        .arg(script)
        .query(connection)
        .unwrap()
}

/// A thousand keys, of the length that buckets have.
fn key(number: usize) -> String {
    format!("weir:{{{}}}:bucket{number}__rand_int__", 477)
}

fn least(connection: &mut redis::Connection, keys: usize) -> Vec<String> {
    let script = if keys == 1 { LEAST } else { LEAST_OF_MANY };
    let mut call = vec![
        "EVALSHA".to_owned(),
        load(connection, script),
        keys.to_string(),
    ];
    call.extend((0..keys).map(|i| format!("l{}", key(i))));
    call.extend((0..keys).flat_map(|_| ["1".to_owned(), "1000000000".to_owned()]));
    call
}

fn ours(connection: &mut redis::Connection, buckets: usize, quota: &Quota) -> Vec<String> {
    let epoch = Keys::new("weir").unwrap().epoch(Lane(7));
    redis::cmd("SET")
        .arg(&epoch)
        .arg("1764500000000")
        .exec(connection)
        .unwrap();
    let kind = if quota.limit() == 1 { "d" } else { "a" };
    let mut call = vec![
        "EVALSHA".to_owned(),
        load(connection, take::text()),
        (1 + buckets).to_string(),
    ];
    call.push(epoch);
    call.extend((0..buckets).map(|i| format!("{kind}{}", key(i))));
    call.extend(["take", "1764500000000", "0"].map(str::to_owned));
    for _ in 0..buckets {
        let numbers = [
            quota.tick().per_second(),
            quota.limit(),
            quota.capacity(),
            quota.cost(1).unwrap(),
        ];
        call.push("t".to_owned());
        call.extend(numbers.map(|number| number.to_string()));
    }
    call
}

/// Calls a second.
fn throughput(server: &Redis, call: &[String]) -> f64 {
    let output = Command::new("redis-benchmark")
        .args([
            "-p",
            &server.port().to_string(),
            "-c",
            "50",
            "-P",
            "16",
            "-r",
            "1000",
            "--csv",
        ])
        .args(["-n", &CALLS.to_string()])
        .args(call)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().last().unwrap();
    let fields: Vec<&str> = line.rsplit("\",\"").collect();
    fields[6]
        .trim_matches('"')
        .parse()
        .unwrap_or_else(|_| panic!("{text}"))
}

fn spread(mut numbers: Vec<f64>) -> [f64; 3] {
    numbers.sort_unstable_by(f64::total_cmp);
    [
        numbers[0],
        numbers[numbers.len() / 2],
        numbers[numbers.len() - 1],
    ]
}

fn main() {
    let server = Redis::start().unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    let connection = &mut client.get_connection().unwrap();
    // So much that nothing is ever denied; and one a month, which the first thousand calls use up.
    let allowed = Quota::new(Algorithm::TokenBucket, 1_000_000, Some(1_000_000), 60).unwrap();
    let denied = Quota::new(Algorithm::TokenBucket, 1, None, 2_592_000).unwrap();
    let variants = [
        Variant {
            name: "least script, 1 key",
            call: least(connection, 1),
            base: 0,
        },
        Variant {
            name: "least script, 2 keys",
            call: least(connection, 2),
            base: 1,
        },
        Variant {
            name: "least script, 4 keys",
            call: least(connection, 4),
            base: 2,
        },
        Variant {
            name: "take.lua, 1 bucket",
            call: ours(connection, 1, &allowed),
            base: 0,
        },
        Variant {
            name: "take.lua, 2 buckets",
            call: ours(connection, 2, &allowed),
            base: 1,
        },
        Variant {
            name: "take.lua, 4 buckets",
            call: ours(connection, 4, &allowed),
            base: 2,
        },
        Variant {
            name: "take.lua, 1 bucket, denied",
            call: ours(connection, 1, &denied),
            base: 3,
        },
    ];
    let mut rounds: Vec<Vec<f64>> = Vec::new();
    for round in 0..=ROUNDS {
        let speeds = variants
            .iter()
            .map(|variant| throughput(&server, &variant.call))
            .collect();
        // The first warms up.
        if round > 0 {
            rounds.push(speeds);
        }
    }
    println!("| variant | thousand calls a second, min / median / max | of | ratio |");
    println!("|---|---|---|---|");
    for (i, variant) in variants.iter().enumerate() {
        let [low, middle, high] = spread(rounds.iter().map(|round| round[i] / 1e3).collect());
        let ratios = rounds.iter().map(|round| round[i] / round[variant.base]);
        let [least, median, most] = spread(ratios.collect());
        println!(
            "| {} | {low:.0} / {middle:.0} / {high:.0} | {} | {least:.2} / {median:.2} / {most:.2} |",
            variant.name, variants[variant.base].name
        );
    }
}
