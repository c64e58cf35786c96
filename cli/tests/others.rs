//! What others write between the comparison and the write.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use serde_json::json;

use crate::support::{Folder, Local, StandIn, ask, forward, response, weir};

const FILE: &str = "rules:\n  - resource: /x\n    limit: 1\n    time_window: 60\n";

fn other_rule(limit: u64) -> serde_json::Value {
    json!({ "resource": "/other", "limit": limit, "time_window": 60 })
}

#[test]
fn a_rule_that_another_wrote_meanwhile_stops_the_write() {
    let (local, folder) = (Local::start(), Folder::new());
    let file = folder.file("rules.yaml", FILE);
    let asking = weir(&local.url, &["rules", "apply", "-f", &file]).until_asked();
    local.ask("POST", "/ratelimit/rules", Some(&other_rule(1)));
    let revision = local.revision();
    let told = asking.answer("yes").error();
    assert!(
        told.contains("somebody else has changed rules") && told.contains("--force"),
        "{told}"
    );
    assert_eq!(local.revision(), revision);

    let asking = weir(&local.url, &["rules", "apply", "--force", "-f", &file]).until_asked();
    local.ask(
        "POST",
        "/ratelimit/rules",
        Some(&json!({ "resource": "/third", "limit": 1, "time_window": 60 })),
    );
    let forced = asking.answer("yes").well(0).out;
    assert!(forced.contains("Applied: 1 created"), "{forced}");
}

#[test]
fn a_client_that_another_registered_meanwhile_does_not() {
    let (local, folder) = (Local::start(), Folder::new());
    let file = folder.file("rules.yaml", FILE);
    let asking = weir(&local.url, &["rules", "apply", "-f", &file]).until_asked();
    local.ask("POST", "/clients", Some(&json!({ "client_id": "new" })));
    asking.answer("yes").well(0);
    assert_eq!(local.rules().len(), 1);
}

/// A file of that many rules.
fn many(count: usize) -> String {
    let rules = (0..count)
        .map(|number| format!("  - {{resource: /many/{number}, limit: 1, time_window: 60}}\n"));
    format!("rules:\n{}", rules.collect::<String>())
}

#[test]
fn clients_that_others_register_without_end_stop_no_write() {
    let (local, folder) = (Local::start(), Folder::new());
    let file = folder.file("rules.yaml", &many(3_000));
    let done = AtomicBool::new(false);
    let applied = thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..10_000 {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                let client = json!({ "client_id": format!("new {number}") });
                local.ask("POST", "/clients", Some(&client));
            }
        });
        let applied = local.weir(&["rules", "apply", "--yes", "-f", &file]);
        done.store(true, Ordering::Relaxed);
        applied
    });
    let applied = applied.well(0).out;
    assert_eq!(applied.matches("Applied: 1000 created").count(), 3);
    local.weir(&["rules", "plan", "-f", &file]).well(0);
}

/// An API at which somebody does this before each request, with another number each time.
fn disturbed(url: &str, disturb: impl Fn(&str, u64) + Send + Sync + 'static) -> StandIn {
    let (url, count) = (url.to_owned(), AtomicU64::new(0));
    StandIn::start(move |asked| {
        disturb(&url, count.fetch_add(1, Ordering::Relaxed));
        forward(&url, asked)
    })
}

#[test]
fn a_client_that_another_registers_before_each_request_disturbs_nothing() {
    let (local, folder) = (Local::start(), Folder::new());
    let file = folder.file("rules.yaml", &many(1_001));
    let between = disturbed(&local.url, |url, number| {
        let client = json!({ "client_id": format!("new {number}") });
        ask(url, "POST", "/clients", Some(&client));
    });
    weir(&between.url, &["rules", "plan", "-f", &file])
        .run()
        .well(2);
    let applied = weir(&between.url, &["rules", "apply", "--yes", "-f", &file]).run();
    assert_eq!(applied.well(0).out.matches("Applied: ").count(), 2);
    let exported = weir(&between.url, &["rules", "export"]).run().well(0).out;
    assert_eq!(exported, local.weir(&["rules", "export"]).well(0).out);
}

#[test]
fn rules_that_another_writes_before_each_request_are_told_after_some_tries() {
    let local = Local::start();
    let between = disturbed(&local.url, |url, number| {
        let rule = json!({ "resource": format!("/new/{number}"), "limit": 1, "time_window": 60 });
        ask(url, "POST", "/ratelimit/rules", Some(&rule));
    });
    let told = weir(&between.url, &["rules", "export"]).run().error();
    assert!(
        told.contains("somebody else writes rules all the time"),
        "{told}"
    );
}

#[test]
fn what_another_wrote_in_the_very_moment_is_noticed_after() {
    let (local, folder) = (Local::start(), Folder::new());
    let file = folder.file("rules.yaml", FILE);
    let url = local.url.clone();
    let between = StandIn::start(move |asked| {
        if asked.target.ends_with(":batch") {
            ask(&url, "POST", "/ratelimit/rules", Some(&other_rule(1)));
        }
        forward(&url, asked)
    });
    let ran = weir(&between.url, &["rules", "apply", "--yes", "-f", &file]).run();
    assert!(ran.out.contains("Applied: 1 created"), "{ran:?}");
    let rules = local.rules();
    assert_eq!(rules.len(), 2);
    let other = rules.iter().find(|rule| rule["resource"] == "/other");
    let other = other.unwrap()["id"].as_str().unwrap();
    let told = ran.error();
    assert!(
        told.contains("somebody else wrote in the same moment")
            && told.contains(&format!("rule {other} is not")),
        "{told}"
    );
}

#[test]
fn a_rule_that_another_made_in_the_same_place_is_not_overwritten() {
    let (local, folder) = (Local::start(), Folder::new());
    let file = folder.file("rules.yaml", FILE);
    let url = local.url.clone();
    let between = StandIn::start(move |asked| {
        if asked.target.ends_with(":batch") {
            let rival = json!({ "resource": "/x", "limit": 7, "time_window": 60 });
            ask(&url, "POST", "/ratelimit/rules", Some(&rival));
        }
        forward(&url, asked)
    });
    let told = weir(&between.url, &["rules", "apply", "--yes", "-f", &file])
        .run()
        .error();
    assert!(
        told.starts_with(&format!("{file}:2:5: rule ")) && told.contains("has this place"),
        "{told}"
    );
    assert!(told.contains("409 Conflict"), "{told}");
    assert_eq!(local.rules()[0]["limit"], 7);
}

#[test]
fn several_writes_stop_where_another_comes_between_and_say_what_was_done() {
    let (local, folder) = (Local::start(), Folder::new());
    let file = folder.file("rules.yaml", &many(1_001));
    let url = local.url.clone();
    let between = StandIn::start(move |asked| {
        let answer = forward(&url, asked);
        if asked.target.ends_with(":batch") {
            ask(&url, "POST", "/ratelimit/rules", Some(&other_rule(1)));
        }
        answer
    });
    let told = weir(&between.url, &["rules", "apply", "--yes", "-f", &file])
        .run()
        .error();
    assert!(told.contains("somebody else has changed rules"), "{told}");
    assert!(
        told.contains("1 of 2 writes were applied before: apply again"),
        "{told}"
    );
    local
        .weir(&["rules", "apply", "--yes", "-f", &file])
        .well(0);
    local.weir(&["rules", "plan", "-f", &file]).well(0);
}

#[test]
fn where_the_revision_cannot_be_told_only_force_writes() {
    let (local, folder) = (Local::start(), Folder::new());
    let file = folder.file("rules.yaml", FILE);
    let url = local.url.clone();
    let between = StandIn::start(move |asked| {
        if asked.target.ends_with("/revision") {
            let out = r#"{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"Redis is out"}"#;
            return response(503, "application/problem+json", out);
        }
        forward(&url, asked)
    });
    let plan = weir(&between.url, &["rules", "plan", "-f", &file]).run();
    assert_eq!(plan.code, 2, "{plan:?}");
    assert!(plan.err.contains("cannot tell its revision"), "{plan:?}");
    let told = weir(&between.url, &["rules", "apply", "--yes", "-f", &file])
        .run()
        .error();
    assert!(told.contains("--force"), "{told}");
    assert!(local.rules().is_empty());
    weir(
        &between.url,
        &["rules", "apply", "--yes", "--force", "-f", &file],
    )
    .run()
    .well(0);
    assert_eq!(local.rules().len(), 1);
}

#[test]
fn a_write_whose_answer_is_lost_is_told_as_unknown() {
    let (local, folder) = (Local::start(), Folder::new());
    let file = folder.file("rules.yaml", FILE);
    let url = local.url.clone();
    let between = StandIn::start(move |asked| {
        let answer = forward(&url, asked);
        if asked.target.ends_with(":batch") {
            return response(
                504,
                "application/json",
                r#"{"message": "Endpoint request timed out"}"#,
            );
        }
        answer
    });
    let apply = ["rules", "apply", "--yes", "-f", &file];
    let told = weir(&between.url, &apply).run().error();
    assert!(
        told.contains("504 Gateway Timeout: Endpoint request timed out"),
        "{told}"
    );
    assert!(
        told.contains("whether this write was applied is not known"),
        "{told}"
    );
    let again = weir(&between.url, &apply).run().well(0).out;
    assert!(again.contains("No difference: 1 unchanged"), "{again}");
}
