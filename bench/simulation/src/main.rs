//! Weir at up to two million requests a second, event by event, from measured costs: what breaks first, and at what size.
//!
//! `simulation [--write] [RESULTS]`, of which the latter are the benchmark's, by default `docs/performance.json`. Prints every run as a
//! table; or writes `docs/capacity.svg`, and what `docs/capacity.md` has between its marks.

mod breaking;
mod costs;
mod measured;
mod model;
mod plot;
mod population;
mod report;
mod scenario;
mod server;

use std::collections::btree_map::{BTreeMap, Entry};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use simulation::markdown::put_into;

use crate::breaking::RATES;
use crate::costs::{Assumptions, Costs};
use crate::population::Population;
use crate::report::Sweep;
use crate::scenario::SCENARIOS;

fn main() -> Result<(), Box<dyn Error>> {
    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let (mut writes, mut results) = (false, documents.join("performance.json"));
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--write" => writes = true,
            path => results = PathBuf::from(path),
        }
    }
    let json =
        fs::read_to_string(&results).map_err(|error| format!("{}: {error}", results.display()))?;
    let costs = Costs::read(&json)?;
    let sweeps = simulate(&costs)?;
    if !writes {
        print!("{}", report::whole(&sweeps));
        return Ok(());
    }
    let path = documents.join("capacity.md");
    let digest = report::digest(&sweeps, &costs.machine);
    let document = put_into(&fs::read_to_string(&path)?, "simulation", &digest)
        .ok_or("docs/capacity.md has no place for it")?;
    fs::write(path, document)?;
    fs::write(documents.join("capacity.svg"), plot::draw(&sweeps)?)?;
    Ok(())
}

fn simulate(costs: &Costs) -> Result<Vec<Sweep>, Box<dyn Error>> {
    let assumed = Assumptions::default();
    let mut populations = BTreeMap::new();
    let mut sweeps = Vec::new();
    for scenario in &SCENARIOS {
        let population = match populations.entry(scenario.clients) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let (exponent, most) = (assumed.zipf, assumed.most_names);
                place.insert(Population::new(scenario.clients, exponent, most)?)
            }
        };
        let run = |rate| model::run(scenario, rate, costs, &assumed, population);
        let runs = RATES.into_iter().map(run).collect::<Result<Vec<_>, _>>()?;
        let breaking = breaking::find(scenario, &assumed, &runs, run)?;
        sweeps.push(Sweep {
            scenario,
            runs,
            breaking,
        });
    }
    Ok(sweeps)
}
