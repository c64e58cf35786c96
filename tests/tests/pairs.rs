//! Rules by user and API.

use serde_json::{Value, json};

use crate::control::Control;

#[tokio::test]
async fn a_user_an_api_and_both_are_three_rules() {
    for control in Control::both().await {
        for (form, query, rule) in [
            (
                json!({"user": "eve"}),
                "user=eve",
                json!({"client": "eve", "resource": "*", "per": "client"}),
            ),
            (
                json!({"api": "GET /a"}),
                "api=GET%20/a",
                json!({"client": null, "resource": "GET /a", "per": "all"}),
            ),
            (
                json!({"user": "eve", "api": "/a/{id}"}),
                "user=eve&api=/a/*",
                json!({"client": "eve", "resource": "/a/{id}", "per": "client"}),
            ),
        ] {
            let mut body = form.clone();
            body["tokens"] = json!(5);
            body["time_unit"] = json!("minute");
            let target = format!("/rule?{query}");
            control.get(&target).await.is_problem(404);
            control.put("/rule", body.clone()).await.is_problem(404);
            control.delete(&target).await.is_problem(404);

            let made = control.post("/rule", body.clone()).await;
            assert_eq!(made.status, 201, "{}", made.body);
            let id = made.body["id"].as_str().unwrap();
            let kept = control.get(&format!("/ratelimit/rules/{id}")).await.body;
            for (name, value) in rule.as_object().unwrap() {
                assert_eq!(kept[name], *value, "{name}");
            }
            assert_eq!(
                (&kept["limit"], &kept["time_window"], &kept["burst"]),
                (&json!(5), &json!(60), &Value::Null)
            );
            control.post("/rule", body.clone()).await.is_problem(409);

            let read = control.get(&target).await;
            let one = json!({
                "id": id, "user": form.get("user"), "api": form.get("api"), "tokens": 5, "time_unit": "minute", "capacity": 5,
                "revision": made.revision(),
            });
            assert_eq!(
                (read.status, &read.body),
                (200, &json!({"rules": [one]})),
                "{}",
                control.store
            );

            body["time_unit"] = json!("hour");
            body["capacity"] = json!(50);
            let put = control.put("/rule", body.clone()).await;
            assert_eq!(
                (put.status, &put.body["id"]),
                (200, &json!(id)),
                "{}",
                put.body
            );
            assert_eq!(
                (&put.body["time_unit"], &put.body["capacity"]),
                (&json!("hour"), &json!(50))
            );
            let back = control.put("/rule", put.body).await;
            assert_eq!(
                back.status, 200,
                "what was answered can be put back: {}",
                back.body
            );
            assert_eq!(control.delete(&target).await.status, 204);
            control.get(&target).await.is_problem(404);
        }
    }
}

#[tokio::test]
async fn a_form_that_is_wrong_is_told_all_that_is() {
    for control in Control::both().await {
        for (body, fields) in [
            (json!({"tokens": 1, "time_unit": "minute"}), vec!["user"]),
            (
                json!({"user": "", "api": "a*", "tokens": -1, "time_unit": "week", "capacity": 0, "x": 1}),
                vec!["user", "api", "tokens", "time_unit", "capacity", "x"],
            ),
            (json!({"user": "eve"}), vec!["tokens", "time_unit"]),
            (
                json!({"user": "eve", "tokens": 1_000_000_000, "time_unit": "minute"}),
                vec!["tokens"],
            ),
            (
                json!({"user": "eve", "tokens": 1, "time_unit": "minute", "capacity": 1_000_000_000}),
                vec!["capacity"],
            ),
        ] {
            let refused = control.post("/rule", body).await;
            assert_eq!(refused.is_problem(400).fields(), fields);
        }
        // What is wrong with the rule beside others is told in the words of this form.
        let crowd = (2..34).map(
            |window| json!({"resource": "/a", "client": "eve", "limit": 1, "time_window": window, "algorithm": "fixed_window"}),
        );
        let crowd = json!({"upsert": crowd.collect::<Vec<_>>()});
        let made = control.post("/ratelimit/rules:batch", crowd).await;
        assert_eq!(made.status, 200, "{}", made.body);
        let one_more = json!({"user": "eve", "api": "/a", "tokens": 1, "time_unit": "minute"});
        let refused = control.post("/rule", one_more).await;
        assert_eq!(refused.is_problem(400).fields(), ["api"]);
        for target in [
            "/rule",
            "/rule?",
            "/rule?user=",
            "/rule?api=a*",
            "/rule?usr=eve&api=/a",
        ] {
            control.get(target).await.is_problem(400);
            control.delete(target).await.is_problem(400);
        }
    }
}

#[tokio::test]
async fn where_a_pair_has_several_buckets_they_are_listed_and_not_changed() {
    for control in Control::both().await {
        for (limit, time_window) in [(1, 1), (50, 90)] {
            let rule = json!({"resource": "/a", "client": "eve", "limit": limit, "time_window": time_window});
            control.rule(rule).await;
        }
        let read = control.get("/rule?user=eve&api=/a").await;
        let units: Vec<_> = read.body["rules"]
            .as_array()
            .unwrap()
            .iter()
            .map(|rule| (rule["time_unit"].clone(), rule["time_window"].clone()))
            .collect();
        assert_eq!(
            units,
            [(json!("second"), Value::Null), (Value::Null, json!(90))]
        );
        let body = json!({"user": "eve", "api": "/a", "tokens": 1, "time_unit": "minute"});
        control.post("/rule", body.clone()).await.is_problem(409);
        control.put("/rule", body).await.is_problem(409);
        control
            .delete("/rule?user=eve&api=/a")
            .await
            .is_problem(409);
    }
}

#[tokio::test]
async fn this_form_leaves_alone_what_it_does_not_speak_of() {
    for control in Control::both().await {
        let id = control
            .rule(json!({"resource": "/pay", "client": "eve", "limit": 1, "time_window": 90, "on_failure": "deny", "description": "d"}))
            .await;
        let shown = control.get("/rule?user=eve&api=/pay").await.body["rules"][0].clone();
        assert_eq!(
            control.put("/rule", shown).await.status,
            200,
            "also a window that is no unit"
        );
        let body = json!({"user": "eve", "api": "/pay", "tokens": null, "time_unit": "day"});
        let put = control.put("/rule", body).await;
        assert_eq!(put.status, 200, "{}", put.body);
        let kept = control.get(&format!("/ratelimit/rules/{id}")).await.body;
        assert_eq!(
            (&kept["limit"], &kept["time_window"]),
            (&Value::Null, &json!(86_400))
        );
        assert_eq!(
            (&kept["on_failure"], &kept["description"]),
            (&json!("deny"), &json!("d"))
        );
    }
}
