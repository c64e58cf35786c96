//! Who did what, before and after.

use serde_json::{Value, json};
use tests::{Container, Function, stores};

use crate::control::Control;

#[tokio::test]
async fn every_write_leaves_who_what_before_and_after() {
    for control in Control::both().await {
        let rule = json!({"resource": "/a", "client": "eve", "limit": 1, "time_window": 1});
        let made = control.post("/ratelimit/rules", rule).await.body;
        let id = made["id"].as_str().unwrap();
        let at = format!("/ratelimit/rules/{id}");
        let bobs = json!({"resource": "/a", "client": "bob", "limit": 2, "time_window": 1});
        let put = control.put(&at, bobs).await.body;
        control.post("/clients", json!({"client_id": "eve"})).await;
        let key = control.post("/clients/eve/keys", json!({})).await.body["key_id"].clone();
        control.delete(&at).await;
        control.delete("/clients/eve").await;

        let shown = |mut answer: Value| {
            answer.as_object_mut().unwrap().remove("propagation");
            answer
        };
        let all = control.pages("audit", "/ratelimit/audit?", 2).await;
        let told: Vec<_> = all
            .iter()
            .map(|note| {
                (
                    note["revision"].as_u64().unwrap(),
                    note["action"].as_str().unwrap(),
                    note["actor"].as_str().unwrap(),
                )
            })
            .collect();
        let by = "anonymous";
        assert_eq!(
            told,
            [
                (1, "create", by),
                (2, "update", by),
                (3, "create", by),
                (4, "create", by),
                (5, "delete", by),
                // The key goes with its client, in one write.
                (6, "delete", by),
                (6, "delete", by),
            ],
            "{}",
            control.store
        );
        assert_eq!(
            (&all[0]["before"], &all[0]["after"]),
            (&Value::Null, &shown(made.clone()))
        );
        assert_eq!(
            (&all[1]["before"], &all[1]["after"]),
            (&shown(made.clone()), &shown(put.clone()))
        );
        assert_eq!(
            (&all[4]["before"], &all[4]["after"]),
            (&shown(put), &Value::Null)
        );
        assert_eq!(all[1]["rule_id"], made["id"]);
        assert_eq!(
            (&all[2]["client_id"], &all[2]["after"]["tier"]),
            (&json!("eve"), &json!("free"))
        );
        assert_eq!(
            (&all[3]["key_id"], &all[3]["client_id"]),
            (&key, &json!("eve"))
        );
        assert_eq!(
            (&all[5]["key_id"], &all[6]["client_id"]),
            (&key, &json!("eve"))
        );

        let of = |filter: String| {
            let control = &control;
            async move {
                let notes = control
                    .pages("audit", &format!("/ratelimit/audit?{filter}&"), 1)
                    .await;
                notes
                    .iter()
                    .map(|note| note["revision"].as_u64().unwrap())
                    .collect::<Vec<_>>()
            }
        };
        assert_eq!(of(format!("rule={id}")).await, [1, 2, 5]);
        assert_eq!(
            of("client=bob".to_owned()).await,
            [2, 5],
            "also as what a rule names now"
        );
        assert_eq!(
            of("client=eve".to_owned()).await,
            [1, 2, 3, 4, 6, 6],
            "also as what a rule named before"
        );
        assert_eq!(of(format!("client=eve&rule={id}")).await, [1, 2]);
        assert!(of("client=ann".to_owned()).await.is_empty());
        control
            .get("/ratelimit/audit?rule=eve")
            .await
            .is_problem(400);
    }
}

#[tokio::test]
async fn what_was_refused_leaves_nothing() {
    for control in Control::both().await {
        let rule = json!({"resource": "/a", "limit": 1, "time_window": 1});
        let id = control.rule(rule.clone()).await;
        control
            .post("/ratelimit/rules", rule.clone())
            .await
            .is_problem(409);
        control
            .put_if(&format!("/ratelimit/rules/{id}"), rule, "\"9\"")
            .await
            .is_problem(412);
        control.delete("/clients/eve").await.is_problem(404);
        assert_eq!(
            control.pages("audit", "/ratelimit/audit?", 100).await.len(),
            1
        );
        let made = control.post("/clients", json!({"client_id": "eve"})).await;
        assert_eq!(
            made.revision(),
            2,
            "no revision was used up: {}",
            control.store
        );
    }
}

/// An event of `events/` with another request in it.
fn event(file: &str, change: impl Fn(&mut Value)) -> Value {
    let path = format!("{}/../events/{file}", env!("CARGO_MANIFEST_DIR"));
    let mut event = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    change(&mut event);
    event
}

pub(crate) fn rest(method: &str, path: &str, body: &Value) -> Value {
    event("rules-rest.json", |event| {
        event["httpMethod"] = json!(method);
        event["path"] = json!(path);
        event["requestContext"]["stage"] = json!("prod");
        event["requestContext"]["identity"]["userArn"] =
            json!("arn:aws:iam::123456789012:user/rest");
        event["queryStringParameters"] = Value::Null;
        event["multiValueQueryStringParameters"] = Value::Null;
        event["body"] = json!(body.to_string());
        event["isBase64Encoded"] = json!(false);
    })
}

pub(crate) fn http(method: &str, path: &str, query: &str) -> Value {
    event("rules-http.json", |event| {
        event["rawPath"] = json!(path);
        event["rawQueryString"] = json!(query);
        event["requestContext"]["http"]["method"] = json!(method);
        event["requestContext"]["stage"] = json!("prod");
    })
}

#[tokio::test]
async fn the_actor_is_the_iam_identity_of_the_event() {
    let url = stores::database().await;
    let rules = Container::start(Function::Rules, [("DATABASE_URL", url.as_str())]).await;
    let rule = json!({"resource": "/a", "limit": 1, "time_window": 1});
    let made = rules
        .invoke(&rest("POST", "/ratelimit/rules", &rule))
        .await
        .unwrap();
    assert_eq!(made["statusCode"], 201, "{made}");
    let made: Value = serde_json::from_str(made["body"].as_str().unwrap()).unwrap();
    let id = made["id"].as_str().unwrap();
    assert_eq!(made["propagation"], "pending", "there is no topic");

    // An HTTP API with a named stage puts it in front of the path.
    let gone = rules
        .invoke(&http("DELETE", &format!("/prod/ratelimit/rules/{id}"), ""))
        .await
        .unwrap();
    assert_eq!(
        (
            &gone["statusCode"],
            gone["headers"]["weir-revision"].as_str()
        ),
        (&json!(204), Some("2")),
        "{gone}"
    );
    let mut without = rest("POST", "/ratelimit/rules", &rule);
    without["requestContext"]["identity"]["userArn"] = Value::Null;
    rules.invoke(&without).await.unwrap();

    let audit = rules
        .invoke(&http("GET", "/ratelimit/audit", "limit=10"))
        .await
        .unwrap();
    assert_eq!(audit["headers"]["content-type"], "application/json");
    assert_eq!(audit["isBase64Encoded"], false);
    let audit: Value = serde_json::from_str(audit["body"].as_str().unwrap()).unwrap();
    let actors: Vec<_> = audit["audit"]
        .as_array()
        .unwrap()
        .iter()
        .map(|note| note["actor"].clone())
        .collect();
    assert_eq!(
        actors,
        [
            "arn:aws:iam::123456789012:user/rest",
            "arn:aws:sts::123456789012:assumed-role/operator/alice",
            "anonymous",
        ]
    );
    let problem = rules
        .invoke(&rest("GET", "/clients", &Value::Null))
        .await
        .unwrap();
    assert_eq!(problem["statusCode"], 404, "that is the other function's");
    let kind = &problem["multiValueHeaders"]["content-type"][0];
    assert_eq!(kind, "application/problem+json", "{problem}");
}

#[tokio::test]
async fn a_resource_in_a_path_is_found_whether_or_not_the_gateway_decodes_it() {
    let url = stores::database().await;
    let rules = Container::start(Function::Rules, [("DATABASE_URL", url.as_str())]).await;
    let rule = json!({"resource": "GET /a b/{id}", "limit": 1, "time_window": 1});
    rules
        .invoke(&rest("POST", "/ratelimit/rules", &rule))
        .await
        .unwrap();
    for answer in [
        rules
            .invoke(&rest(
                "GET",
                "/ratelimit/rules/GET%20%2Fa%2520b%2F1",
                &Value::Null,
            ))
            .await,
        rules
            .invoke(&rest("GET", "/ratelimit/rules/GET /a b/1", &Value::Null))
            .await,
        rules
            .invoke(&http("GET", "/prod/ratelimit/rules/GET /a b/1", ""))
            .await,
        rules
            .invoke(&http(
                "GET",
                "/ratelimit/rules",
                "applies_to=GET+%2Fa+b%2F1",
            ))
            .await,
    ] {
        let answer = answer.unwrap();
        let Value::Object(body) = serde_json::from_str(answer["body"].as_str().unwrap()).unwrap()
        else {
            panic!("{answer}");
        };
        let found = body.get("rules").and_then(Value::as_array);
        assert_eq!(found.map(Vec::len), Some(1), "{answer}");
    }
}
