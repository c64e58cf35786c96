//! What serves one after the other: the core of a Redis server, and its network card.

use crate::costs::Ns;

/// A single server that is first come, first served.
#[derive(Debug, Clone, Default)]
pub(crate) struct Server {
    free_at: Ns,
    /// How much work it was asked for since this was set to zero.
    pub(crate) work: Ns,
}

impl Server {
    /// Serves what comes `now`, after all that came before; gives when that is done.
    pub(crate) fn serve(&mut self, now: Ns, service: Ns) -> Ns {
        self.free_at = self.free_at.max(now) + service;
        self.work += service;
        self.free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::Xoshiro256PlusPlus;
    use rand_distr::{Distribution, Exp};

    const SERVICE: Ns = 10_000;
    const CALLS: u64 = 400_000;

    /// Mean time in the queue, in times of service, of the first and the second half of many calls that come at random.
    fn mean_waits(load: f64) -> [f64; 2] {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(1);
        let gaps = Exp::new(load / SERVICE as f64).unwrap();
        let (mut server, mut now) = (Server::default(), 0.0);
        [(); 2].map(|()| {
            let mut waited = 0;
            for _ in 0..CALLS / 2 {
                now += gaps.sample(rng);
                waited += server.serve(now as Ns, SERVICE) - now as Ns - SERVICE;
            }
            waited as f64 / (CALLS / 2 * SERVICE) as f64
        })
    }

    #[test]
    fn waits_are_those_of_the_formula_for_random_arrivals_and_a_fixed_service() {
        for load in [0.5, 0.8] {
            let formula = load / (2.0 * (1.0 - load));
            for waited in mean_waits(load) {
                assert!((waited / formula - 1.0).abs() < 0.05, "{load}: {waited}");
            }
        }
    }

    #[test]
    fn one_that_is_brought_more_than_it_can_do_has_a_growing_queue() {
        let [first, second] = mean_waits(1.1);
        assert!(second > 2.5 * first, "{first} {second}");
        let mut server = Server::default();
        for call in 0..1_000 {
            let waited = server.serve(call * SERVICE / 2, SERVICE) - call * SERVICE / 2;
            assert_eq!(waited, SERVICE + call * SERVICE / 2);
        }
    }
}
