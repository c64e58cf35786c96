//! The Redis under attack, as one, under sentinels, or as a cluster.

use std::{fmt, str::FromStr};

use limits::Lane;
use limits_redis::keys::Keys;
use local::servers::{End, Redis};

use crate::{Line, Moving, RedisCluster, Sentinels, console::ask};

/// How a Redis is deployed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    Primary,
    /// A primary and a replica under three sentinels.
    Sentinel,
    /// Three primaries with a replica each.
    Cluster,
}

impl Topology {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Primary, Self::Sentinel, Self::Cluster];
}

impl fmt::Display for Topology {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Primary => "primary",
            Self::Sentinel => "sentinel",
            Self::Cluster => "cluster",
        })
    }
}

impl FromStr for Topology {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|each| each.to_string() == word);
        found.ok_or_else(|| format!("{word}: one of primary, sentinel, cluster"))
    }
}

pub(super) enum Stores {
    Primary(Box<(Redis, Line)>),
    Sentinel(Sentinels),
    Cluster(RedisCluster),
}

impl Stores {
    pub(super) async fn start(topology: Topology) -> Self {
        match topology {
            Topology::Primary => {
                let redis = Redis::start().unwrap_or_else(|error| panic!("{error}"));
                let line = Line::to(redis.port()).await;
                Self::Primary(Box::new((redis, line)))
            }
            Topology::Sentinel => Self::Sentinel(Sentinels::start_behind_lines(1).await),
            Topology::Cluster => Self::Cluster(RedisCluster::start_behind_lines(1).await),
        }
    }

    pub(super) fn url(&self) -> String {
        match self {
            Self::Primary(one) => one.1.through(&one.0.url()),
            Self::Sentinel(all) => all.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    /// The server that a fault strikes: in a cluster one after the other of those that serve a third, by `turn`.
    pub(super) async fn victim(&self, turn: usize) -> usize {
        match self {
            Self::Primary(_) => 0,
            Self::Sentinel(all) => all.primary().await,
            Self::Cluster(cluster) => cluster.primary_of(slot_of_third(turn)).await,
        }
    }

    /// Whether another server takes over from one that is gone.
    pub(super) fn has_replicas(&self) -> bool {
        !matches!(self, Self::Primary(_))
    }

    /// Waits until some other server has taken over from the victim of this turn.
    pub(super) async fn taken_over(&self, victim: usize, turn: usize) {
        match self {
            Self::Primary(_) => {}
            Self::Sentinel(all) => {
                all.primary_after(victim).await;
            }
            Self::Cluster(cluster) => {
                while cluster.primary_of(slot_of_third(turn)).await == victim {
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                }
            }
        }
    }

    pub(super) async fn settled(&self) {
        match self {
            Self::Primary(_) => {}
            Self::Sentinel(all) => all.settled().await,
            Self::Cluster(cluster) => cluster.settled().await,
        }
    }

    fn server_mut(&mut self, index: usize) -> &mut Redis {
        match self {
            Self::Primary(one) => &mut one.0,
            Self::Sentinel(all) => all.node_mut(index),
            Self::Cluster(cluster) => cluster.node_mut(index),
        }
    }

    pub(super) fn line(&self, index: usize) -> &Line {
        match self {
            Self::Primary(one) => &one.1,
            Self::Sentinel(all) => all.line(index),
            Self::Cluster(cluster) => cluster.line(index),
        }
    }

    fn servers(&self) -> Vec<(&Redis, &Line)> {
        match self {
            Self::Primary(one) => vec![(&one.0, &one.1)],
            Self::Sentinel(all) => (0..2).map(|i| (all.node(i), all.line(i))).collect(),
            Self::Cluster(cluster) => (0..cluster.size())
                .map(|index| (cluster.node(index), cluster.line(index)))
                .collect(),
        }
    }

    /// What is connected now never hears of anything again.
    pub(super) fn lose_connections(&self) {
        self.servers().iter().for_each(|(_, line)| line.lose());
    }

    pub(super) fn cut_connections(&self) {
        self.servers().iter().for_each(|(_, line)| line.cut());
    }

    pub(super) fn kill(&mut self, index: usize) {
        tokio::task::block_in_place(|| self.server_mut(index).stop(End::Kill));
    }

    /// Starts a server again that is dead.
    pub(super) async fn restart(&mut self, index: usize) {
        if let Self::Sentinel(all) = self {
            return all.rejoin(index).await;
        }
        let server = self.server_mut(index);
        tokio::task::block_in_place(|| server.restart().unwrap_or_else(|error| panic!("{error}")));
    }

    pub(super) fn pause(&mut self, index: usize) {
        self.server_mut(index).pause();
    }

    pub(super) fn resume(&mut self, index: usize) {
        self.server_mut(index).resume();
    }

    /// Takes all that every primary holds.
    pub(super) async fn flush(&self) {
        for (server, _) in self.servers() {
            // A replica refuses, and follows its primary.
            let _ = ask::<()>(server, "FLUSHALL").await;
        }
    }

    /// Puts a replica in the place of the victim of this turn, with nothing wrong.
    pub(super) async fn fail_over(&self, victim: usize) {
        match self {
            Self::Primary(_) => {}
            Self::Sentinel(all) => {
                all.fail_over().await;
            }
            Self::Cluster(cluster) => {
                let replica = cluster.replicas_of(victim).await[0];
                cluster.fail_over(replica).await;
            }
        }
    }

    /// Begins to move what all share, and some lanes more, and leaves each half moved.
    pub(super) async fn begin_moves(&self, keys: &Keys, lanes: &[Lane]) -> Vec<Moving> {
        let Self::Cluster(cluster) = self else {
            return Vec::new();
        };
        let mut slots = Vec::new();
        for &lane in lanes {
            slots.push(cluster.slot_of(&keys.epoch(lane)).await);
        }
        slots.sort_unstable();
        slots.dedup();
        let mut moves = Vec::new();
        for slot in slots {
            let from = cluster.primary_of(slot).await;
            let third = (0..3).map(slot_of_third);
            let mut to = from;
            for other in third {
                let other = cluster.primary_of(other).await;
                if other != from {
                    to = other;
                }
            }
            let moving = cluster.begin_move(slot, to).await;
            cluster.move_keys(&moving, 2).await;
            moves.push(moving);
        }
        moves
    }

    pub(super) async fn end_moves(&self, moves: Vec<Moving>) {
        if let Self::Cluster(cluster) = self {
            for moving in moves {
                cluster.end_move(moving).await;
            }
        }
    }
}

/// A slot of each third, none of which is a lane's that moves.
fn slot_of_third(turn: usize) -> u16 {
    [1, 6_001, 12_001][turn % 3]
}
