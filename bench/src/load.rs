//! The load test: a thousand API clients for a minute through the real authorizer, half of them over their limit.

use std::{env, error::Error, fmt::Write, fs, path::Path, process::Command, time::Duration};

use clap::Parser;
use hdrhistogram::Histogram;
use local::servers::Redis;
use plotters::prelude::*;
use serde::Serialize;
use serde_json::json;
use tests::{
    Operator,
    console::{ask, line},
};

use crate::{
    function::{Event, Function, binary},
    keep_in_page,
    open_loop::{OpenLoop, Outcome, POLICIES},
    pin::{HERE, on},
    processor_time::processor_time,
    report::{Spread, digits},
    rows::{
        authorizer::{event, variables},
        offender::scripts,
    },
    timing::current_thread,
};

const CLIENTS: usize = 1_000;
/// The client at an even place is of the first, at an odd one of the second.
const TIERS: [Tier; 2] = [
    Tier {
        name: "paid",
        limit: 20,
    },
    Tier {
        name: "free",
        limit: 8,
    },
];
const QUANTILES: [(&str, f64); 6] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
    ("max", 1.0),
];

/// How much load there is.
#[derive(Debug, Parser)]
#[command(name = "load")]
struct Load {
    /// Decisions a second, of all API clients together
    #[arg(long, default_value_t = 10_000)]
    rate: u32,
    /// Containers that make them
    #[arg(long, default_value_t = 2)]
    containers: usize,
    /// For how many seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Puts what came of it into docs/performance.md as well
    #[arg(long)]
    keep: bool,
}

/// Clients under one rule.
struct Tier {
    name: &'static str,
    /// What each may ask a second, and at once.
    limit: u64,
}

/// What came of a load.
#[derive(Debug, Serialize)]
struct Account {
    rate: u32,
    containers: usize,
    seconds: u64,
    /// From when a call was due until it was answered, in microseconds, by the share of calls that it took at most so long.
    latency: Vec<(&'static str, u64)>,
    /// Answers in each second.
    answered: Vec<u64>,
    tiers: Vec<Admissions>,
    /// Scripts that Redis was asked, for a decision.
    scripts: f64,
    /// Processor time for a decision, in microseconds, by whose it is.
    processor_time: Vec<(&'static str, f64)>,
    #[serde(skip)]
    times: Histogram<u64>,
}

/// What the clients of a tier were let through.
#[derive(Debug, Serialize)]
struct Admissions {
    /// What each may ask a second, and at once.
    limit: u64,
    asked: u64,
    admitted: u64,
    /// The most that the rule admits in that time.
    allowed: u64,
}

/// Processes of one kind.
struct Processes {
    name: &'static str,
    ids: Vec<u32>,
}

/// Lets as much load come as the command line says, prints what came of it, and writes that into `target/bench` as `load.json` and
/// `load.svg`.
///
/// # Panics
/// Where more was admitted than the rules allow.
pub fn run() {
    let load = Load::parse_from(env::args().skip(1));
    let account = load.come();
    println!("{}", account.tables());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench");
    fs::create_dir_all(&folder).unwrap();
    let text = serde_json::to_string_pretty(&account).unwrap();
    fs::write(folder.join("load.json"), text).unwrap();
    plot(&account.times, &folder.join("load.svg")).unwrap();
    if load.keep {
        keep_in_page("load", &account.tables());
        fs::copy(folder.join("load.svg"), folder.join("../../docs/load.svg")).unwrap();
    }
    for tier in &account.tiers {
        assert!(tier.admitted <= tier.allowed, "{tier:?}");
    }
}

impl Load {
    fn come(&self) -> Account {
        let redis = on(HERE, Redis::start).unwrap_or_else(|error| panic!("{error}"));
        let operator = current_thread().block_on(published(&redis));
        let variables = variables(&redis, &operator);
        let start = |_| Function::start(&mut Command::new(binary("authorizer")), &variables);
        let mut containers: Vec<Function> = (0..self.containers).map(start).collect();
        for container in &mut containers {
            container.ready();
        }
        let processes = processes(&containers, &redis);
        let events: Vec<Event> = (0..CLIENTS).map(|client| event(&key(client))).collect();
        let calls = OpenLoop {
            events: &events,
            rate: self.rate,
            time: Duration::from_secs(self.seconds),
            words: POLICIES,
        };
        let spent = || processes.each_ref().map(Processes::spent);
        let before = (scripts(&redis), spent());
        let outcome = calls.drive(&mut containers);
        let after = (scripts(&redis), spent());
        let count = calls.calls() as f64;
        let time = |place: usize| (after.1[place] - before.1[place]).as_secs_f64() * 1e6 / count;
        let latency = |(name, share)| (name, outcome.times.value_at_quantile(share));
        Account {
            rate: self.rate,
            containers: self.containers,
            seconds: self.seconds,
            latency: QUANTILES.map(latency).into(),
            tiers: admissions(&outcome, calls.calls()),
            scripts: (after.0 - before.0) as f64 / count,
            processor_time: (0..processes.len())
                .map(|place| (processes[place].name, time(place)))
                .collect(),
            answered: outcome.answered,
            times: outcome.times,
        }
    }
}

fn key(client: usize) -> String {
    format!("client{client}-key")
}

async fn published(redis: &Redis) -> Operator {
    let operator = Operator::at(&redis.url()).await;
    for client in 0..CLIENTS {
        let name = format!("client{client}");
        let tier = TIERS[client % TIERS.len()].name;
        operator.client(&name, json!({ "tier": tier })).await;
        operator.key(&name, &key(client)).await;
    }
    let rule = |Tier { name, limit }: &Tier| json!({ "resource": "GET /orders/*", "tier": name, "limit": limit, "time_window": 1, "burst": limit });
    operator.rules(TIERS.iter().map(rule).collect()).await;
    operator
}

fn admissions(outcome: &Outcome, calls: u64) -> Vec<Admissions> {
    let clients = CLIENTS / TIERS.len();
    let of = |(place, Tier { limit, .. }): (usize, &Tier)| Admissions {
        limit: *limit,
        asked: calls / TIERS.len() as u64,
        admitted: outcome
            .admitted
            .iter()
            .skip(place)
            .step_by(TIERS.len())
            .sum(),
        allowed: (*limit as f64 * (1.0 + outcome.took.as_secs_f64())) as u64 * clients as u64,
    };
    TIERS.iter().enumerate().map(of).collect()
}

fn processes(containers: &[Function], redis: &Redis) -> [Processes; 3] {
    let info: String = current_thread()
        .block_on(ask(redis, "INFO server"))
        .unwrap();
    let redis = line(&info, "process_id").parse().unwrap();
    [
        ("containers", containers.iter().map(Function::pid).collect()),
        ("Redis", vec![redis]),
        ("callers and Runtime API", vec![std::process::id()]),
    ]
    .map(|(name, ids)| Processes { name, ids })
}

impl Processes {
    /// The processor time of all of them so far.
    fn spent(&self) -> Duration {
        self.ids.iter().map(|id| processor_time(*id)).sum()
    }
}

impl Account {
    /// As Markdown.
    fn tables(&self) -> String {
        let (rate, seconds, containers) = (self.rate, self.seconds, self.containers);
        let mut text = format!(
            "### {rate} decisions a second for {seconds} s, {containers} containers\n\n| | | |\n|---|---:|---|\n"
        );
        let mut row = |name: &str, value: &str, unit: &str| {
            let _ = writeln!(text, "| {name} | {value} | {unit} |");
        };
        for (name, time) in &self.latency {
            row(
                &format!("from due to answered, {name}"),
                &digits(*time as f64 / 1e3),
                "ms",
            );
        }
        // What came late is answered in seconds of its own.
        let answered = self.answered.iter().take(seconds as usize);
        let answered = Spread::of(answered.map(|count| *count as f64).collect());
        let answered = answered.map_or_else(String::new, |all| all.text());
        row(
            "answered in a second, least / median / most",
            &answered,
            "decisions",
        );
        row(
            "asked of Redis",
            &digits(self.scripts),
            "scripts a decision",
        );
        for (name, time) in &self.processor_time {
            row(
                &format!("processor time of {name}"),
                &digits(*time),
                "µs a decision",
            );
        }
        text.push_str("\n| limit | asked | allowed | admitted | of what was both |\n|---:|---:|---:|---:|---:|\n");
        for tier in &self.tiers {
            let Admissions {
                limit,
                asked,
                allowed,
                admitted,
            } = tier;
            let share = digits(100.0 * *admitted as f64 / *asked.min(allowed) as f64);
            let _ = writeln!(
                text,
                "| {limit}/s | {asked} | {allowed} | {admitted} | {share} % |"
            );
        }
        text
    }
}

/// How late all but ever fewer of the calls were answered at most.
fn plot(times: &Histogram<u64>, path: &Path) -> Result<(), Box<dyn Error>> {
    let area = SVGBackend::new(path, (800, 450)).into_drawing_area();
    area.fill(&WHITE)?;
    let range = times.min() as f64 / 1e3..times.max() as f64 / 1e3;
    // One call in so many is later: 10 is the 90th percentile.
    let rarities = 1.0..times.len() as f64;
    let mut chart = ChartBuilder::on(&area)
        .margin(16)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(rarities.log_scale(), range.log_scale())?;
    chart
        .configure_mesh()
        .x_desc("percentile of the calls")
        .y_desc("ms from due to answered")
        .x_label_formatter(&|rarity| format!("{}", 100.0 - 100.0 / rarity))
        .draw()?;
    let points = times.iter_quantiles(10).map(|step| {
        let rarity = 1.0 / (1.0 - step.quantile()).max(1.0 / times.len() as f64);
        (rarity, step.value_iterated_to() as f64 / 1e3)
    });
    chart.draw_series(LineSeries::new(points, &BLUE))?;
    area.present()?;
    Ok(())
}
