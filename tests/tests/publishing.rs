//! What is published reaches every decision, whatever was lost, doubled or came late in between.

use std::collections::BTreeSet;
use std::time::Duration;

use limiter::{Asker, Config, Limiter, Reason, Refusal, Request, Supposition, Verdict, Who};
use limits::counters::Operation;
use limits::registry::{Name, key_hash};
use limits::rule::Algorithm;
use limits::rule_set::Fate;
use limits::{Lane, Quota, Resource};
use limits_postgres::Database;
use limits_redis::keys::Keys;
use limits_redis::{LaneState, Lookup, Page, Version};
use local::servers::Redis;
use redis::AsyncCommands;
use refresh::Refresh;
use serde_json::{Value, json};
use tests::{Function, Operator};

const KEY: &str = "a-key-of-eve";

pub(crate) fn limiter(operator: &Operator) -> Limiter {
    let config = Config {
        default_limit: Quota::new(Algorithm::TokenBucket, 1_000_000, None, 60).ok(),
        redis_timeout: Duration::from_secs(2),
        load_timeout: Duration::from_secs(5),
        limit_percent: 100,
        fallback_percent: 10,
    };
    Limiter::new(config, operator.store.clone())
}

async fn decide(limiter: &Limiter, who: Who<'_>, tokens: u64) -> Verdict {
    let request = Request {
        who,
        address: None,
        resource: Resource::parse("GET /orders/1"),
        tokens,
        operation: Operation::Take,
    };
    limiter.decide(&request).await
}

/// What Eve's key is answered, in a word.
async fn answer(limiter: &Limiter) -> &'static str {
    word(&decide(limiter, Who::Key(KEY), 1).await)
}

pub(crate) fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Decided(decision) if decision.degraded => "degraded",
        Verdict::Decided(decision) => decision.reason.as_str(),
        Verdict::Refused(Refusal::Unknown) => "unknown",
        Verdict::Refused(Refusal::Terminated) => "terminated",
        Verdict::Refused(Refusal::MayNotAsk) => "may not ask",
        Verdict::Refused(Refusal::NotRegistered(_)) => "not registered",
        Verdict::StoreOut => "store out",
    }
}

fn rule(limit: impl Into<Value>) -> Value {
    json!({"resource": "/orders/**", "limit": limit.into(), "time_window": 86_400})
}

async fn eve(operator: &Operator) -> uuid::Uuid {
    operator.client("eve", json!({"tier": "paid"})).await;
    operator.key("eve", KEY).await
}

async fn epochs(operator: &Operator) -> Vec<Option<u64>> {
    let (_, lanes) = operator.store.published().await.unwrap();
    lanes.iter().map(|lane| lane.epoch).collect()
}

/// All keys of one kind of a lane, or of the rules, with their values; to be put back as a server does that lost its newest
/// second.
struct Remains(Vec<(String, Vec<u8>)>);

impl Remains {
    async fn of(redis: &Redis, pattern: &str) -> Self {
        let mut connection = connection(redis).await;
        let keys: Vec<String> = connection.keys(pattern).await.unwrap();
        let mut remains = Vec::new();
        for key in keys {
            let dump = redis::cmd("DUMP")
                .arg(&key)
                .query_async(&mut connection)
                .await
                .unwrap();
            remains.push((key, dump));
        }
        Self(remains)
    }

    async fn put_back(&self, redis: &Redis) {
        let mut connection = connection(redis).await;
        for (key, dump) in &self.0 {
            let mut command = redis::cmd("RESTORE");
            command.arg(key).arg(0).arg(dump).arg("REPLACE");
            command.exec_async(&mut connection).await.unwrap();
        }
    }
}

async fn connection(redis: &Redis) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(redis.url()).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

async fn forget(redis: &Redis, pattern: &str) {
    let mut connection = connection(redis).await;
    let keys: Vec<String> = connection.keys(pattern).await.unwrap();
    assert!(!keys.is_empty(), "{pattern}");
    let _: u64 = connection.del(keys).await.unwrap();
}

#[tokio::test]
async fn an_empty_redis_is_a_store_out_and_never_an_unknown_caller() {
    let server = Redis::start().unwrap();
    let operator = Operator::at(&server.url()).await;
    eve(&operator).await;
    operator.rule(rule(1_000)).await;
    let (warm, cold) = (limiter(&operator), limiter(&operator));
    assert_eq!(answer(&warm).await, "rule");
    forget(&server, "*").await;
    // Eve is remembered, and counting may go on without Redis; who is not remembered cannot be judged.
    assert_eq!(answer(&warm).await, "degraded");
    assert_eq!(
        word(&decide(&warm, Who::Key("another"), 1).await),
        "store out"
    );
    assert_eq!(answer(&cold).await, "store out");
    operator.publish().await;
    assert_eq!(answer(&warm).await, "rule");
    assert_eq!(answer(&cold).await, "rule");
    assert_eq!(
        word(&decide(&warm, Who::Key("another"), 1).await),
        "unknown"
    );
}

#[tokio::test]
async fn a_lane_that_lost_its_data_knows_nobody_until_it_is_rebuilt() {
    let server = Redis::start().unwrap();
    let operator = Operator::at(&server.url()).await;
    eve(&operator).await;
    let lane = Name::Key(key_hash(KEY)).lane();
    let keys = Keys::new(operator.prefix()).unwrap();
    let epoch = keys.epoch(lane);
    let of_lane = format!("{}*", epoch.strip_suffix("epoch").unwrap());
    forget(&server, &of_lane).await;
    assert_eq!(answer(&limiter(&operator)).await, "store out");
    operator.publish().await;
    assert_eq!(answer(&limiter(&operator)).await, "default");
}

#[tokio::test]
async fn a_failover_that_lost_the_newest_second_brings_back_no_revoked_key() {
    let server = Redis::start().unwrap();
    let operator = Operator::at(&server.url()).await;
    let key = eve(&operator).await;
    let before = Remains::of(&server, "*").await;
    operator.delete_key("eve", key).await;
    assert_eq!(answer(&limiter(&operator)).await, "unknown");

    // All of it is lost.
    before.put_back(&server).await;
    assert_eq!(answer(&limiter(&operator)).await, "default");
    operator.publish().await;
    assert_eq!(answer(&limiter(&operator)).await, "unknown");

    // The shard of that lane alone lost it; the head says that all is published.
    let warm = limiter(&operator);
    for (key, dump) in &before.0 {
        if !key.contains("{rules}") {
            Remains(vec![(key.clone(), dump.clone())])
                .put_back(&server)
                .await;
        }
    }
    assert_eq!(answer(&warm).await, "default");
    operator.publish().await;
    assert_eq!(answer(&warm).await, "unknown");

    // The shard of the rules alone lost it: nobody can catch up to the lanes, until it is told again.
    operator.rule(rule(0)).await;
    for (key, dump) in &before.0 {
        if key.contains("{rules}") {
            Remains(vec![(key.clone(), dump.clone())])
                .put_back(&server)
                .await;
        }
    }
    operator.publish().await;
    operator.key("eve", "another-key").await;
    let verdict = decide(&limiter(&operator), Who::Key("another-key"), 1).await;
    assert_eq!(word(&verdict), "blocked");
}

#[tokio::test]
async fn a_refresh_that_was_held_up_takes_nothing_back() {
    let operator = Operator::new().await;
    let id = operator.rule(rule(1)).await;
    eve(&operator).await;
    let (head, lanes) = operator.store.published().await.unwrap();
    let head = head.unwrap();
    let old = Version {
        revision: 0,
        ..head.version
    };

    // What it had read before the newest change: an older rule, an older entry, an older stamp.
    let chunk = limits::chunk_of(id);
    let body = format!("{} {}\n[]", old.history, old.revision);
    let page = Page {
        version: old,
        chunks: vec![(chunk, body)],
        ..Page::default()
    };
    operator.store.put(&page).await.unwrap();
    let name = Name::Key(key_hash(KEY));
    operator
        .store
        .put_entries(old, &[(name, None)])
        .await
        .unwrap();
    let back: Vec<_> = Lane::all().map(|lane| (lane, Some(old))).collect();
    operator.store.move_lanes(1, &back).await.unwrap();

    let (_, now) = operator.store.published().await.unwrap();
    let older = |(now, before): (&LaneState, &LaneState)| {
        now.epoch < before.epoch || now.reached < before.reached
    };
    assert!(!now.iter().zip(&lanes).any(older));
    let limiter = limiter(&operator);
    assert_eq!(answer(&limiter).await, "rule");
    assert_eq!(answer(&limiter).await, "limit");
}

#[tokio::test]
async fn refreshes_at_once_and_over_again_converge() {
    let operator = Operator::new().await;
    eve(&operator).await;
    operator.rule(rule(1_000)).await;
    let refresh = Refresh::new(operator.database.clone(), operator.store.clone());
    let limiter = limiter(&operator);
    for limit in 1..20_u64 {
        let id = operator.rule(json!({
            "resource": format!("/r{limit}"), "limit": limit, "time_window": 60,
        }));
        let (a, b, c, _) = tokio::join!(refresh.run(0), refresh.run(0), refresh.run(0), id);
        for run in [a, b, c] {
            run.unwrap();
        }
    }
    let report = refresh.run(0).await.unwrap();
    assert_eq!((report.rounds, report.lanes, report.chunks), (0, 0, 0));
    assert_eq!(answer(&limiter).await, "rule");
}

#[tokio::test]
async fn a_database_that_was_restored_is_noticed_and_everything_rebuilt() {
    let operator = Operator::new().await;
    operator.rule(rule(1_000)).await;
    eve(&operator).await;
    let limiter = limiter(&operator);
    assert_eq!(answer(&limiter).await, "rule");

    // Another history of fewer revisions, in which neither the rule nor the key is.
    let restored = Database::memory();
    let refresh = Refresh::new(restored.clone(), operator.store.clone());
    refresh.run(0).await.unwrap();
    assert_eq!(answer(&limiter).await, "unknown");
    let anyone = Who::Client {
        id: "bob",
        asker: Asker::Anyone,
    };
    assert_eq!(word(&decide(&limiter, anyone, 1).await), "default");

    // And back, at the same revision numbers or not.
    operator.publish().await;
    assert_eq!(answer(&limiter).await, "rule");
}

#[tokio::test]
async fn a_creation_moves_the_lanes_that_it_concerns_and_no_others() {
    let operator = Operator::new().await;
    operator.rule(rule(1_000)).await;
    let moved = |before: &[Option<u64>], after: &[Option<u64>]| -> BTreeSet<Lane> {
        let lanes = Lane::all().zip(before.iter().zip(after));
        lanes
            .filter(|(_, (a, b))| a != b)
            .map(|(lane, _)| lane)
            .collect()
    };

    let before = epochs(&operator).await;
    operator.client("eve", json!({})).await;
    let after = epochs(&operator).await;
    let own = BTreeSet::from([Lane::of("eve"), Lane::SHARED]);
    assert_eq!(moved(&before, &after), own);

    let key = operator.key("eve", KEY).await;
    let keyed = epochs(&operator).await;
    let own = BTreeSet::from([Name::Key(key_hash(KEY)).lane(), Lane::SHARED]);
    assert_eq!(moved(&after, &keyed), own);

    // What somebody may remember moves all.
    operator.delete_key("eve", key).await;
    let deleted = epochs(&operator).await;
    assert_eq!(moved(&keyed, &deleted).len(), 256);
}

#[tokio::test]
async fn a_decision_without_a_bucket_sees_every_change_within_a_second() {
    let operator = Operator::new().await;
    eve(&operator).await;
    let limiter = limiter(&operator);
    let id = operator.rule(rule(Value::Null)).await;
    assert_eq!(answer(&limiter).await, "exempt");

    // No decision is left to a look that is older than a second: turn the second by asking until it shows.
    let shown = async |wanted: &str| {
        for _ in 0..40 {
            if answer(&limiter).await == wanted {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        false
    };
    operator.replace_rule(id, rule(0)).await;
    assert!(shown("blocked").await);
    operator.replace_rule(id, rule(5)).await;
    assert!(shown("rule").await);

    // A cost above capacity, until the capacity is raised.
    let costs_nine = async || decide(&limiter, Who::Key(KEY), 9).await;
    assert_eq!(
        word(&costs_nine().await),
        Reason::CostExceedsCapacity.as_str()
    );
    operator.replace_rule(id, rule(50)).await;
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    assert_eq!(word(&costs_nine().await), "rule");

    // A key that is unknown is asked for each time: it is known from the moment on when it is published.
    assert_eq!(word(&decide(&limiter, Who::Key("new"), 1).await), "unknown");
    operator.key("eve", "new").await;
    assert_eq!(word(&decide(&limiter, Who::Key("new"), 1).await), "rule");

    // So is a client that was terminated and is active again.
    operator
        .replace_client("eve", json!({"status": "terminated"}))
        .await;
    assert!(shown("terminated").await);
    operator
        .replace_client("eve", json!({"tier": "free"}))
        .await;
    assert!(shown("rule").await);
}

#[tokio::test]
async fn a_client_that_is_made_is_known_from_the_next_decision_on() {
    let operator = Operator::new().await;
    operator
        .rule(json!({"resource": "*", "tier": "premium", "limit": 0, "time_window": 60}))
        .await;
    operator
        .rule(json!({"resource": "*", "limit": 100, "time_window": 60}))
        .await;
    let limiter = limiter(&operator);
    let carol = Who::Client {
        id: "carol",
        asker: Asker::Anyone,
    };
    assert_eq!(word(&decide(&limiter, carol, 1).await), "rule");
    assert_eq!(word(&decide(&limiter, carol, 1).await), "rule");
    operator.client("carol", json!({"tier": "premium"})).await;
    assert_eq!(word(&decide(&limiter, carol, 1).await), "blocked");
}

#[tokio::test]
async fn a_rule_that_is_not_understood_keeps_its_last_good_version_and_stops_no_other() {
    let operator = Operator::new().await;
    eve(&operator).await;
    let id = operator.rule(rule(0)).await;
    let limiter = limiter(&operator);
    assert_eq!(answer(&limiter).await, "blocked");

    // A newer writer: an algorithm that this code does not know, of a rule that it knows and of one that it does not.
    let publish = async |rules: Value, id: uuid::Uuid| {
        let head = operator.store.head().await.unwrap().unwrap();
        let version = Version {
            revision: head.version.revision + 1,
            ..head.version
        };
        let page = Page {
            version,
            chunks: vec![(
                limits::chunk_of(id),
                format!("{} {}\n{rules}", version.history, version.revision),
            )],
            end: Some(limits_redis::publish::End {
                revision: version.revision,
                change: head.change,
                all: true,
                fresh: false,
                forget: false,
            }),
            ..Page::default()
        };
        let stamp = operator.store.put(&page).await.unwrap();
        let all: Vec<_> = Lane::all().map(|lane| (lane, None)).collect();
        operator.store.move_lanes(stamp, &all).await.unwrap();
    };
    let newer = |mode: &str| json!({"resource": "/orders/*", "limit": 5, "time_window": 60, "algorithm": "fair_share", "on_failure": mode});
    publish(json!([[id, newer("allow")]]), id).await;
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    assert_eq!(answer(&limiter).await, "blocked");

    // Never seen before: as if Redis were out for it, beside rules that go on.
    let unknown = uuid::Uuid::new_v4();
    operator.delete_rule(id).await;
    publish(json!([[unknown, newer("deny")]]), unknown).await;
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    assert_eq!(answer(&limiter).await, "store out");
    let supposed = Supposition {
        client: Some("eve"),
        tier: None,
        address: None,
        resource: Resource::parse("GET /orders/1"),
        tokens: 1,
    };
    let (verdict, why) = limiter.explain(&supposed).await;
    assert_eq!(word(&verdict), "store out");
    let rules = why.unwrap().rules;
    assert!(rules[0].rule.is_stand_in() && rules[0].bucket.is_none());
    assert_eq!(
        (rules[0].rule.id(), rules[0].fate),
        (unknown, Fate::Applies)
    );
    publish(json!([[unknown, newer("limit")]]), unknown).await;
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    assert_eq!(answer(&limiter).await, "degraded");
    // And what is no rule at all is passed over.
    publish(json!([[unknown, {"resource": 7}]]), unknown).await;
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    operator.rule(rule(0)).await;
    assert_eq!(answer(&limiter).await, "blocked");
}

#[tokio::test]
async fn who_may_ask_is_what_the_registry_says_now() {
    let operator = Operator::new().await;
    let arn = "arn:aws:iam::123456789012:role/gateway";
    operator
        .client("gateway", json!({"principal": arn, "may_ask": "any"}))
        .await;
    let limiter = limiter(&operator);
    let principal = limits::registry::principal(arn).unwrap();
    let bob = Who::Client {
        id: "bob",
        asker: Asker::Principal(&principal),
    };
    let itself = Who::Client {
        id: "gateway",
        asker: Asker::Principal(&principal),
    };
    let stranger = Who::Client {
        id: "bob",
        asker: Asker::Principal("123456789012/user/eve"),
    };
    assert_eq!(word(&decide(&limiter, bob, 1).await), "default");
    assert_eq!(word(&decide(&limiter, stranger, 1).await), "may not ask");
    operator
        .replace_client("gateway", json!({"principal": arn}))
        .await;
    // Bob's own lane tells that the gateway's right is gone.
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    assert_eq!(word(&decide(&limiter, bob, 1).await), "may not ask");
    assert_eq!(word(&decide(&limiter, itself, 1).await), "default");
}

/// A run of refresh that begins a history claims it first, and is cut off when it has written some of it: what it has written would
/// outrank whatever the others publish.
#[tokio::test]
async fn a_history_that_was_begun_and_not_ended_hides_no_revocation() {
    let operator = Operator::new().await;
    operator.client("eve", json!({})).await;
    let key = operator.key("eve", "a-key-of-eve").await;
    let version = operator.store.head().await.unwrap().unwrap().version;
    let name = Name::Key(key_hash("a-key-of-eve"));
    let later = tokio::time::Instant::now() + Duration::from_secs(5);
    let found = operator.store.lookup(&name, later).await.unwrap();
    let Lookup::Found(client) = found else {
        panic!("{found:?}");
    };
    let begun = version.history + 1;
    let claimed = operator.store.claim(begun, version.history).await.unwrap();
    assert_eq!(claimed, begun);
    // Whoever comes at the same time builds the same, and not one of his own.
    let other = operator.store.claim(begun + 5, version.history).await;
    assert_eq!(other.unwrap(), begun);
    let newer = Version {
        history: begun,
        ..version
    };
    let entry = [(name, Some(client))];
    operator.store.put_entries(newer, &entry).await.unwrap();

    operator.delete_key("eve", key).await;
    let head = operator.store.head().await.unwrap().unwrap();
    assert_eq!((head.version.history, head.building), (begun, begun));
    let authorizer = operator.container(Function::Authorizer, &[]).await;
    let told = authorizer
        .invoke(&crate::walks::request("a-key-of-eve"))
        .await;
    assert_eq!(told.unwrap_err().error_message, "Unauthorized");
}
