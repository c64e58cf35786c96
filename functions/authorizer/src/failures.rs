//! How often one address may fail to identify itself: `ANONYMOUS_LIMIT`.
//!
//! Whoever makes up API keys costs Redis a look-up each. An address that has failed so often is told 401 without one, for as
//! long as its bucket here is empty; a key that this container knows to be good passes all the same, and so does a token, which
//! is verified without Redis. So a flood keeps those behind the same address out who show a key for the first time, and nobody
//! else, and only while it lasts.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use limits::counters::{Counters, Operation};
use limits::moment::unix_us;
use limits::{Bucket, BucketName, Lane, Quota, bucket::Owner};

/// How many addresses are kept; who has not been here for longest goes first. Whoever has more at hand is not held up by what each
/// of them may do.
const MOST_ADDRESSES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9_999);

/// The failures of each address, in this container alone.
#[derive(Debug)]
pub struct Failures {
    /// What an address may do; none is all it likes.
    limit: Option<Quota>,
    counters: Mutex<Counters>,
}

impl Default for Failures {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Failures {
    /// Nobody has failed yet.
    pub fn new(limit: Option<Quota>) -> Self {
        Self {
            limit,
            counters: Mutex::new(Counters::holding(MOST_ADDRESSES)),
        }
    }

    /// Whether an address has failed as often as it may.
    pub(crate) fn exhausted(&self, address: Option<IpAddr>) -> bool {
        self.exhausted_at(address, unix_us())
    }

    /// Notes a failure.
    pub(crate) fn note(&self, address: Option<IpAddr>) {
        self.note_at(address, unix_us());
    }

    fn exhausted_at(&self, address: Option<IpAddr>, now_us: u64) -> bool {
        let room = |operation| self.ask(operation, address, now_us);
        // Asking to take where there is no room takes nothing, and puts a bucket right whose clock was ahead.
        !room(Operation::Look) && !room(Operation::Take)
    }

    fn note_at(&self, address: Option<IpAddr>, now_us: u64) {
        self.ask(Operation::Take, address, now_us);
    }

    /// Whether there is room for one failure more.
    fn ask(&self, operation: Operation, address: Option<IpAddr>, now_us: u64) -> bool {
        let (Some(quota), Some(address)) = (&self.limit, address) else {
            return true;
        };
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        if operation == Operation::Look && counters.is_empty() {
            return true;
        }
        let Some(cost) = quota.cost(1) else {
            return true;
        };
        let bucket = Bucket {
            lane: Lane::SHARED,
            name: BucketName::new(None, &Owner::Address(address), quota),
            quota,
            cost,
            shadow: false,
        };
        let answers = counters.ask(operation, &[bucket], now_us);
        answers.iter().all(|answer| answer.room)
    }
}

#[cfg(test)]
mod tests {
    use limits::rule::Algorithm;

    use super::*;

    const SECOND: u64 = 1_000_000;
    const NOW: u64 = 1_796_000_000 * SECOND;

    fn failures(limit: u64, seconds: u64) -> Failures {
        let quota = Quota::new(Algorithm::TokenBucket, limit, None, seconds);
        Failures::new(quota.ok())
    }

    fn address(text: &str) -> Option<IpAddr> {
        text.parse().ok()
    }

    #[test]
    fn an_address_may_fail_so_often_and_again_as_time_goes_by() {
        let failures = failures(3, 60);
        let (eve, other) = (address("192.0.2.1"), address("192.0.2.2"));
        for _ in 0..3 {
            assert!(!failures.exhausted_at(eve, NOW));
            failures.note_at(eve, NOW);
        }
        for _ in 0..100 {
            // Failing on does not make it longer.
            assert!(failures.exhausted_at(eve, NOW));
            failures.note_at(eve, NOW);
        }
        assert!(!failures.exhausted_at(other, NOW));
        assert!(failures.exhausted_at(eve, NOW + 19 * SECOND));
        assert!(!failures.exhausted_at(eve, NOW + 20 * SECOND));
    }

    #[test]
    fn a_network_of_ipv6_is_one_and_who_has_no_address_is_nobody() {
        let failures = failures(1, 60);
        failures.note_at(address("2001:db8::1"), NOW);
        assert!(failures.exhausted_at(address("2001:db8::ffff"), NOW));
        assert!(!failures.exhausted_at(address("2001:db8:0:1::1"), NOW));
        failures.note_at(None, NOW);
        assert!(!failures.exhausted_at(None, NOW));
        let unlimited = Failures::new(None);
        unlimited.note_at(address("192.0.2.1"), NOW);
        assert!(!unlimited.exhausted_at(address("192.0.2.1"), NOW));
    }

    #[test]
    fn a_clock_that_jumps_locks_nobody_out() {
        let failures = failures(2, 60);
        let eve = address("192.0.2.1");
        // A century ahead, and back.
        let wrong = NOW + 3_155_760_000 * SECOND;
        failures.note_at(eve, wrong);
        failures.note_at(eve, wrong);
        assert!(failures.exhausted_at(eve, wrong));
        assert!(failures.exhausted_at(eve, NOW));
        assert!(!failures.exhausted_at(eve, NOW + 30 * SECOND));
        // Back to 1970: as long as the limit says, from then on.
        failures.note_at(eve, NOW + 30 * SECOND);
        assert!(failures.exhausted_at(eve, 0));
        assert!(!failures.exhausted_at(eve, 30 * SECOND));
    }

    #[test]
    fn no_number_of_addresses_fills_the_container() {
        let failures = failures(1, 3600);
        let nth = |n: u32| Some(IpAddr::from(n.to_be_bytes()));
        let held = || failures.counters.lock().unwrap().len();
        let insistent = nth(u32::MAX);
        failures.note_at(insistent, NOW);
        for n in 0..25_000 {
            failures.note_at(nth(n), NOW);
            // Nobody makes room for whoever goes on by showing many addresses.
            assert!(failures.exhausted_at(insistent, NOW));
            assert!(held() <= MOST_ADDRESSES.get());
        }
        assert!(failures.exhausted_at(nth(24_999), NOW) && !failures.exhausted_at(nth(0), NOW));
    }
}
