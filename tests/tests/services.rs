//! Limits between services: who says them, who asks about them, and what is answered.

use std::time::{Duration, Instant};

use limits::bucket::{Bucket, BucketName, Owner};
use limits::counters::Operation;
use limits::rule::Algorithm;
use limits::{Lane, Quota};
use limits_postgres::reset::Whose;
use limits_redis::{Call, Reply};
use local::servers::{End, Redis};
use serde_json::{Map, Value, json};
use tests::{Container, Function, Operator, Region};

use crate::check::{Answer, ORDERS, event, open, send, wrong_fields};
use crate::control::Control;
use crate::walks::Monitor;

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

/// A region with its control API, its check API, and the service `orders` that comes as a principal.
struct World {
    region: Region,
    rules: Container,
    clients: Container,
    check: Container,
}

impl World {
    async fn new() -> Self {
        let region = Region::new().await;
        let world = Self {
            rules: region.container(Function::Rules).await,
            clients: region.container(Function::Clients).await,
            check: region.container(Function::Check).await,
            region,
        };
        let event = include_str!("../../events/refresh-schedule.json");
        let event: Value = serde_json::from_str(event).unwrap();
        world.region.refresh.invoke(&event).await.unwrap();
        world
    }

    /// One call of the control API; what it announces has been delivered when this returns.
    async fn call(
        &self,
        method: &str,
        path: &str,
        query: &[(&str, &str)],
        body: Value,
    ) -> (u64, Value) {
        let mut event: Value =
            serde_json::from_str(include_str!("../../events/rules-rest.json")).unwrap();
        event["httpMethod"] = method.into();
        event["requestContext"]["httpMethod"] = method.into();
        event["path"] = path.into();
        event["requestContext"]["path"] = format!("/prod{path}").into();
        event["pathParameters"]["proxy"] = path[1..].into();
        event["body"] = match body {
            Value::Null => Value::Null,
            body => body.to_string().into(),
        };
        let pairs = query.iter().map(|(name, value)| {
            let values = json!([value]);
            ((*name).to_owned(), values)
        });
        event["multiValueQueryStringParameters"] = pairs.collect::<Map<_, _>>().into();
        let function = match path.starts_with("/clients") {
            true => &self.clients,
            false => &self.rules,
        };
        let answer = function.invoke(&event).await.unwrap();
        assert!(self.region.topic.settled(PATIENCE).await);
        let body = answer["body"].as_str().unwrap_or("null");
        (
            answer["statusCode"].as_u64().unwrap(),
            serde_json::from_str(body).unwrap_or_default(),
        )
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

fn limit(tps: u64) -> Value {
    json!({"SourceService": "b", "DestinationService": "a", "Tps": tps})
}

const SET: &str = "/setThrottleRule";
const GET: &str = "/getThrottleRule?SourceService=b&DestinationService=a";

async fn with_services(control: &Control) {
    for id in ["a", "b"] {
        let made = control.post("/clients", json!({"client_id": id})).await;
        assert_eq!(made.status, 201, "{}: {}", control.store, made.body);
    }
}

#[tokio::test]
async fn setting_a_limit_makes_or_changes_the_one_rule_of_its_place() {
    for control in Control::both().await {
        with_services(&control).await;
        let made = control.put(SET, limit(10)).await;
        let mut answered = limit(10);
        answered["Status"] = "Active".into();
        answered["revision"] = made.revision().into();
        answered["propagation"] = "announced".into();
        assert_eq!(
            (made.status, &made.body),
            (200, &answered),
            "{}",
            control.store
        );
        assert_eq!(made.header("weir-propagation"), "announced");
        assert_eq!(
            control.announced.lock().unwrap().last(),
            Some(&made.revision())
        );
        let put = control.put(SET, made.body.clone()).await;
        assert_eq!(
            put.status, 200,
            "what was answered can be put back: {}",
            put.body
        );

        let rules = control.get("/ratelimit/rules?client=b").await.body["rules"].clone();
        assert_eq!(rules.as_array().unwrap().len(), 1);
        let id = rules[0]["id"].as_str().unwrap();
        for (field, value) in [
            ("resource", json!("a")),
            ("client", json!("b")),
            ("tier", json!(null)),
            ("per", json!("client")),
            ("algorithm", json!("token_bucket")),
            ("time_window", json!(1)),
            ("limit", json!(10)),
            ("burst", json!(null)),
            ("status", json!("active")),
        ] {
            assert_eq!(rules[0][field], value, "{field}");
        }
        let audit = control
            .get(&format!("/ratelimit/audit?rule={id}"))
            .await
            .body;
        let actions: Vec<_> = audit["audit"].as_array().unwrap().iter().collect();
        assert_eq!(actions.len(), 2, "{audit}");

        // What this form does not speak of stays; more at once than a second's is spoken of.
        let mut rule = rules[0].clone();
        rule["on_failure"] = "deny".into();
        rule["description"] = "d".into();
        rule["burst"] = 500.into();
        rule["status"] = "shadow".into();
        let path = format!("/ratelimit/rules/{id}");
        assert_eq!(control.put(&path, rule).await.status, 200);
        let told = json!({"Tps": 10, "Status": "Terminated", "default": false});
        assert_eq!(
            control.get(GET).await.body,
            told,
            "a shadow is not enforced"
        );
        control.put(SET, limit(20)).await;
        let kept = control.get(&path).await.body;
        assert_eq!(
            (&kept["limit"], &kept["status"]),
            (&json!(20), &json!("active"))
        );
        assert_eq!(
            (&kept["burst"], &kept["description"]),
            (&Value::Null, &json!("d"))
        );
        assert_eq!(kept["on_failure"], "deny");

        // Rules of the pair that count otherwise are not this one.
        let day = json!({"resource": "a", "client": "b", "limit": 5, "time_window": 86_400});
        let day = control.rule(day).await;
        let shared = json!({"resource": "a", "per": "all", "limit": 6, "time_window": 1});
        control.rule(shared).await;
        control.delete(&path).await;
        let told = json!({"Tps": 1000, "Status": "Active", "default": true});
        assert_eq!(control.get(GET).await.body, told);
        let mut terminated = limit(30);
        terminated["Status"] = "Terminated".into();
        terminated["default"] = true.into();
        assert_eq!(control.put(SET, terminated).await.status, 200);
        let told = json!({"Tps": 30, "Status": "Terminated", "default": false});
        assert_eq!(control.get(GET).await.body, told);
        assert_eq!(
            control.get(&format!("/ratelimit/rules/{day}")).await.body["limit"],
            5
        );
        let exempt = json!({"resource": "b", "client": "a", "limit": null, "time_window": 1});
        control.rule(exempt).await;
        let other = "/getThrottleRule?SourceService=a&DestinationService=b";
        let told = json!({"Tps": null, "Status": "Active", "default": false});
        assert_eq!(control.get(other).await.body, told);
    }
}

#[tokio::test]
async fn a_limit_that_changed_meanwhile_is_not_overwritten_by_who_has_not_seen_it() {
    for control in Control::both().await {
        with_services(&control).await;
        control.put_if(SET, limit(1), "*").await.is_problem(412);
        control.put_if(SET, limit(1), "\"1\"").await.is_problem(412);
        control.put(SET, limit(1)).await;
        let seen = control.get(GET).await;
        let tag = seen.header("etag").to_owned();
        let put = control.put_if(SET, limit(2), &tag).await;
        assert_eq!((put.status, put.header("etag") == tag), (200, false));
        control.put_if(SET, limit(3), &tag).await.is_problem(412);
        assert_eq!(control.get(GET).await.body["Tps"], 2);
        let unknown = json!({"SourceService": "b", "DestinationService": "c", "Tps": 1});
        control.put_if(SET, unknown, "\"1\"").await.is_problem(404);
    }
}

#[tokio::test]
async fn a_limit_that_is_wrong_is_told_all_that_is_and_changes_nothing() {
    for control in Control::both().await {
        with_services(&control).await;
        let before = control.get("/ratelimit/revision").await.body;
        let all = ["SourceService", "DestinationService", "Tps"];
        for tps in [
            json!(10_001),
            json!(-1),
            json!(1.5),
            json!("5"),
            json!(null),
            json!([]),
        ] {
            let mut body = limit(1);
            body["Tps"] = tps;
            let refused = control.put(SET, body).await;
            assert_eq!(refused.is_problem(400).fields(), ["Tps"]);
        }
        for status in [json!("active"), json!("Shadow"), json!(""), json!(1)] {
            let mut body = limit(1);
            body["Status"] = status;
            let refused = control.put(SET, body).await;
            assert_eq!(refused.is_problem(400).fields(), ["Status"]);
        }
        let refused = control.put(SET, json!({})).await;
        assert_eq!(refused.is_problem(400).fields(), all);
        let wrong = json!({
            "SourceService": "", "DestinationService": "*", "Tps": -1, "Status": "On", "limit": 1, "capacity": 1,
        });
        let refused = control.put(SET, wrong).await;
        let mut fields = refused.is_problem(400).fields();
        fields.sort_unstable();
        assert_eq!(
            fields,
            [
                "DestinationService",
                "SourceService",
                "Status",
                "Tps",
                "capacity",
                "limit"
            ]
        );
        for query in [
            "",
            "?SourceService=b",
            "?DestinationService=a&SourceService=",
            "?SourceService=b&DestinationService=a&Tps=1",
        ] {
            let path = format!("/getThrottleRule{query}");
            let many = if query.is_empty() { 2 } else { 1 };
            assert_eq!(
                control.get(&path).await.is_problem(400).fields().len(),
                many,
                "{query}"
            );
        }
        let path = format!("{SET}?Tps=1");
        control.put(&path, limit(1)).await.is_problem(400);
        for (method, path) in [("POST", SET), ("GET", SET), ("PUT", GET)] {
            let answer = match method {
                "POST" => control.post(path, limit(1)).await,
                "PUT" => control.put(path, limit(1)).await,
                _ => control.get(path).await,
            };
            answer.is_problem(405);
        }
        let unknown = control
            .get("/getThrottleRule?SourceService=x&DestinationService=y")
            .await;
        let body = &unknown.is_problem(404).body;
        assert_eq!(
            (&body["error"], &body["name"]),
            (&json!("ServiceNameNotFound"), &json!("x"))
        );
        assert_eq!(control.get("/ratelimit/revision").await.body, before);
        assert_eq!(control.put(SET, limit(10_000)).await.status, 200);
        // What is wrong with the rule is told in the words of this form.
        let crowd = (2..34).map(
            |window| json!({"resource": "b", "client": "a", "limit": 1, "time_window": window}),
        );
        let crowd = json!({"upsert": crowd.collect::<Vec<_>>()});
        let made = control.post("/ratelimit/rules:batch", crowd).await;
        assert_eq!(made.status, 200, "{}", made.body);
        let one_more = json!({"SourceService": "a", "DestinationService": "b", "Tps": 1});
        let refused = control.put(SET, one_more).await;
        assert_eq!(refused.is_problem(400).fields(), ["DestinationService"]);
    }
}

#[tokio::test]
async fn no_limit_is_left_of_a_service_that_was_deleted_at_the_same_time() {
    for control in Control::both().await {
        with_services(&control).await;
        let mut outcomes = [0, 0];
        for round in 0..20 {
            let (set, gone) = if round % 2 == 0 {
                tokio::join!(control.put(SET, limit(1)), control.delete("/clients/b"))
            } else {
                let (gone, set) =
                    tokio::join!(control.delete("/clients/b"), control.put(SET, limit(1)));
                (set, gone)
            };
            match (set.status, gone.status) {
                (200, 409) => outcomes[0] += 1,
                (404, 204) => outcomes[1] += 1,
                both => panic!("{}: {both:?}", control.store),
            }
            if gone.status == 204 {
                control.post("/clients", json!({"client_id": "b"})).await;
            } else {
                let rules = control.get("/ratelimit/rules?client=b").await.body;
                let id = rules["rules"][0]["id"].as_str().unwrap().to_owned();
                control.delete(&format!("/ratelimit/rules/{id}")).await;
            }
        }
        assert_eq!(outcomes[0] + outcomes[1], 20);
    }
}
