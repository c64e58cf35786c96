//! Where a scenario breaks.

use crate::costs::Assumptions;
use crate::measured::Measured;
use crate::scenario::Scenario;

/// The rates that each scenario is run at, in requests a second.
pub(crate) const RATES: [f64; 6] = [1e3, 1e4, 1e5, 3e5, 1e6, 2e6];

/// How often what lies between the last rate that holds and the first that does not is halved.
const HALVINGS: usize = 5;

/// What breaks first, and at what size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Breaking {
    /// Nothing does, up to this many requests a second.
    Never(f64),
    /// This, at about so many requests a second.
    At(f64, &'static str),
}

/// Looks for it: by doubling from the highest of [`RATES`] if all of them hold, up to twice that, and then by halving.
///
/// # Errors
/// Those of a run.
pub(crate) fn find<E>(
    scenario: &Scenario,
    assumed: &Assumptions,
    swept: &[Measured],
    run: impl Fn(f64) -> Result<Measured, E>,
) -> Result<Breaking, E> {
    let over = |measured: &Measured| measured.first_over(scenario, assumed);
    let (mut holds, mut broken) = (0.0, None);
    for measured in swept {
        broken = over(measured).map(|what| (measured.rate, what));
        if broken.is_some() {
            break;
        }
        holds = measured.rate;
    }
    if broken.is_none() {
        let twice = 2.0 * holds;
        broken = over(&run(twice)?).map(|what| (twice, what));
        if broken.is_none() {
            holds = twice;
        }
    }
    let Some(mut broken) = broken else {
        return Ok(Breaking::Never(holds));
    };
    for _ in 0..HALVINGS {
        let middle = f64::sqrt(f64::max(holds, 1.0) * broken.0);
        match over(&run(middle)?) {
            Some(what) => broken = (middle, what),
            None => holds = middle,
        }
    }
    Ok(Breaking::At(broken.0, broken.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::Outcome;
    use crate::scenario::SCENARIOS;
    use histogram::Histogram;

    /// One whose core is full from a rate on.
    fn measured(rate: f64, full_at: f64) -> Measured {
        Measured {
            rate,
            shards: 1,
            seconds: 1.0,
            latencies: Histogram::new(7, 44).unwrap(),
            outcomes: [0; Outcome::COUNT],
            arrived: 0,
            core: rate / full_at,
            card: 0.0,
            busy: 0.0,
            containers: 0,
        }
    }

    fn find_at(full_at: f64) -> Breaking {
        let swept = RATES.map(|rate| measured(rate, full_at));
        let run = |rate| Ok::<_, ()>(measured(rate, full_at));
        find(&SCENARIOS[0], &Assumptions::default(), &swept, run).unwrap()
    }

    #[test]
    fn what_breaks_is_found_to_within_a_few_percent() {
        for full_at in [5_000.0, 250_000.0, 1.9e6, 3e6] {
            let Breaking::At(rate, what) = find_at(full_at) else {
                panic!("{full_at}");
            };
            let off = rate / (0.95 * full_at);
            assert!((1.0..1.08).contains(&off), "{full_at}: {rate}");
            assert_eq!(what, "the core of one shard");
        }
        assert_eq!(find_at(1e9), Breaking::Never(4e6));
    }
}
