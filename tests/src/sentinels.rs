//! A primary with replicas under three sentinels.

use std::{collections::HashMap, time::Duration};

use local::servers::{Redis, Role, Setup, Watched};

use crate::{
    Line,
    console::{ask, line, wait_for},
};

/// The name by which clients ask for the primary.
const NAME: &str = "weir";

const SENTINELS: usize = 3;

/// Private servers under private sentinels, two of which must miss the primary. Node 0 is the primary at first.
pub struct Sentinels {
    nodes: Vec<Redis>,
    sentinels: Vec<Redis>,
    /// One for each server, or none at all.
    lines: Vec<Line>,
}

impl Sentinels {
    /// Starts all, and waits until every sentinel knows of everybody. Takes some seconds.
    pub async fn start(replicas: usize) -> Self {
        Self::launch(replicas, false).await
    }

    /// The same behind lines: each server is known to clients, to the others and to the sentinels by a line's port alone.
    pub async fn start_behind_lines(replicas: usize) -> Self {
        Self::launch(replicas, true).await
    }

    async fn launch(replicas: usize, with_lines: bool) -> Self {
        let start =
            |setup: &Setup| Redis::start_as(setup).unwrap_or_else(|error| panic!("{error}"));
        let settings = ["--repl-diskless-sync-delay", "0"].map(str::to_owned);
        let single = Setup {
            arguments: settings.to_vec(),
            ..Setup::default()
        };
        let nodes: Vec<Redis> = (0..=replicas).map(|_| start(&single)).collect();
        let mut all = Self {
            nodes,
            sentinels: Vec::new(),
            lines: Vec::new(),
        };
        for node in all.nodes.iter().filter(|_| with_lines) {
            let line = Line::to(node.port()).await;
            let announce = format!("CONFIG SET replica-announce-port {}", line.port());
            let _: () = ask(node, &announce).await.unwrap();
            let _: () = ask(node, "CONFIG REWRITE").await.unwrap();
            all.lines.push(line);
        }
        let copy = format!("REPLICAOF 127.0.0.1 {}", all.port(0));
        for replica in &all.nodes[1..] {
            let _: () = ask(replica, &copy).await.unwrap();
            // It is one after a restart too.
            let _: () = ask(replica, "CONFIG REWRITE").await.unwrap();
        }
        // Sentinels look at a primary's replicas only each ten seconds: they are there before.
        all.in_step(0).await;
        let watched = Watched {
            name: NAME.to_owned(),
            port: all.port(0),
            quorum: 2,
            down_after: Duration::from_millis(500),
            failover_timeout: Duration::from_secs(3),
        };
        let sentinel = Setup {
            role: Role::Sentinel(watched),
            ..Setup::default()
        };
        all.sentinels = (0..SENTINELS).map(|_| start(&sentinel)).collect();
        all.settled().await;
        all
    }

    /// `redis+sentinel://127.0.0.1:PORT,…/NAME`, with every sentinel.
    pub fn url(&self) -> String {
        let addresses = self.sentinels.iter();
        let addresses: Vec<String> = addresses
            .map(|sentinel| format!("127.0.0.1:{}", sentinel.port()))
            .collect();
        format!("redis+sentinel://{}/{NAME}", addresses.join(","))
    }

    /// A server, to ask.
    pub fn node(&self, index: usize) -> &Redis {
        &self.nodes[index]
    }

    /// A server, to stop, pause, resume or restart.
    pub fn node_mut(&mut self, index: usize) -> &mut Redis {
        &mut self.nodes[index]
    }

    /// The line before a server.
    pub fn line(&self, index: usize) -> &Line {
        &self.lines[index]
    }

    /// Where clients find a server.
    fn port(&self, index: usize) -> u16 {
        let line = self.lines.get(index);
        line.map_or_else(|| self.nodes[index].port(), Line::port)
    }

    /// A sentinel, to stop, pause, resume or restart.
    pub fn sentinel_mut(&mut self, index: usize) -> &mut Redis {
        &mut self.sentinels[index]
    }

    /// Which server is the primary, as every serving sentinel tells once they agree, and as it says itself.
    pub async fn primary(&self) -> usize {
        wait_for("the sentinels agree on a primary", || self.agreed()).await
    }

    /// Waits until the sentinels tell another primary than this.
    pub async fn primary_after(&self, old: usize) -> usize {
        wait_for("the sentinels tell another primary", async || {
            self.agreed().await.filter(|&new| new != old)
        })
        .await
    }

    /// Has the sentinels put a replica in the primary's place, with nothing wrong (`SENTINEL FAILOVER`), waits until they tell
    /// it, and tells which.
    pub async fn fail_over(&self) -> usize {
        let old = self.primary().await;
        let command = format!("SENTINEL FAILOVER {NAME}");
        wait_for("a failover begins", async || {
            // They refuse while another one is under way, and while no replica is good enough.
            let sentinel = self.sentinels.iter().find(|each| each.is_serving());
            ask::<()>(sentinel?, &command).await.ok()
        })
        .await;
        self.primary_after(old).await
    }

    /// Starts a server again that another has taken over from, as its replica at once. By themselves the sentinels make it one
    /// after some ten seconds.
    pub async fn rejoin(&mut self, index: usize) {
        let primary = self.primary().await;
        assert_ne!(primary, index, "nobody has taken over from it");
        let server = &mut self.nodes[index];
        tokio::task::block_in_place(|| server.restart().unwrap_or_else(|error| panic!("{error}")));
        self.follow(index, primary).await;
    }

    /// Makes a server that another has taken over from its replica at once.
    pub async fn follow(&self, index: usize, primary: usize) {
        let copy = format!("REPLICAOF 127.0.0.1 {}", self.port(primary));
        let _: () = ask(&self.nodes[index], &copy).await.unwrap();
        let _: () = ask(&self.nodes[index], "CONFIG REWRITE").await.unwrap();
    }

    /// Waits until every serving sentinel knows of all others and of all replicas, and each serving replica is in step.
    pub async fn settled(&self) {
        let primary = self.primary().await;
        self.in_step(primary).await;
        wait_for("the sentinels know everybody", async || {
            for sentinel in self.sentinels.iter().filter(|each| each.is_serving()) {
                let command = format!("SENTINEL MASTER {NAME}");
                let known: HashMap<String, String> = ask(sentinel, &command).await.ok()?;
                let replicas = (self.nodes.len() - 1).to_string();
                let others = (SENTINELS - 1).to_string();
                if known["num-slaves"] != replicas
                    || known["num-other-sentinels"] != others
                    || known["flags"] != "master"
                {
                    return None;
                }
            }
            Some(())
        })
        .await;
    }

    async fn in_step(&self, primary: usize) {
        wait_for("the replicas are in step", async || {
            for (index, node) in self.nodes.iter().enumerate() {
                if index == primary || !node.is_serving() {
                    continue;
                }
                let info: String = ask(node, "INFO replication").await.ok()?;
                if line(&info, "role") != "slave" || line(&info, "master_link_status") != "up" {
                    return None;
                }
            }
            Some(())
        })
        .await;
    }

    async fn agreed(&self) -> Option<usize> {
        let mut agreed = None;
        for sentinel in self.sentinels.iter().filter(|each| each.is_serving()) {
            let command = format!("SENTINEL GET-MASTER-ADDR-BY-NAME {NAME}");
            let (_, port): (String, u16) = ask(sentinel, &command).await.ok()?;
            if *agreed.get_or_insert(port) != port {
                return None;
            }
        }
        let port = agreed?;
        let index = (0..self.nodes.len()).find(|&index| self.port(index) == port)?;
        if self.nodes[index].is_serving() {
            let info: String = ask(&self.nodes[index], "INFO replication").await.ok()?;
            return (line(&info, "role") == "master").then_some(index);
        }
        Some(index)
    }
}
