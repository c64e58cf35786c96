//! The limiters of others, beside the least that can be had, measured in the same language as the fastest of them.

use std::io;

use local::servers::Redis;

use crate::{
    peer::Peer,
    pin::{HERE, on},
    report::Report,
};

const CALLS: u32 = 5_000;
const SECTION: &str = "peers, work";
const FLOOR: &str = "EVALSHA of the least script, redis-rs";

/// The rows of those that are installed.
pub struct Peers(Vec<Peer>);

impl Peers {
    /// With a Redis that runs [`HERE`], where they run as well.
    pub fn new(redis: &Redis) -> Self {
        Self(on(HERE, || Peer::installed(&redis.url())))
    }

    /// Measures every row once. A peer that fails or hangs is told, and left out from there on.
    pub fn round(&mut self, report: &mut Report) {
        self.0.retain_mut(|peer| {
            let measured = round(peer, report);
            if let Err(error) = &measured {
                eprintln!("peers: without {} from here on: {error}", peer.name);
            }
            measured.is_ok()
        });
    }
}

fn round(peer: &mut Peer, report: &mut Report) -> io::Result<()> {
    for (place, variant) in peer.variants.clone().iter().enumerate() {
        for &in_flight in &variant.in_flight {
            let sample = peer.measure(place, in_flight, CALLS)?;
            let mut note = |what: &str, unit, value| {
                let row = |name| format!("{name}{what}");
                let (name, base) = (row(variant.name.as_str()), row(FLOOR));
                report.note(SECTION, &name, unit, Some(&base), value);
            };
            if in_flight == 1 {
                note("", "µs", sample.p50_us);
                note(", p99", "µs", sample.p99_us);
            } else {
                let what = format!(", {in_flight} in flight");
                note(&what, "thousand/s", sample.per_second / 1e3);
            }
        }
    }
    Ok(())
}
