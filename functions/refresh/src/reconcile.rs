//! One round: compare, write what differs, move the lanes up.
//!
//! The order is what makes it safe: rules and registry entries are acknowledged before any lane moves, so that whoever is told
//! to catch up finds all of it. A round that is cut short anywhere leaves something that differs, and the next one finds it.

use std::collections::BTreeSet;

use aws::metrics;
use limits::moment::unix_us;
use limits::registry::Name;
use limits::{CHUNKS, Lane};
use limits_postgres::{Changes, Head};
use limits_redis::publish::{End, chunk_body};
use limits_redis::{LaneState, Page, Published, Version};
use tokio::time::Instant;

use crate::lanes::Written;
use crate::{Refresh, RefreshError, Report};

/// How many chunks are read from the database at once.
const READ: usize = 200;

/// How many chunks are published at once: about 64 KB at 100,000 rules, so that no decision waits long for it.
const PUT: usize = 20;

impl Refresh {
    /// Compares and repairs once; tells whether there was anything to do.
    pub(crate) async fn round(&self, report: &mut Report) -> Result<bool, RefreshError> {
        let (published, lanes) = self.store.published().await?;
        let since = published.map(|head| Head {
            revision: head.version.revision,
            id: head.change,
        });
        let changes = self.database.changes(since).await?;
        let read = Instant::now();
        report.revision = published.map_or(0, |head| head.version.revision);
        metrics::REVISION_IN_DATABASE.set(changes.head.revision);
        metrics::REVISION_PUBLISHED.set(report.revision);

        // One that was begun and not ended must be: what is written of it already outranks what is published.
        let begun = published.is_some_and(|head| head.building > head.version.history);
        let fresh = begun || !changes.known;
        let at = changes.head.revision;
        let expected = newest(published.as_ref(), &lanes).revision;
        let lags = changes.follows && !changes.known && at < expected;
        if lags && !begun && !self.restored {
            return Err(RefreshError::Behind { at, expected });
        }
        let history = match published {
            Some(head) if !fresh => head.version.history,
            _ => {
                let (next, known) = next_history(published.as_ref(), &lanes);
                self.store.claim(next, known).await?
            }
        };
        let written = self.write_lanes(&lanes, history).await?;
        report.entries += written.entries;
        match fresh {
            true => report.histories += 1,
            false => report.rebuilt += written.rebuilt.len(),
        }

        let newest_lane = lanes
            .iter()
            .filter_map(|lane| lane.epoch)
            .max()
            .unwrap_or(0);
        let told = Told::new(&changes, &written, fresh);
        let ahead = published.is_some_and(|head| newest_lane > head.stamp);
        let moved = published.is_none_or(|head| head.version.revision < changes.head.revision);
        let publish =
            fresh || moved || ahead || !told.names.is_empty() || !written.rebuilt.is_empty();

        let end = End {
            revision: changes.head.revision,
            change: changes.head.id,
            all: fresh || ahead || told.all || !changes.chunks.is_empty(),
            fresh,
            forget: told.forget,
        };
        let stamp = if publish {
            let chunks = match fresh {
                true => (0..CHUNKS).collect(),
                false => changes.chunks,
            };
            report.chunks += chunks.len();
            let first = Page {
                version: Version {
                    history,
                    revision: end.revision,
                },
                // A history is named by a time: a server whose clock is behind gives no stamp that readers have passed.
                least: history.max(newest_lane + 1),
                after: published.filter(|_| !fresh).map_or(0, |head| head.stamp),
                ..Page::default()
            };
            Some(self.publish(first, &chunks, told.names, end).await?)
        } else {
            None
        };
        let reached = Version {
            history,
            revision: end.revision,
        };
        let told = stamp.filter(|_| end.all).is_some();
        let moves = lane_moves(published.as_ref(), &lanes, &written, reached, told);
        let to = stamp.or(published.map(|head| head.stamp)).unwrap_or(0);
        self.store.move_lanes(to, &moves).await?;
        report.lanes += moves.len();
        report.revision = end.revision;
        metrics::REVISION_PUBLISHED.set(end.revision);
        let lag = changes.oldest.map(|oldest| oldest + read.elapsed());
        let lag_ms = lag.map(|lag| u64::try_from(lag.as_millis()).unwrap_or(u64::MAX));
        report.lag_ms = report.lag_ms.max(lag_ms);
        Ok(publish || !moves.is_empty())
    }

    /// Publishes chunks and names in pages like `blank`, the last of which moves the head; tells its stamp.
    async fn publish(
        &self,
        blank: Page,
        chunks: &[u16],
        names: BTreeSet<Name>,
        end: End,
    ) -> Result<u64, RefreshError> {
        let mut last = blank.clone();
        for some in chunks.chunks(READ) {
            let (head, rules) = self.database.chunks(some).await?;
            let version = Version {
                revision: head.revision,
                ..blank.version
            };
            for page in rules.chunks(PUT) {
                // The last page waits; the others go out as they come, so that not all of them are held at once.
                let mut after = last.after;
                if !last.chunks.is_empty() {
                    after = self.store.put(&last).await?;
                }
                let bodies = page
                    .iter()
                    .map(|(chunk, rules)| (*chunk, chunk_body(version, rules)));
                last = Page {
                    version,
                    chunks: bodies.collect(),
                    after,
                    ..blank.clone()
                };
            }
        }
        last.names = names.into_iter().collect();
        last.end = Some(end);
        Ok(self.store.put(&last).await?)
    }
}

/// What readers must be told of the registry.
#[derive(Debug)]
struct Told {
    names: BTreeSet<Name>,
    /// Whether they must forget all that they remember.
    forget: bool,
    /// Whether every lane must move, since somebody may remember otherwise.
    all: bool,
}

impl Told {
    fn new(changes: &Changes, written: &Written, fresh: bool) -> Self {
        let forget = fresh || !written.rebuilt.is_empty();
        let created: BTreeSet<&Name> = changes
            .registry
            .iter()
            .filter(|change| change.creation)
            .map(|change| &change.name)
            .collect();
        let changed = changes.registry.iter().map(|change| &change.name);
        let names: BTreeSet<Name> = written
            .replayed
            .values()
            .flatten()
            .chain(changed)
            .filter(|_| !forget)
            .cloned()
            .collect();
        // Nobody remembers that a key or a principal is missing, and that a client is missing only its own lane and the shared
        // one need to tell: a creation moves those alone.
        let all = forget || names.iter().any(|name| !created.contains(name));
        Self { names, forget, all }
    }
}

/// The newest that this region ever published: of its lanes, where the head is lost.
fn newest(published: Option<&Published>, lanes: &[LaneState]) -> Version {
    let of_lanes = lanes.iter().filter_map(|lane| lane.reached);
    let of_head = published.map(|head| head.version);
    of_lanes.chain(of_head).max().unwrap_or_default()
}

/// A history is named by when it began, and is newer than the newest that is published anywhere, which is told beside it.
fn next_history(published: Option<&Published>, lanes: &[LaneState]) -> (u64, u64) {
    let known = newest(published, lanes).history;
    ((unix_us() / 1_000).max(known + 1), known)
}

/// The lanes that must move, the shared one first: it is moved alone, before those whose own state says that all is done.
fn lane_moves(
    published: Option<&Published>,
    lanes: &[LaneState],
    written: &Written,
    reached: Version,
    all: bool,
) -> Vec<(Lane, Option<Version>)> {
    let must_have = published.map_or(0, |head| head.all);
    Lane::all()
        .zip(lanes)
        .filter_map(|(lane, state)| {
            let wrote = written.replayed.contains_key(&lane) || written.rebuilt.contains(&lane);
            let late = state.epoch.is_none_or(|epoch| epoch < must_have);
            let told = all || lane == Lane::SHARED && !written.replayed.is_empty();
            (wrote || late || told).then_some((lane, wrote.then_some(reached)))
        })
        .collect()
}
