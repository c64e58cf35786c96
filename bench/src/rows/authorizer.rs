//! The whole authorizer, beside handlers that do the least that a handler can.

use std::process::Command;

use local::servers::Redis;
use serde_json::{Value, json};
use tests::Operator;

use crate::{
    function::{Event, Function, binary},
    pin::{AWAY, Cpu, HERE, on},
    report::Report,
    timing::{Timings, current_thread},
};

const CALLS: usize = 3_000;
/// Rules beside those that are met.
const RULES: usize = 1_000;
const NOTHING: &str = "a handler that does nothing";
const EVALSHA: &str = "a handler that asks the least script";

/// One who is asked again and again.
struct Contender {
    name: &'static str,
    base: &'static str,
    event: Event,
    function: Function,
    /// What every answer holds.
    answer: &'static str,
}

/// The rows, on one processor and across both.
pub struct Authorizer {
    places: Vec<(&'static str, Vec<Contender>)>,
    _operator: Operator,
}

/// An operator that published to a Redis what the rows need: a client with room, and one without, and so many rules beside theirs.
pub fn published(redis: &str, others: usize) -> Operator {
    current_thread().block_on(async {
        let operator = Operator::at(redis).await;
        for (client, key) in [("roomy", "roomy-key"), ("empty", "empty-key")] {
            operator.client(client, json!({})).await;
            operator.key(client, key).await;
        }
        let mut rules: Vec<Value> = (0..others)
            .map(|i| json!({ "resource": format!("GET /service{i}/*"), "limit": 100, "time_window": 60 }))
            .collect();
        rules.push(json!({
            "resource": "GET /orders/*", "client": "roomy", "limit": 50_000_000, "time_window": 60,
        }));
        rules.push(json!({
            "resource": "GET /orders/*", "client": "empty", "limit": 1, "time_window": 2_592_000,
        }));
        operator.rules(rules).await;
        operator
    })
}

/// What a function is told of the store of an operator.
pub fn variables(redis: &Redis, operator: &Operator) -> Vec<(&'static str, String)> {
    let mut variables = vec![
        ("REDIS_URL", redis.url()),
        ("KEY_PREFIX", operator.prefix().to_owned()),
        // A slow machine is no outage.
        ("REDIS_TIMEOUT_MS", "5000".to_owned()),
    ];
    if let Some(authority) = redis.authority() {
        variables.push(("SSL_CERT_FILE", authority.display().to_string()));
    }
    variables
}

/// What API Gateway sends for a call with an API key.
pub fn event(key: &str) -> Event {
    let text = include_str!("../../../events/authorizer-rest.json");
    let mut event: Value = serde_json::from_str(text).unwrap();
    event["headers"]["x-api-key"] = key.into();
    event["multiValueHeaders"]["x-api-key"] = json!([key]);
    Event::new(&event)
}

impl Authorizer {
    /// With a Redis that runs [`HERE`].
    pub fn new(redis: &Redis) -> Self {
        let operator = published(&redis.url(), RULES);
        let variables = variables(redis, &operator);
        let contenders = |cpu: Cpu| -> Vec<Contender> {
            [
                (NOTHING, "nothing", NOTHING, "roomy-key", "Allow"),
                (EVALSHA, "evalsha", EVALSHA, "roomy-key", "Allow"),
                (
                    "authorizer, allowed",
                    "authorizer",
                    EVALSHA,
                    "roomy-key",
                    "Allow",
                ),
                (
                    "authorizer, known to be empty",
                    "authorizer",
                    NOTHING,
                    "empty-key",
                    "Deny",
                ),
            ]
            .map(|(name, program, base, key, answer)| Contender {
                name,
                base,
                event: event(key),
                function: on(cpu, || {
                    Function::start(&mut Command::new(binary(program)), &variables)
                }),
                answer,
            })
            .into()
        };
        let mut places = vec![
            ("authorizer, work", contenders(HERE)),
            ("authorizer, across processors", contenders(AWAY)),
        ];
        for (_, contenders) in &mut places {
            for contender in contenders {
                // The first of the client without room is let through.
                contender.function.invoke(&contender.event);
            }
        }
        Self {
            places,
            _operator: operator,
        }
    }

    /// Measures every row once.
    pub fn round(&mut self, report: &mut Report) {
        for (section, contenders) in &mut self.places {
            for contender in contenders {
                let mut timings = Timings::default();
                on(HERE, || {
                    for _ in 0..CALLS {
                        let (took, answer) = contender.function.invoke(&contender.event);
                        timings.add(took);
                        let answer = std::str::from_utf8(answer).unwrap();
                        assert!(answer.contains(contender.answer), "{answer}");
                    }
                });
                timings.note(report, section, contender.name, Some(contender.base));
            }
        }
    }
}
