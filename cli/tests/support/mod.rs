//! What the stories stand on: the whole of Weir on free ports, and the program as a shell would run it.

mod stand_in;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

use serde_json::Value;

pub(crate) use stand_in::{StandIn, forward, response};

/// All of Weir in one process and in memory, with its two rules of the demonstration.
pub(crate) struct Local {
    child: Child,
    /// The control and check APIs.
    pub(crate) url: String,
}

impl Local {
    pub(crate) fn start() -> Self {
        let mut child = Command::new(local())
            .args(["--port", "0", "--admin-port", "0"])
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines
            .by_ref()
            .map(Result::unwrap)
            .find_map(|line| {
                Some(
                    line.strip_prefix("Control and check, without IAM: ")?
                        .to_owned(),
                )
            })
            .unwrap();
        // It serves once it has said all.
        lines
            .map(Result::unwrap)
            .find(|line| line.contains("Ctrl-C"))
            .unwrap();
        Self { child, url }
    }

    /// Runs `weir` with these arguments against it.
    pub(crate) fn weir(&self, arguments: &[&str]) -> Ran {
        weir(&self.url, arguments).run()
    }

    /// Asks the API itself.
    pub(crate) fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        ask(&self.url, method, path, body)
    }

    /// The newest revision.
    pub(crate) fn revision(&self) -> u64 {
        self.ask("GET", "/ratelimit/revision", None)["revision"]
            .as_u64()
            .unwrap()
    }

    /// Every rule, but for those of the demonstration.
    pub(crate) fn rules(&self) -> Vec<Value> {
        let page = self.ask("GET", "/ratelimit/rules?limit=1000", None);
        let rules = page["rules"].as_array().unwrap().iter();
        let own = |rule: &&Value| rule["resource"] != "*" || rule["tier"].is_null();
        rules.filter(own).cloned().collect()
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks an API by curl, which shares no code with us.
pub(crate) fn ask(url: &str, method: &str, path: &str, body: Option<&Value>) -> Value {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--request", method]);
    if let Some(body) = body {
        curl.args([
            "--header",
            "content-type: application/json",
            "--data",
            &body.to_string(),
        ]);
    }
    let output = curl.arg(format!("{url}{path}")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

/// The path of the program.
pub(crate) const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// The program, ready to run.
pub(crate) struct Weir(Command);

/// The program, to be run with these arguments against that API.
pub(crate) fn weir(url: &str, arguments: &[&str]) -> Weir {
    program(WEIR, url, arguments)
}

/// Another program, which runs ours.
pub(crate) fn program(path: &str, url: &str, arguments: &[&str]) -> Weir {
    let mut command = Command::new(path);
    command
        .args(arguments)
        .env_clear()
        .env("WEIR_URL", url)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Weir(command)
}

impl Weir {
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.0.env(name, value);
        self
    }

    /// Runs to the end.
    pub(crate) fn run(mut self) -> Ran {
        let output = self.0.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran {
            code: output.status.code().unwrap(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// Runs until it asks.
    pub(crate) fn until_asked(mut self) -> Asking {
        let mut child = self.0.stdin(Stdio::piped()).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut shown = Vec::new();
        let mut byte = [0];
        while !shown.ends_with(b"does: ") {
            out.read_exact(&mut byte).unwrap_or_else(|_| {
                panic!(
                    "it ends without asking: {}",
                    String::from_utf8_lossy(&shown)
                );
            });
            shown.extend(byte);
        }
        let input = child.stdin.take().unwrap();
        Asking { child, input, out }
    }
}

/// The program while it waits for an answer.
pub(crate) struct Asking {
    child: Child,
    input: ChildStdin,
    out: ChildStdout,
}

impl Asking {
    pub(crate) fn answer(self, answer: &str) -> Ran {
        let Self {
            child,
            mut input,
            mut out,
        } = self;
        writeln!(input, "{answer}").unwrap();
        drop(input);
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        let output = child.wait_with_output().unwrap();
        Ran {
            code: output.status.code().unwrap(),
            out: rest,
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// How the program ended, and what it said.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// The same, where it ended so and said nothing wrong.
    #[track_caller]
    pub(crate) fn well(self, code: i32) -> Self {
        assert!(self.code == code && self.err.is_empty(), "{self:?}");
        self
    }

    /// What it said was wrong.
    #[track_caller]
    pub(crate) fn error(self) -> String {
        assert!(self.code == 1 && !self.err.is_empty(), "{self:?}");
        self.err
    }
}

/// The Python that has botocore and PyYAML.
pub(crate) fn python(arguments: &[&str]) -> Command {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools/venv/bin/python");
    assert!(program.exists(), "`make setup` installs it");
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// What a script in Python prints about that input.
pub(crate) fn printed(script: &str, input: &[u8]) -> String {
    let mut child = python(&["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// A folder of its own, with files.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("weir-cli-{}-{number}", process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// The path of a file in it, be it there or not.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// The names of what is in it, in their order.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap().map(Result::unwrap);
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// A file in it with that text.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The program that is all of Weir, as new as its sources. Built together with `weir`, so that dependencies keep their features.
fn local() -> &'static Path {
    static LOCAL: OnceLock<PathBuf> = OnceLock::new();
    LOCAL.get_or_init(|| {
        let weir = Path::new(WEIR);
        let folder = weir.parent().unwrap();
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command
            .args([
                "build",
                "--locked",
                "--quiet",
                "--bins",
                "--package=local",
                "--package=weir",
            ])
            .arg("--target-dir")
            .arg(folder.parent().unwrap())
            .current_dir(env!("CARGO_MANIFEST_DIR"));
        // What cargo tells this test of its own package is no news to a build: some dependencies would be built again for it.
        for (name, _) in env::vars_os() {
            let own = ["CARGO_PKG_", "CARGO_MANIFEST_"];
            let text = name.to_str().unwrap_or_default();
            if own.iter().any(|own| text.starts_with(own)) {
                command.env_remove(&name);
            }
        }
        if folder.ends_with("release") {
            command.arg("--release");
        }
        let output = command.output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        folder.join("local")
    })
}
