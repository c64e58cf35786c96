//! A primary that sentinels watch, and one behind TLS: found, left and found again.

use std::time::Duration;

use crate::eve::{self, LIMIT, left, until_counted};
use local::servers::{Redis, Setup, User};
use serde_json::{Value, json};
use tests::{Container, Function, Line, RedisCluster, Sentinels, certificates, console};

#[tokio::test]
async fn the_primary_that_sentinels_name_is_asked_whichever_it_is() {
    let mut watched = Sentinels::start(1).await;
    let operator = eve::at(&watched.url()).await;
    let container = operator
        .container(Function::Authorizer, &[("REDIS_TIMEOUT_MS", "200")])
        .await;
    assert_eq!(until_counted(&container).await, LIMIT - 1);

    // Planned: the old one is demoted, and what it was told is with the new one.
    let old = watched.fail_over().await;
    assert!(until_counted(&container).await <= LIMIT - 2);
    watched.follow(1 - old, old).await;
    watched.settled().await;

    // Not planned: it hangs, and nobody hears from it again.
    watched.node_mut(old).pause();
    assert_eq!(left(&container).await, None);
    let new = watched.primary_after(old).await;
    assert!(until_counted(&container).await <= LIMIT - 2);

    // Back as a replica: it decides nothing.
    watched.node_mut(old).resume();
    watched.follow(old, new).await;
    watched.settled().await;
    let before = until_counted(&container).await;
    assert_eq!(left(&container).await, Some(before - 1));

    // A sentinel that is gone keeps nobody from finding the primary.
    watched.sentinel_mut(0).pause();
    let cold = operator
        .container(Function::Authorizer, &[("REDIS_TIMEOUT_MS", "1000")])
        .await;
    assert_eq!(until_counted(&cold).await, before - 2);
    watched.sentinel_mut(0).resume();
}

#[tokio::test]
async fn a_container_that_is_frozen_after_each_answer_finds_the_new_primary_all_the_same() {
    let mut watched = Sentinels::start(1).await;
    let operator = eve::at(&watched.url()).await;
    // One sentinel, which answers so late that the container is frozen by then, if it is asked only after a call.
    let line = Line::to(watched.sentinel_mut(0).port()).await;
    line.delay(Duration::from_millis(100));
    let url = format!("redis+sentinel://127.0.0.1:{}/weir", line.port());
    let settings = [("REDIS_URL", url.as_str()), ("REDIS_TIMEOUT_MS", "1000")];
    let container = operator.container(Function::Authorizer, &settings).await;
    assert_eq!(until_counted(&container).await, LIMIT - 1);
    let old = watched.primary().await;
    watched.node_mut(old).pause();
    watched.primary_after(old).await;
    for _ in 0..20 {
        let counted = left(&container).await;
        container.freeze();
        if counted.is_some() {
            return;
        }
        // Longer than a search may take. What was under way is lost meanwhile.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        line.cut();
        container.thaw();
    }
    panic!("{}", container.logs());
}

/// With TLS, and a user whose password is asked for.
fn secured() -> Redis {
    let setup = Setup {
        tls: Some(certificates::of_loopback()),
        user: Some(User {
            name: Some("weir".to_owned()),
            password: "letmein".to_owned(),
        }),
        ..Setup::default()
    };
    Redis::start_as(&setup).unwrap()
}

#[tokio::test]
async fn behind_tls_only_a_server_with_a_trusted_certificate_is_asked() {
    let redis = secured();
    let authority = redis.authority().unwrap();
    let authority = authority.to_str().unwrap();
    let url = redis.url();
    let (trusting, name) = (
        [("REDIS_URL", url.as_str()), ("SSL_CERT_FILE", authority)],
        "t",
    );
    let database = tests::stores::database().await;
    let at_database = [("DATABASE_URL", database.as_str())];
    let start = |function, more: &[(&'static str, String)]| {
        let own = [
            ("KEY_PREFIX".to_owned(), name.to_owned()),
            ("REDIS_TIMEOUT_MS".to_owned(), "2000".to_owned()),
        ];
        let more = more
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()));
        Container::start(function, own.into_iter().chain(more).collect::<Vec<_>>())
    };
    let owned = |pairs: &[(&'static str, &str)]| -> Vec<(&'static str, String)> {
        pairs
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect()
    };
    let refresh = start(
        Function::Refresh,
        &owned(&[trusting[0], trusting[1], at_database[0]]),
    )
    .await;
    refresh.invoke(&json!({})).await.unwrap();

    let anyone = ("CHECK_ANONYMOUS", "allow");
    let check = start(Function::Check, &owned(&[trusting[0], trusting[1], anyone])).await;
    let mut event: Value =
        serde_json::from_str(include_str!("../../events/check-url.json")).unwrap();
    event["rawPath"] = "/ratelimit/status/eve".into();
    event["requestContext"]["http"]["path"] = "/ratelimit/status/eve".into();
    let answer = check.invoke(&event).await.unwrap();
    let body: Value = serde_json::from_str(answer["body"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&body["reason"], &body["remaining"]),
        (&json!("default"), &json!(99))
    );

    // Signed by nobody whom the system knows; without TLS; as somebody else.
    let stranger = url.replace("letmein", "let-me-in");
    let plain = url.replace("rediss://", "redis://");
    for (why, wrong) in [
        ("unknown authority", owned(&[trusting[0], anyone])),
        ("no TLS", owned(&[("REDIS_URL", &plain), anyone])),
        (
            "wrong password",
            owned(&[("REDIS_URL", &stranger), trusting[1], anyone]),
        ),
    ] {
        let container = start(Function::Check, &wrong).await;
        let answer = container.invoke(&event).await.unwrap();
        assert_eq!(answer["statusCode"], 503, "{why}: {answer}");
        assert!(!container.logs().contains("letmein") && !container.logs().contains("let-me-in"));
    }
}

#[tokio::test]
async fn by_its_role_a_function_logs_in_with_a_token_that_it_signs_itself() {
    let setup = Setup {
        tls: Some(certificates::of_loopback()),
        ..Setup::default()
    };
    let cluster = RedisCluster::start_as(0, &setup).await;
    let authority = cluster.node(0).authority().unwrap();
    let url = cluster.url().replace("://", "://signed@");
    let role = [
        ("REDIS_URL", url.as_str()),
        ("SSL_CERT_FILE", authority.to_str().unwrap()),
        ("REDIS_AUTH", "iam"),
        ("REDIS_CACHE_NAME", "weir"),
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ];
    let everywhere = async |command: &str| {
        for node in 0..cluster.size() {
            console::ask::<()>(cluster.node(node), command)
                .await
                .unwrap();
        }
    };
    // Takes any password, and tells who has shown one.
    everywhere("ACL SETUSER signed on nopass ~* +@all").await;
    let container = Container::start(Function::Check, role).await;
    container.ready().await.unwrap();
    let mut known = String::new();
    for node in 0..cluster.size() {
        known += &console::ask::<String>(cluster.node(node), "CLIENT LIST")
            .await
            .unwrap();
    }
    assert!(
        known.contains("user=signed"),
        "{known}\n{}",
        container.logs()
    );
    // That a token is right is held against another's reckoning elsewhere. One that is refused is an outage, and no secret is told.
    everywhere("ACL SETUSER signed resetpass >another").await;
    let refused = Container::start(Function::Check, role).await;
    refused.ready().await.unwrap();
    refused.logged("Redis is out").await;
    assert!(!refused.logs().contains("X-Amz"), "{}", refused.logs());
}
