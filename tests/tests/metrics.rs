//! What containers tell CloudWatch of themselves: true to the format, true to what was asked, and not a secret in it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use aws::metrics::{self, LIST};
use limits::Lane;
use limits::registry::{Name, key_hash};
use limits_redis::keys::Keys;
use local::servers::{End, Redis};
use serde_json::{Value, json};
use tests::{Container, Function, Operator};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::check::{event, send};
use crate::denials::{are_forgotten, connection};

const KEY: &str = "a-key-that-nobody-may-read-in-a-log";

/// Lines that a container wrote.
pub(crate) struct Told {
    emf: Vec<Value>,
    denials: Vec<Value>,
}

impl Told {
    /// What a container has written so far; each line of metrics is one of the format.
    pub(crate) fn by(container: &Container) -> Self {
        let logs = container.logs();
        let lines: Vec<Value> = logs
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let (emf, others): (Vec<_>, Vec<_>) =
            lines.into_iter().partition(|line| line["_aws"].is_object());
        assert!(logs.lines().all(|line| line.len() < 1_000_000));
        is_of_the_format(&emf);
        let denied = others
            .into_iter()
            .filter(|line| line["message"] == "denied");
        Self {
            emf,
            denials: denied.collect(),
        }
    }

    /// The lines that tell of a metric under exactly these dimensions.
    fn of<'a>(&'a self, name: &'a str, dimensions: &'a [&str]) -> impl Iterator<Item = &'a Value> {
        self.emf.iter().filter_map(move |line| {
            let directive = &line["_aws"]["CloudWatchMetrics"][0];
            let own = directive["Dimensions"] == json!([dimensions]);
            (own && names(line).any(|told| told == name)).then(|| &line[name])
        })
    }

    /// All that was counted under a name.
    pub(crate) fn sum(&self, name: &str) -> u64 {
        self.of(name, &["Function"])
            .map(|n| n.as_u64().unwrap())
            .sum()
    }

    /// How many values a distribution has.
    fn values(&self, name: &str) -> u64 {
        let counts = self
            .of(name, &["Function"])
            .flat_map(|told| told["Counts"].as_array().unwrap());
        counts.map(|n| n.as_u64().unwrap()).sum()
    }

    fn last(&self, name: &str) -> u64 {
        self.of(name, &["Function"])
            .last()
            .unwrap()
            .as_u64()
            .unwrap()
    }

    /// Each kind of failure, and how often it was told.
    fn failures(&self) -> BTreeMap<String, u64> {
        let mut kinds = BTreeMap::new();
        for line in self.emf.iter().filter(|line| line["Kind"].is_string()) {
            let n = line["StoreFailures"].as_u64().unwrap();
            *kinds
                .entry(line["Kind"].as_str().unwrap().to_owned())
                .or_default() += n;
        }
        kinds
    }

    /// How often rules let a call through and denied one, by what names them.
    fn rules(&self) -> BTreeMap<String, [u64; 2]> {
        let mut rules = BTreeMap::new();
        for line in self.emf.iter().filter(|line| line["Rule"].is_string()) {
            let counts: &mut [u64; 2] = rules
                .entry(line["Rule"].as_str().unwrap().to_owned())
                .or_default();
            for (n, name) in counts.iter_mut().zip(["RuleAllowed", "RuleThrottled"]) {
                *n += line[name].as_u64().unwrap_or_default();
            }
        }
        rules
    }

    /// How many denials the lines stand for.
    fn denied(&self) -> u64 {
        self.denials
            .iter()
            .map(|line| line["denials"].as_u64().unwrap())
            .sum()
    }
}

fn names(line: &Value) -> impl Iterator<Item = &str> {
    let metrics = line["_aws"]["CloudWatchMetrics"][0]["Metrics"]
        .as_array()
        .unwrap();
    metrics
        .iter()
        .map(|metric| metric["Name"].as_str().unwrap())
}

/// Holds lines against the published rules of the format: their shape by a schema, and that what they name is there.
fn is_of_the_format(lines: &[Value]) {
    const VALIDATE: &str = "
import json, sys, jsonschema
schema, lines = json.load(open(sys.argv[1])), json.load(sys.stdin)
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
print(json.dumps([error.message + ' in ' + json.dumps(line) for line in lines for error in validator.iter_errors(line)]))
";
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join("../.tools/venv/bin/python");
    assert!(python.is_file(), "`make setup` installs it");
    let mut child = Command::new(python)
        .args(["-c", VALIDATE])
        .arg(root.join("emf.schema.json"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input
        .write_all(json!(lines).to_string().as_bytes())
        .unwrap();
    drop(input);
    let faults = child.wait_with_output().unwrap().stdout;
    assert_eq!(String::from_utf8(faults).unwrap().trim(), "[]");
    for line in lines {
        for directive in line["_aws"]["CloudWatchMetrics"].as_array().unwrap() {
            for metric in directive["Metrics"].as_array().unwrap() {
                let value = &line[metric["Name"].as_str().unwrap()];
                assert!(
                    value.is_number() || value.is_object() || value.is_array(),
                    "{line}"
                );
                let counts = |name: &str| value[name].as_array().map(Vec::len);
                assert_eq!(counts("Values"), counts("Counts"), "{line}");
                let listed = LIST.iter().find(|listed| metric["Name"] == listed.name);
                let listed = listed.unwrap_or_else(|| panic!("{metric} is not in the list"));
                assert_eq!(
                    metric["Unit"].as_str().unwrap_or("None"),
                    listed.unit.name()
                );
                let emitters = listed.functions.iter().map(|function| function.as_str());
                assert!(
                    emitters
                        .into_iter()
                        .any(|function| line["Function"] == function),
                    "{line}"
                );
            }
            for dimension in directive["Dimensions"]
                .as_array()
                .unwrap()
                .iter()
                .flat_map(|set| set.as_array().unwrap())
            {
                assert!(line[dimension.as_str().unwrap()].is_string(), "{line}");
            }
        }
    }
}

/// What API Gateway asks for a caller with a key.
fn rest(key: &str, path: &str, address: &str) -> Value {
    let mut event: Value =
        serde_json::from_str(include_str!("../../events/authorizer-rest.json")).unwrap();
    event["headers"]["x-api-key"] = key.into();
    event["multiValueHeaders"]["x-api-key"] = json!([key]);
    event["path"] = path.into();
    event["requestContext"]["identity"]["sourceIp"] = address.into();
    event
}

/// What callers were told, counted by whoever asked.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answers {
    allowed: u64,
    throttled: u64,
    refused: u64,
    store_out: u64,
}

impl Answers {
    /// Asks so often, and tells the context of the last answer; nothing where that is an error.
    async fn ask(&mut self, times: u32, container: &Container, event: &Value) -> Value {
        let mut last = Value::Null;
        for _ in 0..times {
            last = match container.invoke(event).await {
                Ok(answer) => answer["context"].clone(),
                Err(error) => json!({ "decision": error.error_message }),
            };
            *match last["decision"].as_str().unwrap() {
                "allowed" => &mut self.allowed,
                "throttled" => &mut self.throttled,
                "Unauthorized" => &mut self.refused,
                "StoreUnavailable" => &mut self.store_out,
                other => panic!("{other}"),
            } += 1;
        }
        last
    }

    fn all(&self) -> u64 {
        self.allowed + self.throttled + self.refused + self.store_out
    }
}

async fn set(redis: &Redis, key: &str, value: u64) {
    let mut set = redis::cmd("SET");
    set.arg(key).arg(value);
    set.exec_async(&mut connection(redis).await).await.unwrap();
}

#[tokio::test]
async fn an_authorizer_tells_of_all_that_it_was_asked_and_of_all_that_befell_it() {
    let mut redis = Redis::start().unwrap();
    let operator = Operator::at(&redis.url()).await;
    operator.client("eve", json!({})).await;
    operator.key("eve", KEY).await;
    let rule = |resource: &str, limit: u64, more: Value| {
        let mut rule = json!({ "resource": resource, "limit": limit, "time_window": 86_400 });
        rule.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        rule
    };
    let few = operator.rule(rule("/few", 5, json!({}))).await;
    let many = operator.rule(rule("/many", 900, json!({}))).await;
    let mut rules = vec![
        rule(
            "/few",
            1,
            json!({ "status": "shadow", "time_window": 3_600 }),
        ),
        rule("/allow", 900, json!({ "on_failure": "allow" })),
        rule("/deny", 900, json!({ "on_failure": "deny" })),
    ];
    // None of them meets more than half of what a call to /crowd/here does.
    for (n, resource) in ["/crowd/*", "/*/here"]
        .into_iter()
        .cycle()
        .take(34)
        .enumerate()
    {
        rules.push(rule(resource, 900, json!({ "time_window": 3_600 + n })));
    }
    operator.rules(rules).await;
    // At its first call and at its end, and not between.
    let variables = [
        ("METRICS_NAMESPACE", "Weir/story"),
        ("METRICS_INTERVAL_SECONDS", "3600"),
        ("ANONYMOUS_LIMIT", "2/86400s"),
    ];
    let container = operator.container(Function::Authorizer, &variables).await;
    let mut answers = Answers::default();
    let ask = |path: &str| rest(KEY, path, "192.0.2.1");

    for address in 0..40 {
        let from = format!("192.0.2.{address}");
        answers.ask(1, &container, &rest(KEY, "/few", &from)).await;
    }
    assert_eq!((answers.allowed, answers.throttled), (5, 35));
    answers.ask(7, &container, &ask("/many")).await;
    answers.ask(1, &container, &ask("/crowd/here")).await;
    // The container is behind, and judges the next one twice.
    operator.rule(rule("/other", 900, json!({}))).await;
    answers.ask(1, &container, &ask("/crowd/here")).await;
    answers.ask(3, &container, &ask("/else")).await;
    // The third of an address is not looked up.
    answers
        .ask(3, &container, &rest("no-key", "/few", "192.0.2.2"))
        .await;
    assert_eq!(answers.refused, 3);
    let keys = Keys::new(operator.prefix()).unwrap();
    // A lane that is newer than all that is published.
    let lane: Lane = Name::Client("eve".to_owned()).lane();
    set(&redis, &keys.epoch(lane), 1 << 52).await;
    let stale = answers.ask(1, &container, &ask("/many")).await;
    assert_eq!(
        (&stale["decision"], &stale["degraded"]),
        (&json!("allowed"), &json!("1"))
    );

    redis.stop(End::Kill);
    are_forgotten().await;
    answers.ask(4, &container, &ask("/few")).await;
    answers.ask(2, &container, &ask("/allow")).await;
    answers.ask(1, &container, &ask("/deny")).await;
    assert_eq!(answers.store_out, 1);
    redis.restart().unwrap();
    operator.publish().await;
    let end = Instant::now() + Duration::from_secs(30);
    // How often the container still leaves Redis alone, and grants by itself: it is told to within 90 calls.
    let mut by_itself = 0;
    while answers.ask(1, &container, &ask("/many")).await["degraded"] != "" {
        assert!(Instant::now() < end, "not so in half a minute");
        by_itself += 1;
        sleep(Duration::from_millis(100)).await;
    }

    let first = Told::by(&container);
    assert_eq!(
        first
            .emf
            .iter()
            .filter(|line| names(line).any(|name| name == "ColdStarts"))
            .count(),
        1
    );
    assert_eq!(first.sum("Decisions"), 1);
    container.shut_down();
    let told = Told::by(&container);
    assert!(
        told.emf
            .iter()
            .all(|line| line["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "Weir/story")
    );
    assert!(told.emf.iter().all(|line| line["Function"] == "authorizer"));
    let counted = Answers {
        allowed: told.sum("Allowed"),
        throttled: told.sum("Throttled"),
        refused: told.sum("Refused"),
        store_out: told.sum("StoreOut"),
    };
    assert_eq!(counted, answers);
    assert_eq!(told.sum("Decisions"), answers.all());
    // One refusal needed no limiter, and took no time of it.
    assert_eq!(told.values("DecisionLatency"), answers.all() - 1);
    assert_eq!(told.sum("AnonymousLimited"), 1);
    // Of the limit of 5 a container grants one by itself.
    assert_eq!(
        (told.sum("FallbackAllowed"), told.sum("FallbackThrottled")),
        (1 + by_itself, 3)
    );
    assert_eq!(told.sum("FailedOpen"), 2);
    assert_eq!(told.sum("StaleDecisions"), 1);
    assert!(told.sum("DegradedDecisions") >= 7);
    assert_eq!(told.sum("CrowdedCalls"), 2);
    // All but the first of those that Redis was asked about; of what it was not asked, no shadow tells.
    assert_eq!(told.sum("ShadowDenials"), 39);
    assert!((1..35).contains(&told.sum("DenyCacheHits")));
    let failures = told.failures();
    assert_eq!(failures.values().sum::<u64>(), told.sum("StoreFailures"));
    assert!(
        failures
            .keys()
            .any(|kind| kind == "lost" || kind == "timeout"),
        "{failures:?}"
    );
    assert!(failures.contains_key("paused"), "{failures:?}");
    assert!(told.sum("BreakerOpened") >= 1);
    assert!(told.sum("CatchUps") >= 2);
    assert_eq!(told.values("CatchUpLatency"), told.sum("CatchUps"));
    assert!(told.values("RedisLatency") > 20);
    let head = operator.store.head().await.unwrap().unwrap();
    assert_eq!(told.last("RevisionInForce"), head.version.revision);
    assert_eq!(told.last("EpochInForce"), head.stamp);
    let (rules, of) = (told.rules(), |rule: Uuid| told.rules()[&rule.to_string()]);
    assert_eq!(of(few), [6, 38]);
    assert!(of(many)[0] >= 8 && of(many)[1] == 0);
    assert_eq!(rules["default"], [3, 0]);
    // Of 36 rules that counted something, no more are told apart than a flush tells of.
    assert!(
        rules.contains_key("others") && rules.len() <= 22,
        "{rules:?}"
    );

    assert_eq!(told.denied(), answers.throttled);
    assert!(told.denials.len() < 38, "{:?}", told.denials);
    for line in &told.denials {
        assert_eq!(line["rule"], few.to_string());
        assert_eq!(line["client"], "eve");
        assert!(line.get("address").is_none() && line.get("service").is_none());
    }
    let reasons: BTreeSet<_> = told
        .denials
        .iter()
        .map(|line| line["reason"].as_str().unwrap())
        .collect();
    assert_eq!(reasons, BTreeSet::from(["limit", "store_unavailable"]));

    let emitted: BTreeSet<&str> = told.emf.iter().flat_map(names).collect();
    let listed = LIST
        .iter()
        .filter(|metric| metric.functions.contains(&metrics::Function::Authorizer));
    let missing: Vec<_> = listed
        .map(|metric| metric.name)
        .filter(|name| !emitted.contains(name))
        .collect();
    // Ten thousand callers would have to come for that.
    assert_eq!(missing, ["CacheEvictions"]);
    let logs = container.logs();
    for secret in [KEY, &key_hash(KEY), "no-key", &key_hash("no-key")] {
        assert!(!logs.contains(secret), "{logs}");
    }
}

/// A client whose name is all that JSON must escape.
const ODD: &str = "o\"dd\\ é\u{2028}{}";

#[tokio::test]
async fn a_check_tells_who_was_denied_what_in_lines_that_no_name_breaks() {
    let redis = Redis::start().unwrap();
    let operator = Operator::at(&redis.url()).await;
    for id in ["ship", ODD] {
        operator.client(id, json!({})).await;
    }
    let rule = operator
        .rule(json!({ "resource": "ship", "limit": 1, "time_window": 86_400 }))
        .await;
    let variables = [
        ("CHECK_ANONYMOUS", "allow"),
        ("METRICS_INTERVAL_SECONDS", "0"),
        ("METRICS_BY_RULE", "true"),
    ];
    let check = operator.container(Function::Check, &variables).await;
    let mut pair = event("POST", "/throttleRequest", "", None);
    let body = json!({ "SourceService": ODD, "DestinationService": "ship" });
    pair["body"] = body.to_string().into();
    for status in [200, 429, 429] {
        assert_eq!(send(&check, &pair).await.status, status);
    }
    // To look is not to ask, and what is none of a call's is not counted.
    let look = event("GET", "/ratelimit/status/stranger", "resource=ship", None);
    for looked in [&look, &event("GET", "/nowhere", "", None)] {
        send(&check, looked).await;
    }
    let told = Told::by(&check);
    assert_eq!(
        (
            told.sum("Decisions"),
            told.sum("Allowed"),
            told.sum("Throttled")
        ),
        (3, 1, 2)
    );
    assert_eq!((told.denials.len(), told.denied()), (2, 2));
    for line in &told.denials {
        assert_eq!(line["client"], ODD);
        assert_eq!(
            (&line["service"], &line["reason"]),
            (&json!("ship"), &json!("limit"))
        );
        assert_eq!(line["rule"], rule.to_string());
    }
    assert_eq!(told.rules(), BTreeMap::from([(rule.to_string(), [1, 2])]));
    assert_eq!(told.of("RuleThrottled", &["Function", "Rule"]).count(), 2);
    assert_eq!(told.of("RuleThrottled", &["Function"]).count(), 0);
    assert!(
        told.emf
            .iter()
            .all(|line| line["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "Weir")
    );
}

#[tokio::test]
async fn what_a_container_counted_before_it_was_frozen_is_told_when_it_is_called_again() {
    let operator = Operator::new().await;
    operator.client("eve", json!({})).await;
    operator.key("eve", KEY).await;
    let interval = [("METRICS_INTERVAL_SECONDS", "2")];
    let container = operator.container(Function::Authorizer, &interval).await;
    let mut answers = Answers::default();
    let asked = rest(KEY, "/a", "192.0.2.1");
    answers.ask(1, &container, &asked).await;
    answers.ask(4, &container, &asked).await;
    container.freeze();
    sleep(Duration::from_secs(3)).await;
    container.thaw();
    answers.ask(1, &container, &asked).await;
    assert_eq!(Told::by(&container).sum("Decisions"), answers.all());
}

#[tokio::test]
async fn a_container_that_lambda_does_not_promise_to_tell_of_its_end_answers_all_the_same() {
    let untold = Container::start_untold(Function::Migrate, [("DATABASE_URL", "memory://")]).await;
    untold.invoke(&json!({})).await.unwrap();
    untold.logged("nobody will tell this container").await;
    assert_eq!(Told::by(&untold).sum("ColdStarts"), 1);
}

#[tokio::test]
async fn every_function_tells_that_it_began_and_refuses_a_setting_that_is_none() {
    let operator = Operator::new().await;
    let database = ("DATABASE_URL", "memory://");
    for (function, name) in [
        (Function::Check, "check"),
        (Function::Rules, "rules"),
        (Function::Clients, "clients"),
        (Function::Refresh, "refresh"),
        (Function::Migrate, "migrate"),
    ] {
        let container = operator.container(function, &[database]).await;
        container.ready().await.unwrap();
        container.shut_down();
        let told = Told::by(&container);
        assert_eq!(
            (told.sum("ColdStarts"), told.values("ColdStartLatency")),
            (1, 1),
            "{name}"
        );
        assert!(
            told.emf.iter().all(|line| line["Function"] == name),
            "{name}"
        );
        let wrong = [
            database,
            ("METRICS_NAMESPACE", "AWS/Lambda"),
            ("METRICS_BY_RULE", "1"),
            ("METRICS_INTERVAL_SECONDS", "-1"),
        ];
        let failed = operator
            .container(function, &wrong)
            .await
            .ready()
            .await
            .unwrap_err();
        for setting in wrong[1..].iter().map(|(setting, _)| setting) {
            assert!(
                failed.error_message.contains(&format!("{setting} must")),
                "{name} {failed}"
            );
        }
    }
}

#[test]
fn the_page_of_metrics_has_each_of_the_list_and_no_other() {
    let page = include_str!("../../docs/metrics.md");
    let is_row = |line: &&str| line.starts_with("| `");
    // The settings have a table of their own further down.
    let rows = page.lines().skip_while(|line| !is_row(line));
    let rows: Vec<Vec<&str>> = rows
        .take_while(is_row)
        .map(|row| row.split('|').map(str::trim).collect())
        .collect();
    let table: Vec<Vec<String>> = LIST
        .iter()
        .map(|metric| {
            let functions: Vec<_> = metric
                .functions
                .iter()
                .map(|function| function.as_str())
                .collect();
            let functions = match functions.len() {
                7 => "all".to_owned(),
                _ => functions.join(", "),
            };
            let unit = metric.unit.name();
            [
                format!("`{}`", metric.name),
                unit.to_owned(),
                functions,
                metric.meaning.to_owned(),
            ]
            .to_vec()
        })
        .collect();
    let written: Vec<_> = rows
        .iter()
        .map(|row| row[1..row.len() - 1].to_vec())
        .collect();
    let wanted: String = table
        .iter()
        .map(|row| format!("| {} |\n", row.join(" | ")))
        .collect();
    assert_eq!(written, table, "the table must be:\n{wanted}");
    let names: BTreeSet<_> = LIST.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), LIST.len());
}
