//! Many changes as few writes, each of which is all or none.
//!
//! A rule can only take a place that is free, or becomes so in the same write. Each place has one rule that leaves it and one
//! that wants it, so changes that wait for one another form chains and rings. A chain is kept in one write where it fits, else
//! it is cut in its order; a ring cannot be cut. What puts rules comes before what only deletes: between two writes there is
//! rather a limit too many than one too few.

use std::collections::HashMap;
use std::hash::Hash;

/// The most changes that one write may have, by the API's word.
pub const MOST_CHANGES: usize = 1_000;
/// The most bytes of changes in one write: less than the API takes as a body, 1 MiB.
pub const MOST_BYTES: usize = 1_000_000;

/// What is to know of a change to place it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step<P> {
    /// The place that it gives up, or keeps; none for a rule that is made.
    pub from: Option<P>,
    /// The place that it takes, or keeps; none for a rule that is deleted.
    pub to: Option<P>,
    /// How many bytes it adds to a write.
    pub bytes: usize,
}

/// More rules change places in a ring than one write may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingTooLong(pub usize);

/// The changes of each write, by their numbers.
///
/// # Errors
/// Where a ring does not fit in one write.
pub fn batches<P: Eq + Hash>(steps: &[Step<P>]) -> Result<Vec<Vec<usize>>, RingTooLong> {
    let mut packed = Packed::default();
    let (mut puts, mut deletions) = (Vec::new(), Vec::new());
    for unit in units(steps) {
        let puts_some = unit
            .changes
            .iter()
            .any(|&change| steps[change].to.is_some());
        if puts_some { &mut puts } else { &mut deletions }.push(unit);
    }
    for unit in puts.into_iter().chain(deletions) {
        packed.add(unit, steps)?;
    }
    Ok(packed.batches)
}

/// Changes that wait for one another, each for the one before it.
struct Unit {
    changes: Vec<usize>,
    /// Whether the first waits for the last.
    ring: bool,
}

fn units<P: Eq + Hash>(steps: &[Step<P>]) -> Vec<Unit> {
    let moves = |step: &Step<P>| step.from != step.to;
    let numbered = || steps.iter().enumerate().filter(|(_, step)| moves(step));
    let wanted: HashMap<&P, usize> = numbered()
        .filter_map(|(change, step)| Some((step.to.as_ref()?, change)))
        .collect();
    let left: HashMap<&P, usize> = numbered()
        .filter_map(|(change, step)| Some((step.from.as_ref()?, change)))
        .collect();
    let waits = |change: usize| {
        moves(&steps[change])
            && steps[change]
                .to
                .as_ref()
                .is_some_and(|place| left.contains_key(place))
    };
    let after = |change: usize| {
        let step = &steps[change];
        let place = step.from.as_ref().filter(|_| moves(step))?;
        wanted.get(place).copied()
    };

    let mut seen = vec![false; steps.len()];
    let mut units = Vec::new();
    // Chains begin with what waits for nothing; what no chain reaches are rings.
    for ring in [false, true] {
        for first in 0..steps.len() {
            if seen[first] || (!ring && waits(first)) {
                continue;
            }
            let mut changes = Vec::new();
            let mut next = Some(first);
            while let Some(change) = next.filter(|&change| !seen[change]) {
                seen[change] = true;
                changes.push(change);
                next = after(change);
            }
            units.push(Unit { changes, ring });
        }
    }
    units
}

#[derive(Default)]
struct Packed {
    batches: Vec<Vec<usize>>,
    bytes: usize,
}

impl Packed {
    fn add<P>(&mut self, unit: Unit, steps: &[Step<P>]) -> Result<(), RingTooLong> {
        let bytes = |changes: &[usize]| {
            changes
                .iter()
                .map(|&change| steps[change].bytes)
                .sum::<usize>()
        };
        let fits_alone = unit.changes.len() <= MOST_CHANGES && bytes(&unit.changes) <= MOST_BYTES;
        if unit.ring && !fits_alone {
            return Err(RingTooLong(unit.changes.len()));
        }
        if fits_alone && !self.has_room(unit.changes.len(), bytes(&unit.changes)) {
            self.begin();
        }
        for change in unit.changes {
            if !self.has_room(1, steps[change].bytes) {
                self.begin();
            }
            self.bytes += steps[change].bytes;
            if let Some(batch) = self.batches.last_mut() {
                batch.push(change);
            }
        }
        Ok(())
    }

    fn has_room(&self, changes: usize, bytes: usize) -> bool {
        let batch = self.batches.last();
        batch.is_some_and(|batch| {
            batch.is_empty()
                || (batch.len() + changes <= MOST_CHANGES && self.bytes + bytes <= MOST_BYTES)
        })
    }

    fn begin(&mut self) {
        self.batches.push(Vec::new());
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn step(from: Option<usize>, to: Option<usize>) -> Step<usize> {
        Step {
            from,
            to,
            bytes: 100,
        }
    }

    /// Does each write as the API does, and says whether every one finds its places free.
    fn is_sound(steps: &[Step<usize>], batches: &[Vec<usize>]) -> bool {
        let mut taken: HashSet<usize> = steps.iter().filter_map(|step| step.from).collect();
        for batch in batches {
            let small = batch.len() <= MOST_CHANGES
                && batch.iter().map(|&c| steps[c].bytes).sum::<usize>() <= MOST_BYTES;
            for &change in batch {
                if let Some(place) = steps[change].from {
                    taken.remove(&place);
                }
            }
            for &change in batch {
                let Some(place) = steps[change].to else {
                    continue;
                };
                if !taken.insert(place) {
                    return false;
                }
            }
            if !small {
                return false;
            }
        }
        let mut all: Vec<usize> = batches.concat();
        all.sort_unstable();
        all == (0..steps.len()).collect::<Vec<_>>()
    }

    #[test]
    fn a_long_chain_is_cut_in_its_order_and_a_long_ring_is_refused() {
        let mut chain: Vec<_> = (0..2_500)
            .rev()
            .map(|n| step(Some(n + 1), Some(n)))
            .collect();
        let cut = batches(&chain).unwrap();
        assert_eq!(
            cut.iter().map(Vec::len).collect::<Vec<_>>(),
            [1_000, 1_000, 500]
        );
        assert!(is_sound(&chain, &cut));
        chain.push(step(Some(0), Some(2_500)));
        assert_eq!(batches(&chain), Err(RingTooLong(2_501)));
    }

    #[test]
    fn a_chain_that_fits_in_one_write_is_not_cut() {
        let mut steps: Vec<_> = (0..999).map(|n| step(None, Some(10_000 + n))).collect();
        steps.extend([
            step(Some(1), Some(2)),
            step(Some(2), Some(1)),
            step(Some(3), None),
        ]);
        assert_eq!(batches(&steps).unwrap()[1], [999, 1000, 1001]);
    }

    #[test]
    fn what_puts_comes_before_what_only_deletes() {
        let mut steps = vec![step(Some(0), None), step(Some(1), None)];
        steps.extend((0..1_000).map(|n| step(None, Some(10 + n))));
        let cut = batches(&steps).unwrap();
        assert_eq!(cut[1], [0, 1]);
    }

    #[test]
    fn large_rules_are_cut_by_their_size() {
        let large: Vec<_> = (0..1_000)
            .map(|n| Step {
                from: None,
                to: Some(n),
                bytes: 2_400,
            })
            .collect();
        let cut = batches(&large).unwrap();
        assert_eq!(cut.len(), 3);
        assert!(is_sound(&large, &cut));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_write_finds_its_places_free(
            places in Just((0..3_000_usize).collect::<Vec<_>>()).prop_shuffle(),
            kinds in prop::collection::vec(0..4_u8, 3_000),
            bytes in 1..1_000_usize,
        ) {
            // A permutation of which some are made anew and some only leave.
            let steps: Vec<_> = places.iter().enumerate().map(|(from, &to)| match kinds[from] {
                0 => Step { from: None, to: Some(to), bytes },
                1 => Step { from: Some(from), to: None, bytes },
                _ => Step { from: Some(from), to: Some(to), bytes },
            }).collect();
            match batches(&steps) {
                Ok(cut) => prop_assert!(is_sound(&steps, &cut)),
                Err(RingTooLong(length)) => prop_assert!(length > MOST_CHANGES || length * bytes > MOST_BYTES),
            }
        }
    }
}
