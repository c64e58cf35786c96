//! Five algorithms through the front door: what each tells, several at once, and all of them or none.

use std::net::IpAddr;
use std::sync::Arc;

use limits::bucket::{BucketName, Owner};
use limits::rule::{Algorithm, Per};
use limits::{Draft, Lane, Quota, Rule};
use limits_redis::keys::Keys;
use rand::RngExt;
use redis::AsyncCommands;
use serde_json::{Value, json};
use tests::{Container, Function, Operator, stores};
use uuid::Uuid;

/// A window whose end no test sees.
const LONG: u64 = 31_622_400;

/// The check API's answer to a client that calls `resource`.
pub(crate) async fn ask(check: &Container, client: &str, resource: &str, tokens: u64) -> Value {
    let mut event: Value =
        serde_json::from_str(include_str!("../../events/check-url.json")).unwrap();
    event["rawPath"] = format!("/ratelimit/status/{client}").into();
    event["requestContext"]["http"]["path"] = event["rawPath"].clone();
    event["body"] = json!({"resource": resource, "tokens": tokens})
        .to_string()
        .into();
    let answer = check.invoke(&event).await.unwrap();
    serde_json::from_str(answer["body"].as_str().unwrap()).unwrap()
}

pub(crate) async fn check(operator: &Operator) -> Container {
    let open = [("CHECK_ANONYMOUS", "allow")];
    operator.container(Function::Check, &open).await
}

fn rule(resource: &str, algorithm: &str, limit: u64, window: u64) -> Value {
    json!({"resource": resource, "algorithm": algorithm, "limit": limit, "time_window": window})
}

/// An answer's number, at most so many seconds below what it would be on a machine without any delay.
fn about(answer: &Value, field: &str, exact: u64) -> bool {
    let told = answer[field].as_u64().unwrap();
    (exact - 30..=exact).contains(&told)
}

#[tokio::test]
async fn each_algorithm_tells_what_is_left_and_when_to_come_back() {
    let operator = Operator::new().await;
    for algorithm in Algorithm::ALL {
        let resource = format!("/{algorithm}");
        operator
            .rule(rule(&resource, algorithm.as_str(), 4, LONG))
            .await;
    }
    let check = check(&operator).await;
    for algorithm in Algorithm::ALL {
        let resource = format!("/{algorithm}");
        let passes = if *algorithm == Algorithm::LeakyBucket {
            1
        } else {
            4
        };
        for left in (0..passes).rev() {
            let answer = ask(&check, "eve", &resource, 1).await;
            assert_eq!(
                (&answer["status"], &answer["limit"]),
                (&json!("allowed"), &json!(4))
            );
            assert_eq!(answer["remaining"], left, "{algorithm}: {answer}");
            assert_eq!(answer["retry_after"], Value::Null);
        }
        let denied = ask(&check, "eve", &resource, 1).await;
        assert_eq!(
            (&denied["status"], &denied["reason"]),
            (&json!("blocked"), &json!("limit"))
        );
        let ends = denied["retry_after"].as_u64().unwrap();
        let right = match algorithm {
            Algorithm::TokenBucket => {
                about(&denied, "retry_after", LONG / 4) && about(&denied, "reset", LONG)
            }
            Algorithm::LeakyBucket => {
                about(&denied, "retry_after", LONG / 4) && about(&denied, "reset", LONG / 4)
            }
            // Where the window of UTC ends.
            Algorithm::FixedWindow => ends <= LONG && denied["reset"] == ends,
            // A quarter of what it counted must weigh nothing: into the next window, or so much of it is over.
            Algorithm::SlidingWindow => ends > LONG / 4 && denied["reset"].as_u64().unwrap() > ends,
            Algorithm::SlidingLog => {
                about(&denied, "retry_after", LONG) && about(&denied, "reset", LONG)
            }
        };
        assert!(right, "{algorithm}: {denied}");
    }
}

#[tokio::test]
async fn a_cost_that_could_never_pass_is_told_so_and_no_time() {
    let operator = Operator::new().await;
    for (algorithm, limit) in [
        ("token_bucket", 5),
        ("leaky_bucket", 5),
        ("fixed_window", 5),
        ("sliding_window", 5),
        ("sliding_log", 5),
        ("sliding_log", 5_000),
    ] {
        operator
            .rule(rule(&format!("/{algorithm}/{limit}"), algorithm, limit, 60))
            .await;
    }
    let check = check(&operator).await;
    for (path, most) in [
        ("/token_bucket/5", 5),
        ("/leaky_bucket/5", 1),
        ("/fixed_window/5", 5),
        ("/sliding_window/5", 5),
        ("/sliding_log/5", 5),
        ("/sliding_log/5000", 1_000),
    ] {
        let never = ask(&check, "eve", path, most + 1).await;
        assert_eq!(never["reason"], "cost_exceeds_capacity", "{path}: {never}");
        assert_eq!(
            (&never["status"], &never["retry_after"]),
            (&json!("blocked"), &json!(null))
        );
        let whole = ask(&check, "eve", path, most).await;
        assert_eq!(whole["status"], "allowed", "{path}: {whole}");
    }
}

#[tokio::test]
async fn of_several_rules_the_tightest_is_told_and_a_denial_is_counted_in_none() {
    let operator = Operator::new().await;
    let window = operator.rule(rule("*", "fixed_window", 6, LONG)).await;
    let mut shared = rule("/orders/**", "sliding_log", 3, 3_600);
    shared["per"] = "all".into();
    let log = operator.rule(shared).await;
    operator
        .rule(rule("GET /orders/*", "token_bucket", 5, 60))
        .await;
    let check = check(&operator).await;
    let told = |answer: &Value| (answer["rule_id"].clone(), answer["remaining"].clone());
    for left in [2, 1, 0] {
        let answer = ask(&check, "eve", "GET /orders/1", 1).await;
        // Two of three, one of three, none of three: less than what is left of five or of six.
        assert_eq!(told(&answer), (json!(log), json!(left)), "{answer}");
    }
    for _ in 0..20 {
        let denied = ask(&check, "eve", "GET /orders/1", 1).await;
        assert_eq!(told(&denied), (json!(log), json!(0)), "{denied}");
        assert!(about(&denied, "retry_after", 3_600), "{denied}");
    }
    // Nothing of the twenty was counted: the window has three left, of which the next call takes one.
    let elsewhere = ask(&check, "eve", "GET /invoices", 1).await;
    assert_eq!(told(&elsewhere), (json!(window), json!(2)));
    // Where two deny, the longer wait is told.
    operator.rule(rule("/both", "token_bucket", 1, 60)).await;
    let longer = operator.rule(rule("/both", "sliding_log", 1, 3_600)).await;
    ask(&check, "bob", "/both", 1).await;
    let denied = ask(&check, "bob", "/both", 1).await;
    assert_eq!(told(&denied), (json!(longer), json!(0)), "{denied}");
    assert!(about(&denied, "retry_after", 3_600), "{denied}");
}

#[tokio::test]
async fn shadow_rules_of_every_algorithm_watch_each_for_itself_and_change_nothing() {
    let operator = Operator::new().await;
    operator.client("eve", json!({})).await;
    operator.key("eve", "eves").await;
    let active = operator.rule(rule("*", "fixed_window", 5, LONG)).await;
    let mut shadows = Vec::new();
    for algorithm in Algorithm::ALL {
        let mut shadow = rule("*", algorithm.as_str(), 2, LONG - 1);
        shadow["status"] = "shadow".into();
        shadows.push(operator.rule(shadow).await.to_string());
    }
    let mut block = rule("/orders/**", "token_bucket", 0, 60);
    block["status"] = "shadow".into();
    let block = operator.rule(block).await.to_string();
    let authorizer = operator.container(Function::Authorizer, &[]).await;
    let mut would_deny = Vec::new();
    for call in 0..8 {
        let answer = authorizer
            .invoke(&call_of("eves", "192.0.2.1"))
            .await
            .unwrap();
        let context = &answer["context"];
        assert_eq!(
            context["decision"],
            if call < 5 { "allowed" } else { "throttled" }
        );
        assert_eq!(context["ruleId"], active.to_string());
        let mut ids: Vec<String> = context["wouldDeny"]
            .as_str()
            .unwrap()
            .split([',', ' '])
            .filter(|id| !id.is_empty())
            .map(str::to_owned)
            .collect();
        ids.retain(|id| *id != block);
        would_deny.push(ids.len());
        assert!(ids.iter().all(|id| shadows.contains(id)));
    }
    // The leaky one has room for one, the others for two; what the active rule denies is counted in none of them.
    assert_eq!(would_deny, [0, 1, 5, 5, 5, 5, 5, 5]);
}

/// A call with a key from an address, as a REST API asks about it.
fn call_of(key: &str, address: &str) -> Value {
    let mut event: Value =
        serde_json::from_str(include_str!("../../events/authorizer-rest.json")).unwrap();
    event["headers"]["x-api-key"] = key.into();
    event["multiValueHeaders"]["x-api-key"] = json!([key]);
    event["requestContext"]["identity"]["sourceIp"] = address.into();
    event
}

#[tokio::test]
async fn eight_containers_count_every_call_in_three_algorithms_or_in_none() {
    const CLIENTS: [&str; 2] = ["eve", "bob"];
    const ADDRESSES: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
    let operator = Operator::new().await;
    for client in CLIENTS {
        operator.client(client, json!({})).await;
        operator.key(client, client).await;
    }
    let shared = |algorithm, limit, per: &str| {
        let mut body = rule("*", algorithm, limit, LONG);
        body["per"] = per.into();
        body
    };
    let own = operator.rule(shared("fixed_window", 500, "client")).await;
    let near = operator.rule(shared("sliding_window", 450, "ip")).await;
    let all = operator.rule(shared("sliding_log", 700, "all")).await;
    for algorithm in ["token_bucket", "leaky_bucket", "sliding_log"] {
        let mut shadow = shared(algorithm, 20, "all");
        shadow["time_window"] = 86_400.into();
        shadow["status"] = "shadow".into();
        operator.rule(shadow).await;
    }
    let mut authorizers = Vec::new();
    for _ in 0..8 {
        let authorizer = operator.container(Function::Authorizer, &[]).await;
        authorizer.ready().await.unwrap();
        authorizers.push(Arc::new(authorizer));
    }
    let hammering: Vec<_> = authorizers
        .iter()
        .map(|authorizer| {
            let authorizer = Arc::clone(authorizer);
            tokio::spawn(async move {
                let (mut passed, mut denied) = ([[0_u64; 2]; 2], 0_u64);
                // Past the moment when what there is has been taken.
                while denied < 100 {
                    let client = usize::from(rand::rng().random_range(0..10) < 3);
                    let address = usize::from(rand::rng().random_range(0..10) < 4);
                    let event = call_of(CLIENTS[client], ADDRESSES[address]);
                    let answer = authorizer.invoke(&event).await.unwrap();
                    assert_eq!(answer["context"]["degraded"], "");
                    match answer["context"]["decision"].as_str() {
                        Some("allowed") => {
                            passed[client][address] += 1;
                            assert!(passed[client][address] <= 700, "never stopped");
                        }
                        _ => denied += 1,
                    }
                }
                passed
            })
        })
        .collect();
    let mut passed = [[0; 2]; 2];
    for container in hammering {
        let own = container.await.unwrap();
        for (sum, own) in passed.iter_mut().flatten().zip(own.iter().flatten()) {
            *sum += own;
        }
    }
    let client = redis::Client::open(stores::redis().url()).unwrap();
    let mut redis = client.get_multiplexed_async_connection().await.unwrap();
    let keys = Keys::new(operator.prefix()).unwrap();
    let key = |rule: Uuid, owner: Owner<'_>, algorithm, limit| {
        let quota = Quota::new(algorithm, limit, None, LONG).unwrap();
        let per = match owner {
            Owner::All => Per::All,
            Owner::Address(_) => Per::Ip,
            _ => Per::Client,
        };
        let draft = Draft {
            per,
            ..Draft::new("*", Some(limit), LONG)
        };
        let rule = Rule::new(rule, draft).unwrap();
        keys.bucket(owner.lane(), &BucketName::new(Some(&rule), &owner, &quota))
    };
    let last = |state: Vec<u8>| {
        let number = state.last_chunk().map(|bytes| f64::from_le_bytes(*bytes));
        number.map_or(0, |number| number as u64)
    };
    for (i, id) in CLIENTS.into_iter().enumerate() {
        let owner = Owner::Client { id, generation: 0 };
        let state = redis
            .get(key(own, owner, Algorithm::FixedWindow, 500))
            .await;
        assert_eq!(last(state.unwrap()), passed[i].iter().sum::<u64>(), "{id}");
    }
    for (i, address) in ADDRESSES.into_iter().enumerate() {
        let owner = Owner::Address(address.parse::<IpAddr>().unwrap());
        let state = redis
            .get(key(near, owner, Algorithm::SlidingWindow, 450))
            .await;
        assert_eq!(
            last(state.unwrap()),
            passed[0][i] + passed[1][i],
            "{address}"
        );
    }
    let total: u64 = passed.iter().flatten().sum();
    let entries: u64 = redis
        .llen(key(all, Owner::All, Algorithm::SlidingLog, 700))
        .await
        .unwrap();
    assert_eq!(entries, total);
    assert_eq!(Owner::All.lane(), Lane::SHARED);
    assert!(total <= 700, "{passed:?}");
}
