//! Calls that come when they come, whether or not those before them are answered: whoever waits for an answer before he asks again
//! asks less just when it is slow, and does not notice.

use std::{
    num::NonZeroU64,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use rustix::thread::set_current_timer_slack;

use crate::function::{Event, Function};

/// What an authorizer's answer holds that lets through, and one that does not.
pub const POLICIES: [&str; 2] = [r#""Effect":"Allow""#, r#""Effect":"Deny""#];

/// Calls at even distances.
pub struct OpenLoop<'a> {
    /// What is asked, each in turn.
    pub events: &'a [Event],
    /// Calls a second.
    pub rate: u32,
    /// For how long they come. All are answered in the end.
    pub time: Duration,
    /// What an answer holds that lets through, and one that does not.
    pub words: [&'a str; 2],
}

/// What became of them.
pub struct Outcome {
    /// From when each call was due until it was answered, in microseconds.
    pub times: Histogram<u64>,
    /// Answers in each second since the first call was due, those that came late included.
    pub answered: Vec<u64>,
    /// Of each event, how often it was let through.
    pub admitted: Vec<u64>,
    /// From when the first call was due until the last was answered.
    pub took: Duration,
}

impl OpenLoop<'_> {
    /// How many calls there are.
    pub fn calls(&self) -> u64 {
        (f64::from(self.rate) * self.time.as_secs_f64()) as u64
    }

    /// Lets them come. Each goes to the container that is free first.
    pub fn drive(&self, containers: &mut [Function]) -> Outcome {
        let (next, started) = (AtomicU64::new(0), Instant::now());
        thread::scope(|scope| {
            let threads: Vec<_> = containers
                .iter_mut()
                .map(|container| scope.spawn(|| self.serve(container, &next, started)))
                .collect();
            let outcomes = threads.into_iter().map(|thread| thread.join().unwrap());
            outcomes.reduce(Outcome::with).unwrap()
        })
    }

    fn serve(&self, container: &mut Function, next: &AtomicU64, started: Instant) -> Outcome {
        // Else Linux lets a sleeper sleep fifty microseconds longer.
        set_current_timer_slack(NonZeroU64::new(1)).unwrap();
        let mut outcome = Outcome {
            times: Histogram::new(3).unwrap(),
            answered: Vec::new(),
            admitted: vec![0; self.events.len()],
            took: Duration::ZERO,
        };
        loop {
            let call = next.fetch_add(1, Ordering::Relaxed);
            if call >= self.calls() {
                return outcome;
            }
            let due = Duration::from_secs_f64(call as f64 / f64::from(self.rate));
            thread::sleep(due.saturating_sub(started.elapsed()));
            let event = call as usize % self.events.len();
            let asked = started.elapsed();
            let (took, answer) = container.invoke(&self.events[event]);
            outcome.took = asked + took;
            let late = (outcome.took - due).as_micros() as u64;
            outcome.times.record(late).unwrap();
            let second = outcome.took.as_secs() as usize;
            let seconds = outcome.answered.len().max(second + 1);
            outcome.answered.resize(seconds, 0);
            outcome.answered[second] += 1;
            let answer = std::str::from_utf8(answer).unwrap();
            let [yes, no] = self.words.map(|word| answer.contains(word));
            assert_ne!(yes, no, "{answer}");
            outcome.admitted[event] += u64::from(yes);
        }
    }
}

impl Outcome {
    /// The time, in microseconds, that such a share of the calls took at most.
    pub fn quantile(&self, share: f64) -> f64 {
        self.times.value_at_quantile(share) as f64
    }

    fn with(mut self, other: Self) -> Self {
        self.times.add(other.times).unwrap();
        let seconds = self.answered.len().max(other.answered.len());
        self.answered.resize(seconds, 0);
        add(&mut self.answered, &other.answered);
        add(&mut self.admitted, &other.admitted);
        self.took = self.took.max(other.took);
        self
    }
}

fn add(to: &mut [u64], numbers: &[u64]) {
    for (sum, number) in to.iter_mut().zip(numbers) {
        *sum += number;
    }
}
