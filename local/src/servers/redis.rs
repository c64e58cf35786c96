//! A private Redis.

use std::{
    fs,
    io::{Read, Write},
    path::PathBuf,
};

use super::{
    Child, End, LOOPBACK, ServerError, connect, find_program, free_port, temporary_folder,
    wait_until_ready,
};

const PROGRAM: &str = "redis-server";

/// A Redis on a free port of the loopback, without persistence.
#[derive(Debug)]
pub struct Redis {
    port: u16,
    folder: PathBuf,
    arguments: Vec<String>,
    child: Option<Child>,
}

impl Redis {
    /// Starts one and waits until it answers.
    pub fn start() -> Result<Self, ServerError> {
        Self::start_with(&[])
    }

    /// The same with more arguments of `redis-server`, such as `["--maxmemory", "8mb"]`.
    pub fn start_with(arguments: &[&str]) -> Result<Self, ServerError> {
        let mut failure = None;
        // Somebody may take the port between our look and the server's start.
        for _ in 0..3 {
            let mut redis = Self {
                port: free_port()?,
                folder: temporary_folder("redis")?,
                arguments: arguments.iter().map(|&each| each.to_owned()).collect(),
                child: None,
            };
            match redis.launch() {
                Ok(()) => return Ok(redis),
                Err(error @ ServerError::Missing { .. }) => return Err(error),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or(MISSING))
    }

    /// `redis://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("redis://{LOOPBACK}:{}", self.port)
    }

    /// The port it has, also while it is down.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends it in whatever way; its port stays its own, its data is gone.
    pub fn stop(&mut self, end: End) {
        if let Some(mut child) = self.child.take() {
            child.end(end);
        }
    }

    /// Starts it again, empty, on the same port.
    pub fn restart(&mut self) -> Result<(), ServerError> {
        self.stop(End::Kill);
        self.launch()
    }

    /// Freezes it: it accepts connections and answers nothing.
    pub fn pause(&mut self) {
        if let Some(child) = &mut self.child {
            child.pause();
        }
    }

    /// Lets a frozen one go on.
    pub fn resume(&mut self) {
        if let Some(child) = &mut self.child {
            child.resume();
        }
    }

    /// What it has written to its log.
    pub fn log(&self) -> String {
        self.child.as_ref().map(Child::log).unwrap_or_default()
    }

    fn launch(&mut self) -> Result<(), ServerError> {
        let program = find_program(PROGRAM, &[]).ok_or(MISSING)?;
        let port = self.port.to_string();
        let mut arguments = vec!["--bind", "127.0.0.1", "--port", &port];
        arguments.extend(["--save", "", "--appendonly", "no"]);
        arguments.extend(self.arguments.iter().map(String::as_str));
        let mut child = Child::start(&self.folder, End::Kill, &program, arguments, [])?;
        wait_until_ready(PROGRAM, &mut child, || answers(self.port))?;
        self.child = Some(child);
        Ok(())
    }
}

const MISSING: ServerError = ServerError::Missing {
    program: PROGRAM,
    remedy: "on Debian, `apt-get install redis-server` (`make setup` does it)",
};

impl Drop for Redis {
    fn drop(&mut self) {
        self.stop(End::Kill);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn answers(port: u16) -> bool {
    let Ok(mut stream) = connect(port) else {
        return false;
    };
    let mut reply = [0; 5];
    stream.write_all(b"PING\r\n").is_ok()
        && stream.read_exact(&mut reply).is_ok()
        // `-NOAU`: it asks for a password, so it answers.
        && (reply == *b"+PONG" || reply == *b"-NOAU")
}
