//! The rules that stay as they are through a run, and what each admits.

use std::time::Duration;

use serde_json::{Value, json};

/// The clients that stay, by number.
pub(super) const CLIENTS: usize = 4;

/// What one container grants by itself of a limit while the store is out, in percent.
pub(super) const FALLBACK_PERCENT: u64 = 10;

/// A rule that is much hungrier called upon than it admits.
pub(super) struct Standing {
    pub(super) name: &'static str,
    /// The first segment of the paths that it is for.
    pub(super) place: &'static str,
    pub(super) shared: bool,
    pub(super) algorithm: &'static str,
    pub(super) limit: u64,
    /// In seconds.
    pub(super) window: u64,
    pub(super) burst: Option<u64>,
    pub(super) on_failure: &'static str,
}

const PLAIN: Standing = Standing {
    name: "",
    place: "",
    shared: false,
    algorithm: "token_bucket",
    limit: 20,
    window: 10,
    burst: Some(5),
    on_failure: "limit",
};

/// All of them. `both` is a place with two, of which both must allow.
pub(super) const STANDING: [Standing; 8] = [
    Standing {
        name: "own",
        place: "own",
        ..PLAIN
    },
    Standing {
        name: "shared",
        place: "shared",
        shared: true,
        limit: 50,
        burst: Some(10),
        ..PLAIN
    },
    Standing {
        name: "both, own",
        place: "both",
        ..PLAIN
    },
    Standing {
        name: "both, shared",
        place: "both",
        shared: true,
        limit: 40,
        burst: Some(10),
        ..PLAIN
    },
    Standing {
        name: "critical",
        place: "critical",
        limit: 40,
        on_failure: "deny",
        ..PLAIN
    },
    Standing {
        name: "open",
        place: "open",
        on_failure: "allow",
        ..PLAIN
    },
    Standing {
        name: "windowed",
        place: "windowed",
        shared: true,
        algorithm: "fixed_window",
        limit: 30,
        window: 5,
        burst: None,
        ..PLAIN
    },
    Standing {
        name: "logged",
        place: "logged",
        algorithm: "sliding_log",
        limit: 10,
        window: 5,
        burst: None,
        ..PLAIN
    },
];

impl Standing {
    pub(super) fn resource(&self) -> String {
        format!("GET /{}/*", self.place)
    }

    pub(super) fn body(&self) -> Value {
        json!({
            "resource": self.resource(),
            "per": if self.shared { "all" } else { "client" },
            "algorithm": self.algorithm,
            "limit": self.limit,
            "time_window": self.window,
            "burst": self.burst,
            "on_failure": self.on_failure,
        })
    }

    /// How many buckets it has among the clients that stay.
    pub(super) fn buckets(&self) -> usize {
        if self.shared { 1 } else { CLIENTS }
    }

    /// The most that one bucket admits in a time, while nobody loses it.
    pub(super) fn admits(&self, time: Duration) -> u64 {
        let windows = time.as_secs_f64() / self.window as f64;
        let limit = self.limit as f64;
        match self.algorithm {
            "token_bucket" => self.burst() + (limit * windows).floor() as u64,
            // Begun in the middle of one, and ended in the middle of one.
            "fixed_window" => self.limit * (windows.ceil() as u64 + 1),
            _ => self.limit * (windows.ceil() as u64),
        }
    }

    /// What it admits at once: so much more after each time that its bucket was lost.
    pub(super) fn burst(&self) -> u64 {
        self.burst.unwrap_or(self.limit)
    }

    /// What one container grants by itself in an outage of that length.
    pub(super) fn fallback(&self, outage: Duration) -> u64 {
        let share = (self.limit * FALLBACK_PERCENT / 100).max(1);
        let windows = outage.as_secs_f64() / self.window as f64;
        share + (share as f64 * windows).ceil() as u64
    }
}
