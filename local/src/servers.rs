//! Private servers: a Redis, a Postgres, a PgBouncer of one's own, on a free port, in a temporary folder.
//!
//! Nothing here talks to a server that happens to be running. Each server ends when its value is dropped, and also when
//! the process that started it dies in whatever way.

mod child;
mod owner;
mod pgbouncer;
mod postgres;
mod redis;

use std::{
    fs, io,
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

pub use child::{Child, End};
pub use pgbouncer::PgBouncer;
pub use postgres::Postgres;
pub use redis::{Certificate, Redis, Role, Setup, User, Watched};

/// How long a server may take to answer after its start.
const START_DEADLINE: Duration = Duration::from_secs(30);
const LOOPBACK: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Why a private server could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The program is not on this machine.
    #[error("{program} is not installed: {remedy}")]
    Missing {
        /// What was looked for.
        program: &'static str,
        /// What to do about it.
        remedy: &'static str,
    },
    /// The server ended, or did not answer in time.
    #[error("{program} did not start: {reason}\n{log}")]
    NotStarted {
        /// The server.
        program: &'static str,
        /// What happened.
        reason: String,
        /// The end of what it wrote.
        log: String,
    },
    /// The machine did not let us.
    #[error("{doing}: {source}")]
    Machine {
        /// What was being done.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
}

fn machine(doing: impl Into<String>) -> impl FnOnce(io::Error) -> ServerError {
    let doing = doing.into();
    move |source| ServerError::Machine { doing, source }
}

/// Makes a new folder under the system's temporary folder, with `name` in its name. It is the caller's to remove.
pub fn temporary_folder(name: &str) -> Result<PathBuf, ServerError> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let folder = std::env::temp_dir().join(format!(
        "weir-{name}-{}-{}-{:x}",
        process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed),
        nanoseconds(),
    ));
    fs::create_dir(&folder).map_err(machine(format!("creating {}", folder.display())))?;
    Ok(folder)
}

fn nanoseconds() -> u32 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |now| now.subsec_nanos())
}

/// A port that nothing listens on. Below the range from which systems give outgoing connections theirs, so that a
/// server that is stopped finds its port free when it comes back.
pub fn free_port() -> Result<u16, ServerError> {
    const LOWEST: u32 = 15_000;
    const COUNT: u32 = 15_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = process::id()
        .wrapping_mul(7_919)
        .wrapping_add(nanoseconds() / 1_000);
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..200 {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = (LOWEST + start.wrapping_add(step) % COUNT) as u16;
        match TcpListener::bind((LOOPBACK, port)) {
            Ok(_) => return Ok(port),
            Err(error) => last = error,
        }
    }
    Err(machine("looking for a free port")(last))
}

/// Waits until `answers` says yes, the server ends, or the deadline passes.
fn wait_until_ready(
    program: &'static str,
    child: &mut Child,
    mut answers: impl FnMut() -> bool,
) -> Result<(), ServerError> {
    let deadline = Instant::now() + START_DEADLINE;
    loop {
        if let Some(status) = child.ended() {
            return Err(not_started(
                program,
                child,
                format!("it ended with {status}"),
            ));
        }
        if answers() {
            return Ok(());
        }
        if Instant::now() > deadline {
            let reason = format!("no answer within {} s", START_DEADLINE.as_secs());
            return Err(not_started(program, child, reason));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn not_started(program: &'static str, child: &Child, reason: String) -> ServerError {
    let log = child.log();
    let tail = log.lines().rev().take(20).collect::<Vec<_>>();
    ServerError::NotStarted {
        program,
        reason,
        log: tail.into_iter().rev().collect::<Vec<_>>().join("\n"),
    }
}

fn connect(port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&(LOOPBACK, port).into(), Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.set_write_timeout(Some(Duration::from_secs(1)))?;
    Ok(stream)
}

/// The program on the search path or in one of the folders.
fn find_program(name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    folders
        .iter()
        .cloned()
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join(name))
        .find(|candidate| Path::is_file(candidate))
}
