//! `make watch` starts, every line that it prints works, and nothing of it stays.
// Helpers beside the tests are test code too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// It may have to build all functions, beside the tests and on few cores.
const START: Duration = Duration::from_secs(900);

/// How long a change may take to be in effect: announced, not waited for.
const NEWS: Duration = Duration::from_secs(30);

struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Everything printed on the standard output until the last line.
fn printed(child: &mut Child) -> Vec<String> {
    let output = BufReader::new(child.stdout.take().unwrap());
    let (line, lines) = mpsc::channel();
    thread::spawn(move || {
        for text in output.lines() {
            // Nobody listens any more: nothing is left to do.
            if line.send(text.unwrap()).is_err() {
                return;
            }
        }
    });
    let deadline = Instant::now() + START;
    let mut printed = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let text = lines
            .recv_timeout(left)
            .unwrap_or_else(|error| panic!("{error} after {printed:#?}"));
        let last = text.contains("Ctrl-C");
        printed.push(text);
        if last {
            return printed;
        }
    }
}

fn shown(line: &str) -> String {
    let tools = root().join(".tools/venv/bin");
    let path = std::env::var("PATH").unwrap();
    let output = Command::new("sh")
        .args(["-c", line])
        .current_dir(root())
        .env("PATH", format!("{}:{path}", tools.display()))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{line}\n{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

#[test]
fn every_printed_line_works_and_nothing_stays() {
    let folder = std::env::temp_dir().join(format!("weir-watch-story-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_local"))
        .args(["watch", "--port", "0", "--functions-port", "0"])
        // Its folders are in here, to see that none is left behind.
        .env("TMPDIR", &folder)
        // The machine may be busy with other tests.
        .env("REDIS_TIMEOUT_MS", "5000")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut program = Program(child);
    let printed = printed(&mut program.0);

    let invocations: Vec<_> = printed
        .iter()
        .filter(|line| line.starts_with("cargo lambda invoke"))
        .collect();
    let mut invoked: Vec<_> = invocations
        .iter()
        .map(|line| line.rsplit('/').next().unwrap().to_owned())
        .collect();
    invoked.sort();
    let mut files: Vec<_> = fs::read_dir(root().join("events"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    // Nobody's tokens are believed here, and nobody's stack waits.
    files.retain(|name| !["authorizer-jwt.json", "migrate-deploy.json"].contains(&name.as_str()));
    assert_eq!(invoked, files, "a line for each event");
    for line in invocations {
        let answer = shown(line);
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        assert!(answer["errorType"].is_null(), "{line}\n{answer}");
        if let Some(status) = answer["statusCode"].as_u64() {
            assert!((200..300).contains(&status), "{line}\n{answer}");
        }
    }

    let calls: Vec<_> = printed
        .iter()
        .filter(|line| line.starts_with("curl"))
        .collect();
    assert!(calls.len() > 4, "{printed:#?}");
    for (place, line) in calls.iter().enumerate() {
        let answer = shown(line);
        assert!(answer.starts_with("HTTP/1.1 200"), "{line}\n{answer}");
        assert!(
            place != 0 || answer.contains("x-ratelimit-limit: 10"),
            "{answer}"
        );
    }
    // The second has changed the rule; the news travels by itself.
    let deadline = Instant::now() + NEWS;
    while !shown(calls[0]).contains("x-ratelimit-limit: 20") {
        assert!(Instant::now() < deadline, "the change is not in effect");
        thread::sleep(Duration::from_millis(100));
    }

    let ended = Command::new("sh")
        .args(["-c", "kill -INT \"$0\"", &program.0.id().to_string()])
        .status();
    assert!(ended.unwrap().success());
    let status = program.0.wait().unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(
        fs::read_dir(&folder).unwrap().count(),
        0,
        "it left something in {}",
        folder.display()
    );
    fs::remove_dir(&folder).unwrap();
}
