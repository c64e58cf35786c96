//! What is added up between two flushes.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use histogram::{AtomicHistogram, Config, Histogram};
use metrique_writer::Observation;

/// How often something happened.
#[derive(Debug)]
pub struct Counter(AtomicU64);

impl Counter {
    pub(super) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Counts `n` more.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// How much of it is not told yet.
    pub fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn drain(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

/// What a gauge holds that was never set.
const UNSET: u64 = u64::MAX;

/// A number as it stands. Once set it is told by each flush that tells of anything counted.
#[derive(Debug)]
pub struct Gauge(AtomicU64);

impl Gauge {
    pub(super) const fn new() -> Self {
        Self(AtomicU64::new(UNSET))
    }

    /// Sets it, in place of what it was.
    pub fn set(&self, n: u64) {
        self.0.store(n.min(UNSET - 1), Ordering::Relaxed);
    }

    /// Takes it back, where it is not known any more.
    pub fn unset(&self) {
        self.0.store(UNSET, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|n| *n != UNSET)
    }
}

/// How values are spread: sixteen classes between a number and its double, so that each is told within a thirtieth or so.
pub struct Distribution(LazyLock<Option<AtomicHistogram>>);

/// Classes from a number to its double, as a power of two; and the same for the largest number there is a class for.
const GROUPING: u8 = 4;
const LARGEST: u8 = 32;

/// How many values CloudWatch takes of one metric in a line.
const MOST_VALUES: usize = 100;

impl std::fmt::Debug for Distribution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Distribution").finish_non_exhaustive()
    }
}

impl Distribution {
    pub(super) const fn new() -> Self {
        Self(LazyLock::new(|| {
            let config = Config::new(GROUPING, LARGEST).ok()?;
            Some(AtomicHistogram::with_config(&config))
        }))
    }

    /// Adds a duration in microseconds, to a distribution of those.
    pub fn record_us(&self, duration: Duration) {
        self.record(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
    }

    /// Adds a duration in milliseconds, to a distribution of those.
    pub fn record_ms(&self, duration: Duration) {
        self.record(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
    }

    fn record(&self, value: u64) {
        if let Some(histogram) = &*self.0 {
            // Within the classes: there is no other error.
            let _ = histogram.increment(value.min((1 << LARGEST) - 1));
        }
    }

    /// The middle of each class that holds anything, and how much. Where they are too many for a line, of broader classes.
    pub(super) fn drain(&self) -> Vec<Observation> {
        let Some(histogram) = &*self.0 else {
            return Vec::new();
        };
        let mut drained = histogram.drain();
        while classes(&drained).count() > MOST_VALUES
            && let Ok(broader) = drained.downsample(drained.config().grouping_power() - 1)
        {
            drained = broader;
        }
        classes(&drained).collect()
    }
}

fn classes(histogram: &Histogram) -> impl Iterator<Item = Observation> {
    let held = histogram.iter().filter(|class| class.count() > 0);
    held.map(|class| {
        #[expect(
            clippy::cast_precision_loss,
            reason = "far below what a float holds exactly"
        )]
        let middle = (class.start() + class.end()) as f64 / 2.0;
        #[expect(
            clippy::cast_precision_loss,
            reason = "a line of so many calls is not exact"
        )]
        let total = middle * class.count() as f64;
        Observation::Repeated {
            total,
            occurrences: class.count(),
        }
    })
}

/// Why Redis did not do what it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreFailure {
    /// No answer within the deadline.
    Timeout,
    /// The connection failed, or what came over it was no answer.
    Lost,
    /// The server can serve nobody for now: it is loading, or its cluster is down, or it has no room for one more client, or it refuses
    /// who logs in.
    Unready,
    /// The server may not decide any more: another is to take its place.
    Demoted,
    /// The server refused this one call.
    Refused,
    /// It was left alone after a failure: nothing was sent.
    Paused,
    /// No server is known that keeps what was asked.
    Unserved,
    /// Servers sent the call from one to the other.
    Astray,
    /// What was asked is lost, or was never published.
    Missing,
    /// An answer that no script of ours gives.
    Malformed,
}

impl StoreFailure {
    /// Every kind.
    pub const ALL: [StoreFailure; 10] = [
        StoreFailure::Timeout,
        StoreFailure::Lost,
        StoreFailure::Unready,
        StoreFailure::Demoted,
        StoreFailure::Refused,
        StoreFailure::Paused,
        StoreFailure::Unserved,
        StoreFailure::Astray,
        StoreFailure::Missing,
        StoreFailure::Malformed,
    ];

    /// The value of the dimension `Kind`.
    pub fn as_str(self) -> &'static str {
        match self {
            StoreFailure::Timeout => "timeout",
            StoreFailure::Lost => "lost",
            StoreFailure::Unready => "unready",
            StoreFailure::Demoted => "demoted",
            StoreFailure::Refused => "refused",
            StoreFailure::Paused => "paused",
            StoreFailure::Unserved => "unserved",
            StoreFailure::Astray => "astray",
            StoreFailure::Missing => "missing",
            StoreFailure::Malformed => "malformed",
        }
    }
}

/// How often each kind of failure happened.
#[derive(Debug)]
pub struct StoreFailures([Counter; StoreFailure::ALL.len()]);

impl StoreFailures {
    pub(super) const fn new() -> Self {
        Self([const { Counter::new() }; StoreFailure::ALL.len()])
    }

    /// Counts one more.
    pub fn add(&self, kind: StoreFailure) {
        self.0[kind as usize].add(1);
    }

    /// Those that happened, by their kind.
    pub(super) fn drain(&self) -> impl Iterator<Item = (StoreFailure, u64)> {
        let each = StoreFailure::ALL.into_iter().zip(&self.0);
        each.map(|(kind, counter)| (kind, counter.drain()))
            .filter(|(_, n)| *n > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(distribution: &Distribution) -> Vec<(f64, u64)> {
        let each = distribution.drain().into_iter().map(|class| match class {
            Observation::Repeated { total, occurrences } => {
                #[expect(clippy::cast_precision_loss, reason = "small numbers")]
                let count = occurrences as f64;
                (total / count, occurrences)
            }
            other => panic!("{other:?}"),
        });
        each.collect()
    }

    #[test]
    fn a_distribution_tells_each_value_nearly_as_it_was_and_then_forgets_it() {
        let latency = Distribution::new();
        for us in [3, 3, 1_000, 70_000] {
            latency.record_us(Duration::from_micros(us));
        }
        let told = values(&latency);
        assert_eq!(told[0], (3.0, 2));
        for ((value, count), wanted) in told[1..].iter().zip([1_000.0, 70_000.0]) {
            assert!(
                *count == 1 && (value - wanted).abs() < wanted / 30.0,
                "{value}"
            );
        }
        assert_eq!(values(&latency), []);
    }

    #[test]
    fn however_values_are_spread_no_more_are_told_than_a_line_takes_and_none_is_lost() {
        let latency = Distribution::new();
        let mut recorded = 0;
        let mut value = 1;
        while value < u64::MAX / 2 {
            latency.record(value);
            recorded += 1;
            value += value / 40 + 1;
        }
        let told = values(&latency);
        assert!((50..=MOST_VALUES).contains(&told.len()), "{}", told.len());
        assert_eq!(told.iter().map(|(_, count)| count).sum::<u64>(), recorded);
    }

    #[test]
    fn a_gauge_that_nobody_set_tells_nothing() {
        let gauge = Gauge::new();
        assert_eq!(gauge.read(), None);
        gauge.set(0);
        assert_eq!((gauge.read(), gauge.read()), (Some(0), Some(0)));
    }

    #[test]
    fn each_kind_of_failure_is_counted_by_itself() {
        let failures = StoreFailures::new();
        for (n, kind) in (1..).zip(StoreFailure::ALL) {
            (0..n).for_each(|_| failures.add(kind));
        }
        let told: Vec<_> = failures.drain().collect();
        assert_eq!(
            told,
            StoreFailure::ALL.into_iter().zip(1..).collect::<Vec<_>>()
        );
        assert_eq!(failures.drain().count(), 0);
    }
}
