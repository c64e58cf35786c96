//! A bucket counts exactly: the script as the model, the model as rational numbers.

use std::cell::RefCell;
use std::collections::HashMap;

use limits::algorithms::{Reading, State};
use limits::bucket::{Bucket, BucketName, Owner};
use limits::counters::{Answer, Counters, Operation};
use limits::rule::{Algorithm, Draft};
use limits::{Lane, Quota, Rule};
use limits_redis::keys::Keys;
use limits_redis::{Call, Held, Reply, give, take};
use num_bigint::BigInt;
use num_rational::BigRational;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tests::stores;
use uuid::Uuid;

const WINDOWS: [u64; 8] = [1, 7, 60, 61, 3_600, 86_400, 86_401, 2_678_400];

/// What may be counted in a window, from one in it to as many as are counted exactly. Of a log no more than a test has time for.
fn quota(algorithm: Algorithm, window: u64, limit: u64, burst: u64) -> Quota {
    let most = |unit: u64| ((1_u64 << 52) / unit).min(1_000_000_000);
    let tick = limits::Tick::of_window(window).per_second();
    let (most_limit, burst) = match algorithm {
        Algorithm::TokenBucket | Algorithm::LeakyBucket => {
            (most(tick), Some(1 + burst % most(window * tick)))
        }
        Algorithm::FixedWindow => (1_000_000_000, None),
        Algorithm::SlidingWindow => (most(window * tick), None),
        Algorithm::SlidingLog if limit.is_multiple_of(50) => (10_000, None),
        Algorithm::SlidingLog => (200, None),
    };
    Quota::new(algorithm, 1 + limit % most_limit, burst, window).unwrap()
}

/// Tokens of a call: one, all that can be had at once, or something in between.
fn tokens(quota: &Quota, part: u64) -> u64 {
    let most = quota.most_at_once().min(1_000_000);
    match part % 4 {
        0 => most,
        1 => 1 + part % most,
        _ => 1,
    }
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
    /// Which of the holds that stand is given back before it, and whether it will be given back once more.
    gives: Option<(usize, bool)>,
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
    let operation = prop_oneof![
        4 => Just(Operation::Take),
        3 => Just(Operation::Hold),
        1 => Just(Operation::Look),
    ];
    let gives = proptest::option::weighted(0.4, (any::<usize>(), proptest::bool::weighted(0.1)));
    let one = || proptest::option::weighted(0.6, (size(), size(), any::<u64>()));
    let asked = [one(), one(), one(), one()];
    (passes, operation, gives, asked, 0..3_usize).prop_map(
        |(passes_us, operation, gives, asked, shadows)| Step {
            passes_us,
            operation,
            gives,
            asked,
            shadows,
        },
    )
}

/// What a bucket counts by for as long as it is the same bucket.
type Kind = (usize, usize);

fn kind() -> impl Strategy<Value = Kind> {
    (0..WINDOWS.len(), 0..Algorithm::ALL.len())
}

/// The kinds of four buckets, and what is done with them.
fn schedule() -> impl Strategy<Value = ([Kind; 4], Vec<Step>)> {
    let kinds = [kind(), kind(), kind(), kind()];
    (kinds, proptest::collection::vec(step(), 1..24)).prop_map(|(kinds, mut steps)| {
        // In the end all of them are looked at.
        steps.push(Step {
            passes_us: 0,
            operation: Operation::Look,
            gives: Some((0, false)),
            asked: [Some((7, 7, 1)); 4],
            shadows: 0,
        });
        (kinds, steps)
    })
}

/// The quotas and costs of a step, in the order of its buckets.
fn asked(kinds: &[Kind; 4], step: &Step) -> Vec<(usize, Quota, u64)> {
    let chosen = step.asked.iter().zip(kinds).enumerate();
    chosen
        .filter_map(|(i, (asked, (window, algorithm)))| {
            let (limit, burst, part) = (*asked)?;
            let quota = quota(Algorithm::ALL[*algorithm], WINDOWS[*window], limit, burst);
            let cost = quota.cost(tokens(&quota, part)).unwrap();
            Some((i, quota, cost))
        })
        .collect()
}

/// A rule for the name of a bucket.
pub(crate) fn rule(id: u128) -> Rule {
    Rule::new(Uuid::from_u128(id), Draft::new("*", Some(1), 60)).unwrap()
}

fn buckets<'a>(asked: &'a [(usize, Quota, u64)], shadows: usize, of: Uuid) -> Vec<Bucket<'a>> {
    let active = asked.len().saturating_sub(shadows).max(1);
    let each = asked.iter().enumerate();
    each.map(|(place, (i, quota, cost))| {
        let rule = rule(of.as_u128() + *i as u128);
        Bucket {
            lane: Lane::SHARED,
            name: BucketName::new(Some(&rule), &Owner::All, quota),
            quota,
            cost: *cost,
            shadow: place >= active,
        }
    })
    .collect()
}

/// A script with its clock in a key, so that a test can turn it.
pub(crate) fn with_a_clock(script: &str) -> String {
    let told = "cjson.decode(redis.call('GET', 'clock'))";
    let real = ["redis.call('TIME')", "call('TIME')"];
    let real = real.into_iter().find(|real| script.contains(real));
    script.replace(real.unwrap(), told)
}

/// The value of that key.
pub(crate) fn clock(now_us: u64) -> String {
    format!("[\"{}\",\"{}\"]", now_us / 1_000_000, now_us % 1_000_000)
}

/// Has a server keep a script, and tells its hash.
pub(crate) fn load(connection: &mut redis::Connection, script: &str) -> String {
    let mut load = redis::cmd("SCRIPT");
    load.arg("LOAD").arg(script).query(connection).unwrap()
}

#[test]
fn the_script_answers_as_the_model_over_random_schedules() {
    // Its own server: the clock is a key of no prefix.
    let server = local::servers::Redis::start().unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    let connection = RefCell::new(client.get_connection().unwrap());
    let keys = Keys::new("t").unwrap();
    let [takes, gives] = [take::text(), give::text()]
        .map(|script| load(&mut connection.borrow_mut(), &with_a_clock(script)));
    redis::cmd("SET")
        .arg(keys.epoch(Lane::SHARED))
        .arg(1)
        .exec(&mut connection.borrow_mut())
        .unwrap();

    // For how long the model would keep each at most, in milliseconds.
    let longest: RefCell<HashMap<String, u64>> = RefCell::default();
    let config = Config {
        cases: 12_000,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new(config)
        .run(&schedule(), |(kinds, steps)| {
            let mut model = Counters::default();
            let mut expires: HashMap<BucketName, u64> = HashMap::new();
            let mut now_us = 1_700_000_000_000_000_u64;
            let mut pipeline = redis::pipe();
            let mut expected = Vec::new();
            let mut held: Vec<(Vec<_>, usize, Vec<Option<u64>>)> = Vec::new();
            let schedule = Uuid::new_v4();
            for step in &steps {
                now_us = now_us.saturating_add_signed(step.passes_us);
                pipeline.set("clock", clock(now_us)).ignore();
                let asked = asked(&kinds, step);
                let buckets = buckets(&asked, step.shadows, schedule);
                let call = Call {
                    operation: step.operation,
                    epoch: 1,
                    lanes: &[Lane::SHARED],
                    buckets: &buckets,
                };
                // The server forgets by its own clock; here by the turned one.
                let forget = |pipeline: &mut redis::Pipeline, bucket: &Bucket<'_>| {
                    if expires.get(&bucket.name).is_some_and(|at| *at <= now_us) {
                        let key = keys.bucket(bucket.lane, &bucket.name);
                        pipeline.del(key).ignore();
                    }
                };
                for bucket in &buckets {
                    forget(&mut pipeline, bucket);
                }
                if let Some((which, again)) = step.gives.filter(|_| !held.is_empty()) {
                    let hold = held.swap_remove(which % held.len());
                    let (of, shadows, marks) = &hold;
                    let of = self::buckets(of, *shadows, schedule);
                    for (bucket, _) in of.iter().zip(marks).filter(|(_, mark)| mark.is_some()) {
                        forget(&mut pipeline, bucket);
                    }
                    model.give_back(&of, marks, now_us);
                    let names = give::names(&keys, &of, marks);
                    if !names.is_empty() {
                        pipeline.cmd("EVALSHA").arg(&gives);
                        pipeline.arg(names.len()).arg(names);
                        pipeline.arg(give::arguments(&of, marks)).ignore();
                    }
                    if again {
                        held.push(hold);
                    }
                }
                let names = take::names(&keys, &call);
                pipeline
                    .cmd("EVALSHA")
                    .arg(&takes)
                    .arg(names.len())
                    .arg(names);
                pipeline.arg(take::arguments(&call));
                let (answers, marks) = match step.operation {
                    Operation::Hold => model.hold(&buckets, now_us),
                    other => (model.ask(other, &buckets, now_us), Vec::new()),
                };
                for bucket in &buckets {
                    if let Some(at) = model.expires_us(&bucket.name) {
                        expires.insert(bucket.name, at);
                        let key = keys.bucket(bucket.lane, &bucket.name);
                        let mut longest = longest.borrow_mut();
                        let longest = longest.entry(key).or_default();
                        *longest = (*longest).max(at.saturating_sub(now_us).div_ceil(1_000));
                    }
                }
                expected.push(Held {
                    reply: Reply::Answers(answers),
                    marks: marks.clone(),
                });
                if step.operation == Operation::Hold {
                    held.push((asked, step.shadows, marks));
                }
            }
            let replies: Vec<redis::Value> = pipeline.query(&mut connection.borrow_mut()).unwrap();
            for ((step, reply), expected) in steps.iter().zip(replies).zip(expected) {
                let asked = asked(&kinds, step);
                let buckets = buckets(&asked, step.shadows, schedule);
                let call = Call {
                    operation: step.operation,
                    epoch: 1,
                    lanes: &[Lane::SHARED],
                    buckets: &buckets,
                };
                let reply = match step.operation {
                    Operation::Hold => take::read_held(&call, reply).unwrap(),
                    _ => Held {
                        reply: take::read(&call, reply).unwrap(),
                        marks: Vec::new(),
                    },
                };
                prop_assert_eq!(reply, expected, "{:?}", step);
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
        // One that is gone meanwhile has.
        assert!(ttl != -1, "{key} lives for ever");
        let most = i64::try_from(longest.borrow()[key]).unwrap();
        assert!(ttl <= most, "{key} lives {ttl} ms rather than {most}");
    }
}

fn rational(number: u64) -> BigRational {
    BigRational::from_integer(BigInt::from(number))
}

/// The same buckets told plainly, in rational numbers.
#[derive(Clone)]
enum Exact {
    /// What is taken comes back at `limit / window`.
    Bucket { taken: BigRational, tick: u64 },
    /// Everything that was ever taken, and when.
    Windows(Vec<(u64, u64)>),
}

impl Exact {
    fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => Exact::Bucket {
                taken: rational(0),
                // A full bucket remembers no time.
                tick: 0,
            },
            _ => Exact::Windows(Vec::new()),
        }
    }

    /// As it stands at `now`. Of a bucket whose clock is ahead by more than a second the clock was wrong.
    fn at(&self, quota: &Quota, now: u64) -> Self {
        let Exact::Bucket { taken, tick } = self else {
            return self.clone();
        };
        let per_tick = rational(quota.limit()) / rational(quota.window_ticks());
        if now >= *tick {
            let back = per_tick * rational(now - tick);
            Exact::Bucket {
                taken: (taken - back).max(rational(0)),
                tick: now,
            }
        } else if tick - now > quota.tick().per_second() {
            Exact::Bucket {
                taken: taken.clone(),
                tick: now,
            }
        } else {
            self.clone()
        }
    }

    /// What is counted at `now`, in requests.
    fn counted(&self, quota: &Quota, now: u64) -> BigRational {
        let window = quota.window_ticks();
        let taken = match self.at(quota, now) {
            Exact::Bucket { taken, .. } => return taken,
            Exact::Windows(taken) => taken,
        };
        let sum = |counts: &dyn Fn(u64) -> bool| {
            let those = taken.iter().filter(|(tick, _)| counts(*tick));
            rational(those.map(|(_, tokens)| tokens).sum())
        };
        let (this, elapsed) = (now / window, now % window);
        match quota.algorithm() {
            Algorithm::FixedWindow => sum(&|tick| tick / window == this),
            Algorithm::SlidingWindow => {
                let previous = sum(&|tick| tick / window + 1 == this);
                let weight = rational(window - elapsed) / rational(window);
                previous * weight + sum(&|tick| tick / window == this)
            }
            _ => sum(&|tick| tick + window > now),
        }
    }

    fn left(&self, quota: &Quota, now: u64) -> BigRational {
        let most = match self {
            Exact::Bucket { .. } => quota.capacity() / quota.window_ticks(),
            Exact::Windows(_) => quota.limit(),
        };
        rational(most) - self.counted(quota, now)
    }

    fn fits(&self, quota: &Quota, tokens: u64, now: u64) -> bool {
        self.left(quota, now) >= rational(tokens)
    }

    fn take(&mut self, quota: &Quota, tokens: u64, now: u64) {
        *self = self.at(quota, now);
        match self {
            Exact::Bucket { taken, .. } => *taken += rational(tokens),
            Exact::Windows(taken) => taken.push((now, tokens)),
        }
    }
}

/// A quota's ticks in a duration.
fn ticks(quota: &Quota, duration: std::time::Duration) -> u64 {
    let us = u64::try_from(duration.as_micros()).unwrap();
    us / (1_000_000 / quota.tick().per_second())
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
            &(kind(), size(), size(), steps),
            |((window, algorithm), limit, burst, steps)| {
                let (window, algorithm) = (WINDOWS[window], Algorithm::ALL[algorithm]);
                let mut quota = quota(algorithm, window, limit, burst);
                let mut now = 1_000_000_000_000_u64;
                let mut state: Option<State> = None;
                let mut exact = Exact::new(algorithm);
                for (passes, limit, burst, part, changed) in steps {
                    now = match exact {
                        Exact::Bucket { .. } => now.saturating_add_signed(passes),
                        // What they make of a clock that goes back is the script's and the model's to agree on.
                        Exact::Windows(_) => now + passes.unsigned_abs(),
                    };
                    if changed {
                        // What has been taken stays taken, whatever the limit is now.
                        quota = self::quota(algorithm, window, limit, burst);
                    }
                    let tokens = tokens(&quota, part);
                    let cost = quota.cost(tokens).unwrap();
                    if state.as_mut().is_some_and(|state| state.mend(&quota, now)) {
                        exact = exact.at(&quota, now);
                    }
                    let at =
                        |state: &Option<State>, now| Reading::at(state.as_ref(), &quota, cost, now);
                    let mut reading = at(&state, now);
                    let room = exact.fits(&quota, tokens, now);
                    prop_assert_eq!(reading.fits(&quota, cost), room);
                    if room {
                        exact.take(&quota, tokens, now);
                        reading.take(&mut state, &quota, cost, now);
                        let kept = at(&state, now);
                        prop_assert_eq!(kept.remaining(&quota), reading.remaining(&quota));
                        prop_assert_eq!(kept.until_full(&quota), reading.until_full(&quota));
                    } else {
                        // Waiting so long is enough, and not a tick less.
                        let wait = ticks(&quota, reading.wait(&quota, cost));
                        for (waits, enough) in [(wait, true), (wait - 1, false)] {
                            prop_assert_eq!(exact.fits(&quota, tokens, now + waits), enough);
                            prop_assert_eq!(at(&state, now + waits).fits(&quota, cost), enough);
                        }
                    }
                    let left = exact.left(&quota, now).floor().to_integer();
                    let told = left.min(BigInt::from(quota.limit())).max(BigInt::ZERO);
                    prop_assert_eq!(BigInt::from(reading.remaining(&quota)), told);
                    let full = ticks(&quota, reading.until_full(&quota));
                    prop_assert_eq!(exact.counted(&quota, now + full), rational(0));
                    if full > 0 {
                        prop_assert!(exact.counted(&quota, now + full - 1) > rational(0));
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
fn a_call_of_more_buckets_than_a_list_of_arguments_takes_is_counted_in_all() {
    let client = redis::Client::open(stores::redis().url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    let keys = Keys::new(&stores::unique("t")).unwrap();
    let mut epoch = redis::cmd("SET");
    let epoch = epoch.arg(keys.epoch(Lane::SHARED)).arg(1);
    epoch.exec(&mut connection).unwrap();
    let quota = Quota::new(Algorithm::FixedWindow, 1, None, 31_622_400).unwrap();
    let asked: Vec<_> = (0..9_000).map(|i| (i, quota.clone(), 1)).collect();
    let buckets = buckets(&asked, 0, Uuid::nil());
    let call = Call {
        operation: Operation::Take,
        epoch: 1,
        lanes: &[Lane::SHARED],
        buckets: &buckets,
    };
    for room in [true, false] {
        let names = take::names(&keys, &call);
        let reply = redis::cmd("EVAL")
            .arg(take::text())
            .arg(names.len())
            .arg(names)
            .arg(take::arguments(&call))
            .query(&mut connection)
            .unwrap();
        let Reply::Answers(answers) = take::read(&call, reply).unwrap() else {
            panic!("behind");
        };
        assert_eq!(answers.len(), 9_000);
        assert!(answers.iter().all(|answer| answer.room == room));
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
