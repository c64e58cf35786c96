//! What is exported is read again as it was, by us and by others.

use limits::rule::{OnFailure, Per, Status, Tier};
use limits::{Draft, Rule};
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;
use weir::rules_file::{read, write};

use crate::support::printed;

/// Texts that YAML, of one version or another, takes for something else.
const ODD: &[&str] = &[
    "yes",
    "No",
    "on",
    "OFF",
    "y",
    "n",
    "true",
    "null",
    "Null",
    "~",
    "*",
    "&a",
    "!x",
    "|",
    ">",
    "%",
    "@",
    "`",
    "- a",
    "-",
    "---",
    "...",
    "? a",
    ": a",
    "a: b",
    "a #b",
    "#",
    "#b",
    "[a]",
    "{a}",
    "a,b",
    "'",
    "\"",
    "''",
    "\\",
    "\\n",
    "123",
    "-1",
    "+1",
    "0x1f",
    "0o7",
    "017",
    "1_000",
    "1e3",
    ".5",
    ".inf",
    ".nan",
    "inf",
    "nan",
    "12:30:45",
    "2026-11-30",
    "<<",
    "=",
    " a",
    "a ",
    "\ta",
    "a\t",
    "a\nb",
    "a\n",
    "\na",
    "\n",
    "a\r\nb",
    "\r",
    "\u{0085}",
    "\u{2028}",
    "\u{feff}",
    "\u{7f}",
    "\u{1}",
    "\u{1b}[31m",
    "\u{9f}",
    "\u{202e}x",
    "ü",
    "日本",
    "🎉",
    "\u{10ffff}",
    "\u{ffff}",
    "a  b",
    "a\u{a0}b",
    "\u{e000}",
    "rules",
    "!!str a",
    "a: |\n  b",
    "key: - x",
    "x\n  y\n z",
    "\"a\": b",
];

fn odd() -> impl Strategy<Value = String> {
    let printable = "\\PC{0,30}|[\\x01-\\x7f\\u{80}-\\u{a0}]{0,20}";
    let piece = prop_oneof![
        2 => prop::sample::select(ODD).prop_map(str::to_owned),
        2 => printable,
        1 => prop::collection::vec(any::<char>(), 0..20).prop_map(String::from_iter),
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

fn rule() -> impl Strategy<Value = Rule> {
    let whole = (
        any::<u128>(),
        prop_oneof![odd(), odd().prop_map(|text| format!("GET /{text}"))],
        prop::option::of(odd()),
        prop::option::of(prop::sample::select(Tier::ALL)),
        prop::sample::select(Per::ALL),
        any::<bool>(),
        prop::option::of(0..1_000_u64),
        1..1_000_u64,
        prop::option::of(1..1_000_u64),
        prop::sample::select(OnFailure::ALL),
        prop::sample::select(Status::ALL),
        odd(),
    );
    whole.prop_filter_map(
        "no rule",
        |(
            id,
            resource,
            client,
            tier,
            per,
            overrides,
            limit,
            window,
            burst,
            on_failure,
            status,
            description,
        )| {
            let draft = Draft {
                client: client.clone(),
                tier: tier.filter(|_| client.is_none()),
                per,
                overrides,
                burst,
                on_failure,
                status,
                description,
                ..Draft::new(resource, limit, window)
            };
            Rule::new(Uuid::from_u128(id), draft).ok()
        },
    )
}

/// The texts that a rule holds.
fn texts(rule: &Rule) -> Value {
    let draft = rule.draft();
    json!([
        rule.id().to_string(),
        draft.resource,
        draft.client,
        draft.description
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn what_is_exported_is_read_again_as_it_was(rule in rule()) {
        let text = write(&[&rule]).unwrap();
        let back = read("x", &text);
        let back = back.map_err(|faults| TestCaseError::fail(format!("{faults}\n{text}")))?;
        prop_assert_eq!(&back.rules[0].rule, &rule, "{}", text);
        prop_assert!(back.rules[0].has_id);
    }
}

#[test]
fn every_odd_text_is_the_same_to_another_reader_of_yaml() {
    let rules: Vec<Rule> = ODD
        .iter()
        .filter_map(|text| {
            let client = limits::registry::check_client_id(text)
                .is_ok()
                .then(|| (*text).to_owned());
            let draft = Draft {
                client,
                description: (*text).to_owned(),
                ..Draft::new("/x", None, 1)
            };
            Rule::new(Uuid::now_v7(), draft).ok()
        })
        .collect();
    assert_eq!(rules.len(), ODD.len());
    let written = write(&rules.iter().collect::<Vec<_>>()).unwrap();

    let script = r"
import json, sys, yaml
rules = yaml.safe_load(sys.stdin.buffer.read())['rules']
print(json.dumps([[r['id'], r['resource'], r.get('client'), r.get('description', '')] for r in rules]))
";
    let told = printed(script, written.as_bytes());
    let mut told: Vec<Value> = serde_json::from_str(&told).unwrap();
    let mut wanted: Vec<Value> = rules.iter().map(texts).collect();
    told.sort_by_key(Value::to_string);
    wanted.sort_by_key(Value::to_string);
    assert_eq!(told, wanted);
}
