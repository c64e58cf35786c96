//! What was taken and came to nothing is given back: all of it where nothing else happened, never too much, and never into another
//! window.

use std::cell::{Cell, RefCell};

use limits::Quota;
use limits::algorithms::{Reading, State};
use limits::counters::{Operation, admitted};
use limits::rule::Algorithm;
use limits_redis::{Reply, give};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::known_answers::{Turned, bucket};

const NOON_US: u64 = 1_796_040_000_000_000;

fn quota(algorithm: Algorithm, limit: u64, window: u64) -> Quota {
    Quota::new(algorithm, limit, None, window).unwrap()
}

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    })
}

fn algorithm() -> impl Strategy<Value = Algorithm> {
    (0..Algorithm::ALL.len()).prop_map(|i| Algorithm::ALL[i])
}

#[test]
fn what_is_given_back_within_the_tick_leaves_the_bucket_as_it_was() {
    let turned = RefCell::new((Turned::new(), 0));
    let before = proptest::collection::vec((0..90_000_000_u64, 1..4_u64), 0..6);
    runner(400)
        .run(
            &(algorithm(), 1..9_u64, 4..20_u64, before, 1..4_u64, 0..2_u64),
            |(algorithm, window, limit, before, tokens, later)| {
                let (turned, rule) = &mut *turned.borrow_mut();
                *rule += 1;
                let rule = *rule;
                turned.now_us = NOON_US;
                let burst = (algorithm == Algorithm::LeakyBucket).then_some(limit);
                let quota = Quota::new(algorithm, limit, burst, 30 * window).unwrap();
                for (passes_us, tokens) in before {
                    turned.now_us += passes_us;
                    turned.ask(Operation::Take, rule, &quota, tokens);
                }
                turned.now_us += 20_000_000 * later;
                let held = [bucket(rule, &quota, tokens)];
                let key = turned.keys.bucket(held[0].lane, &held[0].name);
                let there = |turned: &mut Turned| -> bool {
                    let mut exists = redis::cmd("EXISTS");
                    exists.arg(&key).query(&mut turned.connection).unwrap()
                };
                let existed = there(turned);
                let found = |turned: &mut Turned| {
                    [1, tokens, 4].map(|tokens| turned.ask(Operation::Look, rule, &quota, tokens))
                };
                let found_before = found(turned);
                let hold = turned.call(Operation::Hold, &held);
                let taken = matches!(&hold.reply, Reply::Answers(all) if admitted(&held, all));
                prop_assert_eq!(hold.marks[0].is_some(), taken);
                if taken {
                    prop_assert_ne!(found(turned), found_before);
                    prop_assert_eq!(turned.give(&held, &hold.marks), 1);
                }
                prop_assert_eq!(found(turned), found_before);
                prop_assert!(existed || !there(turned));
                Ok(())
            },
        )
        .unwrap();
}

/// What happens to a bucket.
#[derive(Debug, Clone, Copy)]
enum Event {
    Take(u64),
    Hold(u64),
    /// One of the holds that stand.
    Give(usize),
}

/// Asks a bucket of the model; whether it was taken.
fn take(state: &mut Option<State>, quota: &Quota, tokens: u64, now: u64) -> bool {
    let cost = quota.cost(tokens).unwrap();
    let mut reading = Reading::at(state.as_ref(), quota, cost, now);
    let fits = reading.fits(quota, cost);
    if fits {
        reading.take(state, quota, cost, now);
    }
    fits
}

#[test]
fn whatever_is_held_and_given_back_no_more_is_admitted_than_if_it_had_never_been() {
    let event = prop_oneof![
        3 => (1..4_u64).prop_map(Event::Take),
        3 => (1..4_u64).prop_map(Event::Hold),
        3 => any::<usize>().prop_map(Event::Give),
    ];
    let passes = prop_oneof![2 => Just(0_u64), 3 => 0..900_000_u64, 1 => 0..9_000_000_u64];
    let events = proptest::collection::vec((passes, event), 1..60);
    let admitted_after_a_hold = Cell::new(0_u32);
    runner(20_000)
        .run(
            &(algorithm(), 1..8_u64, 3..12_u64, events),
            |(algorithm, window, limit, events)| {
                let burst = (algorithm == Algorithm::LeakyBucket).then_some(limit);
                let quota = Quota::new(algorithm, limit, burst, window).unwrap();
                let mut now = NOON_US;
                // The bucket, and as it would be had nothing been held.
                let (mut state, mut plain) = (None::<State>, None::<State>);
                let mut held = Vec::new();
                // What may be lost of a token bucket.
                let mut lost = 0;
                let mut any = false;
                let mut give = |state: &mut Option<State>, (tokens, mark): (u64, u64), now: u64| {
                    let cost = quota.cost(tokens).unwrap();
                    lost += cost.min(quota.limit() * (now - mark));
                    if let Some(kept) = state
                        && !kept.give_back(&quota, cost, mark, now)
                    {
                        *state = None;
                    }
                };
                for (passes_us, event) in events {
                    now += passes_us;
                    match event {
                        Event::Take(tokens) => {
                            if take(&mut state, &quota, tokens, now) {
                                prop_assert!(take(&mut plain, &quota, tokens, now));
                                let count = admitted_after_a_hold.get() + u32::from(any);
                                admitted_after_a_hold.set(count);
                            }
                        }
                        Event::Hold(tokens) => {
                            if take(&mut state, &quota, tokens, now) {
                                let mark = state.as_ref().and_then(State::mark).unwrap();
                                held.push((tokens, mark));
                                any = true;
                            }
                        }
                        Event::Give(_) if held.is_empty() => {}
                        Event::Give(which) => {
                            let which = which % held.len();
                            give(&mut state, held.swap_remove(which), now);
                        }
                    }
                }
                for held in held {
                    give(&mut state, held, now);
                }
                let [left, right] =
                    [&state, &plain].map(|state| Reading::at(state.as_ref(), &quota, 1, now));
                match (left, right) {
                    (Reading::Bucket(held), Reading::Bucket(plain)) => {
                        prop_assert!(held.level >= plain.level);
                        prop_assert!(held.level - plain.level <= lost);
                    }
                    // Of these all comes back.
                    _ => prop_assert_eq!(left, right),
                }
                Ok(())
            },
        )
        .unwrap();
    assert!(admitted_after_a_hold.get() > 10_000);
}

#[test]
fn what_was_held_before_a_window_ended_is_not_given_back_into_the_next() {
    let mut turned = Turned::new();
    let quota = quota(Algorithm::FixedWindow, 100, 3_600);
    let held = [bucket(1, &quota, 40)];
    turned.now_us = NOON_US - 1_000;
    let hold = turned.call(Operation::Hold, &held);
    assert_eq!(hold.marks.len(), 1);
    turned.now_us = NOON_US + 1_000;
    let passes = |turned: &mut Turned| turned.ask(Operation::Take, 1, &quota, 1).room;
    let admitted = (0..200).filter(|_| passes(&mut turned)).count();
    assert_eq!(admitted, 100);
    assert_eq!(turned.give(&held, &hold.marks), 0);
    assert!(!passes(&mut turned));
}

#[test]
fn of_a_sliding_window_it_is_taken_off_the_count_that_it_was_added_to() {
    let mut turned = Turned::new();
    let quota = quota(Algorithm::SlidingWindow, 100, 3_600);
    let held = [bucket(1, &quota, 60)];
    turned.now_us = NOON_US - 1_000;
    turned.ask(Operation::Take, 1, &quota, 20);
    let hold = turned.call(Operation::Hold, &held);
    turned.now_us = NOON_US;
    let admitted = |turned: &mut Turned| {
        (0..200)
            .take_while(|_| turned.ask(Operation::Take, 1, &quota, 1).room)
            .count()
    };
    // The hour before weighs whole at its very end.
    assert_eq!(admitted(&mut turned), 20);
    assert_eq!(turned.give(&held, &hold.marks), 1);
    assert_eq!(admitted(&mut turned), 60);
    // Two windows on it counts no more.
    turned.now_us = NOON_US + 7_200_000_000;
    assert!(turned.ask(Operation::Take, 1, &quota, 1).room);
    assert_eq!(turned.give(&held, &hold.marks), 0);
}

#[test]
fn a_shadow_without_room_was_not_taken_from_and_is_given_nothing() {
    let mut turned = Turned::new();
    turned.now_us = NOON_US;
    for algorithm in Algorithm::ALL {
        let (quota, small) = (quota(*algorithm, 9, 60), quota(*algorithm, 1, 60));
        turned.ask(Operation::Take, 2, &small, 1);
        let mut held = [bucket(1, &quota, 1), bucket(2, &small, 1)];
        held[1].shadow = true;
        let hold = turned.call(Operation::Hold, &held);
        let [Some(_), None] = hold.marks[..] else {
            panic!("{hold:?}");
        };
        assert_eq!(give::names(&turned.keys, &held, &hold.marks).len(), 1);
        assert_eq!(turned.give(&held, &hold.marks), 1);
        assert!(
            !turned.ask(Operation::Look, 2, &small, 1).room,
            "{algorithm}"
        );
        // One that is denied has nothing to give back.
        held[1].shadow = false;
        assert_eq!(turned.call(Operation::Hold, &held).marks, [None, None]);
        for bucket in held {
            let key = turned.keys.bucket(bucket.lane, &bucket.name);
            redis::cmd("DEL")
                .arg(key)
                .exec(&mut turned.connection)
                .unwrap();
        }
    }
}

#[test]
fn a_window_of_which_nothing_is_left_is_not_kept_for_its_sake() {
    let mut turned = Turned::new();
    // Half a minute into one of its windows, of which it is given back, and nothing but the one before counts.
    turned.now_us = NOON_US - 30_000_000;
    let quota = quota(Algorithm::SlidingWindow, 2, 60);
    assert!(turned.ask(Operation::Take, 1, &quota, 2).room);
    turned.now_us = NOON_US + 59_000_000;
    let held = [bucket(1, &quota, 1)];
    let hold = turned.call(Operation::Hold, &held);
    assert_eq!(turned.give(&held, &hold.marks), 1);
    // That clock was wrong: what it counted belongs to the window of now, of which half a minute is left.
    turned.now_us = NOON_US - 30_000_000;
    assert!(!turned.ask(Operation::Take, 1, &quota, 2).room);
    let key = turned.keys.bucket(held[0].lane, &held[0].name);
    let mut ttl = redis::cmd("PTTL");
    let ttl: i64 = ttl.arg(key).query(&mut turned.connection).unwrap();
    assert!(ttl > 80_000 && ttl <= 90_000, "{ttl}");
}
