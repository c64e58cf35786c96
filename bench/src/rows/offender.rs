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
/// What is allowed in a time, in seconds.
const LIMITS: [(&str, u32, u32); 2] = [("10 a minute", 10, 60), ("10 a second", 10, 1)];

/// Who asks more than that allows, again and again.
struct Caller {
    limit: &'static str,
    event: [Event; 1],
    container: [Function; 1],
}

/// The rows.
pub struct Offender<'a> {
    redis: &'a Redis,
    callers: [Caller; 2],
    _operator: Operator,
}

impl<'a> Offender<'a> {
    /// With a Redis that nobody else asks meanwhile.
    pub fn new(redis: &'a Redis) -> Self {
        let operator = current_thread().block_on(async {
            let operator = Operator::at(&redis.url()).await;
            for (client, limit, time_window) in LIMITS {
                let client = client.replace(' ', "-");
                operator.client(&client, json!({})).await;
                operator.key(&client, &client).await;
                let rule = json!({ "resource": "*", "client": client, "limit": limit, "time_window": time_window });
                operator.rule(rule).await;
            }
            operator
        });
        let variables = variables(redis, &operator);
        let mut authorizer = Command::new(binary("authorizer"));
        Self {
            redis,
            callers: LIMITS.map(|(limit, ..)| Caller {
                limit,
                event: [event(&limit.replace(' ', "-"))],
                container: [Function::start(&mut authorizer, &variables)],
            }),
            _operator: operator,
        }
    }

    /// Measures every row once.
    pub fn round(&mut self, report: &mut Report) {
        for caller in &mut self.callers {
            let load = OpenLoop {
                events: &caller.event,
                rate: RATE,
                time: TIME,
                words: POLICIES,
            };
            let before = scripts(self.redis);
            load.drive(&mut caller.container);
            let asked = scripts(self.redis) - before;
            let saved = 1.0 - asked as f64 / load.calls() as f64;
            let name = format!("100 a second where {} are allowed", caller.limit);
            report.note("commands to Redis saved", &name, "%", None, 100.0 * saved);
        }
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
