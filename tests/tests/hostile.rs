//! What hostile or unlucky input and timing must not do.

use std::time::Duration;

use limiter::{Config, Limiter, Request, Verdict, Who};
use limits::counters::Operation;
use limits::rule::Algorithm;
use limits::{Quota, Resource};
use local::servers::Redis;
use serde_json::{Value, json};
use tests::{Container, Function, Operator, stores};
use tokio_postgres::NoTls;

use crate::control::Control;

const KEY: &str = "a-key-of-eve";

fn limiter(operator: &Operator) -> Limiter {
    let config = Config {
        default_limit: Quota::new(Algorithm::TokenBucket, 1_000_000, None, 60).ok(),
        redis_timeout: Duration::from_secs(2),
        load_timeout: Duration::from_secs(5),
    };
    Limiter::new(config, operator.store.clone())
}

async fn decide(limiter: &Limiter, who: Who<'_>, resource: &str) -> Verdict {
    let request = Request {
        who,
        address: None,
        resource: Resource::parse(resource),
        tokens: 1,
        operation: Operation::Take,
    };
    limiter.decide(&request).await
}

fn rule(resource: &str, limit: impl Into<Value>) -> Value {
    json!({"resource": resource, "limit": limit.into(), "time_window": 86_400})
}

async fn eve(operator: &Operator) {
    operator.client("eve", json!({})).await;
    operator.key("eve", KEY).await;
}

async fn redis(server: &Redis) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(server.url()).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

async fn psql(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// An empty Redis is a store out, healed by `refresh`. Here it is emptied while a run of `refresh` is between its look
/// at what is published and its first write: what that run leaves passes for all that there is, for good.
#[tokio::test]
async fn a_redis_that_is_emptied_during_a_refresh_is_filled_again() {
    let server = Redis::start().unwrap();
    let url = stores::database().await;
    let control = Control::at(&url);
    for n in 0..20 {
        control.rule(rule(&format!("/blocked{n}"), 0)).await;
    }
    let prefix = stores::unique("b");
    let environment = [
        ("REDIS_URL", server.url()),
        ("KEY_PREFIX", prefix.clone()),
        ("DATABASE_URL", url.clone()),
    ];
    let refresh = Container::start(Function::Refresh, environment.clone()).await;
    refresh.invoke(&json!({})).await.unwrap();

    control.rule(rule("/one-more", 5)).await;
    // Holds the run up where it asks the database what has changed.
    let holder = psql(&url).await;
    holder
        .batch_execute("BEGIN; LOCK TABLE registry_names IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    let event = json!({});
    let run = refresh.invoke(&event);
    let disturb = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        let mut connection = redis(&server).await;
        let _: () = redis::cmd("FLUSHALL")
            .query_async(&mut connection)
            .await
            .unwrap();
        holder.batch_execute("COMMIT").await.unwrap();
    };
    let (outcome, ()) = tokio::join!(run, disturb);
    eprintln!("the disturbed run: {outcome:?}");
    // The schedule, three times over.
    for _ in 0..3 {
        eprintln!("{:?}", refresh.invoke(&event).await);
    }
    let open = [
        ("CHECK_ANONYMOUS".to_owned(), "allow".to_owned()),
        ("REDIS_TIMEOUT_MS".to_owned(), "2000".to_owned()),
    ];
    let own = environment
        .iter()
        .take(2)
        .map(|(n, v)| ((*n).to_owned(), v.clone()));
    let check = Container::start(Function::Check, own.chain(open)).await;
    let mut passed = Vec::new();
    for n in 0..20 {
        let mut ask: Value =
            serde_json::from_str(include_str!("../../events/check-url.json")).unwrap();
        ask["body"] = json!({"resource": format!("/blocked{n}")})
            .to_string()
            .into();
        let answer = check.invoke(&ask).await.unwrap();
        if answer["statusCode"] != 429 {
            passed.push((n, answer["body"].clone()));
        }
    }
    assert!(
        passed.is_empty(),
        "{} of 20 blocked paths are open: {:?}",
        passed.len(),
        passed.first()
    );
}

/// The same through the real binary.
#[tokio::test]
async fn a_moment_beyond_all_years_fails_no_function() {
    let url = stores::database().await;
    let clients = Container::start(Function::Clients, [("DATABASE_URL", url)]).await;
    let mut event: Value =
        serde_json::from_str(include_str!("../../events/clients-rest.json")).unwrap();
    let mut say = |path: &str, body: Value| {
        event["httpMethod"] = "POST".into();
        event["requestContext"]["httpMethod"] = "POST".into();
        event["path"] = path.into();
        event["requestContext"]["path"] = format!("/prod{path}").into();
        event["body"] = body.to_string().into();
        event.clone()
    };
    let made = clients
        .invoke(&say("/clients", json!({"client_id": "eve"})))
        .await
        .unwrap();
    assert_eq!(made["statusCode"], 201);
    let key = json!({"expires_at": "9999-12-31T23:59:59-01:00"});
    let answer = clients.invoke(&say("/clients/eve/keys", key)).await;
    assert_eq!(
        answer.map(|answer| answer["statusCode"].clone()),
        Ok(json!(400))
    );
}

/// never 500.
#[tokio::test]
async fn an_escaped_control_character_in_a_resource_fails_nothing() {
    let mut failed = Vec::new();
    for control in Control::both().await {
        for resource in ["/a/%00", "/a/%0A", "/%00/b", "GET /x/%7F", "/a/%C2%85"] {
            let made = control.post("/ratelimit/rules", rule(resource, 1)).await;
            if ![201, 400].contains(&made.status) {
                failed.push(format!(
                    "{} POST {resource}: {}",
                    control.store, made.status
                ));
            }
            let target = format!(
                "/ratelimit/rules?resource={}",
                resource.replace('%', "%25").replace(' ', "%20")
            );
            let listed = control.get(&target).await;
            if ![200, 400].contains(&listed.status) {
                failed.push(format!("{} GET {target}: {}", control.store, listed.status));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

/// `applies_to` tells every rule that a call could meet.
#[tokio::test]
async fn a_rule_is_found_by_a_call_to_it_whatever_characters_its_name_has() {
    let mut missed = Vec::new();
    for control in Control::both().await {
        for (resource, call) in [
            ("a%b", "a%25b"),
            ("100%", "100%25"),
            ("/a/100%25", "/a/100%2525"),
            ("/b/%7Bid%7D", "/b/%257Bid%257D"),
            ("/c/%7B", "/c/%257B"),
            ("/d/%2A", "/d/%252A"),
            ("/e/%2A%2A", "/e/%252A%252A"),
            ("/f/a%20b", "/f/a%2520b"),
            ("/g/%2541", "/g/%252541"),
            ("/h/ü", "/h/%C3%BC"),
            ("get", "get"),
            ("a;b", "a;b"),
            ("a+b", "a%2Bb"),
            ("%2A", "%252A"),
        ] {
            let id = control.rule(rule(resource, 1)).await;
            let met = control
                .get(&format!("/ratelimit/rules?applies_to={call}"))
                .await;
            let found = met.body["rules"]
                .as_array()
                .is_some_and(|rules| rules.iter().any(|rule| rule["id"] == id.as_str()));
            if !found {
                missed.push(format!("{} {resource}: {}", control.store, met.body));
            }
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

/// A rule where a call to its own pattern would meet more than 32 rules is refused. Also of a service with a `%`.
#[tokio::test]
async fn no_spelling_gets_around_the_bound_of_32_rules() {
    let mut missed = Vec::new();
    for control in Control::both().await {
        for resource in ["plain", "a%b", "/x/%7Bid%7D"] {
            let mut last = 0;
            for n in 0..33 {
                let one = json!({"resource": resource, "limit": 5, "time_window": 61 + n});
                last = control.post("/ratelimit/rules", one).await.status;
            }
            if last != 400 {
                missed.push(format!("{} {resource}: {last}", control.store));
            }
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

/// The default limit is a bucket of its own.
#[tokio::test]
async fn no_rule_shares_the_bucket_of_the_default_limit() {
    let operator = Operator::new().await;
    eve(&operator).await;
    let draft = limits::Draft::new("/a", Some(5), 60);
    let put = limits_postgres::change_rules::Put {
        field: String::new(),
        target: limits_postgres::change_rules::Target::Id(uuid::Uuid::nil()),
        draft,
        expected: limits_postgres::Expected::Whatever,
    };
    if operator
        .database
        .change_rules("op", vec![put], Vec::new())
        .await
        .is_err()
    {
        return;
    }
    operator.publish().await;
    let limiter = limiter(&operator);
    for _ in 0..5 {
        decide(&limiter, Who::Key(KEY), "/a").await;
    }
    let Verdict::Decided(decision) = decide(&limiter, Who::Key(KEY), "/b").await else {
        panic!()
    };
    assert_eq!(decision.told.unwrap().remaining, Some(999_999));
}
