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
    (status.try_into().unwrap(), answer["headers"].clone(), body)
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
