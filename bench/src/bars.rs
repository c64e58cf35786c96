//! What must be reached, and what would be better still.

use std::fmt::Write;

use crate::report::{Report, Row, Spread, digits};

/// A section, and a name in it.
type Place = (&'static str, &'static str);

/// What is looked at, round by round.
enum Figure {
    /// A row itself, in its unit.
    Of(Place),
    /// One row as a multiple of another.
    Ratio(Place, Place),
    /// By how much one row is more than another.
    More(Place, Place),
}

enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

struct Bar {
    what: &'static str,
    figure: Figure,
    bound: Bound,
    better: Option<f64>,
    /// In what both are said.
    unit: &'static str,
}

use Bound::{AtLeast, AtMost};
use Figure::{More, Of, Ratio};

const WORK: &str = "authorizer, work";
const ACROSS: &str = "authorizer, across processors";
const TAKE: &str = "take.lua, one core of Redis";
const LIMITER: &str = "limiter, work";
const PEERS: &str = "peers, work";
const RULES: &str = "rules";
const COLD: &str = "cold start";
const NOTHING: &str = "a handler that does nothing";
const EVALSHA: &str = "a handler that asks the least script";
const ALLOWED: &str = "authorizer, allowed";

const fn bar(
    what: &'static str,
    figure: Figure,
    bound: Bound,
    better: Option<f64>,
    unit: &'static str,
) -> Bar {
    Bar {
        what,
        figure,
        bound,
        better,
        unit,
    }
}

const BARS: &[Bar] = &[
    bar(
        "authorizer, allowed, against a bare handler that asks the least script: work",
        Ratio((WORK, ALLOWED), (WORK, EVALSHA)),
        AtMost(1.25),
        Some(1.1),
        "×",
    ),
    bar(
        "the same across processors",
        Ratio((ACROSS, ALLOWED), (ACROSS, EVALSHA)),
        AtMost(1.15),
        Some(1.05),
        "×",
    ),
    bar(
        "authorizer, known to be empty, against a handler that does nothing: work",
        Ratio((WORK, "authorizer, known to be empty"), (WORK, NOTHING)),
        AtMost(1.3),
        Some(1.15),
        "×",
    ),
    bar(
        "`take.lua`, 1 token bucket, against the least script: calls a second of one core",
        Ratio(
            (TAKE, "token bucket ×1, allowed"),
            (TAKE, "least script ×1"),
        ),
        AtLeast(0.8),
        Some(0.9),
        "×",
    ),
    bar(
        "the same with 2",
        Ratio(
            (TAKE, "token bucket ×2, allowed"),
            (TAKE, "least script ×2"),
        ),
        AtLeast(0.9),
        Some(1.0),
        "×",
    ),
    bar(
        "the same with 4",
        Ratio(
            (TAKE, "token bucket ×4, allowed"),
            (TAKE, "least script ×4"),
        ),
        AtLeast(0.9),
        Some(1.0),
        "×",
    ),
    bar(
        "`take.lua`, 1 token bucket, denied against allowed",
        Ratio(
            (TAKE, "token bucket ×1, denied"),
            (TAKE, "token bucket ×1, allowed"),
        ),
        AtLeast(1.15),
        Some(1.3),
        "×",
    ),
    bar(
        "bytes a key, default prefix",
        Of(("bytes a key", "token bucket")),
        AtMost(104.0),
        None,
        "bytes",
    ),
    bar(
        "repeat offender at 100 a second: commands to Redis saved",
        Of((
            "commands to Redis saved",
            "100 a second where 10 a minute are allowed",
        )),
        AtLeast(90.0),
        Some(98.0),
        "%",
    ),
    bar(
        "limitador's time for a decision with Redis against the limiter's, 1 limit",
        Ratio(
            (PEERS, "limitador AsyncRedisStorage, 1 limit, allowed"),
            (LIMITER, "1 limit, allowed"),
        ),
        AtLeast(2.2),
        Some(2.8),
        "×",
    ),
    bar(
        "the same with 4 limits",
        Ratio(
            (PEERS, "limitador AsyncRedisStorage, 4 limits, allowed"),
            (LIMITER, "4 limits, allowed"),
        ),
        AtLeast(3.0),
        Some(4.8),
        "×",
    ),
    bar(
        "decisions a second with Redis against limitador's, 50 in flight, 1 limit",
        Ratio(
            (LIMITER, "1 limit, allowed, 50 in flight"),
            (
                PEERS,
                "limitador AsyncRedisStorage, 1 limit, allowed, 50 in flight",
            ),
        ),
        AtLeast(2.2),
        Some(2.8),
        "×",
    ),
    bar(
        "the same with 4 limits",
        Ratio(
            (LIMITER, "4 limits, allowed, 50 in flight"),
            (
                PEERS,
                "limitador AsyncRedisStorage, 4 limits, allowed, 50 in flight",
            ),
        ),
        AtLeast(3.0),
        Some(4.8),
        "×",
    ),
    bar(
        "matching, 100,000 rules against 10",
        Ratio(("matching", "100,000 rules"), ("matching", "10 rules")),
        AtMost(3.0),
        Some(1.5),
        "×",
    ),
    bar(
        "matching, 100,000 rules",
        Of(("matching", "100,000 rules")),
        AtMost(1_000.0),
        None,
        "ns",
    ),
    bar(
        "100,000 rules, cold load from Redis",
        Of((RULES, "100,000 rules, cold load")),
        AtMost(150.0),
        Some(50.0),
        "ms",
    ),
    bar(
        "100,000 rules, memory",
        Of((RULES, "100,000 rules, memory")),
        AtMost(60.0),
        None,
        "MiB",
    ),
    bar(
        "200 containers load 100,000 rules at once: slowest decision meanwhile",
        Of((
            RULES,
            "200 containers load 100,000 rules at once: slowest decision meanwhile",
        )),
        AtMost(20.0),
        Some(10.0),
        "ms",
    ),
    bar(
        "cold start with 10 rules, spawn to next, against a handler that does nothing",
        Ratio(
            (COLD, "authorizer, to next"),
            (COLD, "a handler that does nothing, to next"),
        ),
        AtMost(2.0),
        Some(1.3),
        "×",
    ),
    bar(
        "the same with 1,000 rules",
        Ratio(
            (COLD, "authorizer, 1,000 rules, to next"),
            (COLD, "a handler that does nothing, to next"),
        ),
        AtMost(2.0),
        Some(1.3),
        "×",
    ),
    bar(
        "cold start with 10 rules and TLS to Redis: more than that handler",
        More(
            (COLD, "authorizer, TLS, to next"),
            (COLD, "a handler that does nothing, to next"),
        ),
        AtMost(4.0),
        None,
        "ms",
    ),
    bar(
        "the authorizer's binary, stripped",
        Of(("binary", "authorizer")),
        AtMost(6.0),
        Some(4.0),
        "MiB",
    ),
];

impl Bar {
    fn measured(&self, report: &Report) -> Option<Spread> {
        let row = |(section, name)| report.row(section, name);
        let pairs = |a: Place, b: Place, of: fn(f64, f64) -> f64| {
            let (a, b): (&Row, &Row) = (row(a)?, row(b)?);
            let values = a.values.iter().zip(&b.values);
            Spread::of(values.map(|(a, b)| of(*a, *b)).collect())
        };
        match self.figure {
            Of(place) => Spread::of(row(place)?.values.clone()),
            Ratio(a, b) => pairs(a, b, |a, b| a / b),
            More(a, b) => pairs(a, b, |a, b| a - b),
        }
    }

    fn is_met(&self, median: f64) -> bool {
        match self.bound {
            AtMost(most) => median <= most,
            AtLeast(least) => median >= least,
        }
    }
}

/// Each bar as Markdown, and whether it is met by the median of the rounds.
pub fn table(report: &Report) -> String {
    let mut text =
        "| | bar | better still | least / **median** / most | |\n|---|---:|---:|---:|---|\n"
            .to_owned();
    for bar in BARS {
        let (sign, bound) = match bar.bound {
            AtMost(most) => ("≤", most),
            AtLeast(least) => ("≥", least),
        };
        let better = bar.better.map(digits).unwrap_or_default();
        let (spread, met) = match bar.measured(report) {
            None => ("".to_owned(), "not measured"),
            Some(spread) => (
                spread.text(),
                if bar.is_met(spread.median) {
                    "met"
                } else {
                    "**not met**"
                },
            ),
        };
        let _ = writeln!(
            text,
            "| {} | {sign} {} {} | {better} | {spread} | {met} |",
            bar.what,
            digits(bound),
            bar.unit
        );
    }
    text
}
