//! The documents of the APIs, against the functions that they describe.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use tests::{Container, Function, Operator, Region};

use crate::audit::{http, rest};

/// What a function answers to a request.
async fn ask(container: &Container, event: &Value) -> (u16, Value, Value) {
    let answer = container.invoke(event).await.unwrap();
    let body = answer["body"].as_str().unwrap();
    let body = serde_json::from_str(body).unwrap_or(Value::Null);
    let status = answer["statusCode"].as_u64().unwrap();
    (
        status.try_into().unwrap(),
        tests::answer::headers(&answer),
        body,
    )
}

async fn document(container: &Container) -> Value {
    let (status, headers, document) = ask(container, &http("GET", "/openapi.json", "")).await;
    assert_eq!(
        (status, &headers["content-type"]),
        (200, &json!("application/json"))
    );
    assert_eq!(document["openapi"], "3.1.0");
    document
}

/// Every path with the methods that it is described to take, in capitals.
fn paths(document: &Value) -> Vec<(String, BTreeSet<String>)> {
    let paths = document["paths"].as_object().unwrap();
    paths
        .iter()
        .map(|(path, item)| {
            let methods = item.as_object().unwrap().keys();
            (
                path.clone(),
                methods.map(|method| method.to_uppercase()).collect(),
            )
        })
        .collect()
}

fn function_of<'a>(functions: &'a [(&str, Container)], path: &str) -> &'a Container {
    let name = if path == "/clients" || path.starts_with("/clients/") {
        "clients"
    } else {
        functions[0].0
    };
    &functions
        .iter()
        .find(|(known, _)| *known == name)
        .unwrap()
        .1
}

/// Both APIs: each with its functions, of which the first has the document.
async fn apis() -> [Vec<(&'static str, Container)>; 2] {
    let region = Region::new().await;
    let operator = Operator::new().await;
    operator.client("bob", json!({})).await;
    let anyone = [("CHECK_ANONYMOUS", "allow")];
    [
        vec![
            ("rules", region.container(Function::Rules).await),
            ("clients", region.container(Function::Clients).await),
        ],
        vec![("check", operator.container(Function::Check, &anyone).await)],
    ]
}

#[tokio::test]
async fn what_is_described_is_there_and_nothing_else_is() {
    for functions in apis().await {
        let document = document(&functions[0].1).await;
        for (path, described) in paths(&document) {
            let container = function_of(&functions, &path);
            let place = path.replace(['{', '}'], "");
            for method in ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"] {
                let event = rest(method, &place, &json!({}));
                let (status, headers, body) = ask(container, &event).await;
                let nothing = body["detail"].as_str().unwrap_or_default();
                assert!(
                    !nothing.starts_with("there is nothing at"),
                    "{method} {path}"
                );
                if described.contains(method) {
                    // A rule that is named otherwise than by its id can be read alone.
                    let named = path == "/ratelimit/rules/{name}" && method != "GET";
                    assert_eq!(status == 405, named, "{method} {path}: {body}");
                } else {
                    assert_eq!(status, 405, "{method} {path}: {body}");
                    let allow = headers["allow"].as_str().unwrap();
                    let mut allowed: BTreeSet<String> = allow
                        .split(',')
                        .map(|method| method.trim().to_owned())
                        .collect();
                    assert_eq!(allowed.remove("HEAD"), allowed.contains("GET"), "{path}");
                    assert_eq!(allowed, described, "{path}");
                }
            }
        }
    }
}

/// Every object of a document, with where it is.
fn each(value: &Value, place: &str, seen: &mut dyn FnMut(&str, &Map<String, Value>)) {
    match value {
        Value::Object(object) => {
            seen(place, object);
            for (name, value) in object {
                each(
                    value,
                    &format!("{place}/{}", name.replace('~', "~0").replace('/', "~1")),
                    seen,
                );
            }
        }
        Value::Array(items) => {
            for (number, value) in items.iter().enumerate() {
                each(value, &format!("{place}/{number}"), seen);
            }
        }
        _ => {}
    }
}

#[tokio::test]
async fn a_document_is_whole() {
    for functions in apis().await {
        let document = document(&functions[0].1).await;
        let mut ids = BTreeSet::new();
        let mut used = BTreeSet::new();
        each(&document, "", &mut |place, object| {
            if let Some(to) = object.get("$ref").and_then(Value::as_str) {
                let found = document.pointer(to.trim_start_matches('#'));
                assert!(found.is_some(), "{place} refers to {to}");
                used.insert(to.to_owned());
            }
            if let Some(id) = object.get("operationId") {
                assert!(ids.insert(id.to_string()), "{id} twice");
                let told: BTreeSet<&str> = object
                    .get("parameters")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .filter(|parameter| parameter["in"] == "path")
                    .map(|parameter| parameter["name"].as_str().unwrap())
                    .collect();
                let path = place.replace("~1", "/");
                let named = path
                    .split('{')
                    .skip(1)
                    .map(|rest| rest.split('}').next().unwrap());
                assert_eq!(told, named.collect::<BTreeSet<_>>(), "{path}");
            }
        });
        for name in document["components"]["schemas"]
            .as_object()
            .unwrap()
            .keys()
        {
            let own = format!("#/components/schemas/{name}");
            assert!(used.contains(&own), "nothing refers to {name}");
        }
    }
}

/// A body without what may be left out.
fn least(name: &str) -> Value {
    match name {
        // `split` is of rules that all share, and no larger than the limit.
        "RuleDraft" => json!({"resource": "/a", "limit": 64, "time_window": 1, "per": "all"}),
        "ClientDraft" => json!({"client_id": "carol"}),
        "KeyDraft" => json!({}),
        "BucketDraft" => json!({"user": "bob", "api": "/b", "tokens": 1, "time_unit": "second"}),
        "Question" => json!({"resource": "/a"}),
        "ServiceCall" => json!({"SourceService": "bob", "DestinationService": "bob"}),
        "ServiceLimitDraft" => {
            json!({"SourceService": "bob", "DestinationService": "bob", "Tps": 1})
        }
        _ => panic!("{name} is new here"),
    }
}

/// Values that a property is said to take, and some that it is said not to.
fn values(property: &Value) -> (Vec<Value>, Vec<Value>) {
    let kinds = &property["type"];
    let is = |kind: &str| {
        kinds == kind
            || kinds
                .as_array()
                .is_some_and(|all| all.contains(&json!(kind)))
    };
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    if kinds.is_null() {
        return (vec![json!(1), json!(null), json!("x")], bad);
    }
    (if is("null") { &mut good } else { &mut bad }).push(json!(null));
    if let Some(words) = property["enum"].as_array() {
        good.extend(words.iter().filter(|word| word.is_string()).cloned());
        bad.push(json!("no such word"));
    } else if is("integer") {
        let bound = |name: &str| property[name].as_u64().unwrap();
        let (minimum, maximum) = (bound("minimum"), bound("maximum"));
        good.extend([json!(minimum), json!(maximum)]);
        bad.extend([
            json!(maximum + 1),
            json!(minimum as i64 - 1),
            json!(1.5),
            json!("1"),
        ]);
    } else if let Some(longest) = property["maxLength"].as_u64() {
        bad.push(json!("x".repeat(longest as usize + 1)));
        let pattern = property["pattern"].as_str().unwrap_or_default();
        if pattern.contains("007f") {
            bad.push(json!("/a\u{7f}"));
        }
    }
    if !is("string") {
        bad.push(json!("x"));
    }
    if !is("boolean") {
        bad.push(json!(true));
    } else {
        good.extend([json!(true), json!(false)]);
    }
    (good, bad)
}

/// The fields that an answer is said to have.
fn described(document: &Value, answer: &Value) -> BTreeSet<String> {
    let mut shape = &answer["content"]["application/json"]["schema"];
    if let Some(to) = shape["$ref"].as_str() {
        shape = document.pointer(to.trim_start_matches('#')).unwrap();
    }
    let fields = shape["properties"].as_object();
    fields.into_iter().flat_map(Map::keys).cloned().collect()
}

#[tokio::test]
async fn bounds_words_and_defaults_are_those_that_are_described() {
    let mut seen = BTreeSet::new();
    for functions in apis().await {
        let document = document(&functions[0].1).await;
        if let Some((_, clients)) = functions.iter().find(|(name, _)| *name == "clients") {
            let bob = rest("POST", "/clients", &json!({"client_id": "bob"}));
            clients.invoke(&bob).await.unwrap();
        }
        for (path, item) in document["paths"].as_object().unwrap() {
            let method = if item["post"].is_object() {
                "post"
            } else {
                "put"
            };
            let schema = &item[method]["requestBody"]["content"]["application/json"]["schema"];
            let Some(name) = schema["$ref"].as_str().and_then(|to| to.rsplit('/').next()) else {
                continue;
            };
            // A batch is of these, and a replacement of what has been made.
            if name == "Batch" || (method == "put" && path.contains('{')) {
                continue;
            }
            seen.insert(name.to_owned());
            let container = function_of(&functions, path);
            let path = path.replace("{id}", "bob").replace("{client_id}", "bob");
            let write = async |body: &Value| {
                let mut event = rest(&method.to_uppercase(), &path, body);
                // Nobody, who may ask about everyone.
                event["requestContext"]["identity"]["userArn"] = Value::Null;
                ask(container, &event).await
            };
            let shape = &document["components"]["schemas"][name];
            let (status, _, made) = write(&least(name)).await;
            assert!([200, 201].contains(&status), "{name}: {made}");
            let answer = &item[method]["responses"][status.to_string()];
            let answered = described(&document, answer);
            for field in made.as_object().unwrap().keys() {
                assert!(
                    answered.contains(field),
                    "{name} is answered with {field}: {made}"
                );
            }
            for (field, property) in shape["properties"].as_object().unwrap() {
                let mut body = least(name);
                if let Some(default) = property.get("default")
                    && let Some(told) = made.get(field)
                    && body.get(field).is_none()
                {
                    assert_eq!(told, default, "{name}.{field}");
                }
                let (good, bad) = values(property);
                for value in good {
                    // An id is that of somebody, or of nothing.
                    if ["id", "client_id", "DestinationService"].contains(&field.as_str()) {
                        continue;
                    }
                    body[field] = value.clone();
                    if field == "time_unit" && value.is_null() {
                        body["time_window"] = json!(90);
                    }
                    if field == "time_window" && name == "BucketDraft" && !value.is_null() {
                        body["time_unit"] = json!(null);
                    }
                    let (status, _, told) = write(&body).await;
                    assert!(
                        [200, 201, 403, 409, 429].contains(&status),
                        "{name} {body}: {told}"
                    );
                    body = least(name);
                }
                for value in bad {
                    body[field] = value;
                    let (status, _, told) = write(&body).await;
                    let errors = told["errors"].as_array();
                    let named = errors
                        .is_some_and(|all| all.iter().any(|one| one["field"] == field.as_str()));
                    assert!(status == 400 && named, "{name} {body}: {status} {told}");
                }
            }
            for required in shape["required"].as_array().into_iter().flatten() {
                let mut body = least(name);
                body.as_object_mut()
                    .unwrap()
                    .remove(required.as_str().unwrap());
                let (status, _, told) = write(&body).await;
                assert_eq!(
                    (status, &told["errors"][0]["field"]),
                    (400, required),
                    "{name}"
                );
            }
        }
    }
    let all = [
        "BucketDraft",
        "ClientDraft",
        "KeyDraft",
        "Question",
        "ServiceCall",
        "ServiceLimitDraft",
        "RuleDraft",
    ];
    assert_eq!(seen, all.map(str::to_owned).into());
}

#[tokio::test]
async fn health_names_the_store_that_is_out_and_why_only_to_the_log() {
    let region = Region::new().await;
    let health = http("GET", "/health", "");
    let rules = region.container(Function::Rules).await;
    let (status, _, body) = ask(&rules, &health).await;
    let well = json!({"status": "ok", "stores": {"database": "ok", "redis": "ok"}, "seen": null});
    assert_eq!((status, body), (200, well));

    let nowhere = "redis://:secret@127.0.0.1:1";
    let lost = [
        ("DATABASE_URL", "postgres://weir:secret@127.0.0.1:1/weir"),
        ("REDIS_URL", nowhere),
    ];
    for function in [Function::Rules, Function::Clients] {
        let container = region.container_with(function, &lost).await;
        let (status, headers, body) = ask(&container, &health).await;
        assert_eq!((status, &headers["retry-after"]), (503, &json!("1")));
        let out: Vec<_> = body["errors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|error| &error["field"])
            .collect();
        assert_eq!(out, ["database", "redis"]);
        assert!(!body.to_string().contains("127.0.0.1"), "{body}");
        assert!(!container.logs().contains("secret"), "{}", container.logs());
    }

    // It asks about nobody: nobody needs to be registered for it.
    let operator = Operator::new().await;
    let check = operator.container(Function::Check, &[]).await;
    assert_eq!(ask(&check, &health).await.0, 200);
    let check = operator
        .container(Function::Check, &[("REDIS_URL", nowhere)])
        .await;
    assert_eq!(ask(&check, &health).await.0, 503);
    let empty = operator
        .container(Function::Check, &[("KEY_PREFIX", "nothing")])
        .await;
    assert_eq!(ask(&empty, &health).await.0, 503);
}
