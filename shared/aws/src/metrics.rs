//! What a container counts, and how CloudWatch gets it: as lines of its embedded metric format (EMF) in the log.
//!
//! Counting is an addition in memory, and goes on wherever this is linked. It is told by [`flush_if_due`], which a container calls
//! after each answer, and by `flush`, which it calls at its end; both do nothing before [`start`].

mod denials;
mod emission;
mod list;
mod record;
mod rules;

pub use denials::{Denial, denied};
pub use list::*;
pub use metrique_writer::Unit;
pub use record::{Counter, Distribution, Gauge, StoreFailure, StoreFailures};
pub use rules::RuleCounter;

use std::io::Write;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use limits::Moment;
use limits::settings::Settings;

use emission::Emission;

static STARTED: OnceLock<Started> = OnceLock::new();

#[derive(Debug)]
struct Started {
    at: Instant,
    interval: Duration,
    flushed: Mutex<Option<Moment>>,
    emission: Mutex<Emission>,
}

/// Emits from here on what this function counts. Reads `METRICS_NAMESPACE` (default `Weir`), `METRICS_INTERVAL_SECONDS` (at most how
/// often a container emits; 0 is after each answer; default 60 for who decides, else 0) and `METRICS_BY_RULE` (`true`: each rule has metrics of its own, which
/// cost as such; default `false`). Does nothing where a fault was noted in `settings`, or a second time.
pub fn start(settings: &mut Settings<'_>, function: Function) {
    let namespace = settings.or("METRICS_NAMESPACE", "Weir".to_owned(), namespace);
    // Who is asked now and then may be frozen for long, with a failure to tell of.
    let usual = if function.decides() { 60 } else { 0 };
    let interval = settings.integer("METRICS_INTERVAL_SECONDS", usual, 0, 3600);
    let by_rule = settings.flag("METRICS_BY_RULE", false);
    if let (Some(namespace), Some(interval), Some(by_rule)) = (namespace, interval, by_rule) {
        STARTED.get_or_init(|| Started {
            at: Instant::now(),
            interval: Duration::from_secs(interval),
            flushed: Mutex::default(),
            emission: Mutex::new(Emission::new(namespace, function, by_rule)),
        });
    }
}

/// A name as CloudWatch takes it for a namespace of ours.
fn namespace(text: &str) -> Result<String, String> {
    let known = |c: char| c.is_ascii_alphanumeric() || "._-/#:".contains(c);
    if text.len() > 255 || !text.chars().all(known) || text.starts_with("AWS/") {
        return Err(
            "must be at most 255 letters, digits and ._-/#: and not begin with AWS/".to_owned(),
        );
    }
    Ok(text.to_owned())
}

fn is_started() -> bool {
    STARTED.get().is_some()
}

/// Notes that this container is ready to answer: how long that took since [`start`].
pub fn note_ready() {
    if let Some(started) = STARTED.get() {
        COLD_STARTS.add(1);
        COLD_START_LATENCY.record_ms(started.at.elapsed());
    }
}

/// Emits what was counted since the last time, where that is an interval ago or there was none.
pub fn flush_if_due() {
    let Some(started) = STARTED.get() else { return };
    let mut flushed = lock(&started.flushed);
    if flushed.is_some_and(|at| at.elapsed() < started.interval) {
        return;
    }
    *flushed = Some(Moment::now());
    drop(flushed);
    flush();
}

/// Emits what was counted since the last time: nothing where that is nothing.
pub(crate) fn flush() {
    let Some(started) = STARTED.get() else { return };
    let mut lines = lock(&started.emission).lines();
    denials::drain_into(&mut lines);
    write(&lines);
}

/// Writes whole lines, which nothing that others write comes between.
fn write(lines: &[u8]) {
    if let Err(error) = std::io::stdout().lock().write_all(lines) {
        tracing::error!(%error, "metrics could not be written");
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
