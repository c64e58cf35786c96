//! `cargo lambda watch`: the real binaries behind the Lambda service's own invocation API.

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::servers::{Child, End, temporary_folder};

/// It only binds a port; the functions start when they are first asked.
const START_DEADLINE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(100);

/// A running `cargo lambda watch`. Dropping it ends it, and the functions with it.
#[derive(Debug)]
pub struct Emulator {
    child: Child,
    folder: PathBuf,
}

/// Where the program `cargo-lambda` is: where `make setup` puts it, or on the search path.
pub fn program(root: &Path) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::iter::once(root.join(".tools/venv/bin"))
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join("cargo-lambda"))
        .find(|program| program.is_file())
        .ok_or_else(|| "cargo-lambda is not installed: `make setup` does it".to_owned())
}

/// Builds all functions, so that none has to be built while somebody waits for its answer.
pub fn build(root: &Path) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let status = Command::new(cargo)
        .args(["build", "--bins"])
        .current_dir(root)
        .status()
        .map_err(|error| format!("cargo cannot be run: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("the functions do not build".to_owned())
    }
}

impl Emulator {
    /// Starts it on a port of 127.0.0.1 and waits until it listens. The functions see `variables` beside this process's own.
    pub async fn start(
        root: &Path,
        port: u16,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, String> {
        let folder = temporary_folder("watch").map_err(|error| error.to_string())?;
        // Without --timeout: it would cut off a function that waits for its next event, and the function would not come back.
        let arguments = [
            OsString::from("-C"),
            root.into(),
            program(root)?.into(),
            "lambda".into(),
            "watch".into(),
            "--invoke-address".into(),
            "127.0.0.1".into(),
            "--invoke-port".into(),
            port.to_string().into(),
        ];
        let variables = std::env::vars_os().chain(
            variables
                .into_iter()
                .map(|(name, value)| (name.into(), value.into())),
        );
        let child = Child::start(
            &folder,
            End::Terminate,
            Path::new("/usr/bin/env"),
            arguments,
            variables,
        )
        .map_err(|error| error.to_string())?;
        let mut emulator = Self { child, folder };
        let deadline = Instant::now() + START_DEADLINE;
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            if emulator.child.ended().is_some() || Instant::now() > deadline {
                return Err(format!(
                    "cargo lambda watch does not listen on port {port}:\n{}",
                    emulator.child.log()
                ));
            }
            sleep(POLL).await;
        }
        Ok(emulator)
    }

    /// Prints what it and the functions write, as they write it, until the program ends; then says so.
    pub async fn followed(&mut self) -> String {
        let log = self.folder.join("log");
        let mut place = 0;
        loop {
            let ended = self.child.ended();
            // A log that cannot be read just now is read the next time.
            if let Ok(text) = read_from(&log, &mut place)
                && !text.is_empty()
            {
                eprint!("{text}");
            }
            if let Some(status) = ended {
                return format!("cargo lambda watch ended: {status}");
            }
            sleep(POLL).await;
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.child.end(End::Terminate);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn read_from(log: &Path, place: &mut u64) -> std::io::Result<String> {
    let mut file = fs::File::open(log)?;
    file.seek(SeekFrom::Start(*place))?;
    let mut bytes = Vec::new();
    *place += file.read_to_end(&mut bytes)? as u64;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
