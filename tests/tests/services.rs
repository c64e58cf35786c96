//! Limits between services: who asks about them, and what is answered.

use std::time::{Duration, Instant};

use limits::bucket::{Bucket, BucketName, Owner};
use limits::counters::Operation;
use limits::rule::Algorithm;
use limits::{Lane, Quota};
use limits_postgres::reset::Whose;
use limits_redis::{Call, Reply};
use local::servers::{End, Redis};
use serde_json::{Value, json};
use tests::{Container, Function, Operator, Region};

use crate::check::{Answer, ORDERS, event, open, send, wrong_fields};
use crate::walks::{self, Monitor};

/// Longer than anything here should take on a slow and busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
const GATEWAY: &str = "arn:aws:iam::123456789012:role/gateway";

fn throttle(body: &Value, asker: Option<&str>) -> Value {
    let mut event = event("POST", "/throttleRequest", "", asker);
    event["body"] = body.to_string().into();
    event
}

/// What is answered to the question whether `source` may call `destination`.
async fn ask(
    check: &Container,
    source: &str,
    destination: Option<&str>,
    asker: Option<&str>,
) -> Answer {
    let mut body = json!({ "SourceService": source });
    if let Some(destination) = destination {
        body["DestinationService"] = destination.into();
    }
    send(check, &throttle(&body, asker)).await
}

/// An answer that lets pass, and what its `X-RateLimit-Limit` is.
fn passed(answer: &Answer) -> &str {
    assert_eq!((answer.status, &answer.body), (200, &json!({})));
    assert_eq!(answer.headers["content-type"], "application/json");
    assert_eq!(answer.headers["retry-after"], Value::Null);
    answer.headers["x-ratelimit-limit"]
        .as_str()
        .unwrap_or_default()
}

/// An answer that stops, as it must be.
fn throttled(answer: &Answer) -> &Value {
    assert_eq!(answer.status, 429, "{}", answer.body);
    assert_eq!(answer.headers["content-type"], "application/json");
    assert_eq!(answer.body["error"], "ExceedTpsLimit");
    assert_eq!(answer.body["status"], "blocked");
    assert_eq!(answer.body.as_object().unwrap().len(), 9);
    &answer.body
}

/// An answer that names a service as not known.
fn unknown(answer: &Answer) -> &str {
    assert_eq!(answer.status, 403, "{}", answer.body);
    assert_eq!(answer.headers["content-type"], "application/problem+json");
    assert_eq!(answer.body["error"], "ServiceNameNotFound");
    answer.body["name"].as_str().unwrap()
}

/// An answer to one who may not ask, which tells of nobody.
fn forbidden(answer: &Answer) {
    assert_eq!(answer.status, 403, "{}", answer.body);
    assert_eq!(answer.headers["content-type"], "application/problem+json");
    assert_eq!(answer.body.get("error"), None);
    assert_eq!(answer.body.get("name"), None);
}

/// Asks until what is answered is as it should be: what was refused without asking may be a second old.
async fn ask_until(
    check: &Container,
    source: &str,
    asker: Option<&str>,
    wanted: impl Fn(&Answer) -> bool,
) {
    let end = Instant::now() + PATIENCE;
    loop {
        let answer = ask(check, source, None, asker).await;
        if wanted(&answer) {
            return;
        }
        // One that passes is by what holds now, and never by what held before.
        assert_ne!(answer.status, 200, "{}", answer.headers);
        assert!(Instant::now() < end, "{} {}", answer.status, answer.body);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A region with its control API, and its check API beside it.
struct World {
    control: walks::World,
    check: Container,
}

impl World {
    async fn new() -> Self {
        let region = Region::new().await;
        let check = region.container(Function::Check).await;
        let control = walks::World::of(region).await;
        Self { control, check }
    }

    /// One call of the control API; what it announces has been delivered when this returns.
    async fn call(
        &self,
        method: &str,
        path: &str,
        query: &[(&str, &str)],
        body: Value,
    ) -> (u64, Value) {
        let answer = self.control.call_with(method, path, query, body).await;
        (answer.status, answer.body)
    }

    async fn register(&self, id: &str, fields: Value) {
        let mut body = fields;
        body["client_id"] = id.into();
        let (status, body) = self.call("POST", "/clients", &[], body).await;
        assert_eq!(status, 201, "{body}");
    }

    /// Sets the limit of a pair, which must work and be announced.
    async fn set(&self, source: &str, destination: &str, more: Value) {
        let mut body = more;
        body["SourceService"] = source.into();
        body["DestinationService"] = destination.into();
        let (status, answer) = self.call("PUT", "/setThrottleRule", &[], body).await;
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["propagation"], "announced");
    }

    async fn get(&self, source: &str, destination: &str) -> (u64, Value) {
        let query = [
            ("SourceService", source),
            ("DestinationService", destination),
        ];
        self.call("GET", "/getThrottleRule", &query, Value::Null)
            .await
    }

    /// Asks as `orders` about `billing` until it is stopped; how many passed, and the denial.
    async fn until_throttled(&self) -> (u64, Answer) {
        let mut passed = 0;
        loop {
            let answer = ask(&self.check, "billing", None, Some(ORDERS)).await;
            if answer.status == 429 {
                return (passed, answer);
            }
            assert_eq!(answer.status, 200, "{}", answer.body);
            passed += 1;
            assert!(passed < 10_000, "never stopped");
        }
    }
}

#[tokio::test]
async fn a_limit_is_set_told_and_obeyed_from_the_next_call_on() {
    let world = World::new().await;
    let limit = json!({"SourceService": "billing", "DestinationService": "orders", "Tps": 3});
    for (missing, then) in [("billing", "billing"), ("orders", "orders")] {
        let (status, body) = world
            .call("PUT", "/setThrottleRule", &[], limit.clone())
            .await;
        let told = (&body["error"], &body["name"]);
        assert_eq!(
            (status, told),
            (404, (&json!("ServiceNameNotFound"), &json!(missing)))
        );
        assert_eq!(world.get("billing", "orders").await, (404, body));
        world
            .register(
                then,
                json!({"principal": (then == "orders").then_some(ORDERS)}),
            )
            .await;
    }
    let told = json!({"Tps": 1000, "Status": "Active", "default": true});
    assert_eq!(world.get("billing", "orders").await, (200, told));
    let answer = ask(&world.check, "billing", None, Some(ORDERS)).await;
    assert_eq!(passed(&answer), "1000");
    assert_eq!(answer.headers["ratelimit-policy"], "\"default\";q=1000;w=1");

    world.set("billing", "orders", json!({"Tps": 3})).await;
    let told = json!({"Tps": 3, "Status": "Active", "default": false});
    assert_eq!(world.get("billing", "orders").await, (200, told));
    let began = Instant::now();
    let (passed_through, denied) = world.until_throttled().await;
    // Exactly three, and what came back of them since.
    let back = (3.0 * began.elapsed().as_secs_f64()) as u64;
    assert!(
        (3..=3 + back).contains(&passed_through),
        "{passed_through} passed, {back} came back"
    );
    let body = throttled(&denied);
    assert_eq!(
        (&body["limit"], &body["reason"]),
        (&json!(3), &json!("limit"))
    );
    assert_eq!(
        (&body["remaining"], &body["retry_after"]),
        (&json!(0), &json!(1))
    );
    assert_eq!(denied.headers["retry-after"], "1");
    assert_eq!(denied.headers["x-ratelimit-remaining"], "0");
    let id = body["rule_id"].as_str().unwrap();
    let policy = format!("\"{}\";q=3;w=1", &id[id.len() - 8..]);
    assert_eq!(denied.headers["ratelimit-policy"], policy);

    // In effect at the next call that is counted; what is denied without asking is so for a second at most.
    world.set("billing", "orders", json!({"Tps": 10_000})).await;
    ask_until(&world.check, "billing", Some(ORDERS), |answer| {
        answer.status != 429 && passed(answer) == "10000"
    })
    .await;
    let (_, rule) = world
        .call("GET", &format!("/ratelimit/rules/{id}"), &[], Value::Null)
        .await;
    assert_eq!(
        (&rule["client"], &rule["resource"]),
        (&json!("billing"), &json!("orders"))
    );

    world
        .set(
            "billing",
            "orders",
            json!({"Tps": 2, "Status": "Terminated"}),
        )
        .await;
    let answer = ask(&world.check, "billing", None, Some(ORDERS)).await;
    assert_eq!(passed(&answer), "1000");
    let told = json!({"Tps": 2, "Status": "Terminated", "default": false});
    assert_eq!(world.get("billing", "orders").await, (200, told));
    world
        .set("billing", "orders", json!({"Tps": 0, "Status": "Active"}))
        .await;
    let answer = ask(&world.check, "billing", None, Some(ORDERS)).await;
    let body = throttled(&answer);
    assert_eq!(
        (&body["reason"], &body["retry_after"]),
        (&json!("blocked"), &Value::Null)
    );
    assert_eq!(answer.headers["retry-after"], Value::Null);
}

#[tokio::test]
async fn a_service_that_is_gone_is_named_and_known_again_once_it_is_back() {
    let world = World::new().await;
    world.register("orders", json!({"principal": ORDERS})).await;
    world.register("billing", json!({})).await;
    world.set("billing", "orders", json!({"Tps": 9})).await;
    let answer = ask(&world.check, "billing", None, Some(ORDERS)).await;
    assert_eq!(passed(&answer), "9");
    for gone in ["billing", "orders"] {
        let path = format!("/clients/{gone}");
        let (_, mut client) = world.call("GET", &path, &[], Value::Null).await;
        client["status"] = "terminated".into();
        let (status, _) = world.call("PUT", &path, &[], client.clone()).await;
        assert_eq!(status, 200);
        let answer = ask(&world.check, "billing", None, Some(ORDERS)).await;
        match gone {
            "billing" => assert_eq!(unknown(&answer), gone),
            // It is the asker, too.
            _ => forbidden(&answer),
        }
        // Terminated is registered all the same.
        let told = json!({"Tps": 9, "Status": "Active", "default": false});
        assert_eq!(world.get("billing", "orders").await, (200, told));
        client["status"] = "active".into();
        world.call("PUT", &path, &[], client).await;
        let wanted = |answer: &Answer| answer.headers["x-ratelimit-limit"] == "9";
        ask_until(&world.check, "billing", Some(ORDERS), wanted).await;
    }
    let (status, _) = world
        .call(
            "DELETE",
            "/clients/billing",
            &[("cascade", "true")],
            Value::Null,
        )
        .await;
    assert_eq!(status, 204);
    let answer = ask(&world.check, "billing", None, Some(ORDERS)).await;
    assert_eq!(unknown(&answer), "billing");
    assert_eq!(world.get("billing", "orders").await.0, 404);
    world.register("billing", json!({})).await;
    let wanted = |answer: &Answer| answer.headers["x-ratelimit-limit"] == "1000";
    ask_until(&world.check, "billing", Some(ORDERS), wanted).await;
}

#[tokio::test]
async fn a_name_is_a_name_whatever_it_looks_like() {
    let world = World::new().await;
    world
        .register("orders", json!({"principal": ORDERS, "may_ask": "any"}))
        .await;
    let everything = json!({"resource": "GET /**", "limit": 0, "time_window": 1});
    world
        .call("POST", "/ratelimit/rules", &[], everything)
        .await;
    for name in [
        "ü", "100%", "%2F", "..", "a;b=c", "\"x\"", "a:b,c", "GET", "+&=#",
    ] {
        world.register(name, json!({})).await;
        world.set("orders", name, json!({"Tps": 7})).await;
        world.set(name, "orders", json!({"Tps": 8})).await;
        assert_eq!(world.get("orders", name).await.1["Tps"], 7, "{name}");
        let answer = ask(&world.check, "orders", Some(name), Some(ORDERS)).await;
        assert_eq!(passed(&answer), "7", "{name}");
        let answer = ask(&world.check, name, None, Some(ORDERS)).await;
        assert_eq!(passed(&answer), "8", "{name}");
    }
    // These can call and be called, and no rule can be written of their being called but one for everything.
    for name in ["{id}", "a/b", "/a", "a b", "GET /a", "*", "GET *", "a?"] {
        world.register(name, json!({})).await;
        let body = json!({"SourceService": "orders", "DestinationService": name, "Tps": 1});
        let (status, refused) = world.call("PUT", "/setThrottleRule", &[], body).await;
        assert_eq!(status, 400, "{name}");
        assert_eq!(refused["errors"].as_array().unwrap().len(), 1);
        assert_eq!(refused["errors"][0]["field"], "DestinationService");
        assert_eq!(world.get("orders", name).await.1["default"], true, "{name}");
        let answer = ask(&world.check, "orders", Some(name), Some(ORDERS)).await;
        assert_eq!(passed(&answer), "1000", "{name}");
        world.set(name, "orders", json!({"Tps": 8})).await;
        let answer = ask(&world.check, name, None, Some(ORDERS)).await;
        assert_eq!(passed(&answer), "8", "{name}");
    }
    let body = json!({"SourceService": "a\nb", "DestinationService": "a\u{0}", "Tps": 1});
    let (status, refused) = world.call("PUT", "/setThrottleRule", &[], body).await;
    assert_eq!(
        (status, refused["errors"].as_array().unwrap().len()),
        (400, 2)
    );
    let everything = json!({"resource": "*", "limit": 0, "time_window": 1});
    world
        .call("POST", "/ratelimit/rules", &[], everything)
        .await;
    for name in ["a/b", "GET /a", "ü"] {
        let answer = ask(&world.check, "orders", Some(name), Some(ORDERS)).await;
        assert_eq!(throttled(&answer)["reason"], "blocked", "{name}");
    }
}

#[tokio::test]
async fn who_may_ask_is_either_of_the_two_or_a_gateway_and_nobody_else_learns_who_is_registered() {
    let operator = Operator::new().await;
    let billing = "arn:aws:iam::123456789012:user/billing";
    operator
        .client("orders", json!({"principal": ORDERS}))
        .await;
    operator
        .client("billing", json!({"principal": billing}))
        .await;
    operator
        .client("gateway", json!({"principal": GATEWAY, "may_ask": "any"}))
        .await;
    operator.client("other", json!({})).await;
    let gone = json!({"principal": "arn:aws:iam::123456789012:user/gone", "status": "terminated"});
    operator.client("gone", gone).await;
    let check = operator.container(Function::Check, &[]).await;
    for (asker, source, destination) in [
        (ORDERS, "billing", Some("orders")),
        (ORDERS, "billing", None),
        (ORDERS, "orders", Some("billing")),
        (ORDERS, "orders", None),
        (billing, "billing", Some("orders")),
        (GATEWAY, "billing", Some("orders")),
        (GATEWAY, "billing", None),
    ] {
        let answer = ask(&check, source, destination, Some(asker)).await;
        assert_eq!(passed(&answer), "1000", "{asker} {source} {destination:?}");
    }
    for (asker, source, destination, missing) in [
        (ORDERS, "nobody", None, "nobody"),
        (ORDERS, "gone", None, "gone"),
        (ORDERS, "orders", Some("nobody"), "nobody"),
        (GATEWAY, "nobody", Some("none"), "nobody"),
        (GATEWAY, "billing", Some("none"), "none"),
        (GATEWAY, "billing", Some("gone"), "gone"),
    ] {
        for _ in 0..2 {
            let answer = ask(&check, source, destination, Some(asker)).await;
            assert_eq!(unknown(&answer), missing);
        }
    }
    let stranger = "arn:aws:iam::123456789012:role/stranger";
    for asker in [
        Some(stranger),
        Some("arn:aws:iam::999999999999:user/billing"),
        Some("arn:aws:iam::123456789012:root"),
        Some("arn:aws:iam::123456789012:user/gone"),
        None,
    ] {
        for (source, destination) in [
            ("billing", Some("orders")),
            ("nobody", Some("orders")),
            ("billing", Some("nobody")),
            ("billing", None),
            ("gone", Some("gone")),
        ] {
            forbidden(&ask(&check, source, destination, asker).await);
        }
    }
    for (source, destination) in [("billing", "other"), ("nobody", "none")] {
        forbidden(&ask(&check, source, Some(destination), Some(ORDERS)).await);
    }
    // A destination learns of its callers here alone.
    let mut status = event("POST", "/ratelimit/status/billing", "", Some(ORDERS));
    status["body"] = json!({"resource": "orders"}).to_string().into();
    forbidden(&send(&check, &status).await);

    let open = open(&operator).await;
    let answer = ask(&open, "billing", Some("orders"), None).await;
    assert_eq!(passed(&answer), "1000");
    assert_eq!(
        unknown(&ask(&open, "none", Some("orders"), None).await),
        "none"
    );
    let answer = ask(&open, "billing", None, None).await;
    assert_eq!(wrong_fields(&answer), ["DestinationService"]);
    forbidden(&ask(&open, "billing", Some("orders"), Some(stranger)).await);
}

#[tokio::test]
async fn a_refusal_is_lifted_for_a_container_that_remembers_why() {
    let operator = Operator::new().await;
    let check = operator.container(Function::Check, &[]).await;
    forbidden(&ask(&check, "billing", None, Some(ORDERS)).await);
    operator
        .client(
            "orders",
            json!({"principal": ORDERS, "status": "terminated"}),
        )
        .await;
    forbidden(&ask(&check, "billing", None, Some(ORDERS)).await);
    operator
        .replace_client("orders", json!({"principal": ORDERS}))
        .await;
    ask_until(&check, "billing", Some(ORDERS), |answer| {
        answer.body["name"] == "billing"
    })
    .await;
    operator.client("billing", json!({"tier": "paid"})).await;
    ask_until(&check, "billing", Some(ORDERS), |answer| {
        answer.status == 200
    })
    .await;
    operator
        .replace_client("billing", json!({"status": "terminated"}))
        .await;
    assert_eq!(
        unknown(&ask(&check, "billing", None, Some(ORDERS)).await),
        "billing"
    );
    operator.replace_client("billing", json!({})).await;
    ask_until(&check, "billing", Some(ORDERS), |answer| {
        answer.status == 200
    })
    .await;
}

/// Takes so much of the bucket of a pair without a rule that it is empty for minutes.
async fn drain(operator: &Operator, source: &str, destination: &str) {
    // Limit and burst are no part of a bucket's name.
    let quota = Quota::new(Algorithm::TokenBucket, 1_000, Some(1_000_000), 1).unwrap();
    let owner = Owner::Pair {
        source,
        generation: 0,
        destination,
    };
    let bucket = Bucket {
        lane: owner.lane(),
        name: BucketName::new(None, &owner, &quota),
        quota: &quota,
        cost: quota.cost(1_000_000).unwrap(),
        shadow: false,
    };
    let call = Call {
        operation: Operation::Take,
        epoch: (1 << 53) - 1,
        lanes: &[Lane::of(source)],
        buckets: &[bucket],
    };
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let reply = operator.store.ask(&call, deadline).await.unwrap();
    assert!(matches!(reply, Reply::Answers(answers) if answers[0].room));
}

#[tokio::test]
async fn a_pair_without_a_rule_has_a_thousand_a_second_to_itself() {
    let operator = Operator::new().await;
    for id in ["a", "b", "c", "d"] {
        operator.client(id, json!({})).await;
    }
    for (default, called) in [("5/86400s", "a"), ("unlimited", "d")] {
        let variables = [("CHECK_ANONYMOUS", "allow"), ("DEFAULT_LIMIT", default)];
        let check = operator.container(Function::Check, &variables).await;
        for (source, destination) in [
            ("b", called),
            ("b", "c"),
            (called, "b"),
            ("c", called),
            ("b", "b"),
        ] {
            let answer = ask(&check, source, Some(destination), None).await;
            assert_eq!(passed(&answer), "1000");
        }
        drain(&operator, "b", called).await;
        let denied = ask(&check, "b", Some(called), None).await;
        let body = throttled(&denied);
        assert_eq!(
            (&body["limit"], &body["rule_id"]),
            (&json!(1000), &Value::Null)
        );
        assert!(body["retry_after"].as_u64() > Some(60), "{body}");
        assert_eq!(denied.headers["ratelimit-policy"], "\"default\";q=1000;w=1");
        for (source, destination) in [("b", "c"), (called, "b"), ("c", called), ("b", "b")] {
            let answer = ask(&check, source, Some(destination), None).await;
            assert_eq!(passed(&answer), "1000");
        }
        // What the source may do elsewhere is another matter.
        let mut status = event("POST", "/ratelimit/status/b", "", None);
        status["body"] = json!({"resource": called}).to_string().into();
        assert_eq!(send(&check, &status).await.status, 200);
    }
    // They are counters of the source.
    let whose = Whose::Client("b".to_owned());
    operator.database.reset("operator", &whose).await.unwrap();
    operator.publish().await;
    // One that remembers no denial.
    let check = open(&operator).await;
    passed(&ask(&check, "b", Some("a"), None).await);
}

#[tokio::test]
async fn rules_for_everything_and_for_tiers_count_between_services_too() {
    let operator = Operator::new().await;
    operator.client("a", json!({})).await;
    operator.client("b", json!({"tier": "paid"})).await;
    operator.client("c", json!({"tier": "premium"})).await;
    let check = open(&operator).await;
    let of_tier = json!({"resource": "*", "tier": "paid", "limit": 50, "time_window": 86_400});
    operator.rule(of_tier).await;
    let shared = json!({"resource": "a", "per": "all", "limit": 10, "time_window": 86_400, "status": "shadow"});
    let shared = operator.rule(shared).await;
    assert_eq!(passed(&ask(&check, "b", Some("a"), None).await), "50");
    assert_eq!(passed(&ask(&check, "c", Some("a"), None).await), "1000");
    let active = json!({"resource": "a", "per": "all", "limit": 10, "time_window": 86_400});
    operator.replace_rule(shared, active).await;
    assert_eq!(passed(&ask(&check, "b", Some("a"), None).await), "10");
    assert_eq!(passed(&ask(&check, "c", Some("a"), None).await), "10");
    let exempt = json!({"resource": "a", "client": "b", "limit": null, "time_window": 1});
    operator.rule(exempt).await;
    assert_eq!(passed(&ask(&check, "b", Some("a"), None).await), "");
}

#[tokio::test]
async fn once_both_services_are_known_a_question_is_one_command() {
    let redis = Redis::start().unwrap();
    let operator = Operator::at(&redis.url()).await;
    operator
        .client("orders", json!({"principal": ORDERS}))
        .await;
    operator.client("billing", json!({})).await;
    let check = operator.container(Function::Check, &[]).await;
    let answer = ask(&check, "billing", Some("orders"), Some(ORDERS)).await;
    assert_eq!(passed(&answer), "1000");
    let monitor = Monitor::of(&redis).await;
    for _ in 0..5 {
        ask(&check, "billing", Some("orders"), Some(ORDERS)).await;
    }
    let commands = monitor.commands().await;
    assert_eq!(commands.len(), 5, "{commands:?}");
    assert!(
        commands
            .iter()
            .all(|command| command.contains("\"EVALSHA\""))
    );
    // Who is not registered is asked about once, and then confirmed once a second at most.
    let began = Instant::now();
    for _ in 0..5 {
        unknown(&ask(&check, "nobody", None, Some(ORDERS)).await);
    }
    let most = 2 + began.elapsed().as_secs() as usize;
    let commands = monitor.commands().await;
    assert!(commands.len() <= most, "{commands:?}");
}

#[tokio::test]
async fn while_redis_is_out_services_that_are_known_are_let_pass_unless_their_rule_denies() {
    let mut redis = Redis::start().unwrap();
    let operator = Operator::at(&redis.url()).await;
    operator
        .client("orders", json!({"principal": ORDERS}))
        .await;
    for id in ["billing", "payments", "unseen"] {
        operator.client(id, json!({})).await;
    }
    let denying = json!({"resource": "orders", "client": "payments", "limit": 9, "time_window": 1, "on_failure": "deny"});
    operator.rule(denying).await;
    let variables = [
        ("REDIS_TIMEOUT_MS", "100"),
        ("RULES_LOAD_TIMEOUT_MS", "100"),
        ("RUST_LOG", "info,limiter=debug"),
    ];
    let check = operator.container(Function::Check, &variables).await;
    for source in ["billing", "payments"] {
        let end = Instant::now() + PATIENCE;
        // A slow machine may take longer than this story allows Redis.
        while ask(&check, source, None, Some(ORDERS)).await.status != 200 {
            assert!(Instant::now() < end);
        }
    }
    let end = Instant::now() + PATIENCE;
    while ask(&check, "nobody", None, Some(ORDERS)).await.status != 403 {
        assert!(Instant::now() < end);
    }
    redis.stop(End::Kill);
    passed(&ask(&check, "billing", None, Some(ORDERS)).await);
    // Who was not registered is not let in meanwhile, and the log tells that nobody could confirm it.
    let end = Instant::now() + PATIENCE;
    while !check.logs().contains("refused by the last that was known") {
        assert!(Instant::now() < end, "{}", check.logs());
        let answer = ask(&check, "nobody", None, Some(ORDERS)).await;
        assert_eq!(unknown(&answer), "nobody");
    }
    let cold = operator.container(Function::Check, &variables).await;
    for answer in [
        ask(&check, "payments", None, Some(ORDERS)).await,
        ask(&check, "unseen", None, Some(ORDERS)).await,
        ask(&check, "billing", None, Some(GATEWAY)).await,
        ask(&cold, "billing", None, Some(ORDERS)).await,
    ] {
        assert_eq!(answer.status, 503, "{}", answer.body);
        assert_eq!(answer.headers["retry-after"], "1");
        assert_eq!(answer.headers["content-type"], "application/problem+json");
    }
}

#[tokio::test]
async fn a_question_that_is_wrong_is_told_all_that_is_and_spends_nothing() {
    let operator = Operator::new().await;
    for id in ["a", "b"] {
        operator.client(id, json!({})).await;
    }
    operator
        .rule(json!({"resource": "a", "limit": 1, "time_window": 86_400}))
        .await;
    let check = open(&operator).await;
    for (body, wrong) in [
        (json!({}), vec!["DestinationService", "SourceService"]),
        (
            json!({"SourceService": "", "DestinationService": "a\n", "Tps": 1, "tokens": 1}),
            vec!["DestinationService", "SourceService", "Tps", "tokens"],
        ),
        (
            json!({"SourceService": ["b"], "DestinationService": 7}),
            vec!["DestinationService", "SourceService"],
        ),
        (
            json!({"SourceService": "x".repeat(257), "DestinationService": "a"}),
            vec!["SourceService"],
        ),
        (
            json!({"sourceservice": "b", "DestinationService": "a"}),
            vec!["SourceService", "sourceservice"],
        ),
        (json!([]), vec![""]),
        (json!(null), vec![""]),
    ] {
        let answer = send(&check, &throttle(&body, None)).await;
        assert_eq!(wrong_fields(&answer), wrong, "{body}");
    }
    let mut text = throttle(&json!({}), None);
    text["body"] = "{".into();
    assert_eq!(wrong_fields(&send(&check, &text).await), [""]);
    let body = json!({"SourceService": "b", "DestinationService": "a"});
    let mut form = throttle(&body, None);
    form["headers"]["content-type"] = "text/plain".into();
    let mut large = throttle(&body, None);
    large["body"] = " ".repeat((1 << 20) + 1).into();
    for (event, status) in [
        (event("GET", "/throttleRequest", "", None), 405),
        (event("POST", "/throttleRequest/", "", None), 404),
        (form, 415),
        (large, 413),
    ] {
        let answer = send(&check, &event).await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.headers["content-type"], "application/problem+json");
    }
    passed(&ask(&check, "b", Some("a"), None).await);
    throttled(&ask(&check, "b", Some("a"), None).await);
}
