//! Which registry entries of which lanes must be written.

use std::collections::BTreeMap;

use limits::Lane;
use limits::registry::Name;
use limits_redis::{LaneState, Version};

use crate::{Refresh, RefreshError};

/// How many names are read and written at once.
const PAGE: usize = 500;

/// What a lane needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Its entries are all there.
    Nothing,
    /// It has not reached its newest change: those after this revision are written again.
    Replay(u64),
    /// What it holds is lost, or of another history.
    Rebuild,
}

/// What a lane needs, by how far it is and by the revision of its newest change in the database.
pub(crate) fn need(lane: &LaneState, history: u64, newest: Option<u64>) -> Need {
    match (lane.epoch, lane.reached) {
        (Some(_), Some(reached)) if reached.history == history => {
            if newest.is_some_and(|newest| newest > reached.revision) {
                Need::Replay(reached.revision)
            } else {
                Need::Nothing
            }
        }
        _ => Need::Rebuild,
    }
}

/// The entries that were written.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// By lane, those that a replay wrote.
    pub(crate) replayed: BTreeMap<Lane, Vec<Name>>,
    /// Lanes that were written whole.
    pub(crate) rebuilt: Vec<Lane>,
    /// How many entries in all.
    pub(crate) entries: usize,
}

impl Refresh {
    /// Writes what the lanes need. Nobody is told yet: no epoch moves.
    pub(crate) async fn write_lanes(
        &self,
        states: &[LaneState],
        history: u64,
    ) -> Result<Written, RefreshError> {
        let newest: BTreeMap<Lane, u64> =
            self.database.lane_revisions().await?.into_iter().collect();
        let mut written = Written::default();
        for (lane, state) in Lane::all().zip(states) {
            match need(state, history, newest.get(&lane).copied()) {
                Need::Nothing => {}
                Need::Replay(since) => {
                    let names = self.database.lane_changes(lane, since).await?;
                    for page in names.chunks(PAGE) {
                        written.entries += self.write_entries(page, history).await?;
                    }
                    written.replayed.insert(lane, names);
                }
                Need::Rebuild => {
                    if newest.contains_key(&lane) {
                        written.entries += self.rebuild(lane, history).await?;
                    }
                    written.rebuilt.push(lane);
                }
            }
        }
        Ok(written)
    }

    async fn rebuild(&self, lane: Lane, history: u64) -> Result<usize, RefreshError> {
        let mut entries = 0;
        let mut after: Option<Name> = None;
        loop {
            let names = self.database.lane_names(lane, after.as_ref(), PAGE).await?;
            entries += self.write_entries(&names, history).await?;
            match names.last() {
                Some(last) if names.len() == PAGE => after = Some(last.clone()),
                _ => return Ok(entries),
            }
        }
    }

    async fn write_entries(&self, names: &[Name], history: u64) -> Result<usize, RefreshError> {
        if names.is_empty() {
            return Ok(0);
        }
        let (head, entries) = self.database.entries(names).await?;
        let version = Version {
            history,
            revision: head.revision,
        };
        self.store.put_entries(version, &entries).await?;
        Ok(entries.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_needs_what_it_has_lost() {
        let at = |history, revision| LaneState {
            epoch: Some(1),
            reached: Some(Version { history, revision }),
        };
        assert_eq!(need(&at(5, 9), 5, Some(9)), Need::Nothing);
        assert_eq!(need(&at(5, 9), 5, None), Need::Nothing);
        assert_eq!(need(&at(5, 7), 5, Some(9)), Need::Replay(7));
        assert_eq!(need(&at(4, 9), 5, Some(9)), Need::Rebuild);
        let lost = LaneState {
            epoch: None,
            ..at(5, 9)
        };
        assert_eq!(need(&lost, 5, Some(9)), Need::Rebuild);
        assert_eq!(need(&LaneState::default(), 5, None), Need::Rebuild);
    }
}
