//! How fast it is, beside the least that can be had and beside others.
//!
//! Every row is measured once a round, one after the other, and compared with its base in the same round: what the machine does
//! beside falls on both.
// A benchmark is test code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod bars;
pub mod function;
pub mod load;
pub mod open_loop;
pub mod peer;
pub mod pin;
pub mod plot;
pub mod processor_time;
pub mod profile;
pub mod report;
pub mod rows;
pub mod timing;

use std::{fs, path::Path, process::Command, time::Instant};

use local::servers::Redis;
use report::Report;
use rows::{
    authorizer::Authorizer, check::Check, cold_start::ColdStart, growth::Growth,
    limiter::InProcess, matching::Matching, offender::Offender, peers::Peers,
    round_trip::RoundTrip, rules::Rules, take::Take,
};

use simulation::markdown::put_into;

const ROUNDS: usize = 5;

/// Rows that are measured together.
type Group = Box<dyn FnMut(&mut Report)>;

/// How a group is made ready, with a Redis that runs [`HERE`](pin::HERE).
type Making = fn(&'static Redis) -> Group;

/// Every group by name.
const GROUPS: [(&str, Making); 11] = [
    ("round-trip", |redis| {
        let mut rows = RoundTrip::new(redis);
        Box::new(move |report| rows.round(report))
    }),
    ("take", |redis| {
        let mut rows = Take::new(redis);
        Box::new(move |report| rows.round(report))
    }),
    ("limiter", |redis| {
        let mut rows = InProcess::new(redis);
        Box::new(move |report| rows.round(report))
    }),
    ("peers", |redis| {
        let mut rows = Peers::new(redis);
        Box::new(move |report| rows.round(report))
    }),
    ("matching", |_| {
        let rows = Matching::new();
        Box::new(move |report| rows.round(report))
    }),
    ("rules", |_| {
        let mut rows = Rules::new();
        Box::new(move |report| rows.round(report))
    }),
    ("authorizer", |redis| {
        let mut rows = Authorizer::new(redis);
        Box::new(move |report| rows.round(report))
    }),
    ("cold-start", |redis| {
        let mut rows = ColdStart::new(redis);
        Box::new(move |report| rows.round(report))
    }),
    ("check", |_| {
        let mut rows = Check::new();
        Box::new(move |report| rows.round(report))
    }),
    ("offender", |redis| {
        let mut rows = Offender::new(redis);
        Box::new(move |report| rows.round(report))
    }),
    ("growth", |redis| {
        let mut rows = Growth::new(redis);
        Box::new(move |report| rows.round(report))
    }),
];

/// Measures the groups of rows that are named, or all; prints what came out, and leaves it in `target/bench`. `keep` puts it into
/// `docs/performance.md` as well, and beside it what other programs read.
///
/// # Errors
/// The names that there are, where one is none of them.
pub fn run(keep: bool, only: &[String]) -> Result<(), String> {
    if let Some(unknown) = only
        .iter()
        .find(|name| GROUPS.iter().all(|(known, _)| known != name))
    {
        let names = GROUPS.map(|(name, _)| name).join(", ");
        return Err(format!("no rows are named {unknown:?}: {names}"));
    }
    let started = Instant::now();
    let redis = pin::on(pin::HERE, Redis::start).map_err(|error| error.to_string())?;
    // For as long as this process, whose end it sees by itself.
    let redis = &*Box::leak(Box::new(redis));
    let mut groups: Vec<(&str, Group)> = GROUPS
        .iter()
        .filter(|(name, _)| only.is_empty() || only.iter().any(|wanted| wanted == name))
        .map(|(name, make)| (*name, make(redis)))
        .collect();
    let mut report = Report {
        machine: machine(),
        rounds: ROUNDS,
        rows: Vec::new(),
    };
    for round in 0..=ROUNDS {
        for (name, measure) in &mut groups {
            let began = Instant::now();
            measure(&mut report);
            let seconds = began.elapsed().as_secs_f64();
            eprintln!("round {round} of {ROUNDS}: {name}, {seconds:.1} s");
        }
        let size = fs::metadata(function::binary("authorizer")).unwrap().len();
        let size = size as f64 / f64::from(1 << 20);
        report.note("binary", "authorizer", "MiB", None, size);
        if round == 0 {
            report.forget();
        }
    }
    let tables = format!("{}{}", bars::table(&report), report.tables());
    println!("{}\n\n{tables}", report.machine);
    eprintln!("{:.0} s in all", started.elapsed().as_secs_f64());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (json, svg) = (serde_json::to_string(&report).unwrap(), plot::draw(&report));
    let folder = root.join("target/bench");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("results.md"), &tables).unwrap();
    fs::write(folder.join("results.json"), &json).unwrap();
    fs::write(folder.join("results.svg"), &svg).unwrap();
    if keep {
        let told = format!("Measured on {}.\n\n{tables}", report.machine);
        keep_in_page("measured", &told);
        fs::write(root.join("docs/performance.json"), json).unwrap();
        fs::write(root.join("docs/performance.svg"), svg).unwrap();
    }
    Ok(())
}

/// Puts something in its place in `docs/performance.md`.
fn keep_in_page(mark: &str, told: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/performance.md");
    let document = fs::read_to_string(&path).unwrap();
    let document = put_into(&document, mark, told).expect("the page has a place for it");
    fs::write(path, document).unwrap();
}

/// What it is measured on and with.
fn machine() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut models = cpus.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "model name").then_some(value.trim())
    });
    let model = models.next().unwrap_or("a processor without a name");
    let said = |program: &str, argument: &str| {
        let output = Command::new(program).arg(argument).output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        text.unwrap_or_default().trim().to_owned()
    };
    let (kernel, redis) = (said("uname", "-r"), said("redis-server", "--version"));
    let redis = redis.split(' ').find_map(|word| word.strip_prefix("v="));
    format!(
        "{} processors, {model}; Linux {kernel}; Redis {}",
        models.count() + 1,
        redis.unwrap_or_default()
    )
}
