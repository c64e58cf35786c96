//! Keys that an issuer publishes: new ones, and what it may do instead of publishing them.

use std::time::Duration;

use futures::future::join_all;
use local::servers::temporary_folder;
use serde_json::json;
use tests::issuer::{
    AUDIENCE, CERTIFICATE, ISSUER, KeyServer, Publication, SigningKey, claims, key_set,
};
use tests::{Container, Function, Operator};
use tokio::time::{sleep, timeout};

use crate::identity::{bearing, passes, refused, told};

/// A container that believes tokens of the keys that a server publishes.
async fn reader(operator: &Operator, server: &KeyServer) -> Container {
    reader_with(operator, server, &[]).await
}

async fn reader_with(operator: &Operator, server: &KeyServer, more: &[(&str, &str)]) -> Container {
    let mut variables = vec![
        ("IDENTITY", "jwt"),
        ("JWT_JWKS_URL", server.address()),
        ("JWT_ISSUER", ISSUER),
        ("JWT_AUDIENCE", AUDIENCE),
    ];
    variables.extend(more);
    operator.container(Function::Authorizer, &variables).await
}

#[tokio::test]
async fn a_new_key_is_looked_for_when_a_token_names_it_and_once_a_minute_at_most() {
    let operator = Operator::new().await;
    let (old, new) = (SigningKey::es256("old"), SigningKey::eddsa("new"));
    let server = KeyServer::start(Publication::Text(key_set(&[&old]))).await;
    let container = reader(&operator, &server).await;
    let by_old = bearing(&old.token(&claims("eve")));
    let by_new = bearing(&new.token(&claims("eve")));
    for _ in 0..3 {
        passes(&container, &by_old, "known at start").await;
    }
    assert_eq!(server.asked(), 1);
    server.publish(Publication::Text(key_set(&[&old, &new])));
    passes(&container, &by_new, "published since").await;
    assert_eq!(server.asked(), 2);
    passes(&container, &by_old, "still there").await;
    for n in 0..20 {
        let stranger = SigningKey::eddsa(&format!("made up {n}"));
        let event = bearing(&stranger.token(&claims("eve")));
        refused(&container, &event, "made up").await;
    }
    refused(&container, &bearing("a.b.c"), "no token").await;
    assert_eq!(server.asked(), 2);
}

#[tokio::test]
async fn keys_come_over_tls_from_one_whose_certificate_is_trusted() {
    let operator = Operator::new().await;
    let key = SigningKey::es256("c");
    let published = Publication::Text(key_set(&[&key]));
    let server = KeyServer::start_tls(published).await;
    let folder = temporary_folder("certificates").unwrap();
    let file = folder.join("issuer.pem");
    std::fs::write(&file, CERTIFICATE).unwrap();
    let event = bearing(&key.token(&claims("eve")));

    let trusting = [("SSL_CERT_FILE", file.to_str().unwrap())];
    let container = reader_with(&operator, &server, &trusting).await;
    passes(&container, &event, "trusted").await;
    assert_eq!(server.asked(), 1);

    let container = reader(&operator, &server).await;
    let answer = container.invoke(&event).await;
    assert_eq!(answer, Err(told("StoreUnavailable")));
    assert_eq!(server.asked(), 1);
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn what_an_issuer_does_instead_of_publishing_hangs_nothing_and_forgets_no_key() {
    let operator = Operator::new().await;
    let key = SigningKey::es256("c");
    let (good, stranger) = (
        bearing(&key.token(&claims("eve"))),
        bearing(&SigningKey::es256("x").token(&claims("eve"))),
    );
    // Where a redirect would lead.
    let elsewhere = KeyServer::start(Publication::Text(key_set(&[&key]))).await;
    for instead in [
        Publication::Text("{".to_owned()),
        Publication::Text("{\"keys\":[]}".to_owned()),
        Publication::Text(json!({ "keys": [{ "kty": "oct", "k": "AAAA" }] }).to_string()),
        Publication::Endless,
        Publication::Silent,
        Publication::Broken,
        Publication::Elsewhere(elsewhere.address().to_owned()),
    ] {
        let server = KeyServer::start(Publication::Text(key_set(&[&key]))).await;
        let container = reader(&operator, &server).await;
        passes(&container, &good, "known at start").await;
        server.publish(instead.clone());
        refused(&container, &stranger, "looked for in vain").await;
        assert_eq!(server.asked(), 2, "{instead:?}");
        passes(&container, &good, "known as before").await;
        refused(&container, &stranger, "not looked for").await;
        assert_eq!(server.asked(), 2, "{instead:?}");

        // Without any keys a token cannot be judged, and is not called wrong.
        let server = KeyServer::start(instead.clone()).await;
        let container = reader(&operator, &server).await;
        container.ready().await.unwrap();
        let answer = container.invoke(&good).await;
        assert_eq!(answer, Err(told("StoreUnavailable")), "{instead:?}");
        refused(&container, &bearing("a.b.c"), "no token").await;
    }
    assert_eq!(elsewhere.asked(), 0);
}

#[tokio::test]
async fn an_issuer_that_is_down_at_start_is_asked_again() {
    let operator = Operator::new().await;
    let key = SigningKey::es256("c");
    let server = KeyServer::start(Publication::Broken).await;
    let container = reader(&operator, &server).await;
    container.ready().await.unwrap();
    server.publish(Publication::Text(key_set(&[&key])));
    let event = bearing(&key.token(&claims("eve")));
    passes(&container, &event, "up again").await;
}

#[tokio::test]
async fn however_many_want_a_key_at_once_it_is_looked_for_once() {
    let operator = Operator::new().await;
    let old = SigningKey::es256("old");
    let server = KeyServer::start(Publication::Text(key_set(&[&old]))).await;
    let many = [("AWS_LAMBDA_MAX_CONCURRENCY", "8")];
    let container = reader_with(&operator, &server, &many).await;
    let known = bearing(&old.token(&claims("eve")));
    passes(&container, &known, "known at start").await;
    server.publish(Publication::Silent);
    let strangers = (0..6).map(|n| {
        let key = SigningKey::eddsa(&format!("made up {n}"));
        let event = bearing(&key.token(&claims("eve")));
        let container = &container;
        async move { refused(container, &event, "made up").await }
    });
    let meanwhile = async {
        while server.asked() < 2 {
            sleep(Duration::from_millis(5)).await;
        }
        passes(&container, &known, "known as before").await;
    };
    let all = async { tokio::join!(join_all(strangers), meanwhile) };
    timeout(Duration::from_secs(30), all).await.unwrap();
    assert_eq!(server.asked(), 2);
}
