//! What one who goes on asking over his limit costs Redis: his container knows until when he is denied.

use std::{process::Command, time::Duration};

use local::servers::Redis;
use serde_json::json;
use tests::{
    Operator,
    console::{ask, line},
};

use super::authorizer::{event, variables};
use crate::{
    function::{Event, Function, binary},
    open_loop::{OpenLoop, POLICIES},
    report::Report,
    timing::current_thread,
};

const RATE: u32 = 100;
const TIME: Duration = Duration::from_secs(3);
/// What he may ask a second.
const LIMIT: u32 = 10;

/// The row.
pub struct Offender<'a> {
    redis: &'a Redis,
    event: [Event; 1],
    container: [Function; 1],
    _operator: Operator,
}

impl<'a> Offender<'a> {
    /// With a Redis that nobody else asks meanwhile.
    pub fn new(redis: &'a Redis) -> Self {
        let operator = current_thread().block_on(async {
            let operator = Operator::at(&redis.url()).await;
            operator.client("offender", json!({})).await;
            operator.key("offender", "offender-key").await;
            let rule = json!({ "resource": "GET /orders/*", "limit": LIMIT, "time_window": 1 });
            operator.rule(rule).await;
            operator
        });
        let variables = variables(redis, &operator);
        Self {
            redis,
            event: [event("offender-key")],
            container: [Function::start(
                &mut Command::new(binary("authorizer")),
                &variables,
            )],
            _operator: operator,
        }
    }

    /// Measures the row once.
    pub fn round(&mut self, report: &mut Report) {
        let load = OpenLoop {
            events: &self.event,
            rate: RATE,
            time: TIME,
            words: POLICIES,
        };
        let before = scripts(self.redis);
        load.drive(&mut self.container);
        let asked = scripts(self.redis) - before;
        let saved = 1.0 - asked as f64 / load.calls() as f64;
        let name = "repeat offender at 100 a second: Redis commands saved";
        report.note("limiter", name, "%", None, 100.0 * saved);
    }
}

/// How often a Redis was asked a script since it started.
pub fn scripts(redis: &Redis) -> u64 {
    let asked = current_thread().block_on(ask(redis, "INFO commandstats"));
    let text: String = asked.unwrap();
    let calls = line(&text, "cmdstat_evalsha").split(',').next();
    let number = calls.and_then(|calls| calls.strip_prefix("calls="));
    number.map_or(0, |number| number.parse().unwrap())
}
