//! Keys of ours that somebody overwrote: counters count afresh, and what is published is published again.

use std::cell::RefCell;

use limiter::{Limiter, Request, Who};
use limits::counters::Operation;
use limits::registry::{Name, key_hash};
use limits::rule::Algorithm;
use limits::{Lane, Quota, Resource};
use limits_redis::keys::Keys;
use limits_redis::{Page, Reply, StoreError};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use redis::{Cmd, cmd};
use refresh::Refresh;
use serde_json::json;
use tests::{Operator, stores};

use crate::known_answers::{Turned, bucket};
use crate::publishing::{limiter, word};

const NOON_US: u64 = 1_796_040_000_000_000;

fn doubles(numbers: &[f64]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

/// Ways to overwrite a key.
fn damages() -> Vec<Cmd> {
    let command = |name: &str, rest: &[&str]| {
        let mut command = cmd(name);
        command.arg("KEY").arg(rest);
        command
    };
    let mut damages = vec![
        command("RPUSH", &["x", "1", "2"]),
        command("RPUSH", &["nan"]),
        command("HSET", &["a", "b"]),
        command("SADD", &["a"]),
        command("ZADD", &["1", "a"]),
    ];
    let now = NOON_US as f64;
    let mut strings: Vec<Vec<u8>> = (0..34).map(|length| vec![b'a'; length]).collect();
    for odd in [f64::NAN, f64::INFINITY, -f64::INFINITY, -1e9, 1e300] {
        for numbers in [[odd, now], [now, odd], [odd, odd]] {
            strings.push(doubles(&numbers));
            strings.push(doubles(&[now - now % 3.6e9, numbers[0], numbers[1]]));
        }
    }
    damages.extend(strings.into_iter().map(|string| {
        let mut command = cmd("SET");
        command.arg("KEY").arg(string);
        command
    }));
    damages
}

/// The command, on this key.
fn on(damage: &Cmd, key: &str) -> Cmd {
    let mut command = Cmd::new();
    for argument in damage.args_iter() {
        match argument {
            redis::Arg::Simple(b"KEY") => command.arg(key),
            redis::Arg::Simple(argument) => command.arg(argument),
            _ => &mut command,
        };
    }
    command
}

#[test]
fn a_bucket_that_somebody_overwrote_is_empty_and_counts_on() {
    let mut turned = Turned::new();
    turned.now_us = NOON_US + 1;
    let mut rule = 0;
    for algorithm in Algorithm::ALL {
        let quota = Quota::new(*algorithm, 3, None, 3_600).unwrap();
        for damage in damages() {
            rule += 1;
            let tell = || {
                format!(
                    "{algorithm}: {:?}",
                    String::from_utf8_lossy(&damage.get_packed_command())
                )
            };
            let asked = [bucket(rule, &quota, 1)];
            let key = turned.keys.bucket(asked[0].lane, &asked[0].name);
            on(&damage, &key).exec(&mut turned.connection).unwrap();

            // To give something back into it does not fail either.
            turned.give(&asked, &[Some(NOON_US)]);
            let full = turned.ask(Operation::Look, rule, &quota, 1);
            assert!(full.room, "{}", tell());
            assert_eq!(full.reading.until_full(&quota).as_secs(), 0, "{}", tell());
            let passes = |turned: &mut Turned| turned.ask(Operation::Take, rule, &quota, 1).room;
            let admitted = (0..10).filter(|_| passes(&mut turned)).count() as u64;
            assert_eq!(admitted, quota.most_at_once(), "{}", tell());
            let ttl: i64 = cmd("PTTL").arg(&key).query(&mut turned.connection).unwrap();
            assert!(ttl > 0, "{}", tell());
        }
    }
}

#[test]
fn of_a_log_what_is_no_time_does_not_count() {
    let mut turned = Turned::new();
    turned.now_us = NOON_US;
    let quota = Quota::new(Algorithm::SlidingLog, 4, None, 60).unwrap();
    let asked = [bucket(1, &quota, 1)];
    let key = turned.keys.bucket(asked[0].lane, &asked[0].name);
    turned.ask(Operation::Take, 1, &quota, 2);
    cmd("RPUSH")
        .arg(&key)
        .arg(&["x", "y"])
        .exec(&mut turned.connection)
        .unwrap();
    let passes = |turned: &mut Turned| turned.ask(Operation::Take, 1, &quota, 1).room;
    let admitted = |turned: &mut Turned| (0..10).filter(|_| passes(turned)).count();
    let spoil = |turned: &mut Turned| {
        let mut set = cmd("LSET");
        set.arg(&key).arg(1).arg("x");
        set.exec(&mut turned.connection).unwrap();
    };
    assert_eq!(admitted(&mut turned), 2);
    // Among others: the log is right again when they have left, and so it is after a clock that was ahead.
    spoil(&mut turned);
    admitted(&mut turned);
    turned.now_us += 60_000_000;
    assert_eq!(admitted(&mut turned), 4);
    spoil(&mut turned);
    turned.now_us -= 600_000_000;
    assert!(admitted(&mut turned) > 0);
}

#[test]
fn no_bytes_at_all_make_a_call_fail() {
    let turned = RefCell::new((Turned::new(), 0));
    let bytes = (
        0..Algorithm::ALL.len(),
        proptest::collection::vec(any::<u8>(), 16..25),
    );
    let config = Config {
        cases: 2_000,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new(config)
        .run(&bytes, |(algorithm, mut bytes)| {
            let algorithm = Algorithm::ALL[algorithm];
            bytes.truncate(if algorithm == Algorithm::SlidingWindow {
                24
            } else {
                16
            });
            let (turned, rule) = &mut *turned.borrow_mut();
            *rule += 1;
            turned.now_us = NOON_US;
            let quota = Quota::new(algorithm, 3, None, 3_600).unwrap();
            let asked = [bucket(*rule, &quota, 1), bucket(0, &quota, 1)];
            let key = turned.keys.bucket(asked[0].lane, &asked[0].name);
            cmd("SET")
                .arg(&key)
                .arg(bytes)
                .exec(&mut turned.connection)
                .unwrap();
            for operation in [Operation::Look, Operation::Hold, Operation::Take] {
                let held = turned.call(operation, &asked);
                prop_assert!(matches!(held.reply, Reply::Answers(_)));
                turned.give(&asked, &held.marks);
            }
            Ok(())
        })
        .unwrap();
}

/// What is published: a rule that blocks `/orders/**`, and a client with a key.
struct Story {
    operator: Operator,
    keys: Keys,
    redis: redis::Connection,
}

const KEY: &str = "a-key-of-eve";

impl Story {
    async fn new() -> Self {
        let operator = Operator::new().await;
        operator.client("eve", json!({})).await;
        operator.key("eve", KEY).await;
        let blocks = json!({"resource": "/orders/**", "limit": 0, "time_window": 60});
        operator.rule(blocks).await;
        let client = redis::Client::open(stores::redis().url()).unwrap();
        Self {
            keys: Keys::new(operator.prefix()).unwrap(),
            redis: client.get_connection().unwrap(),
            operator,
        }
    }

    fn overwrite(&mut self, key: &str, damage: &Cmd) {
        cmd("DEL").arg(key).exec(&mut self.redis).unwrap();
        on(damage, key).exec(&mut self.redis).unwrap();
    }

    /// One run of `refresh` puts everything right, and leaves nothing to do to the next.
    async fn heals(&self) {
        let refresh = Refresh::new(self.operator.database.clone(), self.operator.store.clone());
        let run = refresh.run(0).await.unwrap();
        assert!(run.rounds > 0);
        assert_eq!(refresh.run(0).await.unwrap().rounds, 0);
        assert_eq!(answer(&limiter(&self.operator)).await, "blocked");
    }
}

/// What Eve's key is answered, in a word.
async fn answer(limiter: &Limiter) -> &'static str {
    let request = Request {
        who: Who::Key(KEY),
        address: None,
        resource: Resource::parse("GET /orders/1"),
        tokens: 1,
        operation: Operation::Take,
    };
    word(&limiter.decide(&request).await)
}

/// Ways to lose a key: another type, another text, and none at all.
fn losses() -> [Cmd; 4] {
    let mut list = cmd("RPUSH");
    list.arg("KEY").arg("x");
    let mut set = cmd("SADD");
    set.arg("KEY").arg("x");
    let mut text = cmd("SET");
    text.arg("KEY").arg(b"\xff ninety");
    let mut none = cmd("DEL");
    none.arg("KEY");
    [list, set, text, none]
}

#[tokio::test]
async fn whatever_is_lost_of_the_published_rules_is_a_store_out_until_it_is_published_again() {
    let mut story = Story::new().await;
    let warm = limiter(&story.operator);
    assert_eq!(answer(&warm).await, "blocked");
    for loss in losses() {
        for key in [
            story.keys.head(),
            story.keys.chunks(),
            story.keys.stamps(),
            story.keys.names(),
        ] {
            // So that there is a name in the list of those that changed.
            let another = stores::unique("key");
            story.operator.key("eve", &another).await;
            story.overwrite(&key, &loss);
            assert_eq!(
                answer(&limiter(&story.operator)).await,
                "store out",
                "{key}"
            );
            story.heals().await;
            assert_eq!(answer(&warm).await, "blocked");
        }
    }
}

#[tokio::test]
async fn a_revocation_is_heard_of_though_the_list_of_changed_names_is_lost() {
    let mut story = Story::new().await;
    let key = story.operator.key("eve", "another").await;
    let warm = limiter(&story.operator);
    let asks = Request {
        who: Who::Key("another"),
        address: None,
        resource: Resource::parse("/invoices"),
        tokens: 1,
        operation: Operation::Take,
    };
    assert_eq!(word(&warm.decide(&asks).await), "default");
    // It was published, and the list is lost before this reader has read it.
    story.operator.delete_key("eve", key).await;
    let names = story.keys.names();
    cmd("DEL").arg(&names).exec(&mut story.redis).unwrap();
    assert_ne!(word(&warm.decide(&asks).await), "default");
    story.heals().await;
    assert_eq!(word(&warm.decide(&asks).await), "unknown");
}

#[tokio::test]
async fn a_page_that_goes_on_from_what_is_not_whole_any_more_is_refused() {
    let mut story = Story::new().await;
    for key in [story.keys.chunks(), story.keys.stamps(), story.keys.names()] {
        story.operator.key("eve", &stores::unique("key")).await;
        let (published, _) = story.operator.store.published().await.unwrap();
        let published = published.unwrap();
        cmd("DEL").arg(&key).exec(&mut story.redis).unwrap();
        let page = Page {
            version: published.version,
            after: published.stamp,
            ..Page::default()
        };
        let put = story.operator.store.put(&page).await;
        assert!(matches!(put, Err(StoreError::LaneLost)), "{key}: {put:?}");
        story.heals().await;
    }
}

#[tokio::test]
async fn a_lane_that_says_nothing_of_itself_is_lost_until_it_is_written_again() {
    let mut story = Story::new().await;
    let lane = Name::Key(key_hash(KEY)).lane();
    for loss in losses() {
        for key in [story.keys.epoch(lane), story.keys.reached(lane)] {
            story.overwrite(&key, &loss);
            assert_eq!(
                answer(&limiter(&story.operator)).await,
                "store out",
                "{key}"
            );
            story.heals().await;
        }
        // The shared lane is asked by every decision that meets a bucket there.
        let epoch = story.keys.epoch(Lane::SHARED);
        story.overwrite(&epoch, &loss);
        story.heals().await;
    }
}

#[tokio::test]
async fn whose_entry_is_lost_to_another_type_is_never_called_unknown() {
    let mut story = Story::new().await;
    for name in [Name::Key(key_hash(KEY)), Name::Client("eve".into())] {
        let key = story.keys.entry(&name);
        for loss in &losses()[..2] {
            story.overwrite(&key, loss);
            if let Name::Key(_) = name {
                assert_eq!(answer(&limiter(&story.operator)).await, "store out");
                // What was there is not known, and is looked for no more than once.
                assert_eq!(answer(&limiter(&story.operator)).await, "store out");
                story.heals().await;
            } else {
                // Nobody has asked for it: the next change overwrites it.
                story
                    .operator
                    .replace_client("eve", json!({"tier": "paid"}))
                    .await;
                let entry: String = cmd("GET").arg(&key).query(&mut story.redis).unwrap();
                assert!(entry.contains("paid"), "{entry}");
                story.operator.replace_client("eve", json!({})).await;
            }
        }
    }
}
