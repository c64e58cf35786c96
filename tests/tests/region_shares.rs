//! A region that is told its share of every limit grants that, and says so.

use limits::bucket::{Bucket, BucketName, Owner};
use limits::counters::{Counters, Operation};
use limits::rule::Algorithm;
use limits::{Lane, Quota};
use local::servers::{End, Redis};
use proptest::prelude::*;
use serde_json::{Value, json};
use tests::{Container, Function, Region, answer, stores};

use crate::walks::{self, World};

const HALF: [(&str, &str); 2] = [("LIMIT_PERCENT", "50"), ("FALLBACK_PERCENT", "50")];

/// The share of a quota in each of two regions, and what was taken there: when, in microseconds, and how many requests.
fn taken(whole: &Quota, percents: [u64; 2], calls: &[(u64, bool, u64)]) -> Vec<(u64, u64)> {
    let mut regions = percents.map(|percent| (whole.percent(percent), Counters::default()));
    let mut now_us = 1_800_000_000_000_000;
    let mut taken = Vec::new();
    for &(passes_us, first, part) in calls {
        now_us += passes_us;
        let (quota, counters) = &mut regions[usize::from(first)];
        let tokens = 1 + part % quota.most_at_once();
        let cost = quota.cost(tokens).unwrap();
        let bucket = Bucket {
            lane: Lane::SHARED,
            name: BucketName::new(None, &Owner::All, quota),
            quota,
            cost,
            shadow: false,
        };
        let answers = counters.ask(Operation::Take, &[bucket], now_us);
        if answers[0].room {
            taken.push((now_us, tokens));
        }
    }
    taken
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn two_regions_never_admit_more_than_the_rule(
        algorithm in prop::sample::select(vec![Algorithm::TokenBucket, Algorithm::LeakyBucket, Algorithm::FixedWindow, Algorithm::SlidingLog]),
        limit in 1..200_u64,
        burst in 1..200_u64,
        percent in 1..100_u64,
        calls in prop::collection::vec((0..4_000_000_u64, any::<bool>(), 0..300_u64), 1..200),
    ) {
        const WINDOW: u64 = 10;
        let is_bucket = matches!(algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket);
        let whole = Quota::new(algorithm, limit, is_bucket.then_some(burst), WINDOW).unwrap();
        let percents = [percent, 100 - percent];
        let shares = percents.map(|percent| whole.percent(percent));
        // A share that would be less than one request is one.
        let one_more = |number: u64| percents.iter().filter(|percent| number * **percent < 100).count() as u64;
        let limit = limit + one_more(limit);
        let burst = burst + one_more(burst);
        prop_assert!(shares.iter().map(Quota::limit).sum::<u64>() <= limit);
        prop_assert!(shares.iter().all(|share| share.limit() >= 1 && share.most_at_once() >= 1));

        let taken = taken(&whole, percents, &calls);
        let window_us = WINDOW * 1_000_000;
        for (first, (from, _)) in taken.iter().enumerate() {
            let mut admitted = 0;
            for (at, tokens) in &taken[first..] {
                let most = match algorithm {
                    Algorithm::FixedWindow if at / window_us > from / window_us => break,
                    Algorithm::SlidingLog if at - from >= window_us => break,
                    Algorithm::FixedWindow | Algorithm::SlidingLog => limit * window_us,
                    _ => burst * window_us + limit * (at - from),
                };
                admitted += tokens;
                prop_assert!(admitted * window_us <= most, "{taken:?}");
            }
        }
    }
}

/// A world whose authorizers grant a half, and eve's key in it.
async fn half(region: Region) -> (World, String) {
    let world = World::of(region).await;
    let key = world.client("eve", "free").await;
    (world, key)
}

fn call(key: &str, path: &str) -> Value {
    let mut event = walks::request(key);
    event["path"] = path.into();
    event["resource"] = path.into();
    event["requestContext"]["path"] = path.into();
    event["requestContext"]["resourcePath"] = path.into();
    event
}

/// What a call comes to: whether it is allowed, why, and the limit and policy that are told.
async fn told(authorizer: &Container, key: &str, path: &str) -> (bool, String, String, String) {
    let answer = authorizer.invoke(&call(key, path)).await.unwrap();
    let effect = &answer["policyDocument"]["Statement"][0]["Effect"];
    let text = |name: &str| answer["context"][name].as_str().unwrap().to_owned();
    (
        effect == "Allow",
        text("reason"),
        text("limit"),
        text("rateLimitPolicy"),
    )
}

/// How many of so many calls are allowed, in turn by both.
async fn admitted(authorizers: [&Container; 2], key: &str, path: &str, calls: usize) -> usize {
    let mut admitted = 0;
    for i in 0..calls {
        admitted += usize::from(told(authorizers[i % 2], key, path).await.0);
    }
    admitted
}

#[tokio::test]
async fn two_regions_with_a_half_each_admit_no_more_than_the_rule_and_tell_their_half() {
    let database = stores::database().await;
    let (one, two) = (Redis::start().unwrap(), Redis::start().unwrap());
    let regions = Region::each([(&one.url(), &database), (&two.url(), &database)]).await;
    let [first, second] = regions;
    let (world, key) = half(first).await;
    let other = World::of(second).await;
    let rules = [
        json!({"resource": "/counted", "limit": 9, "time_window": 86_400}),
        json!({"resource": "/burst", "limit": 9, "time_window": 86_400, "burst": 5}),
        json!({"resource": "/spread", "limit": 9, "time_window": 86_400, "per": "all", "split": 7}),
        json!({"resource": "/logged", "limit": 9, "time_window": 86_400, "algorithm": "sliding_log"}),
        json!({"resource": "/one", "limit": 1, "time_window": 86_400}),
        json!({"resource": "/blocked", "limit": 0, "time_window": 60}),
        json!({"resource": "/exempt", "limit": null, "time_window": 60}),
    ];
    world
        .say("POST", "/ratelimit/rules:batch", json!({ "upsert": rules }))
        .await;
    let mut all = 0;
    for region in [&world.region, &other.region] {
        let containers = [
            region.container_with(Function::Authorizer, &HALF).await,
            region.container_with(Function::Authorizer, &HALF).await,
        ];
        let containers = containers.each_ref();
        let (allowed, _, limit, policy) = told(containers[0], &key, "/counted").await;
        assert_eq!((allowed, limit.as_str()), (true, "4"));
        assert!(policy.contains(";q=4;w=86400"), "{policy}");
        all += 1 + admitted(containers, &key, "/counted", 20).await;
        assert_eq!(admitted(containers, &key, "/burst", 9).await, 2);
        assert_eq!(admitted(containers, &key, "/spread", 60).await, 4);
        assert_eq!(admitted(containers, &key, "/logged", 20).await, 4);
        assert_eq!(admitted(containers, &key, "/one", 4).await, 1);
        let (allowed, reason, limit, _) = told(containers[0], &key, "/blocked").await;
        assert_eq!(
            (allowed, reason.as_str(), limit.as_str()),
            (false, "blocked", "0")
        );
        let (allowed, reason, ..) = told(containers[0], &key, "/exempt").await;
        assert_eq!((allowed, reason.as_str()), (true, "exempt"));
        let (allowed, reason, limit, _) = told(containers[0], &key, "/elsewhere").await;
        assert_eq!(
            (allowed, reason.as_str(), limit.as_str()),
            (true, "default", "50")
        );
    }
    assert_eq!(all, 8);
}

#[tokio::test]
async fn what_is_asked_about_is_told_by_the_share_and_what_was_written_as_it_was() {
    let (world, _) = half(Region::new().await).await;
    let rule = json!({"resource": "/counted", "limit": 9, "time_window": 86_400});
    world.say("POST", "/ratelimit/rules", rule).await;
    let anonymous = [HALF[0], ("CHECK_ANONYMOUS", "allow")];
    let check = world
        .region
        .container_with(Function::Check, &anonymous)
        .await;
    let ask = async |path: &str, body: Value| {
        let mut event: Value =
            serde_json::from_str(include_str!("../../events/check-url.json")).unwrap();
        event["rawPath"] = path.into();
        event["requestContext"]["http"]["path"] = path.into();
        event["body"] = body.to_string().into();
        event["isBase64Encoded"] = false.into();
        check.invoke(&event).await.unwrap()
    };
    let too_much = ask(
        "/ratelimit/status/eve",
        json!({"resource": "/counted", "tokens": 5}),
    )
    .await;
    let body: Value = serde_json::from_str(too_much["body"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&body["reason"], &body["limit"]),
        (&json!("cost_exceeds_capacity"), &json!(4)),
        "{body}"
    );
    let between = json!({"SourceService": "eve", "DestinationService": "eve"});
    let between = ask("/throttleRequest", between).await;
    assert_eq!(
        answer::headers(&between)["x-ratelimit-limit"],
        "500",
        "{between}"
    );

    let rules = world.region.container_with(Function::Rules, &HALF).await;
    let query = [("client", "eve"), ("resource", "/counted")];
    let event = tests::question::control("GET", "/ratelimit/explain", &query, Value::Null);
    let told = rules.invoke(&event).await.unwrap();
    let told: Value = serde_json::from_str(told["body"].as_str().unwrap()).unwrap();
    let rule = &told["rules"][0];
    assert_eq!(
        (&rule["limit"], &rule["bucket"]["limit"]),
        (&json!(9), &json!(4)),
        "{told}"
    );
}

#[tokio::test]
async fn a_container_that_counts_by_itself_grants_its_part_of_the_share() {
    let mut redis = Redis::start().unwrap();
    let region = Region::with(&redis.url(), &stores::database().await).await;
    let (world, key) = half(region).await;
    let rule = json!({"resource": "/counted", "limit": 9, "time_window": 86_400});
    world.say("POST", "/ratelimit/rules", rule).await;
    let authorizer = world
        .region
        .container_with(Function::Authorizer, &HALF)
        .await;
    assert!(told(&authorizer, &key, "/counted").await.0);
    redis.stop(End::Kill);
    // Half of the region's four.
    assert_eq!(
        admitted([&authorizer, &authorizer], &key, "/counted", 8).await,
        2
    );
    let (allowed, reason, limit, _) = told(&authorizer, &key, "/counted").await;
    assert_eq!(
        (allowed, reason.as_str(), limit.as_str()),
        (false, "store_unavailable", "4")
    );
}
