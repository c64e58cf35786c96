//! What hostile or unlucky input and timing must not do.

use std::time::Duration;

use limiter::{Config, Limiter, Request, Verdict, Who};
use limits::counters::Operation;
use limits::rule::Algorithm;
use limits::{Quota, Resource};
use limits_redis::keys::Keys;
use local::servers::Redis;
use serde_json::{Value, json};
use tests::{Container, Function, Operator, stores};
use tokio_postgres::NoTls;

use crate::control::Control;
use crate::publishing::{limiter, word};

const KEY: &str = "a-key-of-eve";

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

/// While the first is held up, Redis is emptied and a second run, which knows that nothing is
/// published, is killed after its first page. The first finds a head with a newer stamp and goes on as if all were there.
#[tokio::test]
async fn a_redis_that_is_emptied_under_two_refreshes_of_which_one_is_killed_is_filled_again() {
    let server = Redis::start().unwrap();
    let url = stores::database().await;
    let control = Control::at(&url);
    for n in 0..20 {
        control.rule(rule(&format!("/blocked{n}"), 0)).await;
    }
    let prefix = stores::unique("b");
    let store = limits_redis::Store::open(&server.url(), Keys::new(&prefix).unwrap()).unwrap();
    let refresh = refresh::Refresh::new(control.database.clone(), store.clone());
    refresh.run(0).await.unwrap();
    let (head, _) = store.published().await.unwrap();
    control.rule(rule("/one-more", 5)).await;
    let holder = psql(&url).await;
    holder
        .batch_execute("BEGIN; LOCK TABLE registry_names IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    let disturb = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        let mut connection = redis(&server).await;
        let _: () = redis::cmd("FLUSHALL")
            .query_async(&mut connection)
            .await
            .unwrap();
        // What is left of the second run: one page of a history of its own.
        let history = head.unwrap().version.history + 1;
        assert_eq!(store.claim(history, 0).await.unwrap(), history);
        let version = limits_redis::Version {
            history,
            revision: 21,
        };
        let page = limits_redis::Page {
            version,
            chunks: vec![(0, format!("{history} 21\n[]"))],
            ..limits_redis::Page::default()
        };
        store.put(&page).await.unwrap();
        holder.batch_execute("COMMIT").await.unwrap();
    };
    let (first, ()) = tokio::join!(refresh.run(0), disturb);
    eprintln!("the disturbed run: {first:?}");
    for _ in 0..3 {
        eprintln!("{:?}", refresh.run(0).await);
    }
    let config = Config {
        default_limit: None,
        redis_timeout: Duration::from_secs(2),
        load_timeout: Duration::from_secs(5),
        limit_percent: 100,
        fallback_percent: 10,
    };
    let cold = Limiter::new(config, store);
    let who = Who::Client {
        id: "somebody",
        asker: limiter::Asker::Anyone,
    };
    assert_eq!(word(&decide(&cold, who, "/blocked7").await), "blocked");
}

/// The keys of a client that is deleted or terminated are refused. `9999-12-31T23:59:59Z` is how many write "never",
/// and a database may live in any time zone.
#[tokio::test]
async fn a_key_that_ends_with_the_year_9999_can_be_taken_away() {
    let url = stores::database().await;
    let admin = psql(&url).await;
    let name = url
        .rsplit('/')
        .next()
        .unwrap()
        .split('?')
        .next()
        .unwrap()
        .to_owned();
    admin
        .batch_execute(&format!(
            "ALTER DATABASE {name} SET TimeZone = 'Europe/Berlin'"
        ))
        .await
        .unwrap();
    let control = Control::at(&url);
    let store = limits_redis::Store::open(
        &stores::redis().url(),
        Keys::new(&stores::unique("z")).unwrap(),
    )
    .unwrap();
    let refresh = refresh::Refresh::new(control.database.clone(), store.clone());
    control.post("/clients", json!({"client_id": "eve"})).await;
    let made = control
        .post(
            "/clients/eve/keys",
            json!({"expires_at": "9999-12-31T23:59:59Z"}),
        )
        .await;
    if made.status == 400 {
        return;
    }
    assert_eq!(made.status, 201);
    let secret = made.body["api_key"].as_str().unwrap();
    refresh.run(0).await.unwrap();
    let config = Config {
        default_limit: None,
        redis_timeout: Duration::from_secs(2),
        load_timeout: Duration::from_secs(5),
        limit_percent: 100,
        fallback_percent: 10,
    };
    let limiter = Limiter::new(config, store);
    assert_eq!(
        word(&decide(&limiter, Who::Key(secret), "/x").await),
        "default"
    );
    let listed = control.get("/clients/eve/keys").await;
    let deleted = control
        .delete(&format!(
            "/clients/eve/keys/{}",
            made.body["key_id"].as_str().unwrap()
        ))
        .await;
    control
        .put("/clients/eve", json!({"status": "terminated"}))
        .await;
    refresh.run(0).await.unwrap();
    let terminated = word(&decide(&limiter, Who::Key(secret), "/x").await);
    let gone = control.delete("/clients/eve").await;
    refresh.run(0).await.unwrap();
    let after = word(&decide(&limiter, Who::Key(secret), "/x").await);
    assert_eq!(
        (
            listed.body["keys"].as_array().unwrap().len(),
            deleted.status,
            terminated,
            gone.status,
            after
        ),
        (1, 204, "unknown", 204, "unknown")
    );
}

/// Lambda gives back at most 6 MB. A body of less than a megabyte must not make an answer that is larger.
#[tokio::test]
async fn no_body_makes_an_answer_that_lambda_cannot_carry() {
    let control = Control::in_memory();
    let many = "0,".repeat(500_000);
    let body = format!("{{\"upsert\": [{}0]}}", many);
    assert!(body.len() < 1 << 20);
    let body: Value = serde_json::from_str(&body).unwrap();
    let answer = control.post("/ratelimit/rules:batch", body).await;
    let length = answer.body.to_string().len();
    assert!(length < 6 << 20, "{} with {length} bytes", answer.status);
}

/// A catch-up that was cut short goes on from where it was, ends in time, and is behind again by what
/// came in between. There is time left, and Redis is well.
#[tokio::test]
async fn a_catch_up_that_went_on_and_is_behind_again_catches_up_again() {
    let mut server = Redis::start().unwrap();
    let operator = Operator::at(&server.url()).await;
    eve(&operator).await;
    let mut careful = rule("/pay", 1_000_000);
    careful["on_failure"] = "deny".into();
    operator.rule(careful).await;
    let config = Config {
        default_limit: Quota::new(Algorithm::TokenBucket, 1_000_000, None, 60).ok(),
        redis_timeout: Duration::from_secs(5),
        load_timeout: Duration::from_secs(3),
        limit_percent: 100,
        fallback_percent: 10,
    };
    let limiter = Limiter::new(config, operator.store.clone());
    assert_eq!(word(&decide(&limiter, Who::Key(KEY), "/pay").await), "rule");
    operator
        .rules((0..900).map(|n| rule(&format!("/many/{n}"), 1)).collect())
        .await;
    let cut = async {
        tokio::time::sleep(Duration::from_millis(15)).await;
        server.pause();
        tokio::time::sleep(Duration::from_millis(3_200)).await;
        server.resume();
    };
    let (first, ()) = tokio::join!(decide(&limiter, Who::Key(KEY), "/pay"), cut);
    eprintln!("while it was paused: {}", word(&first));
    operator.rule(rule("/later", 1)).await;
    let started = std::time::Instant::now();
    let second = decide(&limiter, Who::Key(KEY), "/pay").await;
    eprintln!("{:?}", started.elapsed());
    assert_eq!(word(&second), "rule");
}

/// A chunk that cannot be read is not taken for one without rules, however often it is tried.
#[tokio::test]
async fn a_damaged_chunk_opens_no_door_of_a_cold_container() {
    let operator = Operator::new().await;
    let blocked = (0..40).map(|n| rule(&format!("/blocked{n}"), 0));
    operator.rules(blocked.collect()).await;
    let client = redis::Client::open(stores::redis().url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let chunks = Keys::new(operator.prefix()).unwrap().chunks();
    let mut numbers: Vec<u16> = redis::cmd("HKEYS")
        .arg(&chunks)
        .query_async(&mut connection)
        .await
        .unwrap();
    // The last of all that a reader comes to: the pages before it are read, and kept.
    numbers.sort_unstable();
    let last = numbers.last().copied();
    let mut damage = redis::cmd("HSET");
    damage.arg(&chunks).arg(last).arg("damaged");
    damage.exec_async(&mut connection).await.unwrap();
    let limiter = limiter(&operator);
    for n in 0..40 {
        let who = Who::Client {
            id: "anyone",
            asker: limiter::Asker::Anyone,
        };
        let verdict = decide(&limiter, who, &format!("/blocked{n}")).await;
        assert_eq!(word(&verdict), "store out");
    }
}
