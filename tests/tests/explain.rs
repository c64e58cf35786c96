//! What operators are told of a call: which rules it meets, what becomes of each, and why.

use local::servers::{End, Redis};
use serde_json::{Value, json};
use tests::{Container, Function, Region, stores};

use crate::audit::http;
use crate::denials;
use crate::resets::rule;
use crate::walks::{World, request};

/// What a function that has the rules answers to a question: status, `Retry-After`, body.
async fn explain(rules: &Container, question: &str) -> (u64, Value, Value) {
    let answer = rules
        .invoke(&http("GET", "/ratelimit/explain", question))
        .await
        .unwrap();
    let body = answer["body"].as_str().unwrap();
    (
        answer["statusCode"].as_u64().unwrap(),
        tests::answer::headers(&answer)["retry-after"].clone(),
        serde_json::from_str(body).unwrap(),
    )
}

async fn told(rules: &Container, question: &str) -> Value {
    let (status, _, body) = explain(rules, question).await;
    assert_eq!(status, 200, "{body}");
    body
}

/// What was told of one rule.
fn of<'a>(told: &'a Value, id: &str) -> &'a Value {
    let rules = told["rules"].as_array().unwrap();
    let found = rules.iter().find(|rule| rule["id"] == id);
    found.unwrap_or_else(|| panic!("{id} is not in {told}"))
}

#[tokio::test]
async fn the_fate_of_every_rule_that_a_call_meets_is_told() {
    let world = World::new().await;
    world.client("eve", "free").await;
    let made = async |rule: Value| {
        let made = world.say("POST", "/ratelimit/rules", rule).await;
        made["id"].as_str().unwrap().to_owned()
    };
    let rule = |resource: &str, more: Value| {
        let mut rule = json!({"resource": resource, "limit": 5, "time_window": 86_400});
        rule.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        rule
    };
    let eve = made(rule("/a/*", json!({"client": "eve"}))).await;
    let bob = made(rule("/a/*", json!({"client": "bob"}))).await;
    let free = made(rule("/a/*", json!({"tier": "free"}))).await;
    let paid = made(rule("/a/*", json!({"tier": "paid"}))).await;
    let anyone = made(rule("/a/*", json!({}))).await;
    let daily = made(rule("/a/*", json!({"client": "eve", "time_window": 3600}))).await;
    let ip = made(rule("/a/*", json!({"per": "ip"}))).await;
    let over = made(rule("GET /a/b", json!({"per": "all", "override": true}))).await;
    let all = made(rule("/a/**", json!({"per": "all"}))).await;
    let broad = made(rule("*", json!({}))).await;
    let shadow = made(rule(
        "*",
        json!({"status": "shadow", "limit": 1, "tier": "free"}),
    ))
    .await;
    let dark = made(rule(
        "*",
        json!({"status": "shadow", "limit": 1, "time_window": 60}),
    ))
    .await;
    let gone = made(rule("/a/b", json!({"status": "terminated"}))).await;
    made(rule("/b/*", json!({}))).await;

    let answer = told(&world.rules, "client=eve&resource=GET%20/a/b&tokens=2").await;
    assert_eq!(
        (&answer["client"], &answer["registered"], &answer["tier"]),
        (&json!("eve"), &json!(true), &json!("free"))
    );
    assert_eq!(
        (&answer["tokens"], &answer["resource"], &answer["ip"]),
        (&json!(2), &json!("GET /a/b"), &Value::Null)
    );
    assert_eq!(
        (&answer["left_out"], &answer["default"]),
        (&json!(0), &Value::Null)
    );
    let fates = [
        (&eve, "applies", None),
        (&daily, "applies", None),
        (&over, "applies", None),
        (&broad, "applies", None),
        (&shadow, "applies", None),
        (&bob, "other_client", None),
        (&paid, "other_tier", None),
        (&free, "closer_level", Some(&eve)),
        (&anyone, "closer_level", Some(&eve)),
        (&dark, "closer_level", Some(&shadow)),
        (&ip, "no_address", None),
        (&all, "set_aside", Some(&over)),
        (&gone, "terminated", None),
    ];
    for (id, fate, by) in fates {
        let rule = of(&answer, id);
        assert_eq!(
            (&rule["fate"], &rule["by"]),
            (&json!(fate), &json!(by)),
            "{rule}"
        );
        // Two are more than the shadow's bucket ever holds.
        let asked = fate == "applies" && *id != shadow;
        assert_eq!(rule["bucket"].is_object(), asked, "{rule}");
        let reason = rule["reason"].as_str().unwrap();
        assert!(
            !reason.is_empty() && by.is_none_or(|by| reason.contains(by.as_str())),
            "{rule}"
        );
    }
    let order: Vec<&str> = answer["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| rule["resource"].as_str().unwrap())
        .collect();
    assert_eq!(order.len(), fates.len());
    assert_eq!(
        (order[0], order[1], order[order.len() - 1]),
        ("GET /a/b", "/a/b", "*")
    );
    assert_eq!(
        of(&answer, &eve)["bucket"],
        json!({"share": null, "limit": 5, "burst": 5, "remaining": 5, "reset": 0, "retry_after": null, "room": true})
    );
    for (id, why) in [(&shadow, "ever has room"), (&bob, "bob"), (&paid, "paid")] {
        let reason = of(&answer, id)["reason"].as_str().unwrap();
        assert!(reason.contains(why), "{reason}");
    }

    // Supposed otherwise.
    let answer = told(
        &world.rules,
        "client=eve&tier=paid&resource=/a/c&ip=192.0.2.1",
    )
    .await;
    for (id, fate) in [
        (&eve, "applies"),
        (&ip, "applies"),
        (&all, "applies"),
        (&free, "other_tier"),
        (&paid, "closer_level"),
    ] {
        assert_eq!(of(&answer, id)["fate"], fate);
    }
    assert_eq!(answer["tier"], "paid");
    let answer = told(&world.rules, "tier=paid&resource=/a/c").await;
    for (id, fate) in [
        (&paid, "applies"),
        (&eve, "other_client"),
        (&anyone, "closer_level"),
    ] {
        assert_eq!(of(&answer, id)["fate"], fate);
    }
    assert_eq!(
        (&answer["client"], &answer["registered"]),
        (&Value::Null, &json!(false))
    );
    for (question, registered) in [
        ("client=ann&resource=/a/c", false),
        ("ip=192.0.2.1&resource=/a/c", false),
        ("resource=/a/c", false),
    ] {
        let answer = told(&world.rules, question).await;
        assert_eq!(
            (&of(&answer, &anyone)["fate"], &answer["registered"]),
            (&json!("applies"), &json!(registered))
        );
        assert_eq!(of(&answer, &anyone)["bucket"]["remaining"], 5);
    }
}

#[tokio::test]
async fn what_is_explained_is_what_is_decided_and_nothing_is_spent() {
    let world = World::new().await;
    let key = world.client("eve", "free").await;
    let authorizer = world.region.container(Function::Authorizer).await;
    // The call of events/authorizer-rest.json.
    const QUESTION: &str = "client=eve&ip=192.0.2.10&resource=GET%20/orders/1";
    let rule = |more: Value| {
        let mut rule = json!({"resource": "GET /orders/*", "limit": 4, "time_window": 86_400});
        rule.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        rule
    };
    let mut reasons = Vec::new();
    for (step, more) in [
        None,
        Some(json!({})),
        Some(json!({"resource": "*", "limit": 2, "per": "all"})),
        Some(json!({"resource": "/orders/**", "limit": 9, "algorithm": "fixed_window"})),
        Some(json!({"resource": "*", "limit": 1, "status": "shadow"})),
        Some(json!({"resource": "/orders/**", "limit": null, "tier": "free"})),
        Some(json!({"resource": "/orders/1", "limit": 0, "client": "eve"})),
    ]
    .into_iter()
    .enumerate()
    {
        if let Some(more) = more {
            world.say("POST", "/ratelimit/rules", rule(more)).await;
            world
                .say("POST", "/ratelimit/reset", json!({"client": "eve"}))
                .await;
            denials::are_forgotten().await;
        }
        for call in 0..4 {
            let first = told(&world.rules, QUESTION).await;
            let again = told(&world.rules, QUESTION).await;
            let (first, again) = (&first["decision"], &again["decision"]);
            for field in ["status", "limit", "remaining", "rule_id", "reason"] {
                assert_eq!(first[field], again[field], "spent by being asked: {field}");
            }
            let answer = authorizer.invoke(&request(&key)).await.unwrap();
            let context = &answer["context"];
            let place = format!("rule {step}, call {call}: {first} and {context}");
            let allowed = first["status"] == "allowed";
            assert_eq!(
                answer["policyDocument"]["Statement"][0]["Effect"] == "Allow",
                allowed,
                "{place}"
            );
            let text = |value: &Value| match value {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                number => number.to_string(),
            };
            assert_eq!(context["reason"], first["reason"], "{place}");
            assert_eq!(context["limit"], text(&first["limit"]), "{place}");
            assert_eq!(
                first["retry_after"].is_null(),
                context["retryAfter"] == "",
                "{place}"
            );
            // Spending may make another rule the tightest.
            if !allowed {
                assert_eq!(context["ruleId"], text(&first["rule_id"]), "{place}");
                assert_eq!(context["remaining"], text(&first["remaining"]), "{place}");
            }
            reasons.push(text(&first["reason"]));
        }
    }
    for reason in ["default", "rule", "limit", "exempt", "blocked"] {
        assert!(
            reasons.iter().any(|own| own == reason),
            "{reason}: {reasons:?}"
        );
    }
}

#[tokio::test]
async fn who_decides_without_a_bucket_is_told() {
    let world = World::new().await;
    let made = async |rule: Value| {
        let made = world.say("POST", "/ratelimit/rules", rule).await;
        made["id"].as_str().unwrap().to_owned()
    };
    let counted = made(rule("/a")).await;
    let shadow =
        made(json!({"resource": "/**", "limit": 1, "time_window": 60, "status": "shadow"})).await;
    let reason = |answer: &Value, id: &str| of(answer, id)["reason"].as_str().unwrap().to_owned();

    let answer = told(&world.rules, "client=eve&resource=/a&tokens=4").await;
    assert_eq!(answer["decision"]["reason"], "cost_exceeds_capacity");
    assert_eq!(answer["decision"]["retry_at"], Value::Null);
    assert!(
        reason(&answer, &counted).contains("ever has room"),
        "{answer}"
    );
    let exempt = made(json!({"resource": "*", "limit": null, "time_window": 60})).await;
    let answer = told(&world.rules, "client=eve&resource=/a").await;
    assert_eq!(
        (
            &answer["decision"]["status"],
            &answer["decision"]["rule_id"]
        ),
        (&json!("allowed"), &json!(exempt))
    );
    assert!(reason(&answer, &counted).contains(&exempt), "{answer}");
    assert!(
        reason(&answer, &exempt).starts_with("it exempts"),
        "{answer}"
    );
    assert!(
        reason(&answer, &shadow).starts_with("it watches"),
        "{answer}"
    );
    let block = made(json!({"resource": "/a", "limit": 0, "time_window": 1, "per": "all"})).await;
    let answer = told(&world.rules, "client=eve&resource=/a").await;
    assert_eq!(
        (
            &answer["decision"]["status"],
            &answer["decision"]["remaining"]
        ),
        (&json!("blocked"), &json!(0))
    );
    for id in [&counted, &exempt] {
        assert!(reason(&answer, id).contains(&block), "{answer}");
    }
    assert!(reason(&answer, &block).starts_with("it blocks"), "{answer}");
    assert!(reason(&answer, &shadow).contains("not watched"), "{answer}");

    // No rule at all: the default limit, whose bucket is the client's.
    let answer = told(&world.rules, "client=eve&resource=billing").await;
    assert_eq!(answer["decision"]["reason"], "exempt");
    world
        .say("DELETE", &format!("/ratelimit/rules/{exempt}"), Value::Null)
        .await;
    let answer = told(&world.rules, "client=eve&resource=billing").await;
    assert_eq!(
        (&answer["rules"], &answer["decision"]["reason"]),
        (&json!([]), &json!("default"))
    );
    assert_eq!(
        (
            &answer["default"]["remaining"],
            &answer["decision"]["limit"]
        ),
        (&json!(100), &json!(100))
    );

    // A terminated client meets its rules, and is refused.
    world.client("eve", "free").await;
    world
        .say("PUT", "/clients/eve", json!({"status": "terminated"}))
        .await;
    let answer = told(&world.rules, "client=eve&resource=/a").await;
    assert_eq!(
        (&answer["decision"]["status"], &answer["decision"]["reason"]),
        (&json!("refused"), &json!("terminated"))
    );
    assert_eq!(of(&answer, &block)["fate"], "applies");
}

#[tokio::test]
async fn a_long_answer_leaves_out_what_does_not_apply() {
    let world = World::new().await;
    let others = (0..150).map(
        |i| json!({"resource": "/a", "client": format!("c{i}"), "limit": 1, "time_window": 60}),
    );
    let others: Vec<Value> = others.collect();
    world
        .say("POST", "/ratelimit/rules:batch", json!({"upsert": others}))
        .await;
    let own = world.say("POST", "/ratelimit/rules", rule("/a")).await;
    let answer = told(&world.rules, "client=eve&resource=/a").await;
    assert_eq!(answer["rules"].as_array().unwrap().len(), 100);
    assert_eq!(answer["left_out"], 51);
    assert_eq!(of(&answer, own["id"].as_str().unwrap())["fate"], "applies");
}

#[tokio::test]
async fn a_question_that_cannot_be_answered_is_a_problem() {
    let mut redis = Redis::start().unwrap();
    let region = Region::with(&redis.url(), &stores::database().await).await;
    let world = World::of(region).await;
    let (status, _, body) =
        explain(&world.rules, "client=&tier=gold&ip=1.2&tokens=0&colour=red").await;
    let mut fields: Vec<&str> = body["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error["field"].as_str().unwrap())
        .collect();
    fields.sort_unstable();
    assert_eq!(
        (status, fields),
        (
            400,
            vec!["client", "colour", "ip", "resource", "tier", "tokens"]
        )
    );

    let alone = [("DATABASE_URL", world.region.variable("DATABASE_URL"))];
    let alone = Container::start(Function::Rules, alone).await;
    let (status, _, body) = explain(&alone, "resource=/a").await;
    assert_eq!(status, 501);
    assert!(
        body["detail"].as_str().unwrap().contains("REDIS_URL"),
        "{body}"
    );

    told(&world.rules, "resource=/a").await;
    redis.stop(End::Kill);
    let (status, retry_after, body) = explain(&world.rules, "resource=/a").await;
    assert_eq!((status, retry_after), (503, json!("1")), "{body}");
}
