//! How long a function takes from the start of its process until it asks for its first event, and until that is answered. What Lambda
//! does before it starts the process, the fetching of the code above all, is not in it. There are ten rules where nothing else is said.

use std::{process::Command, time::Duration};

use local::servers::{Redis, Setup, free_port};
use tests::{Operator, certificates};

use super::authorizer::{event, published, variables};
use crate::{
    function::{Event, Function, binary},
    pin::{HERE, on},
    report::Report,
    timing::Timings,
};

const STARTS: usize = 7;
/// Rules beside two that are met.
const FEW: usize = 8;
const MANY: usize = 998;
const SECTION: &str = "cold start";
const NOTHING: &str = "a handler that does nothing";

/// One that is started again and again.
struct Contender {
    name: &'static str,
    program: &'static str,
    variables: Vec<(&'static str, String)>,
}

/// The rows.
pub struct ColdStart {
    contenders: Vec<Contender>,
    event: Event,
    _tls: Redis,
    _operators: [Operator; 3],
}

impl ColdStart {
    /// With a Redis that runs [`HERE`], and one of its own that is asked over TLS.
    pub fn new(redis: &Redis) -> Self {
        // What is published to it is so without TLS.
        let plain = free_port().unwrap().to_string();
        let setup = Setup {
            tls: Some(certificates::of_loopback()),
            arguments: vec!["--port".to_owned(), plain.clone()],
            ..Setup::default()
        };
        let tls = on(HERE, || Redis::start_as(&setup)).unwrap_or_else(|error| panic!("{error}"));
        let encrypted = format!("redis://127.0.0.1:{plain}");
        let operators = [
            published(&redis.url(), FEW),
            published(&redis.url(), MANY),
            published(&encrypted, FEW),
        ];
        let plain = variables(redis, &operators[0]);
        let contenders = [
            (NOTHING, "nothing", plain.clone()),
            (
                "a handler that asks the least script",
                "evalsha",
                plain.clone(),
            ),
            ("authorizer", "authorizer", plain),
            (
                "authorizer, 1,000 rules",
                "authorizer",
                variables(redis, &operators[1]),
            ),
            (
                "authorizer, TLS",
                "authorizer",
                variables(&tls, &operators[2]),
            ),
        ];
        Self {
            contenders: contenders
                .map(|(name, program, variables)| Contender {
                    name,
                    program,
                    variables,
                })
                .into(),
            event: event("roomy-key"),
            _tls: tls,
            _operators: operators,
        }
    }

    /// Measures every row once.
    pub fn round(&mut self, report: &mut Report) {
        let mut timings: Vec<[Timings; 2]> = Vec::new();
        timings.resize_with(self.contenders.len(), Default::default);
        for _ in 0..STARTS {
            for (contender, timings) in self.contenders.iter().zip(&mut timings) {
                let [next, answer] = on(HERE, || contender.start(&self.event));
                timings[0].add(next);
                timings[1].add(answer);
            }
        }
        for (contender, timings) in self.contenders.iter().zip(&timings) {
            for (what, timings) in ["to next", "to the first answer"].into_iter().zip(timings) {
                let name = |name: &str| format!("{name}, {what}");
                let milliseconds = timings.quantile(0.5) / 1e3;
                let base = name(NOTHING);
                report.note(
                    SECTION,
                    &name(contender.name),
                    "ms",
                    Some(&base),
                    milliseconds,
                );
            }
        }
    }
}

impl Contender {
    fn start(&self, event: &Event) -> [Duration; 2] {
        let mut command = Command::new(binary(self.program));
        let mut function = Function::start(&mut command, &self.variables);
        let next = function.ready();
        function.invoke(event);
        [next, function.age()]
    }
}
