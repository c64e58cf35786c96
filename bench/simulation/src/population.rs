//! Who calls, and whom a container remembers.

use limits::Lane;
use rand::Rng;

use rand_distr::{Distribution, Zipf, ZipfError};

/// Clients by popularity.
#[derive(Debug)]
pub(crate) struct Population {
    popularity: Zipf<f64>,
    exponent: f64,
    /// The sum of all weights, of which the n-th client has n to the power of minus the exponent.
    sum: f64,
    /// In how many calls of its own a container sees as many clients as it remembers; infinite where it remembers them all.
    horizon: f64,
    /// Of each client: the lane of its buckets, and that of the key by which it is looked up.
    lanes: Vec<[Lane; 2]>,
}

impl Population {
    /// So many clients, of whom a container remembers so many.
    ///
    /// # Errors
    /// Where the exponent is none.
    pub(crate) fn new(clients: u32, exponent: f64, remembered: f64) -> Result<Self, ZipfError> {
        let weight = |client: u32| f64::from(client).powf(-exponent);
        let sum: f64 = (1..=clients).map(weight).sum();
        let lanes = |client| {
            [
                Lane::of(&format!("client-{client}")),
                Lane::of(&format!("key-{client}")),
            ]
        };
        let mut horizon = f64::INFINITY;
        if f64::from(clients) > remembered {
            let seen = |calls: f64| -> f64 {
                (1..=clients)
                    .map(|client| -(-weight(client) / sum * calls).exp_m1())
                    .sum()
            };
            let (mut few, mut many) = (remembered, 1e12);
            while many / few > 1.001 {
                let middle = f64::sqrt(few * many);
                *(if seen(middle) < remembered {
                    &mut few
                } else {
                    &mut many
                }) = middle;
            }
            horizon = many;
        }
        Ok(Self {
            popularity: Zipf::new(f64::from(clients), exponent)?,
            exponent,
            sum,
            horizon,
            lanes: (1..=clients).map(lanes).collect(),
        })
    }

    /// A client at random: its rank, from 1.
    pub(crate) fn draw(&self, rng: &mut impl Rng) -> u32 {
        self.popularity.sample(rng) as u32
    }

    /// The lanes of a client and of its key.
    pub(crate) fn lanes(&self, client: u32) -> [Lane; 2] {
        self.lanes[client as usize - 1]
    }

    /// How probable it is that a container remembers a client, once it has had so many calls. Of what is forgotten by when it was
    /// last used, one is remembered that came in the last calls in which as many came as are remembered (Che's approximation).
    pub(crate) fn remembers(&self, client: u32, calls: f64) -> f64 {
        let share = f64::from(client).powf(-self.exponent) / self.sum;
        -(-share * calls.min(self.horizon)).exp_m1()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::Xoshiro256PlusPlus;

    #[test]
    fn as_many_are_remembered_as_a_container_with_a_real_memory_remembers() {
        let population = Population::new(5_000, 0.7, 500.0).unwrap();
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(1);
        let (mut last_seen, mut hits, mut expected) = (vec![0_u64; 5_001], 0.0, 0.0);
        // The most recent five hundred, by the moment of their last call.
        let mut recent = std::collections::BTreeSet::new();
        for call in 1..=100_000 {
            let client = population.draw(rng);
            let seen = std::mem::replace(&mut last_seen[client as usize], call);
            let hit = recent.remove(&seen);
            recent.insert(call);
            if recent.len() > 500 {
                recent.pop_first();
            }
            if call > 50_000 {
                hits += f64::from(u8::from(hit));
                expected += population.remembers(client, f64::INFINITY);
            }
        }
        assert!(
            (hits / expected - 1.0).abs() < 0.03,
            "{hits} for {expected}"
        );
    }

    #[test]
    fn few_are_all_remembered_once_they_were_seen() {
        let population = Population::new(100, 0.7, 100.0).unwrap();
        assert!((population.remembers(100, f64::INFINITY) - 1.0).abs() < 1e-9);
        assert!(population.remembers(100, 1.0) < 0.01);
        assert!(population.remembers(1, 1e4) > 0.99);
    }
}
