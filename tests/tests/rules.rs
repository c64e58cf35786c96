//! Rules over the control API. What does not say otherwise is the same over Postgres and in memory.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::http::Request;
use futures::future::join_all;
use serde_json::{Value, json};

use crate::control::Control;

fn simple(resource: &str) -> Value {
    json!({"resource": resource, "limit": 10, "time_window": 60})
}

#[tokio::test]
async fn a_rule_is_made_read_replaced_and_deleted() {
    for control in Control::both().await {
        let made = control
            .post("/ratelimit/rules", simple("GET /orders/{id}"))
            .await;
        assert_eq!(made.status, 201, "{}", made.body);
        let id = made.body["id"].as_str().unwrap();
        let at = format!("/ratelimit/rules/{id}");
        assert_eq!(made.revision(), 1);
        assert_eq!(made.header("weir-propagation"), "announced");
        assert_eq!(made.header("etag"), "\"1\"");
        assert_eq!(made.body["revision"], 1);
        assert_eq!(made.body["propagation"], "announced");
        let mut whole = json!({
            "id": id, "resource": "GET /orders/{id}", "client": null, "tier": null, "per": "client", "override": false,
            "split": 1, "algorithm": "token_bucket", "limit": 10, "time_window": 60, "burst": null, "on_failure": "limit",
            "status": "active", "description": "", "revision": 1,
        });
        whole["created_at"] = made.body["created_at"].clone();
        whole["updated_at"] = made.body["created_at"].clone();

        let read = control.get(&at).await;
        assert_eq!(
            (read.status, &read.body),
            (200, &whole),
            "{}",
            control.store
        );
        assert_eq!(read.header("etag"), "\"1\"");

        let more = json!({"resource": "/b", "limit": null, "time_window": 1, "client": "eve", "description": "d"});
        let replaced = control.put(&at, more).await;
        assert_eq!(
            (replaced.status, replaced.revision()),
            (200, 2),
            "{}",
            replaced.body
        );
        assert_eq!(replaced.body["limit"], Value::Null);
        assert_eq!(replaced.body["client"], "eve");
        let simply = control.put(&at, simple("/b")).await;
        assert_eq!(
            simply.body["client"],
            Value::Null,
            "what is left out takes its default"
        );
        assert_eq!(simply.body["description"], "");
        assert_eq!(simply.body["created_at"], made.body["created_at"]);

        let gone = control.delete(&at).await;
        assert_eq!((gone.status, gone.revision()), (204, 4));
        assert_eq!(gone.header("weir-propagation"), "announced");
        assert_eq!(gone.body, Value::Null);
        control.get(&at).await.is_problem(404);
        control.put(&at, simple("/b")).await.is_problem(404);
        control.delete(&at).await.is_problem(404);
        assert_eq!(*control.announced.lock().unwrap(), [1, 2, 3, 4]);
    }
}

#[tokio::test]
async fn what_was_answered_can_be_put_back() {
    for control in Control::both().await {
        let id = control
            .rule(json!({"resource": "/a/**", "tier": "paid", "per": "ip", "override": true, "limit": 5, "time_window": 7,
                "burst": 9, "on_failure": "deny", "status": "shadow", "description": "ünï"}))
            .await;
        let at = format!("/ratelimit/rules/{id}");
        let read = control.get(&at).await.body;
        let mut put = control.put(&at, read.clone()).await;
        assert_eq!(put.status, 200, "{}", put.body);
        let again = control.put(&at, put.body.clone()).await;
        assert_eq!(again.status, 200, "with `propagation` too: {}", again.body);
        for name in ["revision", "updated_at"] {
            put.body[name] = read[name].clone();
        }
        put.body.as_object_mut().unwrap().remove("propagation");
        assert_eq!(put.body, read);

        let mut other = read;
        other["id"] = json!("01979c4e-0000-7000-8000-000000000000");
        let refused = control.put(&at, other).await;
        assert_eq!(refused.is_problem(400).fields(), ["id"]);
    }
}

#[tokio::test]
async fn every_fault_is_told_at_once_and_nothing_is_written() {
    for control in Control::both().await {
        let bad = json!({"resource": "/a*", "limit": -1, "per": "galaxy", "colour": "red", "burst": 0, "tier": "gold"});
        let refused = control.post("/ratelimit/rules", bad).await;
        let told: BTreeSet<&str> = refused.is_problem(400).fields().into_iter().collect();
        for field in ["limit", "time_window", "per", "colour", "tier"] {
            assert!(told.contains(field), "{field} in {told:?}");
        }
        let whole =
            json!({"resource": "/a*", "limit": 1, "time_window": 0, "burst": 0, "colour": "red"});
        let refused = control.post("/ratelimit/rules", whole).await;
        let told: BTreeSet<&str> = refused.is_problem(400).fields().into_iter().collect();
        assert_eq!(told, ["burst", "colour", "resource", "time_window"].into());
        // What is missing hides nothing else.
        let partly = json!({"resource": "/a*", "limit": -1, "description": "x".repeat(1025)});
        let batch = control
            .post("/ratelimit/rules:batch", json!({"upsert": [partly]}))
            .await;
        let refused = control.post("/ratelimit/rules", partly).await;
        let mut told = refused.is_problem(400).fields();
        told.sort_unstable();
        assert_eq!(told, ["description", "limit", "resource", "time_window"]);
        let mut whole = batch.is_problem(400).fields();
        whole.sort_unstable();
        let prefixed: Vec<String> = told
            .iter()
            .map(|field| format!("upsert[0].{field}"))
            .collect();
        assert_eq!(whole, prefixed);
        for body in [json!([]), json!(7), json!("rule")] {
            control.post("/ratelimit/rules", body).await.is_problem(400);
        }
        assert_eq!(control.database.head().await.unwrap().revision, 0);
        assert!(control.announced.lock().unwrap().is_empty());
    }
}

#[tokio::test]
async fn what_all_share_is_spread_over_as_many_shares_as_there_are_parts() {
    for control in Control::both().await {
        let shared = |split: Value| json!({"resource": "/hot", "per": "all", "limit": 64, "time_window": 1, "split": split});
        let id = control.rule(shared(json!(64))).await;
        let at = format!("/ratelimit/rules/{id}");
        let read = control.get(&at).await.body;
        assert_eq!(read["split"], 64, "{}", control.store);
        let again = control.put(&at, read).await;
        assert_eq!((again.status, &again.body["split"]), (200, &json!(64)));
        let simply = control.put(&at, shared(json!(null))).await;
        assert_eq!((simply.status, &simply.body["split"]), (200, &json!(1)));
        let revision = control.database.head().await.unwrap().revision;
        for (field, value, right) in [
            ("split", json!(65), "must be an integer from 1 to 64"),
            ("split", json!(0), "must be an integer from 1 to 64"),
            ("split", json!("2"), "must be an integer from 1 to 64"),
            (
                "per",
                json!("client"),
                "must be 1: only what all share is spread, and `per` is client",
            ),
            (
                "limit",
                json!(63),
                "must be at most the limit, 63: each share has a part of it",
            ),
            (
                "burst",
                json!(63),
                "must be at most the burst, 63: each share has a part of it",
            ),
            (
                "limit",
                json!(0),
                "must be 1: a block (`limit` is 0) counts nothing",
            ),
            (
                "limit",
                json!(null),
                "must be 1: an exemption (`limit` is null) counts nothing",
            ),
        ] {
            let mut bad = shared(json!(64));
            bad[field] = value;
            let batch = json!({"upsert": [bad]});
            let refused = control.put(&at, bad).await;
            let told = json!([{"field": "split", "detail": right}]);
            assert_eq!(refused.is_problem(400).body["errors"], told);
            let refused = control.post("/ratelimit/rules:batch", batch).await;
            assert_eq!(refused.is_problem(400).fields(), ["upsert[0].split"]);
        }
        // What is wrong elsewhere does not make it wrong, nor hide that it is.
        for (field, value, fields) in [
            ("limit", json!("many"), vec!["limit"]),
            ("per", json!("galaxy"), vec!["per"]),
            ("burst", json!(-1), vec!["burst"]),
            ("description", json!(7), vec!["description"]),
        ] {
            let mut bad = shared(json!(64));
            bad[field] = value;
            let refused = control.put(&at, bad.clone()).await;
            assert_eq!(refused.is_problem(400).fields(), fields);
            bad["split"] = json!(65);
            let refused = control.put(&at, bad).await;
            let told: BTreeSet<&str> = refused.is_problem(400).fields().into_iter().collect();
            assert_eq!(told, [field, "split"].into());
        }
        assert_eq!(control.database.head().await.unwrap().revision, revision);
    }
}

#[tokio::test]
async fn a_second_rule_in_a_place_is_a_conflict_in_whatever_spelling() {
    for control in Control::both().await {
        let first = control.rule(simple("GET /a/{id}")).await;
        let second = control.post("/ratelimit/rules", simple("GET /a/*")).await;
        second.is_problem(409);
        assert!(
            second.body["errors"][0]["detail"]
                .as_str()
                .unwrap()
                .contains(&first)
        );
        let mut others = Vec::new();
        for (name, value) in [
            ("client", json!("eve")),
            ("tier", json!("free")),
            ("per", json!("all")),
            ("time_window", json!(61)),
            ("resource", json!("/a/*")),
        ] {
            let mut other = simple("GET /a/*");
            other[name] = value;
            others.push(control.rule(other).await);
        }
        let moved = control
            .put(
                &format!("/ratelimit/rules/{}", others[4]),
                simple("GET /a/{x}"),
            )
            .await;
        moved.is_problem(409);
        let same = control
            .put(&format!("/ratelimit/rules/{first}"), simple("GET /a/{y}"))
            .await;
        assert_eq!(
            same.status, 200,
            "a rule is not in its own way: {}",
            same.body
        );
    }
}

#[tokio::test]
async fn a_write_that_takes_another_revision_for_granted_is_refused() {
    for control in Control::both().await {
        let id = control.rule(simple("/a")).await;
        let at = format!("/ratelimit/rules/{id}");
        for stale in ["\"7\"", "W/\"1\"", "\"\"", "1", "\"x\", \"2\""] {
            let refused = control.put_if(&at, simple("/a"), stale).await;
            assert_eq!(refused.is_problem(412).header("etag"), "\"1\"", "{stale}");
            control.delete_if(&at, stale).await.is_problem(412);
        }
        assert_eq!(
            control
                .put_if(&at, simple("/a"), "\"9\", \"1\"")
                .await
                .status,
            200
        );
        assert_eq!(control.put_if(&at, simple("/a"), "*").await.status, 200);
        control
            .put_if(&at, simple("/a"), "\"1\"")
            .await
            .is_problem(412);
        assert_eq!(control.delete_if(&at, "\"3\"").await.status, 204);
    }
}

#[tokio::test]
async fn of_many_who_read_the_same_one_writes() {
    for control in Control::both().await {
        let id = control.rule(simple("/a")).await;
        let at = format!("/ratelimit/rules/{id}");
        let writes = (1..=8).map(|limit| {
            let rule = json!({"resource": "/a", "limit": limit, "time_window": 60});
            control.put_if(&at, rule, "\"1\"")
        });
        let mut statuses: Vec<u16> = join_all(writes)
            .await
            .iter()
            .map(|answer| answer.status)
            .collect();
        statuses.sort_unstable();
        assert_eq!(
            statuses,
            [200, 412, 412, 412, 412, 412, 412, 412],
            "{}",
            control.store
        );
    }
}

#[tokio::test]
async fn a_batch_is_written_whole_or_not_at_all() {
    for control in Control::both().await {
        let [a, b, c] = [
            control.rule(simple("/a")).await,
            control.rule(simple("/b")).await,
            control.rule(simple("/c")).await,
        ];
        let before = control.database.head().await.unwrap();
        for (bad, field) in [
            (
                json!({"upsert": [simple("/x"), simple("/y*")]}),
                "upsert[1].resource",
            ),
            (
                json!({"upsert": [simple("/x"), {"resource": "/z"}]}),
                "upsert[1].limit",
            ),
            (
                json!({"upsert": [simple("/x")], "delete": ["no id"]}),
                "delete[0]",
            ),
            (
                json!({"upsert": [simple("/x")], "delete": ["01979c4e-0000-7000-8000-000000000000"]}),
                "delete[0]",
            ),
            (json!({"delete": [a, a]}), "delete[1]"),
            (json!({"upsert": [simple("/x")], "insert": []}), "insert"),
            (json!({"upsert": simple("/x")}), "upsert"),
            (json!({}), ""),
        ] {
            let refused = control.post("/ratelimit/rules:batch", bad).await;
            assert!(
                refused.is_problem(400).fields().contains(&field),
                "{field}: {}",
                refused.body
            );
        }
        let twice = json!({"upsert": [simple("/x"), simple("/x/")]});
        let refused = control.post("/ratelimit/rules:batch", twice).await;
        assert_eq!(refused.is_problem(409).fields(), ["upsert[1]"]);
        assert_eq!(
            control.database.head().await.unwrap(),
            before,
            "{}",
            control.store
        );

        // Two change places, one goes, one comes to where the gone one was, one is found by its place, one is made.
        let mut moved = [simple("/b"), simple("/a")];
        moved[0]["id"] = json!(a);
        moved[1]["id"] = json!(b);
        let batch =
            json!({"upsert": [moved[0], moved[1], simple("/c"), simple("/d")], "delete": [c]});
        let written = control.post("/ratelimit/rules:batch", batch).await;
        assert_eq!(written.status, 200, "{}", written.body);
        assert_eq!(written.revision(), before.revision + 1);
        assert_eq!(written.body["revision"], before.revision + 1);
        let told: Vec<_> = written.body["rules"]
            .as_array()
            .unwrap()
            .iter()
            .map(|rule| rule["resource"].clone())
            .collect();
        assert_eq!(told, ["/b", "/a", "/c", "/d"]);
        assert_eq!(
            control.get(&format!("/ratelimit/rules/{a}")).await.body["resource"],
            "/b"
        );
        control
            .get(&format!("/ratelimit/rules/{c}"))
            .await
            .is_problem(404);
        let all = control.pages("rules", "/ratelimit/rules?", 100).await;
        assert_eq!(all.len(), 4);
        let again = control
            .post("/ratelimit/rules:batch", json!({"upsert": [simple("/d")]}))
            .await;
        assert_eq!(
            again.body["rules"][0]["id"], written.body["rules"][3]["id"],
            "found by its place"
        );
    }
}

#[tokio::test]
async fn a_list_is_told_in_pages_without_gap_or_repetition() {
    for control in Control::both().await {
        let mut ids = Vec::new();
        for number in 0..7 {
            let mut rule = simple(&format!("/n/{number}"));
            if number % 2 == 0 {
                rule["client"] = json!("eve");
            } else {
                rule["tier"] = json!("paid");
                rule["status"] = json!("shadow");
            }
            ids.push(control.rule(rule).await);
        }
        ids.sort_unstable();
        for limit in [1, 3, 7, 100] {
            let all = control.pages("rules", "/ratelimit/rules?", limit).await;
            let told: Vec<&str> = all
                .iter()
                .map(|rule| rule["id"].as_str().unwrap())
                .collect();
            assert_eq!(told, ids, "{} by {limit}", control.store);
        }
        for (filter, count) in [
            ("client=eve", 4),
            ("client=bob", 0),
            ("tier=paid", 3),
            ("status=shadow&tier=paid", 3),
            ("status=active", 4),
            ("status=shadow&client=eve", 0),
            ("resource=%2Fn%2F3", 1),
            ("resource=%2Fn%2F*", 0),
        ] {
            let all = control
                .pages("rules", &format!("/ratelimit/rules?{filter}&"), 2)
                .await;
            assert_eq!(all.len(), count, "{} {filter}", control.store);
        }
        let bad = control.get("/ratelimit/rules?limit=0&cursor=x&status=on&tier=gold&client=&resource=a*&stauts=active").await;
        let told: BTreeSet<&str> = bad.is_problem(400).fields().into_iter().collect();
        assert_eq!(
            told,
            [
                "client", "cursor", "limit", "resource", "status", "stauts", "tier"
            ]
            .into()
        );
        control
            .get("/ratelimit/rules?limit=1001")
            .await
            .is_problem(400);
    }
}

#[tokio::test]
async fn the_rules_that_a_call_could_meet_are_told_most_specific_first() {
    for control in Control::both().await {
        for resource in [
            "*",
            "/orders/**",
            "/orders/{id}",
            "GET /orders/*",
            "POST /orders/1",
            "/orders/1",
            "/other",
            "billing",
        ] {
            control.rule(simple(resource)).await;
        }
        let mut own = simple("/orders/*");
        own["client"] = json!("eve");
        own["status"] = json!("shadow");
        control.rule(own).await;
        let mut ended = simple("/orders/*");
        ended["tier"] = json!("free");
        ended["status"] = json!("terminated");
        control.rule(ended).await;

        let met = |target: &'static str| {
            let control = &control;
            async move {
                let pages =
                    join_all([1, 2, 100].map(|limit| control.pages("rules", target, limit))).await;
                assert_eq!(pages[0], pages[2], "{} {target}", control.store);
                assert_eq!(pages[1], pages[2], "{} {target}", control.store);
                let resources = pages[2]
                    .iter()
                    .map(|rule| rule["resource"].as_str().unwrap().to_owned());
                resources.collect::<Vec<String>>()
            }
        };
        let get = [
            "GET /orders/*",
            "/orders/1",
            "/orders/{id}",
            "/orders/*",
            "/orders/**",
            "*",
        ];
        for target in [
            "/ratelimit/rules?applies_to=GET%20%2Forders%2F1&",
            "/ratelimit/rules?applies_to=GET+/orders/1&",
            "/ratelimit/rules/GET%20%2Forders%2F1?",
            // As a gateway sends it that decodes paths.
            "/ratelimit/rules/GET%20/orders/1?",
        ] {
            assert_eq!(met(target).await, get, "{} {target}", control.store);
        }
        let any = [
            "POST /orders/1",
            "GET /orders/*",
            "/orders/1",
            "/orders/{id}",
            "/orders/*",
            "/orders/**",
            "*",
        ];
        assert_eq!(
            met("/ratelimit/rules?applies_to=/orders/1&").await,
            any,
            "a call by any method"
        );
        assert_eq!(met("/ratelimit/rules//orders/1?").await, any);
        assert_eq!(
            met("/ratelimit/rules?applies_to=billing&").await,
            ["billing", "*"]
        );
        assert_eq!(met("/ratelimit/rules?applies_to=nothing&").await, ["*"]);
        control
            .get("/ratelimit/rules?applies_to=")
            .await
            .is_problem(400);
        control
            .get("/ratelimit/rules?applies_to=x&client=eve")
            .await
            .is_problem(400);
    }
}

#[tokio::test]
async fn a_pattern_where_one_call_would_meet_33_rules_is_refused() {
    for control in Control::both().await {
        let rule = |number: u32| json!({"resource": "/a/{id}", "limit": 1, "time_window": number});
        for number in 1..=31 {
            control.rule(rule(number)).await;
        }
        // Other callers, other paths and what is not in force do not add to it.
        control
            .rule(json!({"resource": "/a/b", "limit": 1, "time_window": 1}))
            .await;
        control
            .rule(json!({"resource": "/b/*", "limit": 1, "time_window": 1}))
            .await;
        control
            .rule(json!({"resource": "/a/*", "limit": 1, "time_window": 1, "client": "eve"}))
            .await;
        control
            .rule(json!({"resource": "/a/*", "limit": 1, "time_window": 1, "tier": "free"}))
            .await;
        control
            .rule(
                json!({"resource": "/a/*", "limit": 1, "time_window": 99, "status": "terminated"}),
            )
            .await;
        control
            .rule(json!({"resource": "*", "limit": 1, "time_window": 1}))
            .await;
        let before = control.database.head().await.unwrap();
        let refused = control.post("/ratelimit/rules", rule(32)).await;
        assert_eq!(
            refused.is_problem(400).fields(),
            ["resource"],
            "{}",
            control.store
        );
        assert!(
            refused.body["errors"][0]["detail"]
                .as_str()
                .unwrap()
                .contains("33")
        );
        let batch = control
            .post(
                "/ratelimit/rules:batch",
                json!({"upsert": [simple("/c"), rule(32)]}),
            )
            .await;
        assert_eq!(batch.is_problem(400).fields(), ["upsert[1].resource"]);
        assert_eq!(control.database.head().await.unwrap(), before);
        // A call to /a/b would meet 33 too: only a rule's own pattern is looked at.
        assert_eq!(
            control
                .post(
                    "/ratelimit/rules",
                    json!({"resource": "GET /a/b", "limit": 1, "time_window": 1})
                )
                .await
                .status,
            400
        );
        control
            .rule(json!({"resource": "/**", "limit": 1, "time_window": 1}))
            .await;
    }
}

#[tokio::test]
async fn what_cannot_be_routed_or_read_is_a_problem() {
    let control = Control::in_memory();
    control.get("/").await.is_problem(404);
    control.get("/ratelimit/rulez").await.is_problem(404);
    control.get("/ratelimit/rules/").await.is_problem(404);
    for (method, target, allowed) in [
        ("PATCH", "/ratelimit/rules", "GET,HEAD,POST"),
        ("GET", "/ratelimit/rules:batch", "POST"),
        ("POST", "/clients/eve", "GET,HEAD,PUT,DELETE"),
        ("DELETE", "/ratelimit/rules/GET%20%2Fa", "GET, HEAD"),
    ] {
        let request = Request::builder()
            .method(method)
            .uri(target)
            .body(Body::empty());
        let refused = control.request(request.unwrap()).await;
        assert_eq!(
            refused.is_problem(405).header("allow"),
            allowed,
            "{method} {target}"
        );
    }
    let rule = simple("/a").to_string();
    let send = |kind: &'static str, body: String| {
        let request = Request::builder().method("POST").uri("/ratelimit/rules");
        control.request(
            request
                .header("content-type", kind)
                .body(Body::from(body))
                .unwrap(),
        )
    };
    send("text/plain", rule.clone()).await.is_problem(415);
    send("application/x-www-form-urlencoded", rule.clone())
        .await
        .is_problem(415);
    send("application/json", "{".to_owned())
        .await
        .is_problem(400);
    send("application/json", format!("{rule}{}", " ".repeat(1 << 20)))
        .await
        .is_problem(413);
    assert_eq!(
        send("Application/JSON; charset=utf-8", rule).await.status,
        201
    );
}

#[tokio::test]
async fn what_is_not_announced_is_written_and_says_so() {
    for control in Control::both().await {
        control.deaf.store(true, Ordering::SeqCst);
        let made = control.post("/ratelimit/rules", simple("/a")).await;
        assert_eq!(
            (made.status, &made.body["propagation"]),
            (201, &json!("pending"))
        );
        assert_eq!(made.header("weir-propagation"), "pending");
        control.deaf.store(false, Ordering::SeqCst);
        let again = control.post("/ratelimit/refresh", json!({})).await;
        assert_eq!(again.status, 200);
        assert_eq!(
            again.body,
            json!({"revision": 1, "propagation": "announced"})
        );
        assert_eq!(*control.announced.lock().unwrap(), [1]);
        let revision = control.get("/ratelimit/revision").await;
        assert_eq!(revision.body, json!({"revision": 1, "published": null}));
    }
}
