//! The table, as Markdown, and its place in the document.

use simulation::markdown::count;

use crate::breaking::{Breaking, RATES};
use crate::measured::Measured;
use crate::scenario::Scenario;

/// A scenario at all its rates.
#[derive(Debug)]
pub(crate) struct Sweep {
    pub(crate) scenario: &'static Scenario,
    /// One for each of [`RATES`].
    pub(crate) runs: Vec<Measured>,
    pub(crate) breaking: Breaking,
}

/// The rate that the document tells of all scenarios.
const TOLD: f64 = RATES[4];

const HEAD: &str = "\
| | requests a second | shards | p50, ms | p99, ms | p99.9, ms | busiest core | busy containers | judged without Redis \
| refused by Lambda | breaks first |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|
";

/// Every run.
pub(crate) fn whole(sweeps: &[Sweep]) -> String {
    table(sweeps, |_, _| true)
}

/// What the document has: the first scenario at every rate, and all at one.
pub(crate) fn digest(sweeps: &[Sweep], machine: &str) -> String {
    let rows = table(sweeps, |sweep, run| sweep == 0 || run.rate == TOLD);
    let first = sweeps
        .first()
        .map_or_else(String::new, |sweep| breaks(sweep.breaking));
    format!(
        "**What breaks first, where all is as it was reckoned: {first} requests a second.** With the costs of: {machine}.\n\n\
         ![p99 and the load of the busiest core, by requests a second](capacity.svg)\n\n{rows}"
    )
}

fn table(sweeps: &[Sweep], is_told: impl Fn(usize, &Measured) -> bool) -> String {
    let rows = sweeps.iter().enumerate().flat_map(|(number, sweep)| {
        let told = sweep.runs.iter().filter(|run| is_told(number, run));
        told.map(|run| row(sweep, run)).collect::<Vec<_>>()
    });
    HEAD.to_owned() + &rows.collect::<String>()
}

fn row(sweep: &Sweep, run: &Measured) -> String {
    let breaks = match run.rate {
        TOLD => breaks(sweep.breaking),
        _ => String::new(),
    };
    format!(
        "| {} | {} | {} | {:.2} | {:.2} | {:.2} | {} | {} | {} | {} | {breaks} |\n",
        sweep.scenario.name,
        count(run.rate),
        run.shards,
        run.percentile(50.0),
        run.percentile(99.0),
        run.percentile(99.9),
        percent(run.core),
        count(run.busy_containers()),
        percent(run.undecided()),
        percent(run.refused()),
    )
}

fn breaks(breaking: Breaking) -> String {
    match breaking {
        Breaking::Never(rate) => format!("nothing up to {}", count(rate)),
        Breaking::At(rate, what) => format!("{what}, at {}", count(rough(rate))),
    }
}

/// To two digits: more are not known.
fn rough(number: f64) -> f64 {
    let digit = 10_f64.powf(number.log10().floor() - 1.0);
    (number / digit).round() * digit
}

fn percent(share: f64) -> String {
    match 100.0 * share {
        0.0 => "0".to_owned(),
        percent if percent < 0.1 => "< 0.1 %".to_owned(),
        percent if percent < 10.0 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!([52_345.0, 1.26e6, 999.0].map(rough), [52_000.0, 1.3e6, 1e3]);
        assert_eq!(
            [0.0, 1e-4, 0.051, 0.5].map(percent),
            ["0", "< 0.1 %", "5.1 %", "50 %"]
        );
    }
}
