//! A private Postgres.

use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::{
    Child, End, LOOPBACK, ServerError, child::signal_to, find_program, free_port, machine,
    owner::Owner, temporary_folder, wait_until_ready,
};

const PROGRAM: &str = "postgres";
const USER: &str = "weir";

/// A Postgres on a free port of the loopback, with a password of its own and no care for durability: a crash of the
/// machine may lose everything, a crash of the server loses nothing.
#[derive(Debug)]
pub struct Postgres {
    port: u16,
    folder: PathBuf,
    programs: PathBuf,
    password: String,
    child: Option<Child>,
}

impl Postgres {
    /// Makes a new cluster, starts it and waits until it answers. Takes a second or two.
    pub fn start() -> Result<Self, ServerError> {
        let postgres = find_program(PROGRAM, &debian_folders()).ok_or(MISSING)?;
        let mut server = Self {
            port: 0,
            folder: temporary_folder("postgres")?,
            programs: postgres.parent().map(Path::to_owned).unwrap_or_default(),
            password: random_word()?,
            child: None,
        };
        server.make_cluster()?;
        server.launch_on_a_free_port()?;
        Ok(server)
    }

    /// A replica of this one on another port: what is written here streams to it, and it only reads. Same user, same password.
    pub fn replica(&self) -> Result<Self, ServerError> {
        let mut replica = Self {
            port: 0,
            folder: temporary_folder("replica")?,
            programs: self.programs.clone(),
            password: self.password.clone(),
            child: None,
        };
        let port = self.port.to_string();
        let from = ["--host", "127.0.0.1", "--port", &port, "--username", USER];
        let how = ["--write-recovery-conf", "--checkpoint=fast", "--no-sync"];
        replica.fill_cluster("pg_basebackup", &[&from[..], &how].concat())?;
        replica.launch_on_a_free_port()?;
        Ok(replica)
    }

    /// `postgres://…` of the database that every cluster has.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// `postgres://…` of a database by name.
    pub fn url_of(&self, database: &str) -> String {
        let Self { port, password, .. } = self;
        format!("postgres://{USER}:{password}@{LOOPBACK}:{port}/{database}")
    }

    /// The port it has, also while it is down.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its only user, who may do everything.
    pub fn user(&self) -> &str {
        USER
    }

    /// The user's password.
    pub fn password(&self) -> &str {
        &self.password
    }

    /// Ends it in whatever way; its port and its data stay.
    pub fn stop(&mut self, end: End) {
        if let Some(mut child) = self.child.take() {
            child.end(end);
        }
    }

    /// Starts it again on the same port with the same data.
    pub fn restart(&mut self) -> Result<(), ServerError> {
        self.stop(End::Interrupt);
        self.launch()
    }

    /// Freezes it with all its sessions: connections stay open and nothing answers.
    pub fn pause(&mut self) {
        self.signal("STOP");
    }

    /// Lets a frozen one go on.
    pub fn resume(&mut self) {
        self.signal("CONT");
    }

    /// What it has written to its log.
    pub fn log(&self) -> String {
        self.child.as_ref().map(Child::log).unwrap_or_default()
    }

    fn signal(&mut self, signal: &str) {
        if let Some(child) = &mut self.child
            && child.ended().is_none()
        {
            let pid = child.pid();
            // The postmaster first, so that it starts no further session meanwhile.
            signal_to(signal, &[pid]);
            signal_to(signal, &sessions(pid));
        }
    }

    fn cluster(&self) -> PathBuf {
        self.folder.join("cluster")
    }

    fn make_cluster(&self) -> Result<(), ServerError> {
        let secret = self.folder.join("password");
        fs::write(&secret, &self.password).map_err(machine("writing the password"))?;
        let who = ["--username", USER, "--auth", "password", "--pwfile"];
        let what = ["--encoding", "UTF8", "--locale", "C", "--no-sync"];
        let path = secret.display().to_string();
        let made = self.fill_cluster("initdb", &[&who[..], &[&path], &what].concat());
        let _ = fs::remove_file(&secret);
        made
    }

    /// Has a program of Postgres fill the folder of the cluster, which must be closed to others.
    fn fill_cluster(&self, program: &'static str, arguments: &[&str]) -> Result<(), ServerError> {
        let owner = Owner::find()?;
        if let Some(owner) = &owner {
            let within = fs::read_dir(&self.folder).into_iter().flatten().flatten();
            let within = within.map(|entry| entry.path());
            for path in [self.folder.clone()].into_iter().chain(within) {
                chown(&path, Some(owner.user), Some(owner.group))
                    .map_err(machine(format!("giving {} to postgres", path.display())))?;
            }
        }
        // Postgres may have to pass through it as another user; the cluster below is closed by initdb itself.
        fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o700))
            .map_err(machine("closing the folder"))?;
        let path = self.programs.join(program);
        let (runner, before) = Owner::runs(owner.as_ref(), &path);
        let output = Command::new(runner)
            .args(before)
            .args(arguments)
            .arg("--pgdata")
            .arg(self.cluster())
            .env("PGPASSWORD", &self.password)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .output()
            .map_err(machine(format!("running {}", path.display())))?;
        if output.status.success() {
            return Ok(());
        }
        Err(ServerError::NotStarted {
            program,
            reason: output.status.to_string(),
            log: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    fn launch_on_a_free_port(&mut self) -> Result<(), ServerError> {
        let mut failure = None;
        // Somebody may take the port between our look and the server's start.
        for _ in 0..3 {
            self.port = free_port()?;
            match self.launch() {
                Ok(()) => return Ok(()),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or(MISSING))
    }

    fn launch(&mut self) -> Result<(), ServerError> {
        let postgres = self.programs.join(PROGRAM);
        let cluster = self.cluster().display().to_string();
        let port = self.port.to_string();
        let (program, mut arguments) = Owner::runs(Owner::find()?.as_ref(), &postgres);
        arguments.extend(["-D".to_owned(), cluster, "-p".to_owned(), port]);
        for setting in SETTINGS {
            arguments.extend(["-c".to_owned(), (*setting).to_owned()]);
        }
        let mut child = Child::start(&self.folder, End::Quit, &program, arguments, [])?;
        let status = self.cluster().join("postmaster.pid");
        let pid = child.pid();
        wait_until_ready(PROGRAM, &mut child, || accepts(&status, pid))?;
        self.child = Some(child);
        Ok(())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop(End::Quit);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

const MISSING: ServerError = ServerError::Missing {
    program: PROGRAM,
    remedy: "on Debian, `apt-get install postgresql` (`make setup` does it)",
};

const SETTINGS: &[&str] = &[
    "listen_addresses=127.0.0.1",
    // No socket in a folder: its path may be longer than the system allows.
    "unix_socket_directories=",
    "fsync=off",
    "full_page_writes=off",
    "shared_buffers=32MB",
    "max_connections=200",
];

/// Where Debian keeps the programs, newest version first.
fn debian_folders() -> Vec<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .collect();
    versions.sort_unstable();
    let folders = versions.into_iter().rev();
    folders.map(|(_, folder)| folder.join("bin")).collect()
}

/// 128 random bits: other users of the machine can reach the loopback too.
fn random_word() -> Result<String, ServerError> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(machine("reading /dev/urandom"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Postgres writes `ready` as the eighth line of this file once it takes connections. The first is its process: one that was
/// killed leaves the file behind.
fn accepts(status: &Path, pid: u32) -> bool {
    fs::read_to_string(status).is_ok_and(|text| {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        lines.first().and_then(|line| line.parse().ok()) == Some(pid)
            && lines.get(7) == Some(&"ready")
    })
}

/// The processes of the postmaster.
fn sessions(pid: u32) -> Vec<u32> {
    fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect()
}
