//! Every route answers as it is described: schemathesis asks the real functions whatever their documents allow, and what
//! they do not.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tests::{Bridge, Function, Operator, Region};
use tokio::process::Command;
use tokio::time::timeout;

use crate::audit::rest;

/// Longer than a run takes on a slow and busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Has schemathesis judge the API behind a bridge. Its report stays in `target`.
async fn judge(name: &str, bridge: &Bridge) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let program = root.join(".tools/venv/bin/schemathesis");
    assert!(
        program.exists(),
        "{} is not there: make setup",
        program.display()
    );
    let reports = root.join("target/conformance");
    std::fs::create_dir_all(&reports).unwrap();
    let mut command = Command::new(program);
    command
        .current_dir(&reports)
        .kill_on_drop(true)
        .arg("--config-file")
        .arg(root.join("tests/schemathesis.toml"))
        .args(["run", "--no-color", "--url", bridge.url()])
        .arg(format!("{}/openapi.json", bridge.url()));
    let output = timeout(PATIENCE, command.output()).await;
    let output = output.expect("a run ends").unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    std::fs::write(reports.join(format!("{name}.txt")), told.as_bytes()).unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}\n{complaints}");
    println!("{told}");
}

#[tokio::test]
async fn the_control_api_answers_as_it_is_described() {
    let region = Region::new().await;
    let clients = region.container(Function::Clients).await;
    let rules = region.container(Function::Rules).await;
    // Those of which the examples speak.
    for id in ["alice", "billing", "orders"] {
        let client = rest("POST", "/clients", &json!({"client_id": id}));
        clients.invoke(&client).await.unwrap();
    }
    let rule = json!({"id": "01979c4e-0000-7000-8000-00000000002a", "resource": "/a", "limit": 1, "time_window": 60});
    let batch = json!({"upsert": [rule]});
    rules
        .invoke(&rest("POST", "/ratelimit/rules:batch", &batch))
        .await
        .unwrap();
    let bridge = Bridge::rest(vec![("/clients", clients), ("", rules)]).await;
    judge("control", &bridge).await;
}

#[tokio::test]
async fn the_check_api_answers_as_it_is_described() {
    let operator = Operator::new().await;
    for id in ["alice", "billing", "orders"] {
        operator.client(id, json!({})).await;
    }
    operator
        .client("gone", json!({"status": "terminated"}))
        .await;
    operator
        .rule(json!({"resource": "GET /orders/*", "limit": 10, "time_window": 60}))
        .await;
    operator
        .rule(json!({"resource": "/free/**", "limit": Value::Null, "time_window": 60}))
        .await;
    let anyone = [("CHECK_ANONYMOUS", "allow"), ("DEFAULT_LIMIT", "5/60s")];
    let check = operator.container(Function::Check, &anyone).await;
    judge("check", &Bridge::function_url(check).await).await;
}
