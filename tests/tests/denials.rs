//! Denials that a container repeats by itself: they save Redis its commands, and change no decision by more than a second.

use std::time::Duration;

use futures::future::join_all;
use limiter::{Asker, Decision, Limiter, Request, Supposition, Verdict, Who};
use limits::counters::Operation;
use limits::{Moment, Resource};
use limits_postgres::reset::Whose;
use local::servers::Redis;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};
use tests::{Function, Operator};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::check::{event, send};
use crate::publishing::limiter;

const SECOND: Duration = Duration::from_secs(1);

/// Waits until no container repeats a denial any more.
pub(crate) async fn are_forgotten() {
    sleep(SECOND + Duration::from_millis(10)).await;
}

pub(crate) async fn connection(redis: &Redis) -> MultiplexedConnection {
    let client = redis::Client::open(redis.url()).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

/// How often a Redis has been asked by script.
pub(crate) async fn scripts(connection: &mut MultiplexedConnection) -> u64 {
    let mut info = redis::cmd("INFO");
    let info: String = info
        .arg("commandstats")
        .query_async(connection)
        .await
        .unwrap();
    let calls = info.lines().filter_map(|line| {
        let of_script = line.starts_with("cmdstat_eval");
        let calls = line.split_once("calls=")?.1.split_once(',')?.0;
        of_script.then(|| calls.parse::<u64>().unwrap())
    });
    calls.sum()
}

#[tokio::test]
async fn a_caller_who_is_denied_and_goes_on_costs_redis_one_command_a_second() {
    let redis = Redis::start().unwrap();
    let operator = Operator::at(&redis.url()).await;
    operator.client("eve", json!({})).await;
    operator
        .rule(json!({ "resource": "/a", "limit": 1, "time_window": 86_400 }))
        .await;
    let anyone = [("CHECK_ANONYMOUS", "allow")];
    let check = operator.container(Function::Check, &anyone).await;
    let mut question = event("POST", "/ratelimit/status/eve", "", None);
    question["body"] = json!({ "resource": "/a" }).to_string().into();
    assert_eq!(send(&check, &question).await.status, 200);
    let mut connection = connection(&redis).await;
    let before = scripts(&mut connection).await;
    let began = Instant::now();
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    // A hundred a second, or as many as the machine can.
    let mut asked = 0;
    let mut last = u64::MAX;
    while began.elapsed() < 3 * SECOND || asked < 100 {
        ticks.tick().await;
        let answer = send(&check, &question).await;
        assert_eq!(
            (answer.status, &answer.body["reason"]),
            (429, &json!("limit"))
        );
        assert_eq!(answer.body["remaining"], 0);
        let wait = answer.body["retry_after"].as_u64().unwrap();
        assert!(
            (86_000..=86_400).contains(&wait) && wait <= last.saturating_add(1),
            "{wait}"
        );
        last = wait;
        asked += 1;
    }
    let commands = scripts(&mut connection).await - before;
    let most = began.elapsed().as_secs() + 2;
    println!(
        "{asked} asked, {commands} commands in {:?}",
        began.elapsed()
    );
    assert!(
        commands <= most,
        "{commands} commands in {:?}",
        began.elapsed()
    );
    assert!(
        10 * commands <= asked || asked < 10 * most,
        "{commands} of {asked}"
    );
}

/// One that is asked on and on: who, for what, at what cost.
type Question = (&'static str, &'static str, u64);

const CLIENTS: [&str; 3] = ["eve", "adam", "lilith"];
const PATHS: [&str; 4] = ["/bucket", "/window", "/both", "/else"];

/// A container that repeats denials, and what it was last denied by Redis.
struct Asked {
    limiter: Limiter,
    denied: Vec<(Question, Denied)>,
}

struct Denied {
    /// When the answer was there, at the latest.
    by: Moment,
    /// When it was asked for, at the earliest.
    from: Moment,
    decision: Decision,
}

/// Random questions, edits, resets and losses, to several containers, one after the other.
///
/// Beside them stands an oracle: a container that asks Redis itself each time, under the newest rules, and spends nothing. So
/// for each decision it is known what one without repeated denials would have said just before; and from how often Redis was
/// asked, whether the decision was Redis's. Proved of each:
///
/// - An admission was Redis's own: the same command, under the same rules, as without repeated denials.
/// - A denial that was not Redis's repeats one to the same question by the same container that Redis was asked for less than a
///   second ago, and tells the same: the rule, what is left, and what then is left of the wait.
/// - What the oracle would have admitted is denied only where something other than time made room less than a second ago: an
///   edit, a reset, a loss. So none is denied that would have been admitted more than a second ago.
async fn schedule(seed: u64) -> (u32, u32) {
    let mut random = StdRng::seed_from_u64(seed);
    let redis = Redis::start().unwrap();
    let operator = Operator::at(&redis.url()).await;
    let mut connection = connection(&redis).await;
    for client in CLIENTS {
        operator.client(client, json!({})).await;
    }
    let rule = |resource: &str, limit: u64, time_window: u64, more: Value| {
        let mut rule = json!({ "resource": resource, "limit": limit, "time_window": time_window });
        for (name, value) in more.as_object().unwrap() {
            rule[name] = value.clone();
        }
        rule
    };
    let bodies = [
        rule("/bucket", 6, 2, json!({ "burst": 3 })),
        rule("/window", 4, 1, json!({ "algorithm": "fixed_window" })),
        rule("/both", 3, 1, json!({ "algorithm": "sliding_log" })),
        rule(
            "/both",
            9,
            3,
            json!({ "per": "all", "algorithm": "sliding_window" }),
        ),
        rule("/**", 20, 4, json!({ "per": "all" })),
    ];
    let mut rules: Vec<(Uuid, Value)> = Vec::new();
    for body in bodies {
        rules.push((operator.rule(body.clone()).await, body));
    }
    let oracle = limiter(&operator);
    let mut containers: Vec<Asked> = (0..3)
        .map(|_| Asked {
            limiter: limiter(&operator),
            denied: Vec::new(),
        })
        .collect();
    let mut changed = Moment::now();
    let (mut repeated, mut steps) = (0, 0);
    let end = Instant::now() + Duration::from_secs(8);
    let mut hot: Question = (CLIENTS[0], PATHS[0], 1);
    while Instant::now() < end {
        match random.random_range(0..100) {
            0..3 => {
                let which = random.random_range(0..rules.len());
                let (id, body) = &mut rules[which];
                body["limit"] = random.random_range(1..20).into();
                operator.replace_rule(*id, body.clone()).await;
                changed = Moment::now();
            }
            3..5 => {
                let client = CLIENTS[random.random_range(0..3)].to_owned();
                let whose = match random.random_range(0..2) {
                    0 => Whose::Client(client),
                    _ => Whose::Rule(rules[random.random_range(0..rules.len())].0),
                };
                operator.database.reset("operator", &whose).await.unwrap();
                operator.publish().await;
                changed = Moment::now();
            }
            5..7 => {
                // Buckets get lost: evicted, or given back what a lost race took.
                let pattern = format!("{}:*", operator.prefix());
                let mut keys = redis::cmd("KEYS");
                let keys: Vec<String> = keys
                    .arg(&pattern)
                    .query_async(&mut connection)
                    .await
                    .unwrap();
                for key in keys {
                    let mut ttl = redis::cmd("PTTL");
                    let ttl: i64 = ttl.arg(&key).query_async(&mut connection).await.unwrap();
                    // Of all keys only those that count have an end.
                    if ttl > 0 {
                        redis::cmd("DEL")
                            .arg(&key)
                            .exec_async(&mut connection)
                            .await
                            .unwrap();
                    }
                }
                changed = Moment::now();
            }
            7..12 => sleep(Duration::from_millis(random.random_range(1..400))).await,
            12..40 => {
                hot = (
                    CLIENTS[random.random_range(0..3)],
                    PATHS[random.random_range(0..4)],
                    random.random_range(1..3),
                );
            }
            _ => {}
        }
        let container = &mut containers[random.random_range(0..3)];
        let (client, path, tokens) = hot;
        // What all share is one question, whoever asks it.
        let question = match path {
            "/else" => ("", path, tokens),
            _ => hot,
        };
        let supposed = Supposition {
            client: Some(client),
            tier: None,
            address: None,
            resource: Resource::parse(path),
            tokens,
        };
        let (foretold, _) = oracle.explain(&supposed).await;
        let before = scripts(&mut connection).await;
        let request = Request {
            who: Who::Client {
                id: client,
                asker: Asker::Anyone,
            },
            address: None,
            resource: Resource::parse(path),
            tokens,
            operation: Operation::Take,
        };
        let from = Moment::now();
        let verdict = container.limiter.decide(&request).await;
        let by = Moment::now();
        let asked = scripts(&mut connection).await > before;
        let (Verdict::Decided(foretold), Verdict::Decided(decision)) = (foretold, verdict) else {
            panic!("Redis is well");
        };
        assert!(!decision.degraded && !foretold.degraded);
        steps += 1;
        assert!(
            asked || !decision.allowed,
            "admitted without Redis: {decision:?}"
        );
        if foretold.allowed && !decision.allowed {
            let since = changed.at_least_until(from);
            assert!(!asked && since < SECOND, "{since:?} {decision:?}");
        }
        let last = container.denied.iter().position(|(of, _)| *of == question);
        if asked {
            last.map(|last| container.denied.swap_remove(last));
            if !decision.allowed {
                container
                    .denied
                    .push((question, Denied { by, from, decision }));
            }
        } else if decision.told.is_some_and(|told| told.wait.is_some()) {
            repeated += 1;
            let (_, denied) = &container.denied[last.expect("Redis has denied this")];
            let since = denied.by.at_least_until(from);
            assert!(since < SECOND, "{since:?}");
            let (was, is) = (denied.decision.told.unwrap(), decision.told.unwrap());
            assert_eq!(
                (was.rule, was.limit, was.remaining),
                (is.rule, is.limit, is.remaining)
            );
            let (was, is) = (was.wait.unwrap(), is.wait.unwrap());
            assert!(
                is <= was && is + denied.from.until(by) >= was,
                "{was:?} {is:?}"
            );
        }
    }
    (steps, repeated)
}

#[tokio::test]
async fn repeating_denials_admits_nobody_and_denies_nobody_who_was_welcome_a_second_ago() {
    let all = join_all((1..=4).map(schedule)).await;
    println!("steps and repeated denials of each schedule: {all:?}");
    assert!(all.iter().all(|(_, repeated)| *repeated > 10), "{all:?}");
}
