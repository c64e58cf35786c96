//! The files of `events/`: each is what its function is sent, and is answered by it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use limits_postgres::Database;
use local::demo;
use serde_json::{Value, json};
use tests::issuer::{AUDIENCE, ISSUER, SigningKey, key_set};
use tests::{Bridge, Container, Function, Region, stores};

use crate::canary;
use crate::migrations::Bucket;

/// Every file of the folder, by its name without `.json`.
fn events() -> BTreeMap<String, Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../events");
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let event =
                serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            (name, event)
        })
        .collect()
}

/// An HTTP answer's status and body.
fn answer(of: &Value) -> (u64, Value) {
    let body = of["body"].as_str().unwrap();
    (
        of["statusCode"].as_u64().unwrap(),
        serde_json::from_str(body).unwrap(),
    )
}

async fn invoke(container: &Container, event: &Value) -> Value {
    match container.invoke(event).await {
        Ok(answer) => answer,
        Err(error) => panic!("{error}\n{}", container.logs()),
    }
}

#[tokio::test]
async fn every_event_is_answered_by_its_function() {
    let region = Region::new().await;
    let database = Database::parse(region.variable("DATABASE_URL")).unwrap();
    demo::seed(&database).await.unwrap();
    let mut events = events();
    let mut event = |name: &str| events.remove(name).unwrap_or_else(|| panic!("no {name}"));

    let migrate = region.container(Function::Migrate).await;
    invoke(&migrate, &event("migrate")).await;
    let bucket = Bucket::start(&[]).await;
    let mut deploy = event("migrate-deploy");
    deploy["ResponseURL"] = bucket.url().into();
    // One server for many databases: the role would be everybody's.
    deploy["ResourceProperties"]["DatabaseRole"] = stores::unique("functions").into();
    let told = invoke(&migrate, &deploy).await;
    assert_eq!(told["Status"], "SUCCESS", "{told}");
    invoke(&region.refresh, &event("refresh-schedule")).await;
    invoke(&region.refresh, &event("refresh-sns")).await;
    invoke(&region.refresh, &event("refresh-restored")).await;

    let authorizer = region.container(Function::Authorizer).await;
    let policy = invoke(&authorizer, &event("authorizer-rest")).await;
    assert_eq!(policy["policyDocument"]["Statement"][0]["Effect"], "Allow");
    assert_eq!(policy["context"]["clientId"], demo::FREE.client);
    assert_eq!(policy["context"]["remaining"], "9");
    let simple = invoke(&authorizer, &event("authorizer-http")).await;
    assert_eq!(simple["isAuthorized"], true);
    assert_eq!(simple["context"]["remaining"], "8");

    let keys = key_set(&[&SigningKey::es256("example")]);
    let by_token = [
        ("IDENTITY", "jwt"),
        ("JWT_JWKS", keys.as_str()),
        ("JWT_ISSUER", ISSUER),
        ("JWT_AUDIENCE", AUDIENCE),
    ];
    let authorizer = region.container_with(Function::Authorizer, &by_token).await;
    // Nobody has signed its token.
    let refused = authorizer.invoke(&event("authorizer-jwt")).await;
    assert_eq!(refused.unwrap_err().error_message, "Unauthorized");

    let rules = region.container(Function::Rules).await;
    let (status, rule) = answer(&invoke(&rules, &event("rules-rest")).await);
    assert_eq!((status, &rule["limit"]), (201, &json!(5)), "{rule}");
    let (status, met) = answer(&invoke(&rules, &event("rules-http")).await);
    assert_eq!(status, 200, "{met}");
    assert_eq!(met["rules"].as_array().unwrap().len(), 2, "{met}");

    let clients = region.container(Function::Clients).await;
    let (status, client) = answer(&invoke(&clients, &event("clients-rest")).await);
    assert_eq!((status, &client["client_id"]), (201, &json!("orders")));
    let (status, list) = answer(&invoke(&clients, &event("clients-http")).await);
    assert_eq!(status, 200, "{list}");
    assert_eq!(list["clients"].as_array().unwrap().len(), 4, "{list}");

    let (status, limit) = answer(&invoke(&rules, &event("rules-throttle")).await);
    assert_eq!((status, &limit["Tps"]), (200, &json!(50)), "{limit}");
    assert!(region.topic.settled(Duration::from_secs(20)).await);

    let anonymous = [("CHECK_ANONYMOUS", "allow")];
    let check = region.container_with(Function::Check, &anonymous).await;
    for name in ["check-url", "check-url-iam"] {
        let (status, told) = answer(&invoke(&check, &event(name)).await);
        assert_eq!(
            (status, &told["status"]),
            (200, &json!("allowed")),
            "{name}: {told}"
        );
    }

    let passed = answer(&invoke(&check, &event("check-throttle")).await);
    assert_eq!(passed, (200, json!({})));

    let url = Bridge::function_url(check).await;
    let asks = canary::asking(url.url());
    let canary = Container::start(Function::Canary, asks).await;
    let told = invoke(&canary, &event("canary-schedule")).await;
    assert!(told["first"].as_str().unwrap().starts_with("200"), "{told}");

    assert!(events.is_empty(), "nobody was sent {:?}", events.keys());
}
