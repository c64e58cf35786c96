//! A cluster of three primaries, each with its replicas.

use std::{collections::BTreeMap, ops::RangeInclusive, slice};

use local::servers::{Redis, Role, Setup, User};
use redis::cmd;

use crate::{
    Line,
    console::{ask, ask_exactly, line, wait_for},
};

const PRIMARIES: usize = 3;
const SLOTS: u16 = 16_384;

/// Failovers are quick, whoever has lost contact for however long may take over, and the slots of the living are served while
/// others are not.
const SETTINGS: [&str; 8] = [
    "--cluster-node-timeout",
    "1500",
    "--cluster-replica-validity-factor",
    "0",
    "--cluster-require-full-coverage",
    "no",
    "--repl-diskless-sync-delay",
    "0",
];

/// Private nodes that form a cluster. Nodes 0, 1 and 2 are primaries at first, with a third of the slots each, in order; after
/// them their first replicas in order, then the second.
pub struct RedisCluster {
    nodes: Vec<Redis>,
    ids: Vec<String>,
    /// One for each node, or none at all.
    lines: Vec<Line>,
}

/// A slot on its way from one primary to another. While it is, the first serves the keys that it still has, and sends whoever
/// asks for others to the second.
#[must_use]
pub struct Moving {
    slot: u16,
    from: usize,
    to: usize,
}

/// What one node is, as another one sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sight {
    /// The id of its primary, if it is a replica.
    primary: Option<String>,
    slots: Vec<RangeInclusive<u16>>,
    lost: bool,
}

impl RedisCluster {
    /// Starts it, and waits until all nodes agree that it is well. Takes some seconds.
    pub async fn start(replicas: usize) -> Self {
        Self::start_as(replicas, &Setup::default()).await
    }

    /// The same with more for each node; its role is no matter.
    pub async fn start_as(replicas: usize, setup: &Setup) -> Self {
        Self::launch(replicas, setup, false).await
    }

    /// The same behind lines: each node is known to clients, to its replicas and to its primary by a line's port alone. The talk
    /// of the nodes about each other has ways of its own.
    pub async fn start_behind_lines(replicas: usize) -> Self {
        Self::launch(replicas, &Setup::default(), true).await
    }

    async fn launch(replicas: usize, setup: &Setup, with_lines: bool) -> Self {
        let settings = SETTINGS.map(str::to_owned).into_iter();
        let setup = Setup {
            role: Role::ClusterNode,
            arguments: settings.chain(setup.arguments.iter().cloned()).collect(),
            ..setup.clone()
        };
        let count = PRIMARIES * (1 + replicas);
        let nodes: Vec<Redis> = (0..count)
            .map(|_| Redis::start_as(&setup).unwrap_or_else(|error| panic!("{error}")))
            .collect();
        let mut ids = Vec::new();
        for node in &nodes {
            ids.push(ask(node, "CLUSTER MYID").await.unwrap());
        }
        let mut lines = Vec::new();
        for node in nodes.iter().filter(|_| with_lines) {
            let line = Line::to(node.port()).await;
            let announce = format!("CONFIG SET cluster-announce-port {}", line.port());
            let _: () = ask(node, &announce).await.unwrap();
            let _: () = ask(node, "CONFIG REWRITE").await.unwrap();
            lines.push(line);
        }
        let cluster = Self { nodes, ids, lines };
        cluster.form().await;
        cluster
    }

    async fn form(&self) {
        for (index, node) in self.nodes.iter().enumerate() {
            // The epochs in which they claim their slots differ, so that nobody has to settle a quarrel.
            let epoch = format!("CLUSTER SET-CONFIG-EPOCH {}", index + 1);
            let _: () = ask(node, &epoch).await.unwrap();
        }
        for (index, node) in self.nodes[..PRIMARIES].iter().enumerate() {
            let slots = third(index);
            let add = format!("CLUSTER ADDSLOTSRANGE {} {}", slots.start(), slots.end());
            let _: () = ask(node, &add).await.unwrap();
        }
        for (index, other) in self.nodes.iter().enumerate().skip(1) {
            let bus: Vec<String> = ask(other, "CONFIG GET cluster-port").await.unwrap();
            let meet = format!("CLUSTER MEET 127.0.0.1 {} {}", self.port(index), bus[1]);
            let _: () = ask(&self.nodes[0], &meet).await.unwrap();
        }
        for (index, node) in self.nodes.iter().enumerate().skip(PRIMARIES) {
            let replicate = format!("CLUSTER REPLICATE {}", self.ids[index % PRIMARIES]);
            // It has yet to hear of its primary.
            wait_for("a replica knows its primary", async || {
                ask::<()>(node, &replicate).await.ok()
            })
            .await;
        }
        self.settled().await;
    }

    /// `redis+cluster://127.0.0.1:PORT,…`, or `rediss+cluster://`, with every node.
    pub fn url(&self) -> String {
        let first = &self.nodes[0];
        let scheme = match first.authority() {
            Some(_) => "rediss+cluster",
            None => "redis+cluster",
        };
        let addresses: Vec<String> = (0..self.nodes.len())
            .map(|index| format!("127.0.0.1:{}", self.port(index)))
            .collect();
        format!("{scheme}://{}{}", first.credentials(), addresses.join(","))
    }

    /// How many nodes there are.
    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    /// A node, to ask.
    pub fn node(&self, index: usize) -> &Redis {
        &self.nodes[index]
    }

    /// A node, to stop, pause, resume or restart.
    pub fn node_mut(&mut self, index: usize) -> &mut Redis {
        &mut self.nodes[index]
    }

    /// The line before a node.
    pub fn line(&self, index: usize) -> &Line {
        &self.lines[index]
    }

    /// Where clients find a node.
    fn port(&self, index: usize) -> u16 {
        let line = self.lines.get(index);
        line.map_or_else(|| self.nodes[index].port(), Line::port)
    }

    /// Which node serves the slot, as the others see it once they agree.
    pub async fn primary_of(&self, slot: u16) -> usize {
        let serves = |sight: &Sight| sight.slots.iter().any(|slots| slots.contains(&slot));
        wait_for("the nodes agree who serves a slot", async || {
            let sights = self.agreed().await?;
            let (id, _) = sights
                .iter()
                .find(|(_, sight)| serves(sight) && !sight.lost)?;
            self.index(id)
        })
        .await
    }

    /// Which nodes are replicas of this one, as the others see it once they agree.
    pub async fn replicas_of(&self, primary: usize) -> Vec<usize> {
        wait_for("the nodes agree who copies whom", async || {
            let sights = self.agreed().await?;
            let of = Some(&self.ids[primary]);
            let copies = sights
                .iter()
                .filter(|(_, sight)| sight.primary.as_ref() == of && !sight.lost);
            copies.map(|(id, _)| self.index(id)).collect()
        })
        .await
    }

    /// The slot of a key, as the cluster reckons it.
    pub async fn slot_of(&self, key: &str) -> u16 {
        let asked = cmd("CLUSTER").arg("KEYSLOT").arg(key).to_owned();
        ask_exactly(&self.nodes[0], &asked).await.unwrap()
    }

    /// Waits until every node that serves says that the cluster is well, sees the same as the others, and is a replica in step
    /// or a primary.
    pub async fn settled(&self) {
        wait_for("the cluster is well", async || {
            for node in self.serving() {
                let info: String = ask(node, "CLUSTER INFO").await.ok()?;
                let well = line(&info, "cluster_state") == "ok"
                    && line(&info, "cluster_slots_assigned") == SLOTS.to_string();
                let copies: String = ask(node, "INFO replication").await.ok()?;
                if !well || line(&copies, "master_link_status") == "down" {
                    return None;
                }
            }
            let sights = self.agreed().await?;
            let lost = sights.values().filter(|sight| sight.lost).count();
            let gone = self.nodes.len() - self.serving().count();
            (sights.len() == self.nodes.len() && lost == gone).then_some(())
        })
        .await
    }

    /// Makes a replica take the place of its primary, which hands over what it has (`CLUSTER FAILOVER`), and waits until the
    /// nodes agree.
    pub async fn fail_over(&self, replica: usize) {
        wait_for("a replica takes over", async || {
            let sights = self.agreed().await?;
            if sights.get(&self.ids[replica])?.primary.is_none() {
                return Some(());
            }
            // While its primary is not in sight it refuses, and is asked again.
            let _: Result<(), _> = ask(&self.nodes[replica], "CLUSTER FAILOVER").await;
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            None
        })
        .await;
        self.settled().await;
    }

    /// Begins to move a slot: it stays so, half moved, until [`Self::end_move`].
    pub async fn begin_move(&self, slot: u16, to: usize) -> Moving {
        let from = self.primary_of(slot).await;
        assert_ne!(from, to, "node {to} serves slot {slot} already");
        let importing = format!("CLUSTER SETSLOT {slot} IMPORTING {}", self.ids[from]);
        let _: () = ask(&self.nodes[to], &importing).await.unwrap();
        let migrating = format!("CLUSTER SETSLOT {slot} MIGRATING {}", self.ids[to]);
        let _: () = ask(&self.nodes[from], &migrating).await.unwrap();
        Moving { slot, from, to }
    }

    /// Moves as many of the slot's keys as there are, at most `count`, and tells how many that were.
    pub async fn move_keys(&self, moving: &Moving, count: usize) -> usize {
        let Moving { slot, from, to } = moving;
        let (source, target) = (&self.nodes[*from], &self.nodes[*to]);
        let asked = format!("CLUSTER GETKEYSINSLOT {slot} {count}");
        let keys: Vec<Vec<u8>> = ask(source, &asked).await.unwrap();
        if !keys.is_empty() {
            let mut migrate = cmd("MIGRATE");
            migrate.arg("127.0.0.1").arg(target.port()).arg("");
            migrate.arg(0).arg(5_000);
            migrate.arg(login(target));
            migrate.arg("KEYS").arg(&keys);
            // `NOKEY`: what expired meanwhile.
            let _: String = ask_exactly(source, &migrate).await.unwrap();
        }
        keys.len()
    }

    /// Moves what is left of the slot, and gives the slot to its new primary.
    pub async fn end_move(&self, moving: Moving) {
        while self.move_keys(&moving, 100).await > 0 {}
        let Moving { slot, from, to } = moving;
        let command = format!("CLUSTER SETSLOT {slot} NODE {}", self.ids[to]);
        // The new one first: nobody is to be sent to one that does not know yet.
        let sights = self.sights(&self.nodes[to]).await.unwrap();
        let is_primary = |index: &usize| sights[&self.ids[*index]].primary.is_none();
        let others = (0..self.nodes.len()).filter(|index| ![from, to].contains(index));
        let others: Vec<usize> = others.filter(is_primary).collect();
        for index in slice::from_ref(&to).iter().chain(&[from]).chain(&others) {
            if self.nodes[*index].is_serving() {
                let _: () = ask(&self.nodes[*index], &command).await.unwrap();
            }
        }
    }

    /// Moves slots with their keys, one after the other, and waits until the nodes agree. Those that are there already stay.
    pub async fn move_slots(&self, slots: RangeInclusive<u16>, to: usize) {
        for slot in slots {
            if self.primary_of(slot).await == to {
                continue;
            }
            let moving = self.begin_move(slot, to).await;
            self.end_move(moving).await;
        }
        self.settled().await;
    }

    fn serving(&self) -> impl Iterator<Item = &Redis> {
        self.nodes.iter().filter(|node| node.is_serving())
    }

    fn index(&self, id: &str) -> Option<usize> {
        self.ids.iter().position(|known| known == id)
    }

    /// What the nodes that serve see, if they all see the same.
    async fn agreed(&self) -> Option<BTreeMap<String, Sight>> {
        let mut agreed = None;
        for node in self.serving() {
            let sights = self.sights(node).await?;
            if *agreed.get_or_insert_with(|| sights.clone()) != sights {
                return None;
            }
        }
        agreed
    }

    async fn sights(&self, node: &Redis) -> Option<BTreeMap<String, Sight>> {
        let text: String = ask(node, "CLUSTER NODES").await.ok()?;
        let sights = text.lines().map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let [id, _, flags, primary, _, _, _, _, slots @ ..] = words.as_slice() else {
                panic!("not a node: {line:?}");
            };
            let sight = Sight {
                primary: (*primary != "-").then(|| (*primary).to_owned()),
                // What is half moved stands in brackets.
                slots: slots.iter().filter_map(|slots| range(slots)).collect(),
                lost: flags.split(',').any(|flag| flag == "fail"),
            };
            ((*id).to_owned(), sight)
        });
        Some(sights.collect())
    }
}

/// Who a node is to another one that hands it keys.
fn login(target: &Redis) -> Vec<&str> {
    match target.user() {
        None => Vec::new(),
        Some(User {
            name: None,
            password,
        }) => vec!["AUTH", password],
        Some(User {
            name: Some(name),
            password,
        }) => vec!["AUTH2", name, password],
    }
}

fn third(index: usize) -> RangeInclusive<u16> {
    let edge = |index: usize| (usize::from(SLOTS) * index).div_ceil(PRIMARIES) as u16;
    edge(index)..=edge(index + 1) - 1
}

fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(first.parse().ok()?..=last.parse().ok()?)
}
