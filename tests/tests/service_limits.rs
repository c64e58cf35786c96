//! Limits between services: how they are set and read in the control API.

use serde_json::{Value, json};

use crate::control::Control;

fn limit(tps: u64) -> Value {
    json!({"SourceService": "b", "DestinationService": "a", "Tps": tps})
}

const SET: &str = "/setThrottleRule";
const GET: &str = "/getThrottleRule?SourceService=b&DestinationService=a";

async fn with_services(control: &Control) {
    for id in ["a", "b"] {
        let made = control.post("/clients", json!({"client_id": id})).await;
        assert_eq!(made.status, 201, "{}: {}", control.store, made.body);
    }
}

#[tokio::test]
async fn setting_a_limit_makes_or_changes_the_one_rule_of_its_place() {
    for control in Control::both().await {
        with_services(&control).await;
        let made = control.put(SET, limit(10)).await;
        let mut answered = limit(10);
        answered["Status"] = "Active".into();
        answered["revision"] = made.revision().into();
        answered["propagation"] = "announced".into();
        assert_eq!(
            (made.status, &made.body),
            (200, &answered),
            "{}",
            control.store
        );
        assert_eq!(made.header("weir-propagation"), "announced");
        assert_eq!(
            control.announced.lock().unwrap().last(),
            Some(&made.revision())
        );
        let put = control.put(SET, made.body.clone()).await;
        assert_eq!(
            put.status, 200,
            "what was answered can be put back: {}",
            put.body
        );

        let rules = control.get("/ratelimit/rules?client=b").await.body["rules"].clone();
        assert_eq!(rules.as_array().unwrap().len(), 1);
        let id = rules[0]["id"].as_str().unwrap();
        for (field, value) in [
            ("resource", json!("a")),
            ("client", json!("b")),
            ("tier", json!(null)),
            ("per", json!("client")),
            ("algorithm", json!("token_bucket")),
            ("time_window", json!(1)),
            ("limit", json!(10)),
            ("burst", json!(null)),
            ("status", json!("active")),
        ] {
            assert_eq!(rules[0][field], value, "{field}");
        }
        let audit = control
            .get(&format!("/ratelimit/audit?rule={id}"))
            .await
            .body;
        let actions: Vec<_> = audit["audit"].as_array().unwrap().iter().collect();
        assert_eq!(actions.len(), 2, "{audit}");

        // What this form does not speak of stays; more at once than a second's is spoken of.
        let mut rule = rules[0].clone();
        rule["on_failure"] = "deny".into();
        rule["description"] = "d".into();
        rule["burst"] = 500.into();
        rule["status"] = "shadow".into();
        let path = format!("/ratelimit/rules/{id}");
        assert_eq!(control.put(&path, rule).await.status, 200);
        let told = json!({"Tps": 10, "Status": "Terminated", "default": false});
        assert_eq!(
            control.get(GET).await.body,
            told,
            "a shadow is not enforced"
        );
        control.put(SET, limit(20)).await;
        let kept = control.get(&path).await.body;
        assert_eq!(
            (&kept["limit"], &kept["status"]),
            (&json!(20), &json!("active"))
        );
        assert_eq!(
            (&kept["burst"], &kept["description"]),
            (&Value::Null, &json!("d"))
        );
        assert_eq!(kept["on_failure"], "deny");

        // Rules of the pair that count otherwise are not this one.
        let day = json!({"resource": "a", "client": "b", "limit": 5, "time_window": 86_400});
        let day = control.rule(day).await;
        let shared = json!({"resource": "a", "per": "all", "limit": 6, "time_window": 1});
        control.rule(shared).await;
        control.delete(&path).await;
        let told = json!({"Tps": 1000, "Status": "Active", "default": true});
        assert_eq!(control.get(GET).await.body, told);
        let mut terminated = limit(30);
        terminated["Status"] = "Terminated".into();
        terminated["default"] = true.into();
        assert_eq!(control.put(SET, terminated).await.status, 200);
        let told = json!({"Tps": 30, "Status": "Terminated", "default": false});
        assert_eq!(control.get(GET).await.body, told);
        assert_eq!(
            control.get(&format!("/ratelimit/rules/{day}")).await.body["limit"],
            5
        );
        let exempt = json!({"resource": "b", "client": "a", "limit": null, "time_window": 1});
        control.rule(exempt).await;
        let other = "/getThrottleRule?SourceService=a&DestinationService=b";
        let told = json!({"Tps": null, "Status": "Active", "default": false});
        assert_eq!(control.get(other).await.body, told);
    }
}

#[tokio::test]
async fn a_limit_that_changed_meanwhile_is_not_overwritten_by_who_has_not_seen_it() {
    for control in Control::both().await {
        with_services(&control).await;
        control.put_if(SET, limit(1), "*").await.is_problem(412);
        control.put_if(SET, limit(1), "\"1\"").await.is_problem(412);
        control.put(SET, limit(1)).await;
        let seen = control.get(GET).await;
        let tag = seen.header("etag").to_owned();
        let put = control.put_if(SET, limit(2), &tag).await;
        assert_eq!((put.status, put.header("etag") == tag), (200, false));
        control.put_if(SET, limit(3), &tag).await.is_problem(412);
        assert_eq!(control.get(GET).await.body["Tps"], 2);
        let unknown = json!({"SourceService": "b", "DestinationService": "c", "Tps": 1});
        control.put_if(SET, unknown, "\"1\"").await.is_problem(404);
    }
}

#[tokio::test]
async fn a_limit_that_is_wrong_is_told_all_that_is_and_changes_nothing() {
    for control in Control::both().await {
        with_services(&control).await;
        let before = control.get("/ratelimit/revision").await.body;
        let all = ["SourceService", "DestinationService", "Tps"];
        for tps in [
            json!(10_001),
            json!(-1),
            json!(1.5),
            json!("5"),
            json!(null),
            json!([]),
        ] {
            let mut body = limit(1);
            body["Tps"] = tps;
            let refused = control.put(SET, body).await;
            assert_eq!(refused.is_problem(400).fields(), ["Tps"]);
        }
        for status in [json!("active"), json!("Shadow"), json!(""), json!(1)] {
            let mut body = limit(1);
            body["Status"] = status;
            let refused = control.put(SET, body).await;
            assert_eq!(refused.is_problem(400).fields(), ["Status"]);
        }
        let refused = control.put(SET, json!({})).await;
        assert_eq!(refused.is_problem(400).fields(), all);
        let wrong = json!({
            "SourceService": "", "DestinationService": "*", "Tps": -1, "Status": "On", "limit": 1, "capacity": 1,
        });
        let refused = control.put(SET, wrong).await;
        let mut fields = refused.is_problem(400).fields();
        fields.sort_unstable();
        assert_eq!(
            fields,
            [
                "DestinationService",
                "SourceService",
                "Status",
                "Tps",
                "capacity",
                "limit"
            ]
        );
        for query in [
            "",
            "?SourceService=b",
            "?DestinationService=a&SourceService=",
            "?SourceService=b&DestinationService=a&Tps=1",
        ] {
            let path = format!("/getThrottleRule{query}");
            let many = if query.is_empty() { 2 } else { 1 };
            assert_eq!(
                control.get(&path).await.is_problem(400).fields().len(),
                many,
                "{query}"
            );
        }
        let path = format!("{SET}?Tps=1");
        control.put(&path, limit(1)).await.is_problem(400);
        for (method, path) in [("POST", SET), ("GET", SET), ("PUT", GET)] {
            let answer = match method {
                "POST" => control.post(path, limit(1)).await,
                "PUT" => control.put(path, limit(1)).await,
                _ => control.get(path).await,
            };
            answer.is_problem(405);
        }
        let unknown = control
            .get("/getThrottleRule?SourceService=x&DestinationService=y")
            .await;
        let body = &unknown.is_problem(404).body;
        assert_eq!(
            (&body["error"], &body["name"]),
            (&json!("ServiceNameNotFound"), &json!("x"))
        );
        assert_eq!(control.get("/ratelimit/revision").await.body, before);
        assert_eq!(control.put(SET, limit(10_000)).await.status, 200);
        // What is wrong with the rule is told in the words of this form.
        let crowd = (2..34).map(
            |window| json!({"resource": "b", "client": "a", "limit": 1, "time_window": window}),
        );
        let crowd = json!({"upsert": crowd.collect::<Vec<_>>()});
        let made = control.post("/ratelimit/rules:batch", crowd).await;
        assert_eq!(made.status, 200, "{}", made.body);
        let one_more = json!({"SourceService": "a", "DestinationService": "b", "Tps": 1});
        let refused = control.put(SET, one_more).await;
        assert_eq!(refused.is_problem(400).fields(), ["DestinationService"]);
    }
}

#[tokio::test]
async fn no_limit_is_left_of_a_service_that_was_deleted_at_the_same_time() {
    for control in Control::both().await {
        with_services(&control).await;
        let mut outcomes = [0, 0];
        for round in 0..20 {
            let (set, gone) = if round % 2 == 0 {
                tokio::join!(control.put(SET, limit(1)), control.delete("/clients/b"))
            } else {
                let (gone, set) =
                    tokio::join!(control.delete("/clients/b"), control.put(SET, limit(1)));
                (set, gone)
            };
            match (set.status, gone.status) {
                (200, 409) => outcomes[0] += 1,
                (404, 204) => outcomes[1] += 1,
                both => panic!("{}: {both:?}", control.store),
            }
            if gone.status == 204 {
                control.post("/clients", json!({"client_id": "b"})).await;
            } else {
                let rules = control.get("/ratelimit/rules?client=b").await.body;
                let id = rules["rules"][0]["id"].as_str().unwrap().to_owned();
                control.delete(&format!("/ratelimit/rules/{id}")).await;
            }
        }
        assert_eq!(outcomes[0] + outcomes[1], 20);
    }
}
