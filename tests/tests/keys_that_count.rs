//! What counting leaves in Redis: keys that expire, and of every call all or nothing, whatever the server runs out of or forgets.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use limits::bucket::{Bucket, BucketName, Owner};
use limits::counters::Operation;
use limits::rule::Algorithm;
use limits::{Lane, Quota};
use limits_redis::keys::Keys;
use limits_redis::{Call, Reply, Store, StoreError};
use local::servers::Redis;
use rand::RngExt;
use redis::cmd;
use serde_json::json;
use tests::{Operator, stores};
use tokio::time::{Instant, sleep};

use crate::algorithms::{ask, check};
use crate::counters::rule;
use crate::known_answers::Turned;

/// For how long a bucket may matter at most, in ms.
fn longest_ms(quota: &Quota) -> u64 {
    let window = quota.window_seconds() * 1_000;
    let ahead = 1_000;
    ahead
        + match quota.algorithm() {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                (quota.most_at_once() * window).div_ceil(quota.limit())
            }
            Algorithm::FixedWindow | Algorithm::SlidingLog => window,
            Algorithm::SlidingWindow => 2 * window,
        }
}

#[test]
fn every_key_that_counts_expires_a_minute_after_it_matters_whatever_was_done_with_it() {
    let mut turned = Turned::new();
    let mut random = rand::rng();
    turned.now_us = 1_796_040_000_000_000;
    let mut quotas = Vec::new();
    for window in [1, 60, 61, 86_400, 86_401, 31_622_400] {
        for algorithm in Algorithm::ALL {
            quotas.push(Quota::new(*algorithm, 5, None, window).unwrap());
        }
    }
    let mut longest = HashMap::new();
    let mut held = Vec::new();
    for _ in 0..6_000 {
        // Some clocks are far behind the last.
        turned.now_us = turned
            .now_us
            .saturating_add_signed(random.random_range(-3_000_000..9_000_000));
        if random.random_bool(0.02) {
            turned.now_us -= 100_000_000_000;
        }
        let asked: Vec<(Quota, u64)> = (0..random.random_range(1..5))
            .map(|_| {
                let quota = &quotas[random.random_range(0..quotas.len())];
                let most = quota.most_at_once().min(3);
                (quota.clone(), random.random_range(1..=most))
            })
            .collect();
        // Each rule was reset twice.
        let generation = random.random_range(0..3);
        let active = random.random_range(1..=asked.len());
        let mut buckets: Vec<Bucket<'_>> = Vec::new();
        for (place, (quota, tokens)) in asked.iter().enumerate() {
            let name = BucketName::new(
                Some(&rule(1).with_generation(generation)),
                &Owner::All,
                quota,
            );
            if buckets.iter().all(|bucket| bucket.name != name) {
                longest.insert(turned.keys.bucket(Lane::SHARED, &name), longest_ms(quota));
                buckets.push(Bucket {
                    lane: Lane::SHARED,
                    name,
                    quota,
                    cost: quota.cost(*tokens).unwrap(),
                    shadow: place >= active,
                });
            }
        }
        match random.random_range(0..8) {
            0 => drop(turned.call(Operation::Look, &buckets)),
            1..4 => {
                let marks = turned.call(Operation::Hold, &buckets).marks;
                if random.random_bool(0.5) {
                    turned.give(&buckets, &marks);
                } else {
                    let of = buckets.iter().map(|bucket| {
                        let quota = bucket.quota.clone();
                        (bucket.name, quota, bucket.cost)
                    });
                    held.push((of.collect::<Vec<_>>(), marks));
                }
            }
            _ => drop(turned.call(Operation::Take, &buckets)),
        }
        if random.random_bool(0.2) && !held.is_empty() {
            let (of, marks) = held.swap_remove(random.random_range(0..held.len()));
            let of: Vec<Bucket<'_>> = of
                .iter()
                .map(|(name, quota, cost)| Bucket {
                    lane: Lane::SHARED,
                    name: *name,
                    quota,
                    cost: *cost,
                    shadow: false,
                })
                .collect();
            turned.give(&of, &marks);
        }
    }
    let keys: Vec<String> = cmd("KEYS")
        .arg("t:*")
        .query(&mut turned.connection)
        .unwrap();
    // Of each algorithm and window, but for those that were full in the end.
    assert!(keys.len() > 2 * quotas.len(), "{}", keys.len());
    for key in keys {
        let ttl: i64 = cmd("PTTL").arg(&key).query(&mut turned.connection).unwrap();
        // One that is gone meanwhile has.
        assert_ne!(ttl, -1, "{key} lives for ever");
        let most = i64::try_from(longest[&key]).unwrap() + 60_000;
        assert!(ttl <= most, "{key} lives {ttl} ms rather than {most}");
    }
}

/// All that stands under a prefix, but for its time to live.
async fn contents(redis: &mut redis::aio::MultiplexedConnection) -> Vec<(String, Vec<u8>)> {
    let mut keys: Vec<String> = cmd("KEYS").arg("t:*").query_async(redis).await.unwrap();
    keys.sort_unstable();
    let mut contents = Vec::new();
    for key in keys {
        let dump = cmd("DUMP").arg(&key).query_async(redis).await.unwrap();
        contents.push((key, dump));
    }
    contents
}

#[tokio::test]
async fn a_server_without_memory_refuses_a_call_before_anything_is_written() {
    let server = Redis::start_with(&["--maxmemory-policy", "noeviction"]).unwrap();
    let keys = Keys::new("t").unwrap();
    let store = Store::open(&server.url(), keys).unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    let mut redis = client.get_multiplexed_async_connection().await.unwrap();
    store.move_lanes(1, &[(Lane::SHARED, None)]).await.unwrap();
    let quotas = Algorithm::ALL.iter();
    let quotas: Vec<Quota> = quotas
        .map(|algorithm| {
            Quota::new(
                *algorithm,
                50,
                Some(50).filter(|_| algorithm.as_str().ends_with("bucket")),
                31_622_400,
            )
            .unwrap()
        })
        .collect();
    let buckets: Vec<Bucket<'_>> = quotas
        .iter()
        .map(|quota| Bucket {
            lane: Lane::SHARED,
            name: BucketName::new(None, &Owner::All, quota),
            quota,
            cost: quota.cost(1).unwrap(),
            shadow: false,
        })
        .collect();
    let call = Call {
        operation: Operation::Take,
        epoch: 1,
        lanes: &[Lane::SHARED],
        buckets: &buckets,
    };
    let take = async || {
        let deadline = Instant::now() + Duration::from_secs(10);
        match store.ask(&call, deadline).await {
            Ok(Reply::Answers(answers)) => Ok(answers.iter().all(|answer| answer.room)),
            Ok(Reply::Behind(epoch)) => panic!("behind {epoch}"),
            Err(error) => Err(error),
        }
    };
    let memory = async |redis: &mut redis::aio::MultiplexedConnection, most: &str| {
        let mut set = cmd("CONFIG");
        set.arg("SET").arg("maxmemory").arg(most);
        set.exec_async(redis).await.unwrap();
    };
    let mut admitted = 0;
    for _ in 0..10 {
        admitted += u32::from(take().await.unwrap());
        let before = contents(&mut redis).await;
        memory(&mut redis, "1").await;
        for _ in 0..3 {
            match take().await {
                Err(StoreError::Redis(error)) => assert_eq!(error.code(), Some("OOM"), "{error}"),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(contents(&mut redis).await, before);
        memory(&mut redis, "0").await;
    }
    while take().await.unwrap() {
        admitted += 1;
    }
    assert_eq!(admitted, 50);
}

#[tokio::test]
async fn a_server_that_forgets_its_scripts_amid_traffic_charges_every_call_once() {
    const LIMIT: u64 = 600;
    let server = Redis::start().unwrap();
    let operator = Operator::at(&server.url()).await;
    operator
        .rule(json!({
            "resource": "/orders", "per": "all", "algorithm": "fixed_window",
            "limit": LIMIT, "time_window": 31_622_400,
        }))
        .await;
    // Beside it a log and a bucket with room for all.
    for algorithm in ["sliding_log", "token_bucket"] {
        let body = json!({"resource": "/orders", "algorithm": algorithm, "limit": 9_000, "time_window": 86_400});
        operator.rule(body).await;
    }
    let mut containers = Vec::new();
    for _ in 0..4 {
        let container = check(&operator).await;
        container.ready().await.unwrap();
        containers.push(container);
    }
    let client = redis::Client::open(server.url()).unwrap();
    let mut redis = client.get_multiplexed_async_connection().await.unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let forgetting = tokio::spawn({
        let over = Arc::clone(&over);
        async move {
            let mut times = 0_u32;
            while !over.load(Ordering::Relaxed) {
                let mut flush = cmd("SCRIPT");
                flush.arg("FLUSH").exec_async(&mut redis).await.unwrap();
                times += 1;
                sleep(Duration::from_millis(3)).await;
            }
            times
        }
    });
    let traffic = containers.iter().map(|container| async move {
        let (mut admitted, mut denied) = (0_u64, 0);
        while denied < 20 {
            let answer = ask(container, &stores::unique("c"), "/orders", 1).await;
            match answer["status"].as_str() {
                Some("allowed") => admitted += 1,
                _ => {
                    assert_eq!(answer["reason"], "limit", "{answer}");
                    denied += 1;
                }
            }
            assert!(admitted <= LIMIT, "never stopped");
        }
        admitted
    });
    let admitted: u64 = futures::future::join_all(traffic).await.into_iter().sum();
    over.store(true, Ordering::Relaxed);
    let times = forgetting.await.unwrap();
    assert_eq!(admitted, LIMIT);
    assert!(times > 20, "{times}");
}
