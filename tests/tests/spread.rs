//! A rule that all share, spread over several buckets: never more than its limit, and nearly all of it.

use std::collections::BTreeSet;
use std::time::Instant;

use futures::future::join_all;
use limiter::{Limiter, Request, Verdict, Who};
use limits::Resource;
use limits::bucket::Owner;
use limits::counters::Operation;
use limits::rule::Algorithm;
use limits_redis::keys::Keys;
use local::servers::Redis;
use redis::AsyncCommands;
use serde_json::{Value, json};
use tests::{Container, Function, Operator, RedisCluster, stores};

use crate::algorithms::{ask, check};
use crate::audit::http;
use crate::denials;
use crate::publishing::limiter;
use crate::walks::{World, passed, request};

/// A window in which nothing comes back for as long as a story takes.
const LONG: u64 = 31_622_400;

fn hot(limit: u64, split: u64) -> Value {
    json!({"resource": "GET /hot/*", "per": "all", "limit": limit, "time_window": LONG, "split": split})
}

/// Whether one call more passes. What was not decided by Redis counts as neither.
async fn passes(limiter: &Limiter) -> bool {
    passes_at(limiter, 1).await
}

async fn passes_at(limiter: &Limiter, tokens: u64) -> bool {
    let request = Request {
        who: Who::Client {
            id: "eve",
            asker: limiter::Asker::Anyone,
        },
        address: None,
        resource: Resource::parse("GET /hot/1"),
        tokens,
        operation: Operation::Take,
    };
    match limiter.decide(&request).await {
        Verdict::Decided(decision) => decision.allowed && !decision.degraded,
        Verdict::Refused(_) | Verdict::StoreOut => false,
    }
}

/// How many of so many calls pass, all made at once through each of these.
async fn at_once(limiters: &[Limiter], calls_of_each: u64) -> u64 {
    let each = limiters
        .iter()
        .flat_map(|limiter| (0..calls_of_each).map(move |_| passes(limiter)));
    let passed = join_all(each).await;
    passed.into_iter().map(u64::from).sum()
}

#[tokio::test]
async fn however_many_ask_at_once_all_shares_together_admit_the_limit_and_no_more() {
    for split in [2, 8, 64] {
        let operator = Operator::new().await;
        operator.rule(hot(640, split)).await;
        let limiters: Vec<Limiter> = (0..16).map(|_| limiter(&operator)).collect();
        join_all(limiters.iter().map(Limiter::load)).await;
        let mut admitted = at_once(&limiters, 60).await;
        assert!(admitted <= 640, "{split}: {admitted}");
        // Half as many again as the limit, at once: next to nothing is lost.
        assert!(admitted >= 600, "{split}: {admitted}");
        admitted += at_once(&limiters, 60).await;
        assert_eq!(
            admitted, 640,
            "{split}: whoever keeps asking gets all of it"
        );

        let client = redis::Client::open(stores::redis().url()).unwrap();
        let mut redis = client.get_multiplexed_async_connection().await.unwrap();
        let keys = format!("{}:{{*}}:???????????????????", operator.prefix());
        let keys: Vec<String> = redis.keys(keys).await.unwrap();
        let lanes: BTreeSet<&str> = keys
            .iter()
            .map(|key| key.split(['{', '}']).nth(1).unwrap())
            .collect();
        let split = usize::try_from(split).unwrap();
        assert_eq!((keys.len(), lanes.len()), (split, split), "{keys:?}");
    }
}

/// How often a script was called.
async fn scripts(server: &Redis) -> u64 {
    denials::scripts(&mut denials::connection(server).await).await
}

#[tokio::test]
async fn a_share_that_is_known_to_be_empty_is_passed_over_without_a_trip() {
    let server = Redis::start().unwrap();
    let operator = Operator::at(&server.url()).await;
    operator.rule(hot(400, 2)).await;
    let limiter = limiter(&operator);
    limiter.load().await;
    assert!(
        passes_at(&limiter, 200).await,
        "and one of the two is empty"
    );
    let (start, before) = (Instant::now(), scripts(&server).await);
    for _ in 0..200 {
        assert!(passes(&limiter).await);
    }
    // Half of them chose the empty one first, and a second long none of them had to ask.
    let seconds = start.elapsed().as_secs() + 1;
    let trips = scripts(&server).await - before;
    assert!(
        trips >= 200 && trips <= 200 + seconds,
        "{trips} in {seconds} s"
    );
    for _ in 0..200 {
        assert!(!passes(&limiter).await);
    }
    let seconds = start.elapsed().as_secs() + 1;
    let trips = scripts(&server).await - before;
    assert!(trips <= 200 + 2 * seconds, "{trips} in {seconds} s");
}

#[tokio::test]
async fn in_a_cluster_the_shares_lie_on_every_server() {
    let cluster = RedisCluster::start(0).await;
    let operator = Operator::at(&cluster.url()).await;
    let id = operator.rule(hot(60, 8)).await;
    let keys = Keys::default();
    let mut servers = [0; 3];
    for number in 0..8 {
        let share = Owner::Share {
            rule: id,
            number,
            split: 8,
        };
        let slot = cluster.slot_of(&keys.epoch(share.lane())).await;
        servers[cluster.primary_of(slot).await] += 1;
    }
    assert!(
        servers.iter().all(|shares| (2..=3).contains(shares)),
        "{servers:?}"
    );
    let limiters = [limiter(&operator), limiter(&operator)];
    join_all(limiters.iter().map(Limiter::load)).await;
    assert_eq!(at_once(&limiters, 75).await, 60);
}

#[tokio::test]
async fn every_algorithm_is_spread() {
    for algorithm in Algorithm::ALL {
        let operator = Operator::new().await;
        let mut rule = hot(100, 8);
        rule["algorithm"] = algorithm.as_str().into();
        if *algorithm == Algorithm::LeakyBucket {
            rule["burst"] = json!(100);
        }
        operator.rule(rule).await;
        let limiters: Vec<Limiter> = (0..4).map(|_| limiter(&operator)).collect();
        join_all(limiters.iter().map(Limiter::load)).await;
        assert_eq!(at_once(&limiters, 75).await, 100, "{algorithm}");
    }
}

#[tokio::test]
async fn containers_share_a_spread_rule_and_tell_its_limit() {
    let operator = Operator::new().await;
    operator.client("eve", json!({})).await;
    operator.key("eve", "a-key-of-eve").await;
    let mut rule = hot(60, 8);
    rule["resource"] = json!("GET /orders/{id}");
    let id = operator.rule(rule).await;
    let containers = join_all((0..3).map(|_| operator.container(Function::Authorizer, &[]))).await;
    let calls = async |container: &Container| {
        let mut answers = Vec::new();
        for _ in 0..80 {
            answers.push(container.invoke(&request("a-key-of-eve")).await.unwrap());
        }
        answers
    };
    let answers = join_all(containers.iter().map(calls)).await;
    let answers = answers.concat();
    let allowed = |answer: &&Value| answer["context"]["decision"] == "allowed";
    assert_eq!(answers.iter().filter(allowed).count(), 60);
    for answer in &answers {
        let context = &answer["context"];
        let number = |name: &str| context[name].as_str().unwrap().parse::<u64>().unwrap();
        assert_eq!(
            (number("limit"), &context["ruleId"]),
            (60, &json!(id.to_string()))
        );
        // Of a share of 7 or 8, times 8.
        assert!(
            number("remaining").is_multiple_of(8) && number("remaining") <= 56,
            "{context}"
        );
        assert_eq!(
            context["rateLimitPolicy"],
            format!("\"{}\";q=60;w={LONG}", &id.to_string()[28..])
        );
        if context["decision"] == "throttled" {
            assert_eq!(
                (number("remaining"), &context["reason"]),
                (0, &json!("limit"))
            );
            assert!(number("retryAfter") > 0);
        }
    }
}

#[tokio::test]
async fn no_call_may_cost_more_than_the_smallest_share_holds() {
    let operator = Operator::new().await;
    operator.rule(hot(11, 4)).await;
    let check = check(&operator).await;
    for _ in 0..8 {
        let denied = ask(&check, "eve", "GET /hot/1", 3).await;
        assert_eq!(denied["reason"], "cost_exceeds_capacity", "{denied}");
        assert_eq!(
            (&denied["retry_after"], &denied["limit"]),
            (&Value::Null, &json!(11))
        );
    }
    let fits = ask(&check, "eve", "GET /hot/1", 2).await;
    assert_eq!(fits["status"], "allowed", "{fits}");
}

#[tokio::test]
async fn a_rule_is_spread_while_it_is_in_use_and_its_shares_are_explained() {
    let world = World::new().await;
    let key = world.client("eve", "free").await;
    let rule = |split: u64| json!({"resource": "GET /orders/{id}", "per": "all", "limit": 4, "time_window": LONG, "split": split});
    let id = world.say("POST", "/ratelimit/rules", rule(1)).await["id"].clone();
    let at = format!("/ratelimit/rules/{}", id.as_str().unwrap());
    let [before, after] = [
        world.region.container(Function::Authorizer).await,
        world.region.container(Function::Authorizer).await,
    ];
    assert_eq!(passed(&[&before], &key, 5).await, 4);
    world.say("PUT", &at, rule(2)).await;
    assert_eq!(
        passed(&[&after], &key, 3).await,
        3,
        "another number of shares starts fresh"
    );

    let explain = async |tokens: u64| {
        let question = format!("client=eve&resource=GET%20/orders/1&tokens={tokens}");
        let answer = world
            .rules
            .invoke(&http("GET", "/ratelimit/explain", &question))
            .await;
        let body = answer.unwrap()["body"].as_str().unwrap().to_owned();
        serde_json::from_str::<Value>(&body).unwrap()
    };
    // One share has one left, the other none: whichever is asked first, the one that has room is told.
    let mut told = BTreeSet::new();
    for _ in 0..10 {
        let answer = explain(1).await;
        let (told_rule, bucket) = (&answer["rules"][0], &answer["rules"][0]["bucket"]);
        assert_eq!((&told_rule["id"], &told_rule["split"]), (&id, &json!(2)));
        assert_eq!(told_rule["reason"], "it is counted, and has room");
        assert_eq!(
            (&bucket["limit"], &bucket["burst"], &bucket["remaining"]),
            (&json!(4), &json!(4), &json!(2)),
            "{answer}"
        );
        told.insert(bucket["share"].as_u64().unwrap());
    }
    assert!(told == [1].into() || told == [2].into(), "{told:?}");
    let never = explain(3).await;
    assert_eq!(never["decision"]["reason"], "cost_exceeds_capacity");
    assert_eq!(
        never["rules"][0]["reason"],
        "the cost is more than one of its 2 shares ever has room for"
    );
    assert_eq!(passed(&[&after], &key, 3).await, 1);
}
