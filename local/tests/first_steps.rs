//! What `make run` prints works as it is printed.
// Helpers beside the tests are test code too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use local::servers::{Postgres, Redis};

/// The program, on ports that were free.
struct Program {
    child: Child,
    /// What it printed until it was ready.
    printed: Vec<String>,
}

impl Program {
    fn start(arguments: &[&str]) -> Self {
        let mut child = program(&["--port", "0", "--admin-port", "0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut printed = Vec::new();
        for line in output.lines() {
            let line = line.unwrap();
            let last = line.contains("Ctrl-C");
            printed.push(line);
            if last {
                break;
            }
        }
        Self { child, printed }
    }

    /// What the printed line below the remark with this word prints in a shell.
    fn shown(&self, word: &str) -> String {
        let at = self
            .printed
            .iter()
            .position(|line| line.starts_with('#') && line.contains(word))
            .unwrap_or_else(|| panic!("nothing about {word} in {:#?}", self.printed));
        let output = Command::new("sh")
            .args(["-c", &self.printed[at + 1]])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Ends it by a signal and gives its exit status.
    fn ended_by(mut self, signal: &str) -> Option<i32> {
        let pid = self.child.id().to_string();
        let sent = Command::new("sh")
            .args(["-c", "kill -\"$0\" \"$1\"", signal, &pid])
            .status();
        assert!(sent.unwrap().success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_local"));
    command
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        // The machine may be busy with other tests.
        .env("REDIS_TIMEOUT_MS", "5000")
        .stdin(Stdio::null());
    command
}

/// What a program that does not start says.
fn complaint(arguments: &[&str]) -> String {
    let mut child = program(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(!child.wait().unwrap().success(), "{said}");
    said
}

#[test]
fn every_printed_line_shows_what_it_says() {
    let program = Program::start(&[]);

    let allowed = program.shown("An allowed call");
    assert!(allowed.starts_with("HTTP/1.1 200"), "{allowed}");
    assert!(allowed.contains(r#""clientId":"demo-free""#), "{allowed}");
    assert!(allowed.contains("x-ratelimit-remaining: 9"), "{allowed}");

    // One comes back every six seconds, which a busy machine may let pass meanwhile.
    let burst = program.shown("429");
    assert!(burst.matches("HTTP/1.1 200").count() >= 9, "{burst}");
    let refused = &burst[burst.find("HTTP/1.1 429").unwrap()..];
    for header in ["x-ratelimit-limit: 10", "x-ratelimit-remaining: 0"] {
        assert!(refused.contains(header), "{header} in {refused}");
    }
    for header in ["retry-after: ", "x-ratelimit-retryafter: "] {
        let value = refused.split(header).nth(1).unwrap();
        let seconds: u32 = value.lines().next().unwrap().trim().parse().unwrap();
        assert!((1..=6).contains(&seconds), "{header} in {refused}");
    }

    let unknown = program.shown("Without a key");
    assert!(unknown.starts_with("HTTP/1.1 401"), "{unknown}");
    assert!(unknown.contains("application/problem+json"), "{unknown}");

    let changed = program.shown("A rule change");
    assert!(changed.contains("weir-propagation: announced"), "{changed}");
    let next = changed.rfind("HTTP/1.1 ").unwrap();
    assert!(changed[next..].starts_with("HTTP/1.1 200"), "{changed}");
    assert!(
        changed[next..].contains("x-ratelimit-limit: 20"),
        "{changed}"
    );

    let asked = program.shown("without a gateway");
    assert!(asked.starts_with("HTTP/1.1 200"), "{asked}");
    assert!(asked.contains(r#""status":"allowed""#), "{asked}");
}

/// What a line prints in a shell.
fn run(line: &str) -> String {
    let output = Command::new("sh").args(["-c", line]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn in_memory_too_a_call_is_explained_and_a_client_reset() {
    let program = Program::start(&[]);
    let told = program
        .printed
        .iter()
        .find_map(|line| line.strip_prefix("Control and check, without IAM: "));
    let control = told.unwrap();
    let explain = format!(
        "curl -s -G {control}/ratelimit/explain -d client=demo-free --data-urlencode 'resource=GET /orders/1'"
    );
    let reset = format!(
        "curl -si -X POST -H 'content-type: application/json' {control}/ratelimit/reset -d '{{\"client\": \"demo-free\"}}'"
    );
    program.shown("429");
    let fate = r#""fate":"applies""#;
    let explained = run(&explain);
    assert!(
        explained.contains(fate) && !explained.contains(r#""remaining":10"#),
        "{explained}"
    );
    let answer = run(&reset);
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("weir-propagation: announced"),
        "{answer}"
    );
    for _ in 0..2 {
        let explained = run(&explain);
        assert!(
            explained.contains(fate) && explained.contains(r#""remaining":10"#),
            "{explained}"
        );
    }
    let allowed = program.shown("An allowed call");
    assert!(allowed.starts_with("HTTP/1.1 200"), "{allowed}");
    assert!(allowed.contains("x-ratelimit-remaining: 9"), "{allowed}");
}

#[test]
fn real_stores_keep_what_became_of_the_demo() {
    let (redis, postgres) = (Redis::start().unwrap(), Postgres::start().unwrap());
    let arguments = ["--redis", &redis.url(), "--database", &postgres.url()];

    let first = Program::start(&arguments);
    let allowed = first.shown("An allowed call");
    assert!(allowed.contains("x-ratelimit-limit: 10"), "{allowed}");
    let changed = first.shown("A rule change");
    assert!(changed.contains("x-ratelimit-limit: 20"), "{changed}");
    assert_eq!(first.ended_by("INT"), Some(0));

    let second = Program::start(&arguments);
    let allowed = second.shown("An allowed call");
    assert!(allowed.starts_with("HTTP/1.1 200"), "{allowed}");
    assert!(allowed.contains("x-ratelimit-limit: 20"), "{allowed}");
    assert!(!allowed.contains("x-ratelimit-remaining: 19"), "{allowed}");
}

#[test]
fn it_ends_well_by_ctrl_c_and_by_sigterm() {
    assert_eq!(Program::start(&[]).ended_by("INT"), Some(0));
    assert_eq!(Program::start(&[]).ended_by("TERM"), Some(0));
}

#[test]
fn a_port_that_is_taken_is_named_with_the_way_out() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let said = complaint(&["--port", &port]);
    assert!(
        said.contains(&port) && said.contains("--port") && said.contains("PORT"),
        "{said}"
    );
    let said = complaint(&["--port", "0", "--admin-port", &port]);
    assert!(said.contains("ADMIN_PORT"), "{said}");
}

#[test]
fn every_bad_address_is_told_at_once_and_not_quoted() {
    let said = complaint(&[
        "--redis",
        "rediss+odd://:hunter2@x",
        "--database",
        "mysql://:hunter2@x",
    ]);
    assert!(
        said.contains("--redis must") && said.contains("--database must"),
        "{said}"
    );
    assert!(!said.contains("hunter2"), "{said}");
}
