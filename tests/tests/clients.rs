//! The registry over the control API. What does not say otherwise is the same over Postgres and in memory.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tests::stores;
use tokio_postgres::NoTls;

use crate::control::Control;

const ROLE: &str = "arn:aws:iam::123456789012:role/team/orders";

#[tokio::test]
async fn a_client_is_made_read_replaced_and_deleted() {
    for control in Control::both().await {
        let made = control.post("/clients", json!({"client_id": "eve"})).await;
        assert_eq!((made.status, made.revision()), (201, 1), "{}", made.body);
        let whole = json!({
            "client_id": "eve", "tier": "free", "status": "active", "principal": null, "may_ask": "self", "description": "",
            "revision": 1, "created_at": made.body["created_at"], "updated_at": made.body["created_at"],
        });
        let read = control.get("/clients/eve").await;
        assert_eq!(
            (read.status, &read.body),
            (200, &whole),
            "{}",
            control.store
        );
        assert_eq!(read.header("etag"), "\"1\"");
        assert_eq!(
            control.put("/clients/eve", made.body.clone()).await.status,
            200,
            "what was answered can be put back"
        );

        let more = json!({"tier": "premium", "status": "terminated", "principal": ROLE, "may_ask": "any", "description": "d"});
        let replaced = control.put_if("/clients/eve", more, "\"2\"").await;
        assert_eq!(
            (replaced.status, &replaced.body["tier"]),
            (200, &json!("premium")),
            "{}",
            replaced.body
        );
        assert_eq!(replaced.body["principal"], ROLE, "as it was written");
        control
            .put_if("/clients/eve", json!({}), "\"2\"")
            .await
            .is_problem(412);
        let simply = control.put("/clients/eve", json!({})).await.body;
        assert_eq!(
            (&simply["tier"], &simply["principal"]),
            (&json!("free"), &Value::Null),
            "what is left out takes its default"
        );

        let gone = control.delete_if("/clients/eve", "\"4\"").await;
        assert_eq!((gone.status, gone.revision()), (204, 5));
        control.get("/clients/eve").await.is_problem(404);
        control.put("/clients/eve", json!({})).await.is_problem(404);
        control.delete("/clients/eve").await.is_problem(404);
    }
}

#[tokio::test]
async fn every_fault_of_a_client_is_told_at_once() {
    for control in Control::both().await {
        let bad = json!({"client_id": "", "tier": "gold", "status": "on", "principal": "eve", "may_ask": "all", "colour": 1,
            "description": "x".repeat(1025)});
        let refused = control.post("/clients", bad).await;
        let told: BTreeSet<&str> = refused.is_problem(400).fields().into_iter().collect();
        assert_eq!(
            told,
            [
                "client_id",
                "colour",
                "description",
                "may_ask",
                "principal",
                "status",
                "tier"
            ]
            .into()
        );
        assert_eq!(
            control
                .post("/clients", json!({}))
                .await
                .is_problem(400)
                .fields(),
            ["client_id"]
        );
        assert_eq!(
            control
                .post("/clients", json!({"client_id": null}))
                .await
                .is_problem(400)
                .fields(),
            ["client_id"]
        );
        control.post("/clients", json!({"client_id": "eve"})).await;
        assert_eq!(
            control
                .put("/clients/eve", json!({"client_id": "bob"}))
                .await
                .is_problem(400)
                .fields(),
            ["client_id"]
        );
        let key = json!({"expires_at": "soon", "scope": "all", "description": 7});
        let refused = control.post("/clients/eve/keys", key).await;
        let told: BTreeSet<&str> = refused.is_problem(400).fields().into_iter().collect();
        assert_eq!(told, ["description", "expires_at", "scope"].into());
        let past = json!({"expires_at": "2020-01-01T00:00:00Z"});
        assert_eq!(
            control
                .post("/clients/eve/keys", past)
                .await
                .is_problem(400)
                .fields(),
            ["expires_at"]
        );
        assert_eq!(control.database.head().await.unwrap().revision, 1);
    }
}

#[tokio::test]
async fn ids_and_principals_are_unique() {
    for control in Control::both().await {
        control
            .post("/clients", json!({"client_id": "a", "principal": ROLE}))
            .await;
        control
            .post("/clients", json!({"client_id": "a"}))
            .await
            .is_problem(409);
        // The same role with another path, and as whoever has assumed it, is the same principal.
        for same in [
            ROLE,
            "arn:aws:iam::123456789012:role/orders",
            "arn:aws:sts::123456789012:assumed-role/orders/i-1",
        ] {
            let taken = control
                .post("/clients", json!({"client_id": "b", "principal": same}))
                .await;
            assert_eq!(taken.is_problem(409).fields(), ["principal"]);
        }
        let other = "arn:aws:iam::210987654321:role/orders";
        assert_eq!(
            control
                .post("/clients", json!({"client_id": "b", "principal": other}))
                .await
                .status,
            201
        );
        control
            .put("/clients/b", json!({"principal": ROLE}))
            .await
            .is_problem(409);
        assert_eq!(
            control
                .put("/clients/a", json!({"principal": ROLE}))
                .await
                .status,
            200,
            "its own is not in its way"
        );
        assert_eq!(control.put("/clients/a", json!({})).await.status, 200);
        assert_eq!(
            control
                .put("/clients/b", json!({"principal": ROLE}))
                .await
                .status,
            200,
            "it is free now"
        );
    }
}

#[tokio::test]
async fn an_id_may_hold_whatever_a_path_can_carry() {
    for control in Control::both().await {
        for (id, path) in [
            ("a/b", "a%2Fb"),
            ("ünï code", "%C3%BCn%C3%AF%20code"),
            ("%2F", "%252F"),
            ("..", "%2E%2E"),
            ("keys", "keys"),
        ] {
            assert_eq!(
                control
                    .post("/clients", json!({"client_id": id}))
                    .await
                    .status,
                201,
                "{id}"
            );
            let read = control.get(&format!("/clients/{path}")).await;
            assert_eq!(read.body["client_id"], id, "{}", control.store);
            let keys = control.get(&format!("/clients/{path}/keys")).await;
            assert_eq!(keys.body, json!({"keys": [], "next": null}));
        }
        control.get("/clients/%00").await.is_problem(404);
        control.get("/clients/%FF").await.is_problem(400);
        let ids: Vec<Value> = control
            .pages("clients", "/clients?", 2)
            .await
            .iter()
            .map(|c| c["client_id"].clone())
            .collect();
        assert_eq!(
            ids,
            ["%2F", "..", "a/b", "keys", "ünï code"],
            "{}",
            control.store
        );
    }
}

#[tokio::test]
async fn a_client_that_rules_name_is_deleted_only_with_them() {
    for control in Control::both().await {
        control.post("/clients", json!({"client_id": "eve"})).await;
        let mine = control
            .rule(json!({"resource": "/a", "client": "eve", "limit": 1, "time_window": 1}))
            .await;
        let other = control
            .rule(json!({"resource": "/a", "client": "bob", "limit": 1, "time_window": 1}))
            .await;
        let refused = control.delete("/clients/eve").await;
        assert!(
            refused.is_problem(409).body["detail"]
                .as_str()
                .unwrap()
                .contains(&mine)
        );
        control
            .delete("/clients/eve?cascade=false")
            .await
            .is_problem(409);
        control
            .delete("/clients/eve?cascade=yes")
            .await
            .is_problem(400);
        assert_eq!(
            control.delete("/clients/eve?cascade=true").await.status,
            204
        );
        control
            .get(&format!("/ratelimit/rules/{mine}"))
            .await
            .is_problem(404);
        assert_eq!(
            control
                .get(&format!("/ratelimit/rules/{other}"))
                .await
                .status,
            200
        );
    }
}

#[tokio::test]
async fn a_key_is_shown_once() {
    for control in Control::both().await {
        control.post("/clients", json!({"client_id": "eve"})).await;
        control.post("/clients", json!({"client_id": "bob"})).await;
        let end = "2999-12-31T23:59:59Z";
        let made = control
            .post(
                "/clients/eve/keys",
                json!({"description": "ci", "expires_at": "2999-12-31T23:59:59.7Z"}),
            )
            .await;
        assert_eq!((made.status, made.revision()), (201, 3), "{}", made.body);
        assert_eq!(made.headers["cache-control"], "no-store");
        let secret = made.body["api_key"].as_str().unwrap();
        assert!(
            secret.starts_with("weir_") && secret.len() == 5 + 43,
            "{secret}"
        );
        let mut rest: Vec<&str> = made
            .body
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        rest.sort_unstable();
        assert_eq!(
            rest,
            [
                "api_key",
                "created_at",
                "description",
                "expires_at",
                "key_id",
                "propagation",
                "revision"
            ]
        );
        assert_eq!(made.body["expires_at"], end);
        let bare = control.post("/clients/eve/keys", json!({})).await;
        assert_eq!((bare.status, &bare.body["expires_at"]), (201, &Value::Null));
        assert_ne!(bare.body["api_key"], made.body["api_key"]);

        let listed = control.pages("keys", "/clients/eve/keys?", 1).await;
        assert_eq!(listed.len(), 2);
        let id = made.body["key_id"].as_str().unwrap();
        let own = listed.iter().find(|key| key["key_id"] == id).unwrap();
        assert_eq!(
            *own,
            json!({
                "key_id": id, "client_id": "eve", "description": "ci", "revision": 3, "created_at": made.body["created_at"], "expires_at": end,
            })
        );
        let audit = control.get("/ratelimit/audit").await.body.to_string();
        assert!(!audit.contains(secret) && !audit.contains(&limits::registry::key_hash(secret)));

        control
            .delete(&format!("/clients/bob/keys/{id}"))
            .await
            .is_problem(404);
        control.delete("/clients/eve/keys/1").await.is_problem(404);
        assert_eq!(
            control
                .delete(&format!("/clients/eve/keys/{id}"))
                .await
                .status,
            204
        );
        control
            .delete(&format!("/clients/eve/keys/{id}"))
            .await
            .is_problem(404);
        assert_eq!(
            control.pages("keys", "/clients/eve/keys?", 9).await.len(),
            1
        );
        control.get("/clients/ann/keys").await.is_problem(404);
        control
            .post("/clients/ann/keys", json!({}))
            .await
            .is_problem(404);
    }
}

#[tokio::test]
async fn no_table_holds_a_secret() {
    let url = stores::database().await;
    let control = Control::at(&url);
    control.post("/clients", json!({"client_id": "eve"})).await;
    let made = control
        .post("/clients/eve/keys", json!({"description": "ci"}))
        .await;
    let secret = made.body["api_key"].as_str().unwrap();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let tables = client
        .query(
            "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'public'",
            &[],
        )
        .await
        .unwrap();
    let mut found_hash = false;
    for table in &tables {
        let table: String = table.get(0);
        let rows = client
            .query(&format!("SELECT t::text FROM {table} AS t"), &[])
            .await
            .unwrap();
        for row in rows {
            let row: String = row.get(0);
            assert!(
                !row.contains(secret) && !row.contains(&secret[5..]),
                "{table}"
            );
            found_hash |= row.contains(&limits::registry::key_hash(secret));
        }
    }
    assert!(found_hash, "the hash is kept");
    drop(client);
    connection.await.unwrap().unwrap();
}
