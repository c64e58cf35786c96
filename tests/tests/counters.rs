//! A bucket counts exactly: the script as the model, the model as rational numbers.

use std::collections::HashMap;

use limits::algorithms::token_bucket::{Reading, State};
use limits::bucket::{Bucket, BucketName, Owner};
use limits::counters::{Answer, Counters, Operation};
use limits::rule::Algorithm;
use limits::{Lane, Quota};
use limits_redis::keys::Keys;
use limits_redis::{Call, Reply, take};
use num_bigint::BigInt;
use num_rational::BigRational;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tests::stores;
use uuid::Uuid;

const WINDOWS: [u64; 8] = [1, 7, 60, 61, 3_600, 86_400, 86_401, 2_678_400];

/// What may be counted in a window, from one in it to as many as are counted exactly.
fn quota(window: u64, limit: u64, burst: u64) -> Quota {
    let most = |unit: u64| ((1_u64 << 52) / unit).min(1_000_000_000);
    let tick = limits::Tick::of_window(window).per_second();
    let limit = 1 + limit % most(tick);
    let burst = 1 + burst % most(window * tick);
    Quota::new(Algorithm::TokenBucket, limit, Some(burst), window).unwrap()
}

/// Sizes that matter: small ones, and any.
fn size() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 0..20_u64, 2 => 0..2_000_u64, 1 => any::<u64>()]
}

/// One step of a schedule.
#[derive(Debug, Clone)]
struct Step {
    /// By how much the clock moves before it, in microseconds; it may go back.
    passes_us: i64,
    operation: Operation,
    /// For each of four buckets: whether it is asked, its limit and burst now, and which part of its burst is asked.
    asked: [Option<(u64, u64, u64)>; 4],
    /// How many of those asked are shadows.
    shadows: usize,
}

fn step() -> impl Strategy<Value = Step> {
    let passes = prop_oneof![
        4 => 0..2_000_000_i64,
        2 => 0..90_000_000_i64,
        1 => 0..400_000_000_000_i64,
        1 => -1_200_000..0_i64,
        1 => -90_000_000_000..0_i64,
        1 => Just(0_i64),
    ];
    let operation = prop_oneof![5 => Just(Operation::Take), 1 => Just(Operation::Look)];
    let one = || proptest::option::weighted(0.6, (size(), size(), any::<u64>()));
    (passes, operation, [one(), one(), one(), one()], 0..3_usize).prop_map(
        |(passes_us, operation, asked, shadows)| Step {
            passes_us,
            operation,
            asked,
            shadows,
        },
    )
}

/// The windows of four buckets, and what is done with them.
fn schedule() -> impl Strategy<Value = ([usize; 4], Vec<Step>)> {
    let window = 0..WINDOWS.len();
    let windows = [window.clone(), window.clone(), window.clone(), window];
    (windows, proptest::collection::vec(step(), 1..24))
}

/// The quotas and costs of a step, in the order of its buckets.
fn asked(windows: &[usize; 4], step: &Step) -> Vec<(usize, Quota, u64)> {
    let chosen = step.asked.iter().zip(windows).enumerate();
    chosen
        .filter_map(|(i, (asked, window))| {
            let (limit, burst, part) = (*asked)?;
            let quota = quota(WINDOWS[*window], limit, burst);
            let tokens = match part % 4 {
                0 => quota.burst(),
                1 => 1 + part % quota.burst(),
                _ => 1,
            };
            let cost = quota.cost(tokens.min(1_000_000)).unwrap();
            Some((i, quota, cost))
        })
        .collect()
}

fn buckets<'a>(asked: &'a [(usize, Quota, u64)], shadows: usize, of: Uuid) -> Vec<Bucket<'a>> {
    let active = asked.len().saturating_sub(shadows).max(1);
    let each = asked.iter().enumerate();
    each.map(|(place, (i, quota, cost))| {
        let rule = Uuid::from_u128(of.as_u128() + *i as u128);
        Bucket {
            lane: Lane::SHARED,
            name: BucketName::new(Some(rule), &Owner::All, quota),
            quota,
            cost: *cost,
            shadow: place >= active,
        }
    })
    .collect()
}

/// The script with its clock in a key, so that a test can turn it.
fn script_with_a_clock() -> String {
    let (real, told) = ("call('TIME')", "cjson.decode(redis.call('GET', 'clock'))");
    assert!(take::text().contains(real));
    take::text().replace(real, told)
}

#[test]
fn the_script_answers_as_the_model_over_random_schedules() {
    // Its own server: the clock is a key of no prefix.
    let server = local::servers::Redis::start().unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    let connection = std::cell::RefCell::new(client.get_connection().unwrap());
    let keys = Keys::new("t").unwrap();
    let hash: String = redis::cmd("SCRIPT")
        .arg("LOAD")
        .arg(script_with_a_clock())
        .query(&mut connection.borrow_mut())
        .unwrap();
    redis::cmd("SET")
        .arg(keys.epoch(Lane::SHARED))
        .arg(1)
        .exec(&mut connection.borrow_mut())
        .unwrap();

    let config = Config {
        cases: 20_000,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new(config)
        .run(&schedule(), |(windows, steps)| {
            let mut model = Counters::default();
            let mut expires: HashMap<BucketName, u64> = HashMap::new();
            let mut now_us = 1_700_000_000_000_000_u64;
            let mut pipeline = redis::pipe();
            let mut expected = Vec::new();
            let schedule = Uuid::new_v4();
            for step in &steps {
                now_us = now_us.saturating_add_signed(step.passes_us);
                let asked = asked(&windows, step);
                let buckets = buckets(&asked, step.shadows, schedule);
                let call = Call {
                    operation: step.operation,
                    epoch: 1,
                    lanes: &[Lane::SHARED],
                    buckets: &buckets,
                };
                // The server forgets by its own clock; here by the turned one.
                for bucket in &buckets {
                    if expires.get(&bucket.name).is_some_and(|at| *at <= now_us) {
                        pipeline
                            .del(keys.bucket(bucket.lane, &bucket.name))
                            .ignore();
                    }
                }
                let clock = format!("[\"{}\",\"{}\"]", now_us / 1_000_000, now_us % 1_000_000);
                pipeline.set("clock", clock).ignore();
                let names = take::names(&keys, &call);
                pipeline
                    .cmd("EVALSHA")
                    .arg(&hash)
                    .arg(names.len())
                    .arg(names);
                pipeline.arg(take::arguments(&call));
                let answers = model.ask(step.operation, &buckets, now_us);
                for bucket in &buckets {
                    if let Some(at) = model.expires_us(&bucket.name) {
                        expires.insert(bucket.name, at);
                    }
                }
                expected.push(answers);
            }
            let replies: Vec<redis::Value> = pipeline.query(&mut connection.borrow_mut()).unwrap();
            for ((step, reply), expected) in steps.iter().zip(replies).zip(expected) {
                let asked = asked(&windows, step);
                let buckets = buckets(&asked, step.shadows, schedule);
                let call = Call {
                    operation: step.operation,
                    epoch: 1,
                    lanes: &[Lane::SHARED],
                    buckets: &buckets,
                };
                let reply = take::read(&call, reply).unwrap();
                prop_assert_eq!(reply, Reply::Answers(expected), "{:?}", step);
            }
            Ok(())
        })
        .unwrap();

    // Whatever was counted expires, and not before it is full.
    let mut connection = connection.borrow_mut();
    let held: Vec<String> = redis::cmd("KEYS")
        .arg("t:*")
        .query(&mut *connection)
        .unwrap();
    assert!(held.len() > 1_000);
    for key in held.iter().filter(|key| !key.ends_with("epoch")) {
        let ttl: i64 = redis::cmd("PTTL").arg(key).query(&mut *connection).unwrap();
        assert!(ttl > 0, "{key} lives {ttl} ms");
    }
}

/// The same machine in rational numbers: what is taken comes back at `limit / window` a second.
#[derive(Clone)]
struct Exact {
    taken: BigRational,
    tick: u64,
}

fn rational(number: u64) -> BigRational {
    BigRational::from_integer(BigInt::from(number))
}

impl Exact {
    /// As it stands at `now`.
    fn at(&self, quota: &Quota, now: u64) -> Self {
        let per_tick = rational(quota.limit()) / rational(quota.window_ticks());
        if now >= self.tick {
            let back = per_tick * rational(now - self.tick);
            Self {
                taken: (&self.taken - back).max(rational(0)),
                tick: now,
            }
        } else if self.tick - now > quota.tick().per_second() {
            Self {
                taken: self.taken.clone(),
                tick: now,
            }
        } else {
            self.clone()
        }
    }

    fn left(&self, quota: &Quota) -> BigRational {
        rational(quota.burst()) - &self.taken
    }

    /// The least number of ticks after which so many tokens are there.
    fn wait(&self, quota: &Quota, tokens: u64, now: u64) -> u64 {
        let missing = rational(tokens) - self.left(quota);
        if missing <= rational(0) {
            return 0;
        }
        let ticks = missing * rational(quota.window_ticks()) / rational(quota.limit());
        u64::try_from(ticks.ceil().to_integer()).unwrap() + (self.tick - now)
    }
}

#[test]
fn the_model_is_exact_over_random_schedules() {
    let steps = proptest::collection::vec(
        (
            prop_oneof![
                4 => 0..3_000_i64,
                2 => 0..100_000_000_i64,
                1 => -1_500_000..0_i64,
                1 => Just(0_i64),
            ],
            size(),
            size(),
            any::<u64>(),
            any::<bool>(),
        ),
        1..24,
    );
    let config = Config {
        cases: 20_000,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new(config)
        .run(
            &(0..WINDOWS.len(), size(), size(), steps),
            |(window, limit, burst, steps)| {
                let window = WINDOWS[window];
                let mut quota = quota(window, limit, burst);
                let mut now = 1_000_000_000_000_u64;
                let mut state: Option<State> = None;
                // A full bucket remembers no time.
                let mut exact = Exact {
                    taken: rational(0),
                    tick: 0,
                };
                for (passes, limit, burst, tokens, changed) in steps {
                    now = now.saturating_add_signed(passes);
                    if changed {
                        // What has been taken stays taken, whatever the limit is now.
                        quota = self::quota(window, limit, burst);
                    }
                    let tokens = 1 + tokens % quota.burst().min(1_000_000);
                    let cost = quota.cost(tokens).unwrap();
                    if let Some(mended) = state.and_then(|state| state.mended(&quota, now)) {
                        state = Some(mended);
                        exact = exact.at(&quota, now);
                    }
                    let reading = Reading::at(state, &quota, now);
                    let stands = exact.at(&quota, now);
                    let wait = stands.wait(&quota, tokens, now);
                    let room = stands.left(&quota) >= rational(tokens);
                    prop_assert_eq!(reading.fits(&quota, cost), room);
                    if room {
                        exact = stands;
                        exact.taken += rational(tokens);
                        let (taken, next) = reading.taken(cost, now);
                        let left = exact.left(&quota).floor().to_integer();
                        prop_assert_eq!(
                            BigInt::from(taken.remaining(&quota)),
                            left.min(BigInt::from(quota.limit()))
                        );
                        state = Some(next);
                    } else {
                        prop_assert_eq!(reading.wait(&quota, cost), quota.tick().duration(wait));
                        // Waiting so long is enough, and not a tick less.
                        let at =
                            |ticks: u64| Reading::at(state, &quota, now + ticks).fits(&quota, cost);
                        prop_assert!(at(wait) && !at(wait - 1));
                    }
                }
                Ok(())
            },
        )
        .unwrap();
}

#[test]
fn each_lane_has_its_own_64_slots() {
    let server = local::servers::Redis::start_with(&["--cluster-enabled", "yes"]).unwrap();
    let mut connection = redis::Client::open(server.url())
        .unwrap()
        .get_connection()
        .unwrap();
    let keys = Keys::new("weir").unwrap();
    for lane in Lane::all() {
        let slot: u16 = redis::cmd("CLUSTER")
            .arg("KEYSLOT")
            .arg(keys.epoch(lane))
            .query(&mut connection)
            .unwrap();
        assert_eq!(slot / 64, u16::from(lane.0));
    }
}

/// The calls of one bucket in the shared Redis, under a prefix of its own.
struct Story {
    connection: redis::Connection,
    keys: Keys,
    quota: Quota,
}

impl Story {
    fn new(quota: Quota) -> Self {
        let client = redis::Client::open(stores::redis().url()).unwrap();
        Self {
            connection: client.get_connection().unwrap(),
            keys: Keys::new(&stores::unique("t")).unwrap(),
            quota,
        }
    }

    fn ask(&mut self, epoch: u64) -> Result<Reply, limits_redis::StoreError> {
        let quota = self.quota.clone();
        let bucket = [Bucket {
            lane: Lane(7),
            name: BucketName::new(None, &Owner::All, &quota),
            quota: &quota,
            cost: quota.cost(1).unwrap(),
            shadow: false,
        }];
        let call = Call {
            operation: Operation::Take,
            epoch,
            lanes: &[Lane(7)],
            buckets: &bucket,
        };
        let names = take::names(&self.keys, &call);
        let reply = redis::cmd("EVAL")
            .arg(take::text())
            .arg(names.len())
            .arg(names)
            .arg(take::arguments(&call))
            .query(&mut self.connection)
            .unwrap();
        take::read(&call, reply)
    }

    fn move_lane(&mut self, epoch: &str) {
        let key = self.keys.epoch(Lane(7));
        redis::cmd("SET")
            .arg(key)
            .arg(epoch)
            .exec(&mut self.connection)
            .unwrap();
    }

    fn answer(&mut self) -> Answer {
        match self.ask(1).unwrap() {
            Reply::Answers(answers) => answers[0],
            Reply::Behind(epoch) => panic!("behind {epoch}"),
        }
    }
}

#[test]
fn whoever_is_behind_is_told_and_nothing_is_taken() {
    let mut story = Story::new(Quota::new(Algorithm::TokenBucket, 1, None, 60).unwrap());
    assert!(matches!(
        story.ask(1),
        Err(limits_redis::StoreError::LaneLost)
    ));
    // Compared as numbers: as text, 10 would be less than 9.
    story.move_lane("10");
    assert_eq!(story.ask(9).unwrap(), Reply::Behind(10));
    assert_eq!(story.ask(9).unwrap(), Reply::Behind(10));
    assert!(matches!(story.ask(10), Ok(Reply::Answers(answers)) if answers[0].room));
    assert!(matches!(story.ask(11), Ok(Reply::Answers(answers)) if !answers[0].room));
}

#[test]
fn a_change_of_limit_keeps_the_state_and_a_change_of_window_starts_fresh() {
    let quota = |limit, window| Quota::new(Algorithm::TokenBucket, limit, None, window).unwrap();
    // A limit a day, so that nothing comes back meanwhile; a window of more than a minute, so that a µs tick would overflow.
    let mut story = Story::new(quota(10, 86_400));
    story.move_lane("1");
    let admitted = |story: &mut Story| (0..50).take_while(|_| story.answer().room).count();
    assert_eq!(admitted(&mut story), 10);
    story.quota = quota(20, 86_400);
    assert_eq!(admitted(&mut story), 10);
    story.quota = quota(5, 86_400);
    assert_eq!(admitted(&mut story), 0);
    story.quota = quota(10, 3_600);
    assert_eq!(admitted(&mut story), 10);
    story.quota = quota(20, 86_400);
    assert_eq!(admitted(&mut story), 0);
}
