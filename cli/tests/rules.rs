//! A file of rules is planned, applied, exported.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::process::Command;

use limits::rule::{Algorithm, OnFailure, Per, Status, Tier};
use limits::{Draft, Rule};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Folder, Local, Ran, WEIR, program};

const TWO: &str = "\
# Remarks stay where they are.
rules:
  - resource: GET /orders/*
    limit: 10
    time_window: 60
  - resource: /orders/**
    client: eve
    limit: null   # eve is exempt
    time_window: 60
";

/// Fifty rules with every field in many ways, by every algorithm that there is.
fn fifty() -> Vec<Draft> {
    let kinds = Algorithm::ALL.len();
    let all = (0..5_000).map(|number| draft(number / kinds, Algorithm::ALL[number % kinds]));
    // Not every field goes with every other.
    all.filter(|draft| Rule::new(Uuid::nil(), draft.clone()).is_ok())
        .take(50)
        .collect()
}

fn draft(number: usize, algorithm: Algorithm) -> Draft {
    let per = Per::ALL[number % Per::ALL.len()];
    let tiers = [None, Some(Tier::Free), None, Some(Tier::Premium), None];
    Draft {
        client: (number % 5 == 2).then(|| format!("client {number}")),
        tier: tiers[number % 5],
        per,
        overrides: number % 2 == 1,
        split: if per == Per::All && number % 7 == 1 {
            2
        } else {
            1
        },
        algorithm,
        burst: (number % 3 == 2).then_some(30),
        on_failure: OnFailure::ALL[number / 2 % OnFailure::ALL.len()],
        status: Status::ALL[number / 3 % Status::ALL.len()],
        description: ["", "yes", "# not a remark", "two\nlines: [x]"][number % 4].to_owned(),
        ..Draft::new(
            format!(
                "{}/api{}/{{id}}",
                ["GET ", "", "POST "][number % 3],
                number / 7
            ),
            [Some(100), Some(0), None, Some(20)][number / 3 % 4],
            60 + number as u64,
        )
    }
}

fn text(drafts: &[Draft]) -> String {
    // JSON is YAML too.
    json!({ "rules": drafts }).to_string()
}

/// The rules without what the API adds.
fn drafts(rules: &[Value]) -> Vec<Value> {
    let mut rules = rules.to_vec();
    for rule in &mut rules {
        let rule = rule.as_object_mut().unwrap();
        for told in ["id", "revision", "created_at", "updated_at"] {
            assert!(rule.remove(told).is_some());
        }
    }
    rules.sort_by_key(Value::to_string);
    rules
}

#[test]
fn fifty_rules_are_planned_applied_exported_and_then_there_is_no_difference() {
    let (local, folder) = (Local::start(), Folder::new());
    let wanted = fifty();
    let file = folder.file("rules.yaml", &text(&wanted));
    let untouched = local.revision();

    let plan = local.weir(&["rules", "plan", "-f", &file]).well(2);
    assert_eq!(
        plan.out.matches("+ create ").count(),
        wanted.len(),
        "{}",
        plan.out
    );
    assert!(
        plan.out.contains(&format!(
            "{} to create, 0 to update, 0 to delete",
            wanted.len()
        )),
        "{}",
        plan.out
    );
    assert_eq!(local.revision(), untouched);

    let applied = local
        .weir(&["rules", "apply", "--yes", "-f", &file])
        .well(0);
    assert!(
        applied
            .out
            .contains(&format!("Applied: {} created", wanted.len())),
        "{}",
        applied.out
    );
    assert_eq!(local.revision(), untouched + 1);
    let mut told: Vec<Value> = wanted.iter().map(|draft| json!(draft)).collect();
    told.sort_by_key(Value::to_string);
    assert_eq!(drafts(&local.rules()), told);

    let again = local
        .weir(&["rules", "apply", "--yes", "-f", &file])
        .well(0);
    assert!(
        again
            .out
            .contains(&format!("No difference: {} unchanged", wanted.len())),
        "{}",
        again.out
    );
    assert_eq!(local.revision(), untouched + 1);

    let exported = folder.path("exported.yaml");
    local.weir(&["rules", "export", "-f", &exported]).well(0);
    let all = wanted.len() + 2;
    let plan = local
        .weir(&["rules", "plan", "--prune", "-f", &exported])
        .well(0);
    assert_eq!(plan.out, format!("No difference: {all} unchanged.\n"));
    let printed = local.weir(&["rules", "export"]).well(0).out;
    assert_eq!(printed, std::fs::read_to_string(&exported).unwrap());
}

#[test]
fn an_export_goes_into_another_weir_and_comes_back_the_same() {
    let (one, other, folder) = (Local::start(), Local::start(), Folder::new());
    let file = folder.file("rules.yaml", &text(&fifty()));
    one.weir(&["rules", "apply", "--yes", "-f", &file]).well(0);
    let exported = one.weir(&["rules", "export"]).well(0).out;
    let moved = folder.file("moved.yaml", &exported);
    // Its own two rules have other ids and stand in the places of ours.
    let taken = other
        .weir(&["rules", "apply", "--yes", "-f", &moved])
        .error();
    assert!(taken.contains("--prune"), "{taken}");
    let applied = other
        .weir(&["rules", "apply", "--yes", "--prune", "-f", &moved])
        .well(0);
    assert!(applied.out.contains("2 deleted"), "{}", applied.out);
    assert_eq!(other.weir(&["rules", "export"]).well(0).out, exported);
}

#[test]
fn an_existing_file_is_not_overwritten_without_force() {
    let (local, folder) = (Local::start(), Folder::new());
    let file = folder.file("rules.yaml", TWO);
    let error = local.weir(&["rules", "export", "-f", &file]).error();
    assert!(error.contains("--force"), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), TWO);
    local
        .weir(&["rules", "export", "--force", "-f", &file])
        .well(0);
    let plan = local.weir(&["rules", "plan", "-f", &file]).well(0);
    assert!(plan.out.contains("No difference"), "{}", plan.out);
}

/// Runs `weir` where no file may become larger than half a kilobyte, as on a full disk.
fn cramped(local: &Local, arguments: &[&str]) -> Ran {
    let all = [
        &["-c", "ulimit -f 1; exec \"$0\" \"$@\"", WEIR][..],
        arguments,
    ]
    .concat();
    program("/bin/sh", &local.url, &all).run()
}

#[test]
fn an_export_that_cannot_be_written_whole_changes_no_file_and_leaves_none() {
    let (local, folder) = (Local::start(), Folder::new());
    let rules = folder.file("rules.yaml", &text(&fifty()));
    local
        .weir(&["rules", "apply", "--yes", "-f", &rules])
        .well(0);
    let old = folder.file("old.yaml", TWO);
    let new = folder.path("new.yaml");
    for arguments in [
        &["rules", "export", "--force", "-f", &old][..],
        &["rules", "export", "--force", "-f", &new],
        &["rules", "export", "-f", &new],
    ] {
        let told = cramped(&local, arguments).error();
        assert!(told.contains("File too large"), "{told}");
        assert_eq!(folder.names(), ["old.yaml", "rules.yaml"]);
        assert_eq!(fs::read_to_string(&old).unwrap(), TWO);
    }
}

#[test]
fn what_is_overwritten_keeps_its_permissions_and_links_to_it_stay_links() {
    let (local, folder) = (Local::start(), Folder::new());
    let exported = local.weir(&["rules", "export"]).well(0).out;
    let mode = |path: &str| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let new = folder.path("new.yaml");
    local.weir(&["rules", "export", "-f", &new]).well(0);
    // As the shell makes one.
    let made = folder.file("made.yaml", "");
    assert_eq!(mode(&new), mode(&made));

    let (old, link) = (folder.file("old.yaml", TWO), folder.path("link.yaml"));
    symlink("old.yaml", &link).unwrap();
    for wanted in [0o640, 0o604] {
        fs::set_permissions(&old, Permissions::from_mode(wanted)).unwrap();
        local
            .weir(&["rules", "export", "--force", "-f", &link])
            .well(0);
        assert_eq!(mode(&old), wanted);
        assert_eq!(fs::read_to_string(&old).unwrap(), exported);
    }
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(
        folder.names(),
        ["link.yaml", "made.yaml", "new.yaml", "old.yaml"]
    );
}

#[test]
fn what_is_no_file_is_written_to_and_never_replaced() {
    let (local, folder) = (Local::start(), Folder::new());
    let exported = local.weir(&["rules", "export"]).well(0).out;
    let pipe = folder.path("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    // Both ends, so that neither waits for the other.
    let mut end = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&pipe)
        .unwrap();
    local
        .weir(&["rules", "export", "--force", "-f", &pipe])
        .well(0);
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    let mut told = vec![0; exported.len()];
    end.read_exact(&mut told).unwrap();
    assert_eq!(String::from_utf8(told).unwrap(), exported);
    let told = local
        .weir(&["rules", "export", "--force", "-f", &folder.path(".")])
        .error();
    assert!(told.contains("Is a directory"), "{told}");
}

#[test]
fn what_changed_is_told_field_by_field_with_its_line() {
    let (local, folder) = (Local::start(), Folder::new());
    let file = folder.file("rules.yaml", TWO);
    local
        .weir(&["rules", "apply", "--yes", "-f", &file])
        .well(0);
    let id = local.rules()[0]["id"].as_str().unwrap().to_owned();

    let edited = TWO.replace(
        "limit: 10",
        "limit: 20\n    burst: 40\n    description: 'x: y'",
    );
    let file = folder.file("rules.yaml", &edited);
    let plan = local.weir(&["rules", "plan", "-f", &file]).well(2).out;
    let wanted = format!(
        "~ update GET /orders/*  ({file}:3, rule {id})
    limit: 10 → 20
    burst: null → 40
    description: \"\" → \"x: y\"
"
    );
    assert!(plan.starts_with(&wanted), "{plan}");
    assert!(
        plan.contains("0 to create, 1 to update, 0 to delete, 1 unchanged, 2 not in the file"),
        "{plan}"
    );

    local
        .weir(&["rules", "apply", "--yes", "-f", &file])
        .well(0);
    let rules = local.rules();
    let rule = rules.iter().find(|rule| rule["id"] == id.as_str()).unwrap();
    assert_eq!((&rule["limit"], &rule["burst"]), (&json!(20), &json!(40)));
    // The spelling of a pattern is the operator's, and its place the same.
    let file = folder.file(
        "rules.yaml",
        &edited.replace("GET /orders/*", "GET /orders/{id}"),
    );
    let plan = local.weir(&["rules", "plan", "-f", &file]).well(2).out;
    assert!(
        plan.contains(r#"resource: "GET /orders/*" → "GET /orders/{id}""#),
        "{plan}"
    );
}

#[test]
fn what_is_not_in_the_file_is_left_alone_without_prune() {
    let (local, folder) = (Local::start(), Folder::new());
    let file = folder.file("rules.yaml", TWO);
    local
        .weir(&["rules", "apply", "--yes", "-f", &file])
        .well(0);
    let one = folder.file(
        "rules.yaml",
        &TWO[..TWO.find("  - resource: /orders/**").unwrap()],
    );

    let plan = local.weir(&["rules", "plan", "-f", &one]).well(0).out;
    assert!(
        plan.contains("? left alone /orders/**, client eve"),
        "{plan}"
    );
    local.weir(&["rules", "apply", "--yes", "-f", &one]).well(0);
    assert_eq!(local.rules().len(), 2);

    let plan = local
        .weir(&["rules", "plan", "--prune", "-f", &one])
        .well(2)
        .out;
    assert!(plan.contains("- delete /orders/**, client eve"), "{plan}");
    assert!(
        plan.contains("0 to update, 3 to delete, 1 unchanged."),
        "{plan}"
    );
    local
        .weir(&["rules", "apply", "--yes", "--prune", "-f", &one])
        .well(0);
    assert_eq!(local.rules().len(), 1);

    // Nothing at all is said by an empty list, never by an empty file.
    let empty = folder.file("empty.yaml", "# nothing\n");
    assert!(
        local
            .weir(&["rules", "apply", "--yes", "--prune", "-f", &empty])
            .error()
            .contains("rules: []")
    );
    let none = folder.file("none.yaml", "rules: []\n");
    local
        .weir(&["rules", "apply", "--yes", "--prune", "-f", &none])
        .well(0);
    assert_eq!(local.weir(&["rules", "export"]).well(0).out, "rules: []\n");
}

#[test]
fn rules_with_ids_move_and_change_places() {
    let (local, folder) = (Local::start(), Folder::new());
    let file = folder.file("rules.yaml", TWO);
    local
        .weir(&["rules", "apply", "--yes", "-f", &file])
        .well(0);
    let before = local.rules();
    let exported = local.weir(&["rules", "export"]).well(0).out;

    // Each takes the other's resource and client; a third without an id comes to the place that one leaves.
    let swapped = exported
        .replace("resource: GET /orders/*", "resource: MOVED")
        .replace(
            "resource: /orders/**\n    client: eve",
            "resource: GET /orders/*",
        )
        .replace("resource: MOVED", "resource: /orders/**\n    client: eve")
        .replace("    tier: free", "    tier: premium");
    let swapped =
        format!("{swapped}  - resource: '*'\n    tier: free\n    limit: 1\n    time_window: 60\n");
    let file = folder.file("swapped.yaml", &swapped);
    let applied = local
        .weir(&["rules", "apply", "--yes", "--prune", "-f", &file])
        .well(0)
        .out;
    assert!(
        applied.contains("Applied: 1 created, 3 updated, 0 deleted"),
        "{applied}"
    );
    let after = local.rules();
    for (before, after) in before.iter().zip(after.iter().take(2)) {
        assert_eq!(before["id"], after["id"]);
        assert_ne!(before["resource"], after["resource"]);
    }
    let plan = local
        .weir(&["rules", "plan", "--prune", "-f", &file])
        .well(0)
        .out;
    assert_eq!(plan, "No difference: 5 unchanged.\n");
}

#[test]
fn more_changes_than_one_write_takes_are_several_writes() {
    let (local, folder) = (Local::start(), Folder::new());
    let drafts: Vec<Draft> = (0..2_100)
        .map(|number| Draft::new(format!("/many/{number}"), Some(5), 60))
        .collect();
    let file = folder.file("rules.yaml", &text(&drafts));
    let before = local.revision();
    let applied = local
        .weir(&["rules", "apply", "--yes", "-f", &file])
        .well(0)
        .out;
    assert!(applied.contains("These are 3 writes"), "{applied}");
    assert_eq!(applied.matches("Applied: ").count(), 3, "{applied}");
    assert_eq!(local.revision(), before + 3);
    // The list of what is there now has three pages.
    let plan = local.weir(&["rules", "plan", "-f", &file]).well(0).out;
    assert!(plan.contains("No difference: 2100 unchanged"), "{plan}");
}

#[test]
fn nothing_is_written_unless_the_answer_is_yes() {
    let (local, folder) = (Local::start(), Folder::new());
    let file = folder.file("rules.yaml", TWO);
    let apply = || crate::support::weir(&local.url, &["rules", "apply", "-f", &file]);
    for answer in ["no", "y", ""] {
        assert_eq!(
            apply().until_asked().answer(answer).error(),
            "nothing was applied\n"
        );
    }
    // Nobody is there to ask.
    assert_eq!(apply().run().error(), "nothing was applied\n");
    assert!(local.rules().is_empty());
    let Ran { code, err, .. } = apply().until_asked().answer("yes");
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(local.rules().len(), 2);
}
