//! A private PgBouncer.

use std::{
    fs,
    io::{Read, Write},
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
};

use super::{
    Child, End, LOOPBACK, Postgres, ServerError, connect, find_program, free_port, machine,
    owner::Owner, temporary_folder, wait_until_ready,
};

const PROGRAM: &str = "pgbouncer";

/// A PgBouncer on a free port of the loopback in front of a [`Postgres`], with its user and password. A session of the server
/// belongs to a client for one transaction.
#[derive(Debug)]
pub struct PgBouncer {
    port: u16,
    login: String,
    folder: PathBuf,
    child: Option<Child>,
}

impl PgBouncer {
    /// Starts one and waits until it answers.
    pub fn start(postgres: &Postgres) -> Result<Self, ServerError> {
        Self::start_with(postgres, &[])
    }

    /// The same with more settings, or with others in place of these, such as `("default_pool_size", "1")`.
    pub fn start_with(postgres: &Postgres, settings: &[(&str, &str)]) -> Result<Self, ServerError> {
        let mut failure = None;
        // Somebody may take the port between our look and the server's start.
        for _ in 0..3 {
            let mut server = Self {
                port: free_port()?,
                login: format!("{}:{}", postgres.user(), postgres.password()),
                folder: temporary_folder("pgbouncer")?,
                child: None,
            };
            server.give(&server.folder)?;
            fs::set_permissions(&server.folder, fs::Permissions::from_mode(0o700))
                .map_err(machine("closing the folder"))?;
            server.configure(postgres, settings)?;
            match server.launch() {
                Ok(()) => return Ok(server),
                Err(error @ ServerError::Missing { .. }) => return Err(error),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or(MISSING))
    }

    /// `postgres://…` of a database by name, through this.
    pub fn url_of(&self, database: &str) -> String {
        let Self { port, login, .. } = self;
        format!("postgres://{login}@{LOOPBACK}:{port}/{database}")
    }

    /// The port it has, also while it is down.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends it in whatever way; its port stays its own.
    pub fn stop(&mut self, end: End) {
        if let Some(mut child) = self.child.take() {
            child.end(end);
        }
    }

    /// Starts it again on the same port.
    pub fn restart(&mut self) -> Result<(), ServerError> {
        self.stop(End::Kill);
        self.launch()
    }

    /// Freezes it: connections stay open and nothing answers.
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

    fn configure(&self, postgres: &Postgres, more: &[(&str, &str)]) -> Result<(), ServerError> {
        let server = format!(
            "[databases]\n* = host={LOOPBACK} port={}\n\n[pgbouncer]\n",
            postgres.port()
        );
        let port = self.port.to_string();
        let settings = [
            ("listen_addr", "127.0.0.1"),
            ("listen_port", &port),
            // No socket in a folder: its path may be longer than the system allows.
            ("unix_socket_dir", ""),
            ("auth_type", "scram-sha-256"),
            ("auth_file", "users.txt"),
            ("pool_mode", "transaction"),
            ("max_client_conn", "500"),
            // A server that was away is tried again soon.
            ("server_login_retry", "1"),
        ];
        // Of two lines the later one counts.
        let lines = settings.iter().chain(more);
        let lines = lines.map(|(name, value)| format!("{name} = {value}\n"));
        let configuration: String = [server].into_iter().chain(lines).collect();
        let users = format!("\"{}\" \"{}\"\n", postgres.user(), postgres.password());
        self.write("pgbouncer.ini", &configuration)?;
        self.write("users.txt", &users)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), ServerError> {
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(machine(format!("writing {name}")))?;
        self.give(&path)
    }

    fn give(&self, path: &Path) -> Result<(), ServerError> {
        match Owner::find()? {
            Some(owner) => chown(path, Some(owner.user), Some(owner.group))
                .map_err(machine(format!("giving {} to postgres", path.display()))),
            None => Ok(()),
        }
    }

    fn launch(&mut self) -> Result<(), ServerError> {
        // Debian keeps it where only root looks.
        let program = find_program(PROGRAM, &["/usr/sbin".into()]).ok_or(MISSING)?;
        let (program, mut arguments) = Owner::runs(Owner::find()?.as_ref(), &program);
        arguments.push("pgbouncer.ini".to_owned());
        let mut child = Child::start(&self.folder, End::Kill, &program, arguments, [])?;
        wait_until_ready(PROGRAM, &mut child, || answers(self.port))?;
        self.child = Some(child);
        Ok(())
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        self.stop(End::Kill);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

const MISSING: ServerError = ServerError::Missing {
    program: PROGRAM,
    remedy: "on Debian, `apt-get install pgbouncer` (`make setup` does it)",
};

/// Asks for TLS, which it denies with one letter.
fn answers(port: u16) -> bool {
    let request = [0, 0, 0, 8, 4, 210, 22, 47];
    let mut reply = [0];
    connect(port).is_ok_and(|mut stream| {
        stream.write_all(&request).is_ok()
            && stream.read_exact(&mut reply).is_ok()
            && reply == *b"N"
    })
}
