//! Nothing that a caller can send takes an HTTP answer away from it, and each mistake gets the answer of its kind.

use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::sample::select;
use proptest::strategy::{Just, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};
use tests::{Container, Function, Operator, Region};

use crate::audit::{http, rest};
use crate::control::Control;

/// The functions that answer HTTP, on stores of their own.
async fn functions() -> Vec<Container> {
    let region = Region::new().await;
    let operator = Operator::new().await;
    let anyone = [("CHECK_ANONYMOUS", "allow")];
    vec![
        region.container(Function::Rules).await,
        region.container(Function::Clients).await,
        operator.container(Function::Check, &anyone).await,
    ]
}

/// The answer, which must be one, and of HTTP: a problem where it says no.
async fn answer(container: &Container, event: &Value) -> (u16, Value) {
    let shown: String = event.to_string().chars().take(2_000).collect();
    let answer = match container.invoke(event).await {
        Ok(answer) => answer,
        Err(error) => panic!("{error}\n{shown}\n{}", container.logs()),
    };
    let status = answer["statusCode"].as_u64().unwrap();
    let body: Value = serde_json::from_str(answer["body"].as_str().unwrap()).unwrap_or(Value::Null);
    let headers = tests::answer::headers(&answer);
    assert_ne!(status, 500, "{shown}");
    if status >= 400 && !body.is_null() && status != 429 {
        let kind = &headers["content-type"];
        assert_eq!(kind, "application/problem+json", "{shown}");
        assert_eq!(body["status"], status, "{shown}");
    }
    let allow = headers["allow"].is_string();
    assert_eq!(status == 405, allow, "{shown}");
    (status.try_into().unwrap(), answer)
}

fn nasty_text() -> impl Strategy<Value = String> {
    const ODD: &[&str] = &[
        "",
        " ",
        "\"<>#?",
        "\u{0}",
        "\r\n",
        "\u{7f}\u{80}\u{2028}",
        "ü\u{10ffff}",
        "%",
        "%zz",
        "%00",
        "%ff",
        "%C3%28",
        "a=%ff&&=&a",
        "{}",
        "*",
        "//..//.",
        "\\",
        "http://[",
        "javascript",
        "1, 2",
        "W/\"1\"",
        "application/json",
        "text/plain; charset=\u{1}",
        "resource=%00&limit=1&limit=2",
        "null",
    ];
    prop_oneof![
        4 => select(ODD).prop_map(str::to_owned),
        2 => any::<String>(),
        1 => Just("x".repeat(70_000)),
    ]
}

fn nasty_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => nasty_text().prop_map(Value::from),
        1 => select(vec![json!(null), json!(true), json!(-1e300), json!([]), json!([null, 7, "x"]), json!({"": null})]),
    ]
}

fn nasty_members() -> impl Strategy<Value = Value> {
    const NAMES: &[&str] = &[
        "Host",
        "host",
        "x-forwarded-proto",
        "X-Forwarded-For",
        "x-forwarded-port",
        "content-type",
        "content-length",
        "transfer-encoding",
        "if-match",
        "cookie",
        "x y",
        "",
        "ü",
        "a:b",
        "resource",
        "limit",
        "cursor",
        "client",
    ];
    let name = prop_oneof![3 => select(NAMES).prop_map(str::to_owned), 1 => nasty_text()];
    let members = proptest::collection::vec((name, nasty_value()), 0..6);
    prop_oneof![
        8 => members.prop_map(|members| Value::Object(Map::from_iter(members))),
        1 => nasty_value(),
    ]
}

/// Events of both kinds in which whatever a caller has a hand in is odd.
fn nasty_event() -> impl Strategy<Value = Value> {
    const METHODS: &[&str] = &[
        "GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "CONNECT", "PROPFIND",
        "get", "G T", "", "ü",
    ];
    const STARTS: &[&str] = &[
        "/ratelimit/rules",
        "/ratelimit/rules/",
        "/ratelimit/rules:batch",
        "/ratelimit/audit",
        "/ratelimit/revision",
        "/rule",
        "/clients",
        "/clients/eve/keys/",
        "/ratelimit/status/",
        "",
    ];
    let path = (
        select(STARTS),
        prop_oneof![Just(String::new()), nasty_text()],
    )
        .prop_map(|(start, rest)| format!("{start}{rest}"));
    let bodies = (nasty_value(), any::<bool>());
    (
        select(METHODS),
        path,
        [
            nasty_members(),
            nasty_members(),
            nasty_members(),
            nasty_members(),
        ],
        nasty_value(),
        bodies,
        any::<bool>(),
    )
        .prop_map(|(method, path, [a, b, c, d], query, (body, encoded), v2)| {
            let mut event = if v2 {
                let mut event = http(method, &path, "");
                event["rawQueryString"] = query;
                event["requestContext"]["stage"] = d;
                event
            } else {
                let mut event = rest(method, &path, &Value::Null);
                event["multiValueQueryStringParameters"] = d;
                event
            };
            event["headers"] = a;
            event["multiValueHeaders"] = b;
            event["queryStringParameters"] = c;
            event["body"] = body;
            event["isBase64Encoded"] = encoded.into();
            event
        })
}

#[tokio::test]
async fn whatever_a_caller_sends_is_answered() {
    let functions = functions().await;
    let mut runner = TestRunner::deterministic();
    let events = nasty_event();
    for _ in 0..300 {
        let event = events.new_tree(&mut runner).unwrap().current();
        for container in &functions {
            answer(container, &event).await;
        }
    }
}

/// `"\\ud800"` is well-formed JSON and no Unicode.
#[tokio::test]
async fn half_a_surrogate_pair_is_no_reason_to_fail() {
    for container in functions().await {
        for event in [
            http("GET", "/rule-HALF", "user=HALF"),
            rest("POST-HALF", "/clients/HALF", &json!({"HALF": "HALF"})),
            rest("POST", "/HALF", &json!("HALF")),
        ] {
            let event = event.to_string().replace("HALF", "\\ud800");
            let answer = container.invoke_text(&event).await.unwrap();
            let status = answer["statusCode"].as_u64().unwrap();
            assert!([400, 404].contains(&status), "{event}: {answer}");
        }
    }
}

#[tokio::test]
async fn every_mistake_of_http_has_its_own_answer() {
    let functions = functions().await;
    let paths = ["/ratelimit/rules", "/clients", "/ratelimit/status/eve"];
    let ask = |path: &str, change: &dyn Fn(&mut Value)| {
        let mut event = rest("POST", path, &json!({}));
        change(&mut event);
        event
    };
    for (container, path) in functions.iter().zip(paths) {
        type Change<'a> = &'a dyn Fn(&mut Value);
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let wrong: [(u16, Change<'_>); 14] = [
            (405, &|event| event["httpMethod"] = json!("OPTIONS")),
            (405, &|event| event["httpMethod"] = json!("PROPFIND")),
            (400, &|event| event["httpMethod"] = json!("P ST")),
            (404, &|event| event["path"] = json!("/nothing/here")),
            (414, &|event| event["path"] = json!("x".repeat(70_000))),
            (414, &|event| {
                event["queryStringParameters"] = json!({"a": "x".repeat(70_000)});
            }),
            (415, &|event| {
                event["multiValueHeaders"] = json!({"content-type": ["text/plain"]});
            }),
            (415, &|event| {
                event["multiValueHeaders"] = json!({"Content-Type": ["application/json\u{0}"]});
            }),
            (413, &|event| {
                event["body"] = json!(format!("\"{}\"", "x".repeat(1 << 20)))
            }),
            // Bytes that are no UTF-8, and no Base64 at all.
            (400, &|event| {
                event["body"] = json!("eyJhIjogIv8ifQ==");
                event["isBase64Encoded"] = json!(true);
            }),
            (400, &|event| event["isBase64Encoded"] = json!(true)),
            (400, &|event| event["body"] = json!(deep)),
            (400, &|event| event["body"] = json!("{\"a\": 1} {}")),
            (400, &|event| event["body"] = json!("[]")),
        ];
        for (number, (status, change)) in wrong.into_iter().enumerate() {
            let (told, answer) = answer(container, &ask(path, change)).await;
            assert_eq!(told, status, "{path} {number}: {answer}");
        }
        let mut head = ask(path, &|event| event["httpMethod"] = json!("HEAD"));
        head["queryStringParameters"] = json!({"limit": "0"});
        let (status, headed) = answer(container, &head).await;
        assert_eq!((status, &headed["body"]), (400, &json!("")));
    }
}

#[tokio::test]
async fn what_is_no_event_of_http_is_an_error_that_says_so() {
    for container in functions().await {
        for event in [json!({}), json!(null), json!({"Records": []})] {
            let error = container.invoke(&event).await.unwrap_err();
            assert_eq!(error.error_type, "NoRequest");
        }
    }
}

#[tokio::test]
async fn a_field_that_is_told_twice_is_named_with_all_else_that_is_wrong() {
    let control = Control::in_memory();
    let send = async |method: &str, target: &str, body: &str| {
        let request = axum::http::Request::builder().method(method).uri(target);
        let request = request.header("content-type", "application/json");
        let answer = control.request(request.body(body.to_owned().into()).unwrap());
        let answer = answer.await;
        let fields = answer.is_problem(400).fields();
        fields.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let rule = r#"{"resource": "/a", "limit": 1, "limit": 2, "time_window": 60}"#;
    assert_eq!(send("POST", "/ratelimit/rules", rule).await, ["limit"]);
    let batch = format!(r#"{{"upsert": [{rule}], "upsert": [{rule}]}}"#);
    let fields = send("POST", "/ratelimit/rules:batch", &batch).await;
    assert_eq!(fields, ["upsert[0].limit", "upsert"]);
    let client =
        r#"{"client_id": "eve", "tier": "gold", "status": "active", "status": "terminated"}"#;
    assert_eq!(send("POST", "/clients", client).await, ["status", "tier"]);
    assert_eq!(control.get("/clients").await.body["clients"], json!([]));
    assert_eq!(
        control.get("/ratelimit/rules").await.body["rules"],
        json!([])
    );
}

#[tokio::test]
async fn faults_of_the_query_and_of_the_body_are_told_together() {
    let control = Control::in_memory();
    let id = control
        .rule(json!({"resource": "/a", "limit": 1, "time_window": 60}))
        .await;
    control.post("/clients", json!({"client_id": "eve"})).await;
    for (method, target) in [
        ("POST", "/ratelimit/rules".to_owned()),
        ("PUT", format!("/ratelimit/rules/{id}")),
        ("POST", "/ratelimit/rules:batch".to_owned()),
        ("POST", "/rule".to_owned()),
        ("PUT", "/rule".to_owned()),
        ("POST", "/clients".to_owned()),
        ("PUT", "/clients/eve".to_owned()),
        ("POST", "/clients/eve/keys".to_owned()),
    ] {
        let target = format!("{target}?colour=red");
        let body = json!({"shape": "round"});
        let answer = match method {
            "POST" => control.post(&target, body).await,
            _ => control.put(&target, body).await,
        };
        let fields = answer.is_problem(400).fields();
        assert!(fields.contains(&"colour"), "{method} {target}: {fields:?}");
        assert!(fields.contains(&"shape"), "{method} {target}: {fields:?}");
    }
}

#[tokio::test]
async fn a_precondition_is_compared_as_text() {
    let control = Control::in_memory();
    let rule = json!({"resource": "/a", "limit": 1, "time_window": 60});
    let target = format!("/ratelimit/rules/{}", control.rule(rule.clone()).await);
    for tag in [
        "\"+1\"",
        "\"01\"",
        "W/\"1\"",
        "1",
        "\"2\", W/\"1\"",
        "*, \"1\"",
        "",
    ] {
        let answer = if tag.is_empty() {
            let request = axum::http::Request::delete(&target).header("if-match", "");
            control.request(request.body("".into()).unwrap()).await
        } else {
            control.put_if(&target, rule.clone(), tag).await
        };
        assert_eq!(answer.is_problem(412).header("etag"), "\"1\"", "{tag}");
    }
    let answer = control.put_if(&target, rule.clone(), "\"9\", \"1\"").await;
    assert_eq!(answer.status, 200);
    assert_eq!(control.delete_if(&target, "*").await.status, 204);
}

#[tokio::test]
async fn an_answer_stays_small_enough_to_be_one_whatever_is_wrong() {
    let functions = functions().await;
    let mut members = String::new();
    for n in 0..80_000 {
        members += &format!("\"{n}\":1,");
    }
    let long = "\u{1}".repeat(50_000).replace('\u{1}', "\\u0001");
    for body in [
        format!("{{{members}\"z\":1}}"),
        format!("{{\"{long}\":1,\"{long}\":2}}"),
        format!(
            "{{\"upsert\":[{{\"{long}\":{{{}\"z\":1}}}}]}}",
            &members[..400_000 + members[400_000..].find(',').unwrap() + 1]
        ),
    ] {
        for (container, path) in functions.iter().zip([
            "/ratelimit/rules:batch",
            "/clients",
            "/ratelimit/status/eve",
        ]) {
            let mut event = rest("POST", path, &Value::Null);
            event["body"] = json!(body);
            let (status, answer) = answer(container, &event).await;
            assert_eq!(status, 400);
            // Lambda takes six megabytes.
            assert!(answer.to_string().len() < 1_000_000);
        }
    }
}

/// It would make a client what it is by default, a terminated one active.
#[tokio::test]
async fn a_client_is_not_replaced_by_nothing() {
    let control = Control::in_memory();
    let eve = json!({"client_id": "eve", "status": "terminated"});
    control.post("/clients", eve).await;
    let request = axum::http::Request::put("/clients/eve?colour=red");
    let answer = control.request(request.body("".into()).unwrap()).await;
    assert_eq!(answer.is_problem(400).fields(), ["colour", ""]);
    assert_eq!(
        control.get("/clients/eve").await.body["status"],
        "terminated"
    );
}

#[tokio::test]
async fn a_block_by_user_and_api_can_be_put_back_as_it_is_shown() {
    let control = Control::in_memory();
    let block = json!({"user": "eve", "tokens": 0, "time_unit": "day"});
    let made = control.post("/rule", block).await;
    assert_eq!((made.status, &made.body["capacity"]), (201, &json!(null)));
    assert_eq!(control.put("/rule", made.body).await.status, 200);
}
