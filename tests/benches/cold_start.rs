//! How long a function takes from the start of its process until it asks for its first event, and until that is answered: the release
//! binaries, beside a handler that gives back what it gets.
//!
//! They take turns, and what one takes more than that handler is reckoned round by round: so the shell that starts each process falls
//! out. Redis and Postgres are on this machine and without TLS. What Lambda does before it starts the process, the fetching of the code
//! above all, is not in it.
// A benchmark is test code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use local::demo;
use serde_json::json;
use tests::{Container, Function, Operator, stores};
use tokio::time::Instant;

const ROUNDS: usize = 25;

/// One that is started again and again.
struct Contender {
    function: Function,
    variables: Vec<(&'static str, String)>,
    /// What it is sent; none to one that would have to ask another function.
    event: Option<&'static str>,
}

/// Milliseconds since a process was started.
struct Start {
    next: f64,
    answer: Option<f64>,
}

impl Contender {
    async fn start(&self) -> Start {
        let began = Instant::now();
        let since = || began.elapsed().as_secs_f64() * 1000.0;
        let container = Container::start(self.function, self.variables.clone()).await;
        container.ready().await.unwrap();
        let next = since();
        let mut answer = None;
        if let Some(event) = self.event {
            container.invoke_text(event).await.unwrap();
            answer = Some(since());
        }
        Start { next, answer }
    }
}

/// Least, median and most.
fn spread(values: impl Iterator<Item = f64>) -> String {
    let mut values: Vec<f64> = values.collect();
    if values.is_empty() {
        return "-".to_owned();
    }
    values.sort_by(f64::total_cmp);
    let (least, most) = (values[0], values[values.len() - 1]);
    format!("{least:.1}/{:.1}/{most:.1}", values[values.len() / 2])
}

async fn contenders() -> Vec<Contender> {
    let redis = stores::redis().url();
    let operator = Operator::at(&redis).await;
    operator.client(demo::FREE.client, json!({})).await;
    operator.key(demo::FREE.client, demo::FREE.key).await;
    let one = json!({ "resource": "GET /orders/*", "limit": 1_000_000, "time_window": 60 });
    operator.rule(one).await;
    let database = ("DATABASE_URL", stores::database().await);
    let redis = ("REDIS_URL", redis);
    let counting = [
        redis.clone(),
        ("KEY_PREFIX", operator.prefix().to_owned()),
        // A slow machine is no outage.
        ("REDIS_TIMEOUT_MS", "5000".to_owned()),
    ];
    let mut checking = counting.to_vec();
    checking.push(("CHECK_ANONYMOUS", "allow".to_owned()));
    let refreshing = vec![
        redis,
        ("KEY_PREFIX", stores::unique("cold")),
        database.clone(),
    ];
    let asking = [
        ("CHECK_URL", "http://127.0.0.1:9"),
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "example"),
    ];
    let asking = asking.map(|(name, value)| (name, value.to_owned()));
    [
        (Function::Echo, vec![], Some("{}")),
        (
            Function::Authorizer,
            counting.to_vec(),
            Some(include_str!("../../events/authorizer-rest.json")),
        ),
        (
            Function::Check,
            checking,
            Some(include_str!("../../events/check-url.json")),
        ),
        (
            Function::Rules,
            vec![database.clone()],
            Some(include_str!("../../events/rules-http.json")),
        ),
        (
            Function::Clients,
            vec![database.clone()],
            Some(include_str!("../../events/clients-http.json")),
        ),
        (
            Function::Refresh,
            refreshing,
            Some(include_str!("../../events/refresh-schedule.json")),
        ),
        (
            Function::Migrate,
            vec![database],
            Some(include_str!("../../events/migrate.json")),
        ),
        (Function::Canary, asking.to_vec(), None),
    ]
    .map(|(function, variables, event)| Contender {
        function,
        variables,
        event,
    })
    .into()
}

#[tokio::main]
async fn main() {
    let contenders = contenders().await;
    // The first start of each reads its file from the disk, and is not counted.
    for contender in &contenders {
        contender.start().await;
    }
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let mut round = Vec::new();
        for contender in &contenders {
            round.push(contender.start().await);
        }
        rounds.push(round);
    }
    println!("least/median/most of {ROUNDS} rounds, in ms");
    line([
        "function",
        "until next",
        "more than echo",
        "until answered",
        "more than echo",
    ]);
    for (place, contender) in contenders.iter().enumerate() {
        let next = rounds.iter().map(|round| round[place].next);
        let more_next = rounds.iter().map(|round| round[place].next - round[0].next);
        let answer = rounds.iter().filter_map(|round| round[place].answer);
        let more_answer = rounds
            .iter()
            .filter_map(|round| Some(round[place].answer? - round[0].answer?));
        line([
            contender.function.name(),
            &spread(next),
            &spread(more_next),
            &spread(answer),
            &spread(more_answer),
        ]);
    }
}

fn line([function, next, more_next, answer, more_answer]: [&str; 5]) {
    println!("{function:<12}{next:>18}{more_next:>18}{answer:>20}{more_answer:>20}");
}
