//! The check API in its containers: what is asked, by whom, and how it is told.

use local::servers::{End, Redis};
use serde_json::{Value, json};
use tests::{Container, Function, Operator};

pub(crate) const ORDERS: &str = "arn:aws:sts::123456789012:assumed-role/orders/session";
const GATEWAY: &str = "arn:aws:iam::123456789012:role/edge/gateway";

/// What a function URL sends; `asker` is the ARN of an IAM identity, if there is one.
pub(crate) fn event(method: &str, path: &str, query: &str, asker: Option<&str>) -> Value {
    let mut event: Value =
        serde_json::from_str(include_str!("../../events/check-url-iam.json")).unwrap();
    event["rawPath"] = path.into();
    event["rawQueryString"] = query.into();
    event["requestContext"]["http"]["method"] = method.into();
    event["requestContext"]["http"]["path"] = path.into();
    event["requestContext"]["authorizer"]["iam"]["userArn"] = asker.into();
    event.as_object_mut().unwrap().remove("body");
    event
}

fn ask(client: &str, body: &Value, asker: Option<&str>) -> Value {
    let path = format!("/ratelimit/status/{client}");
    let mut event = event("POST", &path, "", asker);
    event["body"] = body.to_string().into();
    event
}

fn look(client: &str, query: &str, asker: Option<&str>) -> Value {
    let path = format!("/ratelimit/status/{client}");
    event("GET", &path, query, asker)
}

/// What a function answered.
pub(crate) struct Answer {
    pub(crate) status: u64,
    pub(crate) headers: Value,
    pub(crate) body: Value,
}

pub(crate) async fn send(container: &Container, event: &Value) -> Answer {
    let answer = container.invoke(event).await.unwrap();
    assert_eq!(answer["isBase64Encoded"], false);
    let body = answer["body"].as_str().unwrap_or_default();
    Answer {
        status: answer["statusCode"].as_u64().unwrap(),
        headers: tests::answer::headers(&answer),
        body: serde_json::from_str(body).unwrap_or_default(),
    }
}

pub(crate) fn wrong_fields(answer: &Answer) -> Vec<&str> {
    assert_eq!(answer.status, 400);
    assert_eq!(answer.headers["content-type"], "application/problem+json");
    let errors = answer.body["errors"].as_array().unwrap();
    let mut fields: Vec<&str> = errors
        .iter()
        .map(|error| error["field"].as_str().unwrap())
        .collect();
    fields.sort_unstable();
    fields
}

/// A check that answers everyone, as on one's own machine.
pub(crate) async fn open(operator: &Operator) -> Container {
    let open = [("CHECK_ANONYMOUS", "allow")];
    operator.container(Function::Check, &open).await
}

fn rule(resource: &str, limit: u64) -> Value {
    json!({ "resource": resource, "limit": limit, "time_window": 60 })
}

fn question() -> Value {
    json!({ "resource": "GET /orders/1" })
}

#[tokio::test]
async fn asking_counts_and_looking_does_not() {
    let operator = Operator::new().await;
    let id = operator.rule(rule("/orders/*", 2)).await.to_string();
    let container = open(&operator).await;
    let query = "resource=GET+/orders/1";
    for _ in 0..3 {
        let seen = send(&container, &look("eve", query, None)).await;
        assert_eq!((seen.status, &seen.body["remaining"]), (200, &json!(2)));
    }
    for remaining in [1, 0] {
        let asked = send(&container, &ask("eve", &question(), None)).await;
        assert_eq!(asked.status, 200);
        assert_eq!(asked.body["status"], "allowed");
        assert_eq!(asked.body["remaining"], remaining);
        assert_eq!(asked.body["rule_id"], id);
        assert_eq!(asked.body["retry_at"], Value::Null);
        assert_eq!(asked.headers["x-ratelimit-limit"], "2");
        assert_eq!(asked.headers["retry-after"], Value::Null);
    }
    let denied = send(&container, &ask("eve", &question(), None)).await;
    assert_eq!(denied.status, 429);
    assert_eq!(denied.headers["content-type"], "application/json");
    let label = &id[id.len() - 8..];
    let policy = format!("\"{label}\";q=2;w=60");
    assert_eq!(denied.headers["ratelimit-policy"], policy);
    assert!(
        denied.headers["ratelimit"]
            .as_str()
            .unwrap()
            .starts_with(&format!("\"{label}\";r=0;t="))
    );
    let wait = denied.body["retry_after"].as_u64().unwrap();
    assert!((1..=30).contains(&wait), "{wait}");
    assert_eq!(denied.headers["retry-after"], wait.to_string());
    assert_eq!(denied.headers["x-ratelimit-retryafter"], wait.to_string());
    assert_eq!(denied.headers["x-ratelimit-remaining"], "0");
    assert_eq!(denied.body["status"], "blocked");
    assert_eq!(denied.body["reason"], "limit");
    assert!(denied.body["retry_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(denied.body.as_object().unwrap().len(), 8);
    let seen = send(&container, &look("eve", query, None)).await;
    assert_eq!(
        (seen.status, &seen.body["status"]),
        (200, &json!("blocked"))
    );
    // Another client has its own, and needs no registration.
    let other = send(&container, &ask("bob", &question(), None)).await;
    assert_eq!(other.body["remaining"], 1);
}

#[tokio::test]
async fn a_cost_is_taken_whole_or_not_at_all() {
    let operator = Operator::new().await;
    operator.rule(rule("/orders/*", 10)).await;
    let container = open(&operator).await;
    let cost = async |tokens: u64| {
        let body = json!({ "resource": "/orders/1", "tokens": tokens });
        send(&container, &ask("eve", &body, None)).await
    };
    assert_eq!(cost(7).await.body["remaining"], 3);
    let denied = cost(4).await;
    assert_eq!((denied.status, &denied.body["remaining"]), (429, &json!(3)));
    let never = cost(11).await;
    assert_eq!(never.status, 429);
    assert_eq!(never.body["reason"], "cost_exceeds_capacity");
    assert_eq!(never.body["retry_after"], Value::Null);
    assert_eq!(never.body["retry_at"], Value::Null);
    assert_eq!(cost(3).await.status, 200);
}

#[tokio::test]
async fn a_principal_asks_about_its_own_client_and_a_gateway_about_everyone() {
    let operator = Operator::new().await;
    let orders = json!({ "principal": "arn:aws:iam::123456789012:role/teams/orders" });
    operator.client("orders", orders).await;
    let gateway = json!({ "principal": GATEWAY, "may_ask": "any" });
    operator.client("gateway", gateway).await;
    operator.client("other", json!({})).await;
    let container = operator.container(Function::Check, &[]).await;
    let session = "arn:aws:sts::123456789012:assumed-role/gateway/i-0123";
    for (asker, about, status) in [
        (Some(ORDERS), "orders", 200),
        (Some(ORDERS), "other", 403),
        (Some(ORDERS), "unregistered", 403),
        (Some(session), "orders", 200),
        (Some(session), "unregistered", 200),
        (Some("arn:aws:iam::999999999999:role/orders"), "orders", 403),
        (Some("arn:aws:iam::123456789012:root"), "orders", 403),
        (Some("orders"), "orders", 403),
        (None, "orders", 403),
    ] {
        let asked = send(&container, &ask(about, &question(), asker)).await;
        assert_eq!(asked.status, status, "{asker:?} about {about}");
        let seen = send(&container, &look(about, "resource=/x", asker)).await;
        assert_eq!(seen.status, status, "{asker:?} looking at {about}");
        if status == 403 {
            assert_eq!(asked.headers["content-type"], "application/problem+json");
        }
    }
}

#[tokio::test]
async fn without_a_principal_one_may_ask_only_where_that_is_allowed() {
    let operator = Operator::new().await;
    let container = open(&operator).await;
    let asked = send(&container, &ask("eve", &question(), None)).await;
    assert_eq!(asked.status, 200);
    // Who has an identity is held to it all the same.
    let asked = send(&container, &ask("eve", &question(), Some(ORDERS))).await;
    assert_eq!(asked.status, 403);
}

#[tokio::test]
async fn a_terminated_client_is_refused_whoever_asks_and_however() {
    let operator = Operator::new().await;
    let fields = json!({ "status": "terminated", "principal": ORDERS });
    operator.client("orders", fields).await;
    for container in [
        open(&operator).await,
        operator
            .container(Function::Check, &[("CHECK_ANONYMOUS", "deny")])
            .await,
    ] {
        for asker in [None, Some(ORDERS)] {
            for event in [
                ask("orders", &question(), asker),
                look("orders", "resource=/x", asker),
            ] {
                let answer = send(&container, &event).await;
                assert_eq!(answer.status, 403);
                assert_eq!(answer.headers["content-type"], "application/problem+json");
            }
        }
    }
}

#[tokio::test]
async fn every_field_that_is_wrong_is_told_and_nothing_is_spent() {
    let operator = Operator::new().await;
    operator.rule(rule("/orders/*", 1)).await;
    let container = open(&operator).await;
    let body = json!({ "tokens": 0, "ip": "here", "client_id": "bob", "colour": 1 });
    let answer = send(&container, &ask("eve", &body, None)).await;
    let fields = ["client_id", "colour", "ip", "resource", "tokens"];
    assert_eq!(wrong_fields(&answer), fields);
    let query = "tokens=1000001&ip=1.2&colour=red";
    let answer = send(&container, &look("eve", query, None)).await;
    assert_eq!(
        wrong_fields(&answer),
        ["colour", "ip", "resource", "tokens"]
    );
    // What costs is told in the body: in a query it would be overlooked.
    for path in ["/ratelimit/status/eve", "/throttleRequest"] {
        let mut event = event("POST", path, "tokens=5&tokens=6", None);
        event["body"] = json!({ "colour": 1 }).to_string().into();
        let answer = send(&container, &event).await;
        let wrong = wrong_fields(&answer);
        assert!(
            wrong.contains(&"tokens") && wrong.contains(&"colour"),
            "{wrong:?}"
        );
    }
    for (body, wrong) in [
        ("", "resource"),
        ("{", ""),
        ("[]", ""),
        ("null", ""),
        ("\"x\"", ""),
    ] {
        let mut event = ask("eve", &question(), None);
        event["body"] = body.into();
        assert_eq!(
            wrong_fields(&send(&container, &event).await),
            [wrong],
            "{body}"
        );
    }
    for tokens in [
        json!(0),
        json!(-5),
        json!(1.5),
        json!("1"),
        json!(1_000_001),
    ] {
        let body = json!({ "resource": "/orders/1", "tokens": tokens });
        let answer = send(&container, &ask("eve", &body, None)).await;
        assert_eq!(wrong_fields(&answer), ["tokens"], "{tokens}");
    }
    let answer = send(&container, &ask("eve", &question(), None)).await;
    assert_eq!(answer.body["remaining"], 0);
}

#[tokio::test]
async fn what_is_no_question_is_answered_as_a_problem() {
    let operator = Operator::new().await;
    let container = open(&operator).await;
    let path = "/ratelimit/status/eve";
    let mut form = ask("eve", &question(), None);
    form["headers"]["content-type"] = "application/x-www-form-urlencoded".into();
    let mut large = ask("eve", &question(), None);
    large["body"] = " ".repeat((1 << 20) + 1).into();
    for (event, status) in [
        (event("GET", "/", "", None), 404),
        (event("GET", "/ratelimit/status", "", None), 404),
        (event("GET", "/ratelimit/status/a/b", "", None), 404),
        (event("DELETE", path, "", None), 405),
        (event("PUT", path, "", None), 405),
        (form, 415),
        (large, 413),
        (look("%ff", "resource=/x", None), 400),
    ] {
        let answer = send(&container, &event).await;
        assert_eq!(answer.status, status, "{}", event["rawPath"]);
        assert_eq!(answer.headers["content-type"], "application/problem+json");
        assert_eq!(answer.body["status"], status);
        if status == 405 {
            assert_eq!(answer.headers["allow"], "GET,HEAD,POST");
        }
    }
}

#[tokio::test]
async fn any_name_that_a_client_can_have_can_be_asked_about() {
    let operator = Operator::new().await;
    operator.rule(rule("/orders/*", 1)).await;
    let container = open(&operator).await;
    for (path, id) in [
        ("a%2Fb", "a/b"),
        ("a%20b", "a b"),
        ("%C3%BC", "ü"),
        ("100%25", "100%"),
        ("..", ".."),
        ("%2e%2E%2F", "../"),
        ("a;b=c", "a;b=c"),
    ] {
        let body = json!({ "resource": "/orders/1", "client_id": id });
        let answer = send(&container, &ask(path, &body, None)).await;
        assert_eq!(
            (answer.status, &answer.body["remaining"]),
            (200, &json!(0)),
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_rest_api_may_stand_in_front_with_its_stage() {
    let operator = Operator::new().await;
    let orders = json!({ "principal": ORDERS });
    operator.client("orders", orders).await;
    let container = operator.container(Function::Check, &[]).await;
    let mut event: Value =
        serde_json::from_str(include_str!("../../events/rules-rest.json")).unwrap();
    event["path"] = "/ratelimit/status/orders".into();
    event["body"] = question().to_string().into();
    event["requestContext"]["identity"]["userArn"] = ORDERS.into();
    assert_eq!(event["requestContext"]["stage"], "prod");
    let answer = container.invoke(&event).await.unwrap();
    assert_eq!(answer["statusCode"], 200);
}

#[tokio::test]
async fn what_comes_of_an_address_is_counted_where_a_rule_asks_for_it() {
    let operator = Operator::new().await;
    let mut per_address = rule("/orders/*", 1);
    per_address["per"] = "ip".into();
    operator.rule(per_address).await;
    let container = open(&operator).await;
    for (ip, status) in [
        (json!("192.0.2.1"), 200),
        (json!("::ffff:192.0.2.1"), 429),
        (json!("192.0.2.2"), 200),
        (json!(null), 200),
    ] {
        let body = json!({ "resource": "/orders/1", "ip": ip });
        let answer = send(&container, &ask("eve", &body, None)).await;
        assert_eq!(answer.status, status, "{ip}");
    }
}

#[tokio::test]
async fn while_redis_is_out_the_answer_is_the_rules_or_a_503() {
    let mut redis = Redis::start().unwrap();
    let operator = Operator::at(&redis.url()).await;
    let mut payments = rule("/payments", 9);
    payments["on_failure"] = "deny".into();
    operator.rule(payments).await;
    let variables = [
        ("CHECK_ANONYMOUS", "allow"),
        ("REDIS_TIMEOUT_MS", "100"),
        ("RULES_LOAD_TIMEOUT_MS", "100"),
    ];
    let container = operator.container(Function::Check, &variables).await;
    let payments = json!({ "resource": "/payments" });
    let answer = send(&container, &ask("eve", &payments, None)).await;
    assert_eq!(answer.status, 200);
    redis.stop(End::Kill);
    let answer = send(&container, &ask("eve", &payments, None)).await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.headers["retry-after"], "1");
    assert_eq!(answer.headers["content-type"], "application/problem+json");
    let answer = send(&container, &ask("eve", &question(), None)).await;
    assert_eq!(answer.status, 200);
    // A client that was never seen may be terminated.
    let answer = send(&container, &ask("bob", &question(), None)).await;
    assert_eq!(answer.status, 503);
    let cold = operator.container(Function::Check, &variables).await;
    let answer = send(&cold, &ask("eve", &question(), None)).await;
    assert_eq!(answer.status, 503);
}

#[tokio::test]
async fn an_environment_that_is_wrong_is_told_whole_before_anything_starts() {
    let wrong = [("CHECK_ANONYMOUS", "yes"), ("DEFAULT_LIMIT", "0/1s")];
    let container = Container::start(Function::Check, wrong).await;
    let error = container.ready().await.unwrap_err().error_message;
    for name in ["REDIS_URL", "CHECK_ANONYMOUS", "DEFAULT_LIMIT"] {
        assert!(error.contains(name), "no {name} in: {error}");
    }
}
