//! Counters that are made to start fresh while everything runs.

use limits::registry::MOST_RESET;
use local::topic::Mode;
use serde_json::{Value, json};
use tests::{Container, Function};
use uuid::Uuid;

use crate::control::Control;
use crate::denials;
use crate::walks::{World, passed};

/// A rule of three a day, for the resource.
pub(crate) fn rule(resource: &str) -> Value {
    json!({"resource": resource, "limit": 3, "time_window": 86_400})
}

/// The same, shared otherwise.
fn rule_per(resource: &str, per: &str) -> Value {
    json!({"resource": resource, "limit": 3, "time_window": 86_400, "per": per})
}

/// A region with two containers that answer about everyone.
struct Counting {
    world: World,
    doors: [Container; 2],
}

impl Counting {
    async fn new() -> Self {
        let world = World::new().await;
        let open = [("CHECK_ANONYMOUS", "allow"), ("DEFAULT_LIMIT", "3/86400s")];
        let doors = [
            world.region.container_with(Function::Check, &open).await,
            world.region.container_with(Function::Check, &open).await,
        ];
        Self { world, doors }
    }

    async fn rule(&self, rule: Value) -> String {
        let rule = self.world.say("POST", "/ratelimit/rules", rule).await;
        rule["id"].as_str().unwrap().to_owned()
    }

    async fn reset(&self, body: Value) -> Value {
        let answer = self.world.say("POST", "/ratelimit/reset", body).await;
        denials::are_forgotten().await;
        answer
    }

    /// How many of five calls of a client pass, in turn through both containers.
    async fn passed(&self, client: &str, resource: &str) -> usize {
        self.passed_from(client, resource, None).await
    }

    async fn passed_from(&self, client: &str, resource: &str, ip: Option<&str>) -> usize {
        let mut event: Value =
            serde_json::from_str(include_str!("../../events/check-url.json")).unwrap();
        let path = format!("/ratelimit/status/{client}");
        event["rawPath"] = path.clone().into();
        event["requestContext"]["http"]["path"] = path.into();
        event["requestContext"]["http"]["method"] = "POST".into();
        event["body"] = json!({"resource": resource, "ip": ip}).to_string().into();
        event["isBase64Encoded"] = false.into();
        let mut passed = 0;
        for i in 0..5 {
            let answer = self.doors[i % 2].invoke(&event).await.unwrap();
            let status = answer["statusCode"].as_u64().unwrap();
            assert!([200, 429].contains(&status), "{answer}");
            passed += usize::from(status == 200);
        }
        passed
    }
}

#[tokio::test]
async fn a_client_that_is_reset_starts_fresh_by_every_rule_and_nobody_else_does() {
    let counting = Counting::new().await;
    counting.rule(rule("/a")).await;
    counting.rule(rule("/b")).await;
    counting.rule(rule_per("/all", "all")).await;
    let drained = async |client: &str| {
        let mut passed = Vec::new();
        for resource in ["/a", "/b", "/default"] {
            passed.push(counting.passed(client, resource).await);
        }
        passed
    };
    for client in ["eve", "bob"] {
        assert_eq!(drained(client).await, [3, 3, 3]);
    }
    assert_eq!(counting.passed("eve", "/all").await, 3);

    // Registered or not is all one.
    for registered in [false, true] {
        if registered {
            counting.world.client("eve", "free").await;
        }
        let answer = counting.reset(json!({"client": "eve"})).await;
        assert_eq!(answer["client"], "eve");
        assert_eq!(answer["rule_id"], Value::Null);
        assert_eq!(answer["propagation"], "announced");
        assert!(answer["revision"].is_u64() && answer["generation"].is_u64());
        assert_eq!(drained("eve").await, [3, 3, 3], "registered: {registered}");
        assert_eq!(drained("bob").await, [0, 0, 0]);
        assert_eq!(counting.passed("eve", "/all").await, 0, "it is everyone's");
    }
    // Two in one second are two.
    for _ in 0..2 {
        counting.reset(json!({"client": "eve"})).await;
        assert_eq!(drained("eve").await, [3, 3, 3]);
    }
}

#[tokio::test]
async fn a_rule_that_is_reset_starts_fresh_for_every_owner_and_no_other_rule_does() {
    let counting = Counting::new().await;
    let own = counting.rule(rule("/a")).await;
    let all = counting.rule(rule_per("/all", "all")).await;
    let ip = counting.rule(rule_per("/ip", "ip")).await;
    counting.rule(rule("/b")).await;
    let address = Some("192.0.2.1");
    for (client, left) in [("eve", 3), ("bob", 0)] {
        assert_eq!(counting.passed(client, "/a").await, 3);
        assert_eq!(counting.passed(client, "/b").await, 3);
        assert_eq!(counting.passed(client, "/all").await, left);
        assert_eq!(counting.passed_from(client, "/ip", address).await, left);
    }
    for (id, of_bob) in [(&own, [3, 0, 0]), (&all, [0, 3, 0]), (&ip, [0, 0, 3])] {
        let answer = counting.reset(json!({"rule_id": id, "client": null})).await;
        assert_eq!(
            (&answer["rule_id"], &answer["client"]),
            (&json!(id), &Value::Null)
        );
        assert_eq!(counting.passed("bob", "/a").await, of_bob[0]);
        assert_eq!(counting.passed("bob", "/all").await, of_bob[1]);
        assert_eq!(counting.passed_from("bob", "/ip", address).await, of_bob[2]);
        assert_eq!(counting.passed("bob", "/b").await, 0);
    }
    assert_eq!(counting.passed("eve", "/a").await, 3);

    // Who replaces the rule writes nothing of its reset, and does not undo it.
    let path = format!("/ratelimit/rules/{own}");
    let shown = counting.world.say("GET", &path, Value::Null).await;
    assert!(shown.get("generation").is_none(), "{shown}");
    counting.world.say("PUT", &path, shown).await;
    assert_eq!(counting.passed("eve", "/a").await, 0);
    let longer = json!({"resource": "/a", "limit": 4, "time_window": 86_400});
    counting.world.say("PUT", &path, longer).await;
    denials::are_forgotten().await;
    assert_eq!(counting.passed("eve", "/a").await, 1);
}

#[tokio::test]
async fn one_rule_of_one_client_is_reset_alone() {
    let counting = Counting::new().await;
    let a = counting.rule(rule("/a")).await;
    counting.rule(rule("/b")).await;
    for client in ["eve", "bob"] {
        for resource in ["/a", "/b"] {
            assert_eq!(counting.passed(client, resource).await, 3);
        }
    }
    let both = json!({"client": "eve", "rule_id": a});
    for _ in 0..2 {
        counting.reset(both.clone()).await;
        assert_eq!(counting.passed("eve", "/a").await, 3);
        assert_eq!(counting.passed("eve", "/b").await, 0);
        assert_eq!(counting.passed("bob", "/a").await, 0);
    }
    // The whole client after the one rule, and the one rule after the whole client, are newer each time.
    for body in [json!({"client": "eve"}), both, json!({"rule_id": a})] {
        counting.reset(body).await;
        assert_eq!(counting.passed("eve", "/a").await, 3);
    }
}

#[tokio::test]
async fn the_holder_of_a_key_starts_fresh_too() {
    let world = World::new().await;
    let (eve, bob) = (
        world.client("eve", "free").await,
        world.client("bob", "free").await,
    );
    let made = world.say("POST", "/ratelimit/rules", rule("*")).await;
    let (one, two) = (
        world.region.container(Function::Authorizer).await,
        world.region.container(Function::Authorizer).await,
    );
    for key in [&eve, &bob] {
        assert_eq!(passed(&[&one, &two], key, 5).await, 3);
    }
    for body in [
        json!({"client": "eve"}),
        json!({"client": "eve", "rule_id": made["id"]}),
    ] {
        world.say("POST", "/ratelimit/reset", body).await;
        denials::are_forgotten().await;
        assert_eq!(passed(&[&two, &one], &eve, 5).await, 3);
        assert_eq!(passed(&[&one, &two], &bob, 2).await, 0);
    }
}

#[tokio::test]
async fn who_is_known_by_its_address_alone_starts_fresh_with_the_rule() {
    let world = World::new().await;
    let made = world.say("POST", "/ratelimit/rules", rule("*")).await;
    let by_address = [("IDENTITY", "ip")];
    let authorizer = world
        .region
        .container_with(Function::Authorizer, &by_address)
        .await;
    assert_eq!(passed(&[&authorizer], "", 5).await, 3);
    let reset = json!({"rule_id": made["id"]});
    world.say("POST", "/ratelimit/reset", reset).await;
    denials::are_forgotten().await;
    assert_eq!(passed(&[&authorizer], "", 5).await, 3);
}

#[tokio::test]
async fn what_was_reset_stays_so_whatever_becomes_of_the_client() {
    let counting = Counting::new().await;
    let id = counting.rule(rule("/a")).await;
    let world = &counting.world;
    assert_eq!(counting.passed("eve", "/a").await, 3);
    assert_eq!(counting.passed("eve", "/b").await, 3);
    counting.reset(json!({"client": "eve"})).await;
    counting
        .reset(json!({"client": "eve", "rule_id": id}))
        .await;

    // It is no registration.
    let listed = world.say("GET", "/clients", Value::Null).await;
    assert_eq!(listed["clients"], json!([]));
    for (method, path, body) in [
        ("GET", "/clients/eve", Value::Null),
        ("DELETE", "/clients/eve", Value::Null),
        ("POST", "/clients/eve/keys", json!({})),
    ] {
        assert_eq!(
            world.call(method, path, body).await.status,
            404,
            "{method} {path}"
        );
    }
    assert_eq!(counting.passed("eve", "/a").await, 3);
    assert_eq!(counting.passed("eve", "/b").await, 3);

    // Registered, deleted, registered again: neither a fresh bucket nor an old one.
    for _ in 0..2 {
        world.client("eve", "free").await;
        assert_eq!(counting.passed("eve", "/a").await, 0);
        assert_eq!(counting.passed("eve", "/b").await, 0);
        assert_eq!(
            world
                .call("DELETE", "/clients/eve", Value::Null)
                .await
                .status,
            204
        );
        assert_eq!(counting.passed("eve", "/a").await, 0);
        assert_eq!(counting.passed("eve", "/b").await, 0);
    }

    // A rule that comes back under its id does not find its old counters either.
    counting.reset(json!({"rule_id": id})).await;
    assert_eq!(counting.passed("eve", "/a").await, 3);
    let path = format!("/ratelimit/rules/{id}");
    assert_eq!(world.call("DELETE", &path, Value::Null).await.status, 204);
    let mut same = rule("/a");
    same["id"] = id.into();
    world
        .say("POST", "/ratelimit/rules:batch", json!({"upsert": [same]}))
        .await;
    assert_eq!(counting.passed("eve", "/a").await, 0);
}

#[tokio::test]
async fn a_reset_that_could_not_be_announced_is_pending_and_the_schedule_brings_it() {
    let counting = Counting::new().await;
    let id = counting.rule(rule("/a")).await;
    let world = &counting.world;
    for client in ["eve", "bob"] {
        assert_eq!(counting.passed(client, "/a").await, 3);
    }
    world.region.topic.set(Mode::Refuse);
    for body in [json!({"client": "eve"}), json!({"rule_id": id})] {
        let answer = world.call("POST", "/ratelimit/reset", body).await;
        assert_eq!(
            (answer.status, answer.propagation.as_str()),
            (200, "pending")
        );
        assert_eq!(answer.body["propagation"], "pending");
    }
    assert_eq!(counting.passed("eve", "/a").await, 0);
    world.scheduled().await;
    denials::are_forgotten().await;
    for client in ["eve", "bob"] {
        assert_eq!(counting.passed(client, "/a").await, 3);
    }
}

#[tokio::test]
async fn a_reset_is_audited_and_what_cannot_be_reset_is_told() {
    for control in Control::both().await {
        let eves = json!({"resource": "/a", "client": "eve", "limit": 1, "time_window": 1});
        let eves = control.rule(eves).await;
        let all = control.rule(rule_per("/a", "all")).await;
        let ip = control.rule(rule_per("/a", "ip")).await;
        let nobody = Uuid::now_v7();
        for (body, status, fields) in [
            (json!({}), 400, vec![""]),
            (json!({"client": null, "rule_id": null}), 400, vec![""]),
            (json!({"colour": 1}), 400, vec!["", "colour"]),
            (json!([]), 400, vec![""]),
            (
                json!({"client": "", "rule_id": "x", "colour": 1}),
                400,
                vec!["client", "rule_id", "colour"],
            ),
            (
                json!({"client": 7, "rule_id": 7}),
                400,
                vec!["client", "rule_id"],
            ),
            (json!({"rule_id": nobody}), 404, vec![]),
            (json!({"rule_id": nobody, "client": "eve"}), 404, vec![]),
            // No counter of theirs is there.
            (
                json!({"rule_id": eves, "client": "bob"}),
                400,
                vec!["rule_id"],
            ),
            (
                json!({"rule_id": all, "client": "eve"}),
                400,
                vec!["rule_id"],
            ),
            (
                json!({"rule_id": ip, "client": "eve"}),
                400,
                vec!["rule_id"],
            ),
        ] {
            let refused = control.post("/ratelimit/reset", body.clone()).await;
            assert_eq!(refused.is_problem(status).fields(), fields, "{body}");
        }
        control.get("/ratelimit/reset").await.is_problem(405);
        assert_eq!(
            control.database.head().await.unwrap().revision,
            3,
            "nothing was written"
        );

        let published = async |control: &Control| {
            let chunk = limits::chunk_of(eves.parse().unwrap());
            let (_, chunks) = control.database.chunks(&[chunk]).await.unwrap();
            chunks[0].1[0].get("generation").cloned()
        };
        let shown = control.get(&format!("/ratelimit/rules/{eves}")).await;
        assert_eq!(
            published(&control).await,
            None,
            "who knows no resets can read the rule"
        );
        let mut generations = Vec::new();
        for body in [
            json!({"client": "eve"}),
            json!({"client": "eve", "rule_id": eves}),
            json!({"client": "eve", "rule_id": eves}),
            json!({"rule_id": eves}),
        ] {
            let reset = control.post("/ratelimit/reset", body).await;
            assert_eq!(
                (reset.status, reset.header("weir-propagation")),
                (200, "announced")
            );
            assert_eq!(reset.body["revision"], reset.revision());
            generations.push(reset.body["generation"].as_u64().unwrap());
        }
        assert!(generations[0] < generations[1] && generations[1] < generations[2]);
        assert_eq!(control.announced.lock().unwrap().last(), Some(&7));
        let newest = published(&control).await;
        assert_eq!(newest, Some(json!(generations[3])), "{}", control.store);
        let since = control.get(&format!("/ratelimit/rules/{eves}")).await;
        assert_eq!(
            (&since.body, since.header("etag")),
            (&shown.body, shown.header("etag"))
        );

        let notes = control.pages("audit", "/ratelimit/audit?", 2).await;
        let told: Vec<_> = notes[3..]
            .iter()
            .map(|note| {
                assert_eq!(
                    (&note["action"], &note["actor"]),
                    (&json!("reset"), &json!("anonymous"))
                );
                for (name, before, after) in ["client", "rule_id"]
                    .map(|name| (name, &note["before"][name], &note["after"][name]))
                {
                    assert_eq!(before, after, "{name}");
                }
                let at = |when: &str| note[when]["generation"].as_u64().unwrap();
                (
                    note["after"]["client"].clone(),
                    note["rule_id"].clone(),
                    at("before"),
                    at("after"),
                )
            })
            .collect();
        let (eve, rule) = (json!("eve"), json!(eves));
        let [first, second, third, fourth] = generations[..] else {
            panic!()
        };
        assert_eq!(
            told,
            [
                (eve.clone(), Value::Null, 0, first),
                (eve.clone(), rule.clone(), first, second),
                (eve.clone(), rule.clone(), second, third),
                (Value::Null, rule.clone(), 0, fourth),
            ],
            "{}",
            control.store
        );
        let of = async |filter: &str| {
            control
                .pages("audit", &format!("/ratelimit/audit?{filter}&"), 9)
                .await
                .len()
        };
        assert_eq!(
            of("client=eve").await,
            1 + 4,
            "also by the rule that names it"
        );
        assert_eq!(of(&format!("rule={eves}")).await, 1 + 3);
    }
}

#[tokio::test]
async fn what_is_remembered_of_a_client_is_bounded() {
    for control in Control::both().await {
        let upserts: Vec<Value> = (0..=MOST_RESET).map(|i| rule(&format!("/r{i}"))).collect();
        let made = control
            .post("/ratelimit/rules:batch", json!({"upsert": upserts}))
            .await;
        let rules = made.body["rules"].as_array().unwrap();
        let reset = async |rule: &Value| {
            let body = json!({"client": "eve", "rule_id": rule["id"]});
            control.post("/ratelimit/reset", body).await
        };
        for rule in &rules[1..] {
            assert_eq!(reset(rule).await.status, 200);
        }
        assert_eq!(
            reset(&rules[1]).await.status,
            200,
            "it is remembered already"
        );
        reset(&rules[0]).await.is_problem(409);
        // A rule that is gone makes room.
        let gone = rules[5]["id"].as_str().unwrap();
        assert_eq!(
            control
                .delete(&format!("/ratelimit/rules/{gone}"))
                .await
                .status,
            204
        );
        assert_eq!(reset(&rules[0]).await.status, 200, "{}", control.store);
        // So does a reset of the whole client, which is newer than all of them.
        let whole = control
            .post("/ratelimit/reset", json!({"client": "eve"}))
            .await;
        let again = reset(&rules[0]).await;
        assert!(again.body["generation"].as_u64() > whole.body["generation"].as_u64());
    }
}
