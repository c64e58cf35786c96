//! The floor: one question to Redis and its answer.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpStream},
    time::Instant,
};

use floor::GCRA;
use local::servers::Redis;
use redis::{Cmd, aio::MultiplexedConnection};
use tokio::runtime::Runtime;

use crate::{
    pin::{AWAY, Cpu, HERE, on},
    report::Report,
    timing::{Timings, current_thread},
};

const CALLS: usize = 5_000;

/// From one processor.
struct Place {
    cpu: Cpu,
    section: &'static str,
    socket: TcpStream,
    runtime: Runtime,
    multiplexed: MultiplexedConnection,
}

/// The rows, from both.
pub struct RoundTrip {
    places: [Place; 2],
    evalsha: Cmd,
}

impl RoundTrip {
    /// To a Redis that runs [`HERE`].
    pub fn new(redis: &Redis) -> Self {
        let client = redis::Client::open(redis.url()).unwrap();
        let place = |cpu, section| {
            let runtime = current_thread();
            let multiplexed = runtime
                .block_on(client.get_multiplexed_async_connection())
                .unwrap();
            let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, redis.port())).unwrap();
            socket.set_nodelay(true).unwrap();
            Place {
                cpu,
                section,
                socket,
                runtime,
                multiplexed,
            }
        };
        Self {
            evalsha: gcra(&client),
            places: [
                place(HERE, "round trip, work"),
                place(AWAY, "round trip, across processors"),
            ],
        }
    }

    /// Measures every row once.
    pub fn round(&mut self, report: &mut Report) {
        for place in &mut self.places {
            on(place.cpu, || place.round(&self.evalsha, report));
        }
    }
}

/// A call of the least script, to one bucket that always has room.
pub fn gcra(client: &redis::Client) -> Cmd {
    let mut connection = client.get_connection().unwrap();
    let hash = redis::Script::new(GCRA)
        .prepare_invoke()
        .load(&mut connection)
        .unwrap();
    let mut call = redis::cmd("EVALSHA");
    call.arg(hash).arg(1).arg("floor").arg(1).arg(1_000_000_000);
    call
}

impl Place {
    fn round(&mut self, evalsha: &Cmd, report: &mut Report) {
        let base = Some("EVALSHA of the least script, bare socket");
        let rows = [
            ("PING, bare socket", &redis::cmd("PING")),
            ("EVALSHA of the least script, bare socket", evalsha),
        ];
        for (name, call) in rows {
            let call = call.get_packed_command();
            let timings = Timings::of(CALLS, || bare(&mut self.socket, &call));
            timings.note(report, self.section, name, base);
        }
        let connection = &self.multiplexed;
        let timings = self.runtime.block_on(async {
            let mut timings = Timings::default();
            for _ in 0..CALLS {
                let started = Instant::now();
                let mut connection = connection.clone();
                let _: i64 = evalsha.query_async(&mut connection).await.unwrap();
                timings.add(started.elapsed());
            }
            timings
        });
        let name = "EVALSHA of the least script, redis-rs";
        timings.note(report, self.section, name, base);
    }
}

/// One call and its answer of one line.
fn bare(socket: &mut TcpStream, call: &[u8]) {
    socket.write_all(call).unwrap();
    let mut answer = [0; 64];
    let mut read = 0;
    while !answer[..read].ends_with(b"\r\n") {
        read += socket.read(&mut answer[read..]).unwrap();
    }
    assert!(
        b":+".contains(&answer[0]),
        "{}",
        String::from_utf8_lossy(&answer[..read])
    );
}
