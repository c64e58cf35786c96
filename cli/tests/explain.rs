//! What would become of a call, as people read it.

use serde_json::{Value, json};

use crate::support::{StandIn, weir};

const ANSWER: &str = r#"{
    "client": "eve", "registered": false, "tier": null, "ip": null, "resource": "GET /orders/1", "tokens": 3,
    "rules": [
        {"id": "a", "resource": "GET /orders/*", "client": "eve", "tier": null, "per": "client", "override": true,
         "algorithm": "leaky_bucket", "limit": 10, "time_window": 60, "burst": 20, "status": "active", "fate": "applies", "by": null,
         "reason": "it applies: it is counted, and has room",
         "bucket": {"limit": 10, "remaining": 4, "reset": 36, "retry_after": null, "room": true}},
        {"id": "b", "resource": "*\u001b[2J", "client": null, "tier": "free", "per": "ip", "override": false,
         "algorithm": "token_bucket", "limit": null, "time_window": 1, "burst": null, "status": "shadow", "fate": "set_aside", "by": "a",
         "reason": "the override of rule a sets it aside", "bucket": null}],
    "left_out": 0, "default": null,
    "decision": {"status": "allowed", "limit": 10, "remaining": 4, "reset": 36, "rule_id": "a", "reason": "rule", "retry_at": null,
                 "retry_after": null}}"#;

#[test]
fn an_explanation_is_a_table_and_as_json_what_came() {
    let api = StandIn::saying(200, "application/json", ANSWER);
    let question = [
        "explain",
        "GET /orders/1 +",
        "--client",
        "eve",
        "--tier",
        "free",
        "--ip",
        "::1",
        "--tokens",
        "3",
    ];
    let told = weir(&api.url, &question).run().well(0).out;
    assert_eq!(
        told,
        "\
resource    GET /orders/1
client      eve
registered  false
tier        -
ip          -
tokens      3
default     -
left_out    0

decision
  status       allowed
  reason       rule
  limit        10
  remaining    4
  reset        36
  retry_after  -
  retry_at     -
  rule_id      a

rules
  resource       fate       for                limit                                     remaining  reset  id  why
  GET /orders/*  applies    client eve         10/60s, burst 20, override, leaky_bucket  4          36     a   it applies: it is counted, and has room
  *\\u{1b}[2J     set_aside  tier free, per ip  exempt, shadow                            -          -      b   the override of rule a sets it aside
"
    );
    assert_eq!(
        api.asked()[0].target,
        "/ratelimit/explain?resource=GET%20%2Forders%2F1%20%2B&tokens=3&client=eve&tier=free&ip=%3A%3A1"
    );
    let raw = weir(&api.url, &[&question[..], &["--json"]].concat())
        .run()
        .well(0)
        .out;
    let came: Value = serde_json::from_str(&raw).unwrap();
    assert_eq!(came, serde_json::from_str::<Value>(ANSWER).unwrap());
}

#[test]
fn which_share_of_a_spread_rule_was_asked_is_told() {
    let local = crate::support::Local::start();
    let hot =
        json!({ "resource": "GET /hot", "per": "all", "limit": 8, "time_window": 60, "split": 2 });
    local.ask("POST", "/ratelimit/rules", Some(&hot));
    let told = |tokens: &str| {
        let explain = [
            "explain",
            "GET /hot",
            "--client",
            "demo-free",
            "--tokens",
            tokens,
        ];
        local.weir(&explain).well(0).out
    };
    let (asked, never) = (told("4"), told("5"));
    let share = |number: u8| asked.contains(&format!("8/60s, share {number} of 2"));
    assert!(share(1) ^ share(2), "{asked}");
    assert!(never.contains("8/60s, split 2"), "{never}");
    assert!(never.contains("the cost is more than one of its 2 shares ever has room for"));
}

#[test]
fn every_rule_that_a_call_meets_is_told_with_its_fate() {
    let local = crate::support::Local::start();
    let exempt = json!({ "resource": "GET /orders/*", "client": "demo-free", "limit": null, "time_window": 60 });
    local.ask("POST", "/ratelimit/rules", Some(&exempt));
    let told = local
        .weir(&["explain", "GET /orders/1", "--client", "demo-free"])
        .well(0)
        .out;
    assert!(
        told.contains("registered  true\n") && told.contains("tier        free\n"),
        "{told}"
    );
    assert!(
        told.contains("  status       allowed\n") && told.contains("  reason       exempt\n"),
        "{told}"
    );
    assert!(
        told.contains("  GET /orders/*  applies     client demo-free  exempt "),
        "{told}"
    );
    assert!(
        told.contains("  *              applies     tier free         10/60s "),
        "{told}"
    );
    assert!(
        told.contains("  *              other_tier  tier paid         100/60s "),
        "{told}"
    );
    let told = local.weir(&["explain", " ", "--tier", "gold"]).error();
    assert!(
        told.contains("\n  tier: must be one of free, paid, premium")
            && told.contains("\n  resource: must be"),
        "{told}"
    );
}
