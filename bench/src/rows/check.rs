//! The check API over HTTP: the program that serves everything on one machine, with Redis behind it.

use std::{
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use futures::future::join_all;
use http_body_util::{BodyExt, Full};
use hyper::{Request, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use local::servers::{Redis, free_port};
use serde_json::{Value, json};
use tokio::{net::TcpStream, runtime::Runtime, time::sleep};

use crate::{
    function::binary,
    pin::{HERE, on},
    report::Report,
    timing::{Timings, current_thread},
};

const CALLS: usize = 3_000;
const USERS: usize = 1_000;
const CONNECTIONS: usize = 50;
const PATIENCE: Duration = Duration::from_secs(30);
const SECTION: &str = "check over HTTP, work";

type Sender = http1::SendRequest<Full<Bytes>>;

/// The rows.
pub struct Check {
    program: Child,
    runtime: Runtime,
    senders: Vec<Sender>,
    authority: String,
    _redis: Redis,
}

impl Check {
    /// The program and a Redis of its own, [`HERE`].
    pub fn new() -> Self {
        let redis = on(HERE, Redis::start).unwrap_or_else(|error| panic!("{error}"));
        let ports = [free_port().unwrap(), free_port().unwrap()].map(|port| port.to_string());
        let mut command = Command::new(binary("local"));
        command
            .args([
                "--redis",
                &redis.url(),
                "--port",
                &ports[0],
                "--admin-port",
                &ports[1],
            ])
            .env("REDIS_TIMEOUT_MS", "5000")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let program = on(HERE, || command.spawn()).unwrap();
        let authority = format!("127.0.0.1:{}", ports[1]);
        let runtime = current_thread();
        let senders = runtime.block_on(async {
            let mut senders = vec![reach(&authority).await];
            let rule =
                json!({ "resource": "GET /orders/*", "limit": 1_000_000, "time_window": 60 });
            let made = send(&mut senders[0], request(&authority, "rules", &rule)).await;
            assert_eq!(made.0, 201, "{}", made.1);
            for _ in 1..CONNECTIONS {
                senders.push(reach(&authority).await);
            }
            senders
        });
        Self {
            program,
            runtime,
            senders,
            authority,
            _redis: redis,
        }
    }

    /// Measures every row once.
    pub fn round(&mut self, report: &mut Report) {
        on(HERE, || {
            let (authority, senders) = (&self.authority, &mut self.senders);
            self.runtime.block_on(measure(authority, senders, report));
        });
    }
}

impl Default for Check {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Check {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

async fn measure(authority: &str, senders: &mut [Sender], report: &mut Report) {
    let mut timings = Timings::default();
    for number in 0..CALLS {
        let started = Instant::now();
        ask(&mut senders[0], authority, number).await;
        timings.add(started.elapsed());
    }
    timings.note(report, SECTION, "1 limit, 1 connection", None);
    let each = CALLS / CONNECTIONS;
    let started = Instant::now();
    let asking = senders.iter_mut().enumerate().map(async |(task, sender)| {
        for number in task * each..(task + 1) * each {
            ask(sender, authority, number).await;
        }
    });
    join_all(asking).await;
    let speed = (each * CONNECTIONS) as f64 / started.elapsed().as_secs_f64();
    let name = format!("1 limit, {CONNECTIONS} connections");
    report.note(SECTION, &name, "thousand/s", None, speed / 1e3);
}

/// A connection to the program, once it listens.
async fn reach(authority: &str) -> Sender {
    let started = Instant::now();
    loop {
        match TcpStream::connect(authority).await {
            Ok(stream) => {
                stream.set_nodelay(true).unwrap();
                let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
                tokio::spawn(connection);
                return sender;
            }
            Err(error) => assert!(started.elapsed() < PATIENCE, "{error}"),
        }
        sleep(Duration::from_millis(20)).await;
    }
}

fn request(authority: &str, path: &str, body: &Value) -> Request<Full<Bytes>> {
    Request::post(format!("/ratelimit/{path}"))
        .header("host", authority)
        .header("content-type", "application/json")
        .body(Full::from(body.to_string()))
        .unwrap()
}

async fn send(sender: &mut Sender, request: Request<Full<Bytes>>) -> (u16, String) {
    sender.ready().await.unwrap();
    let response = sender.send_request(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

/// Asks about one of the users, who has room.
async fn ask(sender: &mut Sender, authority: &str, number: usize) {
    let path = format!("status/user{}", number % USERS);
    let body = json!({ "resource": "GET /orders/1", "tokens": 1 });
    let (status, answer) = send(sender, request(authority, &path, &body)).await;
    assert_eq!(status, 200, "{answer}");
}
