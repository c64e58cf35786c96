//! A line for each denial, and for many alike together where they come fast.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::net::IpAddr;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use foldhash::fast::RandomState;
use limits::Moment;
use serde::Serialize;
use uuid::Uuid;

use super::{is_started, lock, rules, write};

/// How many lines are written at once in each second. What is more waits for the next flush.
const LINES: u32 = 10;
const SECOND: Duration = Duration::from_secs(1);

/// How many different denials wait. Of those that come beyond, only their number is told.
const MOST_WAITING: usize = 200;

/// A call that was denied.
#[derive(Debug, Clone, Copy, Hash)]
pub struct Denial<'a> {
    /// The rule that denied it; none is the default limit.
    pub rule: Option<Uuid>,
    /// The client that asked; none for one known by its address alone.
    pub client: Option<&'a str>,
    /// Its address, told where there is no client.
    pub address: Option<IpAddr>,
    /// The service that was to be called, where one service asked for another.
    pub service: Option<&'a str>,
    /// Why it was denied, in the word that callers are told.
    pub reason: &'static str,
}

static DENIALS: LazyLock<Mutex<Denials>> = LazyLock::new(Mutex::default);

/// Lines that were written in this second, and denials that wait.
#[derive(Debug, Default)]
struct Denials {
    second: Option<Moment>,
    lines: u32,
    // By a hash of all that makes it another one, so that to count one more allocates nothing.
    waiting: HashMap<u64, Line, RandomState>,
    others: u64,
}

#[derive(Debug, Serialize)]
struct Line {
    message: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    denials: u64,
}

impl Line {
    fn of(denial: &Denial<'_>) -> Self {
        Self {
            message: "denied",
            rule: Some(rules::name(denial.rule)),
            client: denial.client.map(str::to_owned),
            address: denial.address,
            service: denial.service.map(str::to_owned),
            reason: Some(denial.reason),
            denials: 1,
        }
    }

    /// So many of which nothing else is told.
    fn others(denials: u64) -> Self {
        Self {
            message: "denied",
            rule: None,
            client: None,
            address: None,
            service: None,
            reason: None,
            denials,
        }
    }

    fn write(&self, lines: &mut Vec<u8>) {
        if serde_json::to_writer(&mut *lines, self).is_ok() {
            lines.push(b'\n');
        }
    }
}

impl Denials {
    /// The line of a denial, where it is to be written at once.
    fn note(&mut self, denial: &Denial<'_>, now: Moment) -> Option<Line> {
        // A client is the same wherever it calls from.
        let denial = &Denial {
            address: denial.address.filter(|_| denial.client.is_none()),
            ..*denial
        };
        if self.second.is_none_or(|second| second.until(now) >= SECOND) {
            self.second = Some(now);
            self.lines = 0;
        }
        if self.lines < LINES {
            self.lines += 1;
            return Some(Line::of(denial));
        }
        let key = self.waiting.hasher().hash_one(denial);
        let full = self.waiting.len() >= MOST_WAITING;
        match self.waiting.get_mut(&key) {
            Some(line) => line.denials += 1,
            None if full => self.others += 1,
            None => {
                self.waiting.insert(key, Line::of(denial));
            }
        }
        None
    }

    fn drain(&mut self) -> impl Iterator<Item = Line> {
        let others = std::mem::take(&mut self.others);
        let others = (others > 0).then(|| Line::others(others));
        self.waiting.drain().map(|(_, line)| line).chain(others)
    }
}

/// Tells of a denial: at once, or with others of its kind at the next flush.
pub fn denied(denial: &Denial<'_>) {
    if !is_started() {
        return;
    }
    let line = lock(&DENIALS).note(denial, Moment::now());
    if let Some(line) = line {
        let mut lines = Vec::with_capacity(256);
        line.write(&mut lines);
        write(&lines);
    }
}

/// Adds the lines of what waits.
pub(super) fn drain_into(lines: &mut Vec<u8>) {
    for line in lock(&DENIALS).drain() {
        line.write(lines);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn denial(client: Option<&str>, address: u8) -> Denial<'_> {
        Denial {
            rule: None,
            client,
            address: Some(Ipv4Addr::new(192, 0, 2, address).into()),
            service: None,
            reason: "limit",
        }
    }

    /// Denials whose lines of a second are written.
    fn busy(now: Moment) -> Denials {
        let mut denials = Denials::default();
        for _ in 0..LINES {
            assert!(denials.note(&denial(Some("eve"), 0), now).is_some());
        }
        denials
    }

    #[test]
    fn what_comes_faster_than_lines_are_written_is_added_up_by_who_was_denied() {
        let now = Moment::now();
        let mut denials = busy(now);
        for address in 0..100 {
            assert!(denials.note(&denial(Some("eve"), address), now).is_none());
            assert!(denials.note(&denial(None, address % 2), now).is_none());
        }
        let mut told: Vec<_> = denials
            .drain()
            .map(|line| (line.client, line.address.is_some(), line.denials))
            .collect();
        told.sort();
        let eve = (Some("eve".to_owned()), false, 100);
        assert_eq!(told, [(None, true, 50), (None, true, 50), eve]);
        assert_eq!(denials.drain().count(), 0);
        let later = Moment {
            at: now.at + SECOND,
            wall: now.wall + SECOND,
        };
        assert!(denials.note(&denial(Some("eve"), 0), later).is_some());
    }

    #[test]
    fn no_more_wait_than_there_is_room_for_and_none_is_lost() {
        let now = Moment::now();
        let mut denials = busy(now);
        for id in 0..MOST_WAITING + 50 {
            denials.note(&denial(Some(&id.to_string()), 0), now);
        }
        // One that waits already goes on being counted.
        denials.note(&denial(Some("0"), 0), now);
        let told: Vec<_> = denials.drain().collect();
        assert_eq!(told.len(), MOST_WAITING + 1);
        let others = told.iter().find(|line| line.client.is_none());
        assert_eq!(others.map(|line| line.denials), Some(50));
        let sum: u64 = told.iter().map(|line| line.denials).sum();
        assert_eq!(sum, MOST_WAITING as u64 + 51);
    }
}
