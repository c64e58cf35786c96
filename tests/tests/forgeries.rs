//! Tokens that lie, each in its own way, and none of which is believed.

use serde_json::{Value, json};
use tests::Operator;
use tests::issuer::{ISSUER, SigningKey, claims, encode, from_now, key_set};

use crate::identity::{bearing, believer, passes, refused};

/// Every way of lying that is known, and every odd form.
fn lies(rsa: &SigningKey, curve: &SigningKey) -> Vec<(&'static str, String)> {
    let good = claims("eve");
    let with = |claim: &str, value: Value| {
        let mut says = good.clone();
        says[claim] = value;
        curve.token(&says)
    };
    let without = |claim: &str| {
        let mut says = good.clone();
        says.as_object_mut().unwrap().remove(claim);
        curve.token(&says)
    };
    let headed = |key: &SigningKey, name: &str, value: Value| {
        let mut header = key.header();
        header[name] = value;
        key.sign(&header, &good)
    };
    let token = curve.token(&good);
    let parts: Vec<&str> = token.split('.').collect();
    let unsigned = |header: Value| format!("{}.{}.", encode(header.to_string()), parts[1]);
    let confused = {
        // The secret is what everyone can read: the public key, as published and as its bytes.
        let header = json!({ "alg": "HS256", "kid": "r" });
        let message = format!("{}.{}", encode(header.to_string()), parts[1]);
        let sign = |secret: &[u8]| {
            let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
            let signature = ring::hmac::sign(&key, message.as_bytes());
            format!("{message}.{}", encode(signature.as_ref()))
        };
        let public = rsa.public();
        let text = public["n"].as_str().unwrap().to_owned();
        [sign(public.to_string().as_bytes()), sign(text.as_bytes())]
    };
    let [as_published, as_modulus] = confused;
    let mut forged = token.clone();
    let at = token.len() - 10;
    let other = if &token[at..=at] == "A" { "B" } else { "A" };
    forged.replace_range(at..=at, other);
    let changed = {
        let mut says = good.clone();
        says["sub"] = "admin".into();
        format!("{}.{}.{}", parts[0], encode(says.to_string()), parts[2])
    };
    vec![
        ("a forged signature", forged),
        ("changed claims", changed),
        ("no signature", format!("{}.{}.", parts[0], parts[1])),
        (
            "the signature of another key",
            SigningKey::es256("c").token(&good),
        ),
        ("an end that is over", with("exp", from_now(-120).into())),
        ("an end long ago", with("exp", 1.into())),
        ("no end", without("exp")),
        ("an end that is text", with("exp", json!("9999999999"))),
        ("an end that is null", with("exp", Value::Null)),
        ("a negative end", with("exp", (-1).into())),
        ("an end beyond numbers", with("exp", json!(1e300))),
        ("not yet valid", with("nbf", from_now(120).into())),
        ("a beginning that is text", with("nbf", json!("0"))),
        (
            "another audience",
            with("aud", json!("https://other.example/")),
        ),
        ("other audiences", with("aud", json!(["a", "b"]))),
        ("no audience in a list", with("aud", json!([]))),
        ("an audience that is a number", with("aud", json!(1))),
        ("no audience", without("aud")),
        (
            "another issuer",
            with("iss", json!("https://issuer.example")),
        ),
        (
            "a list of issuers",
            with("iss", json!([ISSUER, "https://other.example/"])),
        ),
        ("no issuer", without("iss")),
        ("no client", without("sub")),
        ("an empty client", with("sub", json!(""))),
        ("a client that is a number", with("sub", json!(7))),
        ("a client that is a list", with("sub", json!(["eve"]))),
        (
            "a client of control characters",
            with("sub", json!("eve\u{0}")),
        ),
        (
            "a client that is too long",
            with("sub", json!("x".repeat(257))),
        ),
        ("alg none", unsigned(json!({ "alg": "none", "kid": "c" }))),
        ("alg None", unsigned(json!({ "alg": "None" }))),
        ("alg of nothing", unsigned(json!({ "alg": "" }))),
        ("alg left out", unsigned(json!({ "kid": "c" }))),
        ("a public key as secret, as published", as_published),
        ("a public key as secret, its modulus", as_modulus),
        ("an id of no key", headed(curve, "kid", json!("x"))),
        ("the id of another key", headed(curve, "kid", json!("r"))),
        (
            "the id of another key of its algorithm",
            headed(curve, "kid", json!("c2")),
        ),
        ("an id that is a number", headed(curve, "kid", json!(7))),
        (
            "an algorithm that is not the key's",
            headed(curve, "alg", json!("RS256")),
        ),
        (
            "another of the same family",
            headed(rsa, "alg", json!("RS512")),
        ),
        (
            "an algorithm with padding",
            headed(rsa, "alg", json!("PS256")),
        ),
        (
            "an algorithm that nobody knows",
            headed(curve, "alg", json!("ES999")),
        ),
        (
            "a demand that is not understood",
            headed(curve, "crit", json!(["exp"])),
        ),
        (
            "a demand that demands nothing",
            headed(curve, "crit", json!([])),
        ),
        (
            "a payload that is not encoded",
            headed(curve, "b64", json!(false)),
        ),
        ("a key of its own", {
            let own = SigningKey::es256("own");
            let mut header = own.header();
            header["jwk"] = own.public();
            own.sign(&header, &good)
        }),
        ("a place for its key", {
            let own = SigningKey::es256("own");
            let mut header = own.header();
            header["jku"] = json!("http://127.0.0.1:9/keys");
            own.sign(&header, &good)
        }),
        ("nothing", String::new()),
        ("a dot", ".".to_owned()),
        ("two dots", "..".to_owned()),
        ("two parts", format!("{}.{}", parts[0], parts[1])),
        ("four parts", format!("{token}.{}", parts[2])),
        ("five parts", format!("{token}.a.b")),
        ("two tokens", format!("{token} {token}")),
        ("two tokens with a comma", format!("{token}, {token}")),
        ("padding", format!("{token}==")),
        ("base64 of another kind", token.replacen('.', "+.", 1)),
        (
            "no JSON",
            format!("{}.{}.{}", encode("{"), encode("}"), parts[2]),
        ),
        (
            "a list for a header",
            format!("{}.{}.{}", encode("[]"), parts[1], parts[2]),
        ),
        ("text beyond ASCII", "ü🦀\u{0}".to_owned()),
        ("a deep header", {
            let deep = format!("{}{}", "[".repeat(2000), "]".repeat(2000));
            let header = format!(r#"{{"alg":"ES256","kid":"c","x":{deep}}}"#);
            format!("{}.{}.{}", encode(header), parts[1], parts[2])
        }),
        (
            "an oversized token",
            with("padding", json!("x".repeat(20_000))),
        ),
        ("a token without end", "a".repeat(1_000_000)),
    ]
}

#[tokio::test]
async fn every_lie_is_refused() {
    let operator = Operator::new().await;
    operator.client("eve", json!({})).await;
    operator.key("eve", "a-key-of-eve").await;
    let (rsa, curve) = (SigningKey::rs256("r"), SigningKey::es256("c"));
    let set = key_set(&[&rsa, &curve, &SigningKey::es256("c2")]);
    // A lie does not fall through to what else is there.
    let all = [("IDENTITY", "jwt,api-key,ip")];
    let container = believer(&operator, &set, &all).await;
    let lies = lies(&rsa, &curve);
    for (name, lie) in &lies {
        let mut event = bearing(lie);
        event["headers"]["x-api-key"] = "a-key-of-eve".into();
        refused(&container, &event, name).await;
    }
    for key in [&rsa, &curve] {
        passes(
            &container,
            &bearing(&key.token(&claims("eve"))),
            "the truth",
        )
        .await;
    }
    assert!(container.is_alive());
}

#[tokio::test]
async fn a_secret_in_a_key_set_verifies_nothing() {
    let operator = Operator::new().await;
    let key = SigningKey::eddsa("e");
    let secret = json!({ "kty": "oct", "kid": "s", "alg": "HS256", "k": encode("a secret") });
    let mut for_others = SigningKey::es256("enc");
    let mut encrypting = for_others.public();
    encrypting["use"] = "enc".into();
    let unknown = json!({ "kty": "AKP", "kid": "q", "alg": "ML-DSA-44", "pub": "AAAA" });
    let set = json!({ "keys": [secret, encrypting, unknown, 7, key.public()] });
    let container = believer(&operator, &set.to_string(), &[]).await;
    let header = json!({ "alg": "HS256", "kid": "s" });
    let message = format!(
        "{}.{}",
        encode(header.to_string()),
        encode(claims("eve").to_string())
    );
    let mac = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"a secret");
    let signature = ring::hmac::sign(&mac, message.as_bytes());
    let token = format!("{message}.{}", encode(signature.as_ref()));
    refused(&container, &bearing(&token), "a secret").await;
    for_others = SigningKey::es256("enc");
    refused(
        &container,
        &bearing(&for_others.token(&claims("eve"))),
        "for encryption",
    )
    .await;
    passes(
        &container,
        &bearing(&key.token(&claims("eve"))),
        "the good one",
    )
    .await;
}
