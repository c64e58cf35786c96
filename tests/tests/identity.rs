//! Who is it: good tokens, what the registry has to say, the order in which identities count, and addresses behind proxies.

use std::time::Duration;

use local::servers::{End, Redis};
use serde_json::{Value, json};
use tests::issuer::{AUDIENCE, ISSUER, SigningKey, claims, from_now, key_set};
use tests::{Container, Function, FunctionError, Operator};

/// A call as a REST API asks about it, with one header by which it makes itself known.
pub(crate) fn call(name: &str, value: &str) -> Value {
    let mut event: Value =
        serde_json::from_str(include_str!("../../events/authorizer-jwt.json")).unwrap();
    for headers in ["headers", "multiValueHeaders"] {
        let headers = event[headers].as_object_mut().unwrap();
        headers.remove("Authorization");
    }
    event["headers"][name] = value.into();
    event["multiValueHeaders"][name] = json!([value]);
    event
}

pub(crate) fn bearing(token: &str) -> Value {
    call("Authorization", &format!("Bearer {token}"))
}

fn to(path: &str, mut event: Value) -> Value {
    event["path"] = path.into();
    event
}

fn from_address(address: &str, forwarded_for: &[&str]) -> Value {
    let mut event = call("X-Forwarded-For", forwarded_for.last().unwrap_or(&""));
    event["multiValueHeaders"]["X-Forwarded-For"] = forwarded_for.into();
    event["requestContext"]["identity"]["sourceIp"] = address.into();
    event
}

pub(crate) fn told(word: &str) -> FunctionError {
    FunctionError {
        error_type: word.to_owned(),
        error_message: word.to_owned(),
    }
}

pub(crate) async fn refused(container: &Container, event: &Value, why: &str) {
    let answer = container.invoke(event).await;
    assert_eq!(answer, Err(told("Unauthorized")), "{why}");
}

/// The context of an answer that lets the call through.
pub(crate) async fn passes(container: &Container, event: &Value, what: &str) -> Value {
    let answer = container.invoke(event).await;
    let answer = answer.unwrap_or_else(|error| panic!("{what}: {error}\n{}", container.logs()));
    let effect = &answer["policyDocument"]["Statement"][0]["Effect"];
    assert_eq!(effect, "Allow", "{what}");
    answer["context"].clone()
}

/// A container that believes tokens of this key set.
pub(crate) async fn believer(operator: &Operator, keys: &str, more: &[(&str, &str)]) -> Container {
    let mut variables = vec![
        ("IDENTITY", "jwt"),
        ("JWT_JWKS", keys),
        ("JWT_ISSUER", ISSUER),
        ("JWT_AUDIENCE", AUDIENCE),
    ];
    variables.extend(more);
    operator.container(Function::Authorizer, &variables).await
}

#[tokio::test]
async fn a_good_token_of_each_algorithm_makes_its_client_known() {
    let operator = Operator::new().await;
    let keys = [
        SigningKey::rs256("r"),
        SigningKey::es256("c"),
        SigningKey::eddsa("e"),
    ];
    let set = key_set(&keys.each_ref());
    let container = believer(&operator, &set, &[]).await;
    for key in &keys {
        let algorithm = key.algorithm();
        let mut says = claims(algorithm);
        let one = bearing(&key.token(&says));
        assert_eq!(
            passes(&container, &one, algorithm).await["clientId"],
            algorithm
        );
        says["aud"] = json!(["https://other.example/", AUDIENCE]);
        says["nbf"] = from_now(-1).into();
        let spelt = call("aUTHORIZATION", &format!("bEARER  {}", key.token(&says)));
        assert_eq!(
            passes(&container, &spelt, algorithm).await["clientId"],
            algorithm
        );
    }
    // The same to an HTTP API.
    let mut event: Value =
        serde_json::from_str(include_str!("../../events/authorizer-http.json")).unwrap();
    event["headers"]["authorization"] = format!("Bearer {}", keys[1].token(&claims("eve"))).into();
    let answer = container.invoke(&event).await.unwrap();
    assert_eq!(
        (&answer["isAuthorized"], &answer["context"]["clientId"]),
        (&json!(true), &json!("eve"))
    );
    // Both clocks may be a minute wrong, and no more than the leeway says.
    let strict = believer(&operator, &set, &[("JWT_LEEWAY_SECONDS", "0")]).await;
    for (claim, moment) in [("exp", from_now(-30)), ("nbf", from_now(30))] {
        let mut says = claims("eve");
        says[claim] = moment.into();
        let event = bearing(&keys[2].token(&says));
        passes(&container, &event, claim).await;
        refused(&strict, &event, claim).await;
    }
}

#[tokio::test]
async fn of_keys_without_an_id_the_only_one_is_meant() {
    let operator = Operator::new().await;
    let key = SigningKey::es256("c");
    let mut nameless = key.public();
    nameless.as_object_mut().unwrap().remove("kid");
    let container = believer(&operator, &json!({ "keys": [nameless] }).to_string(), &[]).await;
    let header = json!({ "alg": "ES256" });
    let event = bearing(&key.sign(&header, &claims("eve")));
    passes(&container, &event, "no id, one key").await;
    refused(&container, &bearing(&key.token(&claims("eve"))), "an id").await;

    let both = key_set(&[&key, &SigningKey::es256("d")]);
    let container = believer(&operator, &both, &[]).await;
    refused(&container, &event, "no id, two keys").await;
}

#[tokio::test]
async fn the_tier_is_the_registrys_for_a_registered_client_and_else_the_tokens() {
    let operator = Operator::new().await;
    operator
        .client("registered", json!({ "tier": "free" }))
        .await;
    let key = SigningKey::es256("c");
    let more = [
        ("JWT_CLIENT_CLAIM", "https://issuer.example/client"),
        ("JWT_TIER_CLAIM", "plan"),
    ];
    let container = believer(&operator, &key_set(&[&key]), &more).await;
    let says = |client: &str, plan: Value| {
        let mut says = claims("nobody");
        says["https://issuer.example/client"] = client.into();
        says["plan"] = plan;
        bearing(&key.token(&says))
    };
    for (client, plan, tier) in [
        ("registered", json!("premium"), "free"),
        ("stranger", json!("premium"), "premium"),
        ("stranger", json!("free"), "free"),
        ("stranger", json!("Premium"), ""),
        ("stranger", json!("gold"), ""),
        ("stranger", json!(["premium"]), ""),
        ("stranger", Value::Null, ""),
    ] {
        let context = passes(&container, &says(client, plan.clone()), client).await;
        let told = (&context["clientId"], &context["tier"]);
        assert_eq!(told, (&json!(client), &json!(tier)), "{plan}");
    }
    refused(
        &container,
        &bearing(&key.token(&claims("eve"))),
        "no such claim",
    )
    .await;
    // Registered from now on, and known to be.
    operator.client("stranger", json!({ "tier": "paid" })).await;
    let context = passes(
        &container,
        &says("stranger", json!("premium")),
        "registered",
    )
    .await;
    assert_eq!(context["tier"], "paid");
    // Without the variable no claim gives a tier.
    let plain = believer(&operator, &key_set(&[&key]), &[]).await;
    let mut says = claims("another");
    says["tier"] = "premium".into();
    let context = passes(&plain, &bearing(&key.token(&says)), "no tier claim").await;
    assert_eq!(context["tier"], "");
}

#[tokio::test]
async fn a_client_has_one_bucket_whether_it_shows_a_key_or_a_token() {
    let operator = Operator::new().await;
    operator.client("eve", json!({})).await;
    operator.key("eve", "a-key-of-eve").await;
    let rule = json!({ "resource": "/orders/*", "limit": 2, "time_window": 86_400 });
    operator.rule(rule).await;
    let key = SigningKey::es256("c");
    let all = [("IDENTITY", "jwt,api-key")];
    let container = believer(&operator, &key_set(&[&key]), &all).await;
    let token = bearing(&key.token(&claims("eve")));
    passes(&container, &token, "the first").await;
    let by_key = call("x-api-key", "a-key-of-eve");
    assert_eq!(
        passes(&container, &by_key, "the second").await["remaining"],
        "0"
    );
    let answer = container.invoke(&token).await.unwrap();
    assert_eq!(answer["context"]["decision"], "throttled");
    // A token that is no bearer's does not hide the key.
    let mut basic = by_key.clone();
    basic["headers"]["Authorization"] = "Basic ZXZlOmh1bnRlcjI=".into();
    let answer = container.invoke(&basic).await.unwrap();
    assert_eq!(answer["context"]["clientId"], "eve");
}

#[tokio::test]
async fn a_terminated_client_is_refused_whatever_its_token_says() {
    let operator = Operator::new().await;
    operator.client("eve", json!({})).await;
    let key = SigningKey::es256("c");
    let container = believer(&operator, &key_set(&[&key]), &[]).await;
    let event = bearing(&key.token(&claims("eve")));
    passes(&container, &event, "before").await;
    let terminated = json!({ "status": "terminated" });
    operator.replace_client("eve", terminated).await;
    for _ in 0..3 {
        refused(&container, &event, "terminated").await;
    }
    operator.replace_client("eve", json!({})).await;
    let within = Duration::from_secs(30);
    let again = async {
        // A refusal may be a second old.
        while container.invoke(&event).await.is_err() {}
    };
    tokio::time::timeout(within, again).await.unwrap();
}

#[tokio::test]
async fn while_redis_is_out_a_token_is_judged_and_an_api_key_is_not() {
    let mut redis = Redis::start().unwrap();
    let operator = Operator::at(&redis.url()).await;
    operator.client("known", json!({ "tier": "free" })).await;
    operator.client("eve", json!({})).await;
    operator.key("eve", "a-key-of-eve").await;
    operator
        .client("gone", json!({ "status": "terminated" }))
        .await;
    for (resource, tier, on_failure) in [
        ("/orders", "free", "deny"),
        ("/orders", "premium", "allow"),
        ("/payments", "premium", "deny"),
    ] {
        let rule = json!({
            "resource": resource, "tier": tier, "on_failure": on_failure,
            "limit": 1000, "time_window": 60,
        });
        operator.rule(rule).await;
    }
    let key = SigningKey::es256("c");
    let quick = [
        ("IDENTITY", "jwt,api-key"),
        ("JWT_TIER_CLAIM", "tier"),
        ("REDIS_TIMEOUT_MS", "100"),
        ("RULES_LOAD_TIMEOUT_MS", "1000"),
    ];
    let container = believer(&operator, &key_set(&[&key]), &quick).await;
    let by = |client: &str, path: &str| {
        let mut says = claims(client);
        says["tier"] = "premium".into();
        to(path, bearing(&key.token(&says)))
    };
    let context = passes(&container, &by("known", "/orders"), "before").await;
    assert_eq!(
        (&context["tier"], &context["degraded"]),
        (&json!("free"), &json!(""))
    );
    redis.pause();
    for round in ["frozen", "dead"] {
        // Seen for the first time: by the token's tier, and that it is terminated nobody can know.
        for client in ["stranger", "gone"] {
            let context = passes(&container, &by(client, "/orders"), round).await;
            assert_eq!(context["tier"], "premium");
            assert_eq!(context["degraded"], "1");
            let answer = container.invoke(&by(client, "/payments")).await;
            assert_eq!(answer, Err(told("StoreUnavailable")), "{client} {round}");
        }
        // Where no rule fits.
        let context = passes(&container, &by("stranger", "/else"), round).await;
        assert_eq!(context["degraded"], "1");
        // Remembered: by the registry's tier.
        let answer = container.invoke(&by("known", "/orders")).await;
        assert_eq!(answer, Err(told("StoreUnavailable")), "{round}");
        // What is wrong stays wrong, and who cannot be judged is not judged.
        refused(&container, &bearing("a.b.c"), round).await;
        let forged = SigningKey::es256("c").token(&claims("known"));
        refused(&container, &bearing(&forged), round).await;
        let answer = container.invoke(&call("x-api-key", "a-key-of-eve")).await;
        assert_eq!(answer, Err(told("StoreUnavailable")), "{round}");
        if round == "frozen" {
            redis.stop(End::Kill);
        }
    }
    redis.restart().unwrap();
    operator.publish().await;
    let back = async {
        while container.invoke(&by("gone", "/orders")).await != Err(told("Unauthorized")) {}
    };
    let within = Duration::from_secs(30);
    tokio::time::timeout(within, back).await.unwrap();
}

#[tokio::test]
async fn behind_trusted_proxies_the_address_is_the_one_that_they_vouch_for() {
    let operator = Operator::new().await;
    let rule = json!({ "resource": "*", "per": "ip", "limit": 1, "time_window": 86_400 });
    operator.rule(rule).await;
    let behind = [
        ("IDENTITY", "ip"),
        ("TRUSTED_PROXIES", "10.0.0.0/8,2001:db8:a::/48"),
    ];
    let container = operator.container(Function::Authorizer, &behind).await;
    let count = async |event: &Value| {
        let answer = container.invoke(event).await.unwrap();
        answer["context"]["decision"].as_str().unwrap().to_owned()
    };
    for (seen, lines, wanted) in [
        ("10.0.0.1", &["192.0.2.1, 10.0.0.1"][..], "allowed"),
        // The same caller by another way, with another port, with a tale of its own in front.
        ("10.0.0.2", &["192.0.2.1:4711"], "throttled"),
        ("2001:db8:a::1", &["[::ffff:192.0.2.1]:5"], "throttled"),
        (
            "10.0.0.1",
            &["198.51.100.9", "192.0.2.1, 10.3.3.3"],
            "throttled",
        ),
        ("::ffff:10.0.0.1", &["192.0.2.1"], "throttled"),
        // Another caller.
        ("10.0.0.1", &["192.0.2.2"], "allowed"),
        // One that comes directly is believed nothing.
        ("192.0.2.3", &["198.51.100.1"], "allowed"),
        ("192.0.2.3", &["198.51.100.2"], "throttled"),
        // Junk: the proxy itself.
        ("10.0.0.7", &["192.0.2.77, unknown"], "allowed"),
        ("10.0.0.7", &["192.0.2.78, 1.2.3"], "throttled"),
        ("10.0.0.7", &[], "throttled"),
    ] {
        let decision = count(&from_address(seen, lines)).await;
        assert_eq!(decision, wanted, "{seen} {lines:?}");
    }
    let mut event: Value =
        serde_json::from_str(include_str!("../../events/authorizer-http.json")).unwrap();
    event["requestContext"]["http"]["sourceIp"] = "10.0.0.1".into();
    for (forwarded, wanted) in [("192.0.2.50,10.1.1.1", true), ("192.0.2.50", false)] {
        event["headers"]["x-forwarded-for"] = forwarded.into();
        let answer = container.invoke(&event).await.unwrap();
        assert_eq!(answer["isAuthorized"], wanted, "{forwarded}");
    }
    // Nobody is trusted without being named.
    let alone = operator
        .container(Function::Authorizer, &[("IDENTITY", "ip")])
        .await;
    for wanted in ["allowed", "throttled"] {
        let event = from_address("10.0.9.9", &["192.0.2.60"]);
        let answer = alone.invoke(&event).await.unwrap();
        assert_eq!(answer["context"]["decision"], wanted);
    }
}

#[tokio::test]
async fn all_that_is_wrong_with_identities_is_told_at_once_and_nothing_secret_is() {
    let told = async |variables: &[(&str, &str)]| {
        let memory = [("REDIS_URL", "memory://")];
        let variables = memory.into_iter().chain(variables.iter().copied());
        let container = Container::start(Function::Authorizer, variables).await;
        let ready = container.ready().await;
        ready.map_err(|error| error.error_message)
    };
    let error = told(&[("IDENTITY", "api-key,jwt")]).await.unwrap_err();
    for name in [
        "JWT_JWKS or JWT_JWKS_URL is missing",
        "JWT_ISSUER",
        "JWT_AUDIENCE",
    ] {
        assert!(error.contains(name), "no {name} in: {error}");
    }
    let wrong = [
        ("IDENTITY", "jwt"),
        (
            "JWT_JWKS",
            "{\"keys\":[{\"kty\":\"oct\",\"k\":\"aHVudGVyMg\"}]}",
        ),
        ("JWT_JWKS_URL", "http://hunter2.example/keys"),
        ("JWT_ISSUER", ISSUER),
        ("JWT_LEEWAY_SECONDS", "-1"),
        ("TRUSTED_PROXIES", "10.0.0.0/99"),
    ];
    let error = told(&wrong).await.unwrap_err();
    for name in [
        "JWT_JWKS must",
        "JWT_JWKS_URL must",
        "JWT_AUDIENCE is missing",
        "JWT_LEEWAY_SECONDS must",
        "TRUSTED_PROXIES must",
    ] {
        assert!(error.contains(name), "no {name} in: {error}");
    }
    assert!(
        !error.contains("hunter2") && !error.contains("aHVudGVyMg"),
        "{error}"
    );
    let keys = key_set(&[&SigningKey::es256("c")]);
    let both = [
        ("IDENTITY", "jwt"),
        ("JWT_JWKS", keys.as_str()),
        ("JWT_JWKS_URL", "https://issuer.example/keys"),
        ("JWT_ISSUER", ISSUER),
        ("JWT_AUDIENCE", AUDIENCE),
    ];
    let error = told(&both).await.unwrap_err();
    assert!(error.contains("JWT_JWKS and JWT_JWKS_URL"), "{error}");

    // What is not used is not read, and the log says so.
    let unused = [("REDIS_URL", "memory://"), ("JWT_ISSUER", ISSUER)];
    let container = Container::start(Function::Authorizer, unused).await;
    container.ready().await.unwrap();
    container.logged("JWT_ISSUER is not used").await;
}
