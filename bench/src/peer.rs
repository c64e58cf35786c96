//! A limiter of others in a process of its own, which makes calls when it is asked to. `make bench-peers` installs them;
//! `bench/peers/rust/src/main.rs` says how they are asked and how they answer.

use std::{
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::json;

/// Longer than any round takes: a peer that has not answered by then hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running peer. Dropping it ends the process.
pub struct Peer {
    /// What it is written in.
    pub name: &'static str,
    /// What it can measure, each told to [`Peer::measure`] by its place.
    pub variants: Vec<Variant>,
    process: Child,
    questions: ChildStdin,
    answers: Receiver<io::Result<String>>,
}

/// One way of deciding.
#[derive(Debug, Clone, Deserialize)]
pub struct Variant {
    /// Of which limiter, and how it decides.
    pub name: String,
    /// How many calls can be under way at once.
    pub in_flight: Vec<u32>,
}

/// What a round gave.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Sample {
    /// The median time of a call, in microseconds.
    pub p50_us: f64,
    /// Its 99th percentile, in microseconds.
    pub p99_us: f64,
    /// Calls a second.
    pub per_second: f64,
}

#[derive(Deserialize)]
struct Greeting {
    variants: Vec<Variant>,
}

impl Peer {
    /// Starts those that are installed, on this Redis. Says which is not, or does not start.
    pub fn installed(redis_url: &str) -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools/peers");
        let node = [PathBuf::from("node"), folder.join("node/peer.mjs")];
        let python = [
            folder.join("python/bin/python"),
            folder.join("python/peer.py"),
        ];
        let programs = [
            ("rust", &[folder.join("rust/peer")][..]),
            ("node", &node),
            ("python", &python),
        ];
        let mut peers = Vec::new();
        for (name, program) in programs {
            if !folder.join(name).join("installed").is_file() {
                eprintln!("peers: without {name}: make bench-peers has not installed it");
                continue;
            }
            match Self::start(name, program, redis_url) {
                Ok(peer) => peers.push(peer),
                Err(error) => eprintln!("peers: without {name}: {error}"),
            }
        }
        peers
    }

    fn start(name: &'static str, program: &[PathBuf], redis_url: &str) -> io::Result<Self> {
        let mut process = Command::new(&program[0])
            .args(&program[1..])
            .arg(redis_url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let questions = process.stdin.take().expect("it is piped");
        let lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        let (sender, answers) = channel();
        // A pipe cannot be read with a deadline, a channel can.
        thread::spawn(move || {
            for line in lines {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut peer = Self {
            name,
            variants: Vec::new(),
            process,
            questions,
            answers,
        };
        peer.variants = peer.answer::<Greeting>()?.variants;
        Ok(peer)
    }

    /// Has so many calls made of one of its variants, so many of them at once.
    pub fn measure(&mut self, variant: usize, in_flight: u32, calls: u32) -> io::Result<Sample> {
        let question = json!({ "variant": variant, "in_flight": in_flight, "calls": calls });
        writeln!(self.questions, "{question}")?;
        self.answer()
    }

    fn answer<T: DeserializeOwned>(&self) -> io::Result<T> {
        let line = self.answers.recv_timeout(PATIENCE).map_err(|error| {
            io::Error::other(match error {
                RecvTimeoutError::Timeout => "it has hung",
                RecvTimeoutError::Disconnected => "it has ended",
            })
        })??;
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
