//! What is wrong in a file is told where it stands, all of it at once.

use crate::support::{Folder, Local};

const BAD: &str = "\
rules:
  - resource: GET /orders/*
    limit:
    time_window: 60
    client: 123
  - resource: /x
    limit: ten
    limit: 10
    tier: gold
    colour: red
    id: mine
  - resource: /a*
    limit: 1
    time_window: 0
    burst: {}
  - 5
  - {resource: /b/{id}, limit: 1, time_window: 60}
  - resource: '/b/*'
    limit: 2
    time_window: 60
    id: 01979c4e-0000-7000-8000-00000000002a
  - limit: 2_000
    time_window: .inf
    resource: !secret x
    ? [a]
    : 1
  - &one
    id: 01979c4e-0000-7000-8000-00000000002a
    resource: \"/c\"
    limit: 3000000000
    time_window: 1e1
other: 1
";

#[test]
fn every_fault_names_its_line_column_and_field() {
    let (local, folder) = (Local::start(), Folder::new());
    let file = folder.file(
        "rules.yaml",
        &BAD.replace("{resource: /b/{id}, ", "{resource: '/b/{id}', "),
    );
    let told = local.weir(&["rules", "plan", "-f", &file]).error();
    let told: Vec<&str> = told
        .lines()
        .map(|line| line.strip_prefix(&file).unwrap())
        .collect();
    let integer = "must be an integer from 0 to 1000000000, or null for an exemption";
    let window = "must be an integer from 1 to 31622400";
    assert_eq!(
        told,
        [
            ":3:5: limit: must not be left empty: write `null`, or leave the field out",
            ":5:5: client: must be a string: put it in quotes",
            ":6:5: time_window: is required: seconds, 1 to 31622400",
            &format!(":7:5: limit: {integer}"),
            ":8:5: limit: is told twice: line 7 tells it too",
            ":9:5: tier: must be one of free, paid, premium",
            ":10:5: colour: is not a field of this resource",
            ":11:5: id: must be a UUID, or left out",
            ":12:5: resource: must have wildcards as whole segments: `*`, `**`, `{name}`",
            &format!(":14:5: time_window: {window}"),
            ":15:5: burst: must be an integer from 1 to 1000000000",
            ":16:5: must be a rule: a mapping with `resource`, `limit`, `time_window`",
            ":18:5: must not stand beside the rule in line 17: there is one rule for each resource, client, tier, per, algorithm and time_window",
            &format!(":22:5: limit: {integer}"),
            ":23:5: time_window: is a number without a value",
            ":24:5: resource: is not what its tag !secret says, or nobody knows that tag",
            ":25:7: must be the name of a field",
            ":30:5: limit: must be an integer from 0 to 1000000000, or null",
            &format!(":31:5: time_window: {window}"),
            ":32:1: other: is not a field of this file: there is only `rules`",
        ]
    );
}

#[test]
fn of_very_many_faults_the_first_are_told_and_the_rest_counted() {
    let (local, folder) = (Local::start(), Folder::new());
    let file = folder.file(
        "rules.yaml",
        &format!("rules:\n{}", "  - 5\n".repeat(50_000)),
    );
    let told = local.weir(&["rules", "plan", "-f", &file]).error();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 101);
    assert!(lines[99].starts_with(&format!("{file}:101:5: must be a rule")));
    assert_eq!(lines[100], format!("{file}: and 49900 more"));
}

#[test]
fn two_rules_of_one_id_are_told_with_both_lines() {
    let (local, folder) = (Local::start(), Folder::new());
    let rule = |path: &str| {
        format!(
            "  - id: 01979c4e-0000-7000-8000-00000000002a\n    resource: {path}\n    limit: 1\n    time_window: 60\n"
        )
    };
    let file = folder.file(
        "rules.yaml",
        &format!("rules:\n{}{}", rule("/a"), rule("/b")),
    );
    let told = local.weir(&["rules", "plan", "-f", &file]).error();
    assert_eq!(
        told,
        format!("{file}:6:5: id: is the id of the rule in line 2 too\n")
    );
}

#[test]
fn an_alias_stands_for_its_anchor_and_so_for_the_same_place() {
    let (local, folder) = (Local::start(), Folder::new());
    let text = "rules:\n  - &x {resource: /x, limit: &n 5, time_window: 60}\n  - {resource: /y, limit: *n, time_window: 60}\n";
    let file = folder.file("rules.yaml", text);
    let plan = local.weir(&["rules", "plan", "-f", &file]).well(2).out;
    assert_eq!(plan.matches("    limit: 5\n").count(), 2, "{plan}");
    let file = folder.file("rules.yaml", &format!("{text}  - *x\n"));
    let told = local.weir(&["rules", "plan", "-f", &file]).error();
    assert!(
        told.contains("must not stand beside the rule in line 2"),
        "{told}"
    );
}

#[test]
fn what_is_not_yaml_or_no_file_of_rules_is_told() {
    let (local, folder) = (Local::start(), Folder::new());
    for (text, wanted) in [
        ("", ":1:1: must be a mapping with `rules`"),
        ("- resource: /x", ":1:1: must be a mapping with `rules`"),
        ("rules:\n", ":1:1: rules: must be a list of rules"),
        ("rules: {}\n", ":1:1: rules: must be a list of rules"),
        (
            "rules: []\n---\nrules: []\n",
            ":2:1: begins a second document",
        ),
        ("rules: [\n", ": is not YAML: "),
        ("rules:\n  - resource: 'x\n", ": is not YAML: "),
    ] {
        let file = folder.file("rules.yaml", text);
        let told = local.weir(&["rules", "plan", "-f", &file]).error();
        assert!(
            told.starts_with(&file) && told.contains(wanted),
            "{text:?}: {told}"
        );
    }
    let missing = folder.path("missing.yaml");
    assert!(
        local
            .weir(&["rules", "plan", "-f", &missing])
            .error()
            .contains("missing.yaml")
    );
    std::fs::write(&missing, [0xff, 0xfe]).unwrap();
    assert!(
        local
            .weir(&["rules", "plan", "-f", &missing])
            .error()
            .contains("UTF-8")
    );
}

#[test]
fn what_only_the_api_knows_is_told_by_line_too() {
    let (local, folder) = (Local::start(), Folder::new());
    // One call would meet all of these, which is more than 32.
    let mut text = "rules:\n".to_owned();
    for window in 1..=33 {
        text.push_str(&format!(
            "  - limit: 5\n    resource: /busy\n    time_window: {window}\n"
        ));
    }
    let file = folder.file("rules.yaml", &text);
    let before = local.revision();
    let told = local
        .weir(&["rules", "apply", "--yes", "-f", &file])
        .error();
    assert!(
        told.starts_with(&format!(
            "{file}:3:5: resource: must not be a pattern where one call meets more than 32"
        )),
        "{told}"
    );
    assert!(
        told.contains(&format!("\n{file}:99:5: resource: ")),
        "{told}"
    );
    assert!(
        told.contains("answered 400 Bad Request: 33 things are wrong"),
        "{told}"
    );
    assert!(!told.contains("upsert["), "{told}");
    assert_eq!(local.revision(), before);
}
