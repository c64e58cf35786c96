//! How long calls take.

use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use crate::report::Report;

/// How long each of some calls took.
#[derive(Debug, Default)]
pub struct Timings(Vec<Duration>);

impl Timings {
    /// Of so many calls.
    pub fn of(calls: usize, mut call: impl FnMut()) -> Self {
        let timed = (0..calls).map(|_| {
            let started = Instant::now();
            call();
            started.elapsed()
        });
        Self(timed.collect())
    }

    /// Adds one more.
    pub fn add(&mut self, took: Duration) {
        self.0.push(took);
    }

    /// The time, in microseconds, that such a share of the calls took at most.
    pub fn quantile(&self, share: f64) -> f64 {
        let mut times = self.0.clone();
        times.sort_unstable();
        let place = (times.len() as f64 * share) as usize;
        times[place.min(times.len() - 1)].as_secs_f64() * 1e6
    }

    /// Notes their median in a row, and their 99th percentile in one beside it.
    pub fn note(&self, report: &mut Report, section: &'static str, name: &str, base: Option<&str>) {
        report.note(section, name, "µs", base, self.quantile(0.5));
        let tail = |name: &str| format!("{name}, p99");
        let base = base.map(tail);
        report.note(
            section,
            &tail(name),
            "µs",
            base.as_deref(),
            self.quantile(0.99),
        );
    }
}

/// A runtime like the functions' own: of one thread, which is the caller's.
pub fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}
