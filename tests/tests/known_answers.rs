//! What is counted in cases that can be worked out by hand, by the script over a clock that a story turns.

use limits::bucket::{Bucket, BucketName, Owner};
use limits::counters::{Answer, Operation};
use limits::rule::Algorithm;
use limits::{Lane, Quota};
use limits_redis::keys::Keys;
use limits_redis::{Call, Held, Reply, give, take};

use crate::counters::{clock, load, rule, with_a_clock};

/// The scripts over a clock that a story turns.
pub(crate) struct Turned {
    // Its own: the clock is a key of no prefix.
    _server: local::servers::Redis,
    pub(crate) connection: redis::Connection,
    pub(crate) keys: Keys,
    takes: String,
    gives: String,
    pub(crate) now_us: u64,
}

impl Turned {
    pub(crate) fn new() -> Self {
        let server = local::servers::Redis::start().unwrap();
        let client = redis::Client::open(server.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        let [takes, gives] =
            [take::text(), give::text()].map(|script| load(&mut connection, &with_a_clock(script)));
        Self {
            _server: server,
            connection,
            keys: Keys::new("t").unwrap(),
            takes,
            gives,
            now_us: 0,
        }
    }

    fn evaluate(&mut self, hash: &str, names: &[String], arguments: &[Vec<u8>]) -> redis::Value {
        let mut pipeline = redis::pipe();
        pipeline.set("clock", clock(self.now_us)).ignore();
        pipeline.cmd("EVALSHA").arg(hash).arg(names.len());
        pipeline.arg(names).arg(arguments);
        let [reply] = pipeline.query(&mut self.connection).unwrap();
        reply
    }

    /// Asks buckets where no epoch stands beside them.
    pub(crate) fn call(&mut self, operation: Operation, buckets: &[Bucket<'_>]) -> Held {
        let call = Call {
            operation,
            epoch: 1,
            lanes: &[],
            buckets,
        };
        let (hash, names) = (self.takes.clone(), take::names(&self.keys, &call));
        let reply = self.evaluate(&hash, &names, &take::arguments(&call));
        match operation {
            Operation::Hold => take::read_held(&call, reply).unwrap(),
            _ => Held {
                reply: take::read(&call, reply).unwrap(),
                marks: Vec::new(),
            },
        }
    }

    pub(crate) fn ask(
        &mut self,
        operation: Operation,
        rule: u128,
        quota: &Quota,
        tokens: u64,
    ) -> Answer {
        match self.call(operation, &[bucket(rule, quota, tokens)]).reply {
            Reply::Answers(answers) => answers[0],
            Reply::Behind(epoch) => panic!("behind {epoch}"),
        }
    }

    /// Gives back what a hold took; from how many buckets.
    pub(crate) fn give(&mut self, buckets: &[Bucket<'_>], marks: &[Option<u64>]) -> u64 {
        let (hash, names) = (self.gives.clone(), give::names(&self.keys, buckets, marks));
        let reply = self.evaluate(&hash, &names, &give::arguments(buckets, marks));
        redis::from_redis_value(reply).unwrap()
    }
}

/// The bucket of a rule that everyone shares.
pub(crate) fn bucket(rule: u128, quota: &Quota, tokens: u64) -> Bucket<'_> {
    Bucket {
        lane: Lane::SHARED,
        name: BucketName::new(Some(&self::rule(rule)), &Owner::All, quota),
        quota,
        cost: quota.cost(tokens).unwrap(),
        shadow: false,
    }
}

#[test]
fn the_seconds_that_are_told_are_enough_and_one_less_is_not() {
    let mut turned = Turned::new();
    let start = 1_796_000_523_250_000_u64;
    let mut rule = 0;
    for algorithm in Algorithm::ALL {
        for window in [1, 2, 60, 3_600, 86_400, 604_800] {
            for limit in [1, 3, 7, 100] {
                rule += 1;
                turned.now_us = start;
                let quota = Quota::new(*algorithm, limit, None, window).unwrap();
                // Some of it, at moments that are no whole seconds, until no more is there.
                let mut taken = 0;
                while turned.ask(Operation::Take, rule, &quota, 1).room {
                    taken += 1;
                    turned.now_us += 1_370;
                }
                assert!(taken >= quota.most_at_once());
                let denied = turned.ask(Operation::Take, rule, &quota, 1);
                let wait = denied.reading.wait(&quota, quota.cost(1).unwrap());
                let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
                let at = turned.now_us;
                turned.now_us = at + (seconds - 1) * 1_000_000;
                let early = turned.ask(Operation::Take, rule, &quota, 1);
                assert!(!early.room, "{algorithm} {limit}/{window} {seconds} s");
                turned.now_us = at + seconds * 1_000_000;
                let enough = turned.ask(Operation::Take, rule, &quota, 1);
                assert!(enough.room, "{algorithm} {limit}/{window} {seconds} s");
            }
        }
    }
}

#[test]
fn a_bucket_admits_its_burst_at_once_and_then_its_rate_however_fast_one_asks() {
    let mut turned = Turned::new();
    for (rule, limit, window, asks_every_us) in [
        (1, 1_000, 60, 11_000),
        (2, 6_000, 1, 150),
        (3, 2_000, 1, 333),
        (4, 100, 1, 7_000),
        // One who asks faster than a token comes back gets each of them all the same.
        (5, 1, 1, 500_000),
        (6, 100, 900, 1_000_000),
    ] {
        turned.now_us = 1_796_000_520_000_000;
        let quota = Quota::new(Algorithm::TokenBucket, limit, None, window).unwrap();
        let mut burst = 0;
        while turned.ask(Operation::Take, rule, &quota, 1).room {
            burst += 1;
        }
        assert_eq!(burst, limit, "{limit}/{window}");
        let (began, mut admitted) = (turned.now_us, 0);
        for _ in 0..500 {
            turned.now_us += asks_every_us;
            admitted += u64::from(turned.ask(Operation::Take, rule, &quota, 1).room);
        }
        // A token that came back after a question is had by the next one: of all but the last interval not one is lost.
        let back = |us: u64| us * limit / (window * 1_000_000);
        let passed = turned.now_us - began;
        let asked = 500.min(back(passed));
        assert!(admitted <= asked, "{limit}/{window}: {admitted} of {asked}");
        assert!(
            admitted >= 500.min(back(passed - asks_every_us)),
            "{limit}/{window}: {admitted} of {asked}"
        );
    }
}

#[test]
fn a_sliding_window_weighs_the_last_minute_by_what_is_left_of_this_one() {
    let mut turned = Turned::new();
    let quota = |limit| Quota::new(Algorithm::SlidingWindow, limit, None, 60).unwrap();
    // A hundred in the minute before, eighty in this one, twenty seconds into it: 146.7.
    let minute = 1_796_000_520_000_000;
    for (rule, limit, passes) in [(1, 120, false), (2, 147, false), (3, 148, true)] {
        turned.now_us = minute - 10_000_000;
        assert!(turned.ask(Operation::Take, rule, &quota(200), 100).room);
        turned.now_us = minute + 20_000_000;
        assert!(turned.ask(Operation::Take, rule, &quota(200), 80).room);
        let answer = turned.ask(Operation::Look, rule, &quota(limit), 1);
        assert_eq!(answer.room, passes, "{limit}");
        let left = answer.reading.remaining(&quota(limit));
        assert_eq!(left, u64::from(passes), "{limit}");
    }
}

#[test]
fn every_algorithm_keeps_its_state_over_a_change_of_limit_and_none_over_a_change_of_algorithm() {
    let mut turned = Turned::new();
    turned.now_us = 1_796_000_520_000_000;
    for algorithm in Algorithm::ALL {
        let burst = |limit| (*algorithm == Algorithm::LeakyBucket).then_some(limit);
        let quota = |limit| Quota::new(*algorithm, limit, burst(limit), 86_400).unwrap();
        let mut admitted = |limit: u64| {
            let calls = 0..50;
            let passed = |_: &i32| turned.ask(Operation::Take, 1, &quota(limit), 1).room;
            calls.take_while(passed).count()
        };
        let steps = [
            admitted(10),
            admitted(20),
            admitted(5),
            admitted(20),
            admitted(25),
        ];
        assert_eq!(steps, [10, 10, 0, 0, 5], "{algorithm}");
    }
}
