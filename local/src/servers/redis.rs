//! A private Redis.

use std::{
    fs,
    io::{Read, Write},
    path::PathBuf,
    time::Duration,
};

use super::{
    Child, End, LOOPBACK, ServerError, connect, find_program, free_port, machine, temporary_folder,
    wait_until_ready,
};

const PROGRAM: &str = "redis-server";

/// How a Redis is started, where that is not plainly.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// What it is to others.
    pub role: Role,
    /// Who may talk to it. Nobody else may.
    pub user: Option<User>,
    /// Talks TLS, and nothing else: with clients, and in a cluster with the other nodes.
    pub tls: Option<Certificate>,
    /// More arguments of `redis-server`, such as `["--maxmemory", "8mb"]`.
    pub arguments: Vec<String>,
}

/// What a Redis is to others.
#[derive(Debug, Clone, Default)]
pub enum Role {
    /// By itself. It becomes a replica by `REPLICAOF`, and `CONFIG REWRITE` makes that outlast a restart.
    #[default]
    Single,
    /// A node of a cluster, as yet without slots and companions. It stays the same node over a restart.
    ClusterNode,
    /// A sentinel. What it has seen outlasts a restart.
    Sentinel(Watched),
}

/// The primary that a sentinel watches.
#[derive(Debug, Clone)]
pub struct Watched {
    /// The name by which clients ask for it.
    pub name: String,
    /// Where it is at first, on the loopback.
    pub port: u16,
    /// How many sentinels must miss it.
    pub quorum: u32,
    /// After how long a silence a sentinel misses it.
    pub down_after: Duration,
    /// How long a failover may take before it is tried again.
    pub failover_timeout: Duration,
}

/// Who may talk to a Redis.
#[derive(Debug, Clone)]
pub struct User {
    /// None is the default user, who has a password then; else there is no default user.
    pub name: Option<String>,
    /// The password, of letters and digits.
    pub password: String,
}

/// What a server shows of itself, as PEM.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
    /// Who has signed it.
    pub authority: String,
}

/// A Redis on a free port of the loopback, without persistence.
#[derive(Debug)]
pub struct Redis {
    port: u16,
    plain_port: u16,
    folder: PathBuf,
    arguments: Vec<String>,
    user: Option<User>,
    tls: bool,
    paused: bool,
    child: Option<Child>,
}

impl Redis {
    /// Starts one and waits until it answers.
    pub fn start() -> Result<Self, ServerError> {
        Self::start_as(&Setup::default())
    }

    /// The same with more arguments of `redis-server`, such as `["--maxmemory", "8mb"]`.
    pub fn start_with(arguments: &[&str]) -> Result<Self, ServerError> {
        Self::start_as(&Setup {
            arguments: arguments.iter().map(|&each| each.to_owned()).collect(),
            ..Setup::default()
        })
    }

    /// Starts one otherwise than plainly and waits until it listens.
    pub fn start_as(setup: &Setup) -> Result<Self, ServerError> {
        let mut failure = None;
        // Somebody may take a port between our look and the server's start.
        for _ in 0..3 {
            let port = free_port()?;
            let mut redis = Self {
                port,
                plain_port: port,
                folder: temporary_folder("redis")?,
                arguments: Vec::new(),
                user: setup.user.clone(),
                tls: setup.tls.is_some(),
                paused: false,
                child: None,
            };
            redis.prepare(setup)?;
            match redis.launch() {
                Ok(()) => return Ok(redis),
                Err(error @ ServerError::Missing { .. }) => return Err(error),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or(MISSING))
    }

    /// `redis://127.0.0.1:PORT`, or `rediss://`, with the user that it wants.
    pub fn url(&self) -> String {
        self.url_of(if self.tls { "rediss" } else { "redis" }, self.port)
    }

    /// The same without TLS, which a node of a cluster talks too, on a port that it tells nobody.
    pub fn plain_url(&self) -> String {
        self.url_of("redis", self.plain_port)
    }

    /// `USER:PASSWORD@`, or nothing, as a URL has it.
    pub fn credentials(&self) -> String {
        let named = |User { name, password }: &User| {
            format!("{}:{password}@", name.as_deref().unwrap_or_default())
        };
        self.user.as_ref().map(named).unwrap_or_default()
    }

    fn url_of(&self, scheme: &str, port: u16) -> String {
        format!("{scheme}://{}{LOOPBACK}:{port}", self.credentials())
    }

    /// The port it has, also while it is down.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Who may talk to it, if that is not everybody.
    pub fn user(&self) -> Option<&User> {
        self.user.as_ref()
    }

    /// Where the certificate of who has signed its own lies, as PEM, if it talks TLS.
    pub fn authority(&self) -> Option<PathBuf> {
        self.tls.then(|| self.folder.join("authority.pem"))
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
            self.paused = true;
        }
    }

    /// Lets a frozen one go on.
    pub fn resume(&mut self) {
        if let Some(child) = &mut self.child {
            child.resume();
            self.paused = false;
        }
    }

    /// Neither stopped nor frozen by us.
    pub fn is_serving(&self) -> bool {
        self.child.is_some() && !self.paused
    }

    /// What it has written to its log.
    pub fn log(&self) -> String {
        self.child.as_ref().map(Child::log).unwrap_or_default()
    }

    /// What it is started with each time, and the files that go with it.
    fn prepare(&mut self, setup: &Setup) -> Result<(), ServerError> {
        let mut configuration = String::new();
        let mut arguments = vec!["redis.conf".to_owned()];
        let mut add = |words: &[&str]| arguments.extend(words.iter().map(|&word| word.to_owned()));
        if let Role::Sentinel(watched) = &setup.role {
            add(&["--sentinel"]);
            configuration = watched.configuration();
        }
        add(&["--bind", "127.0.0.1"]);
        if let Role::ClusterNode = setup.role {
            add(&["--cluster-enabled", "yes"]);
            // Its default, ten thousand higher, may be anybody's.
            add(&["--cluster-port", &free_port()?.to_string()]);
        }
        if let Some(tls) = &setup.tls {
            for (option, name, text) in [
                ("--tls-cert-file", "certificate.pem", &tls.certificate),
                ("--tls-key-file", "key.pem", &tls.key),
                ("--tls-ca-cert-file", "authority.pem", &tls.authority),
            ] {
                self.write(name, text)?;
                add(&[option, name]);
            }
            add(&["--tls-auth-clients", "no"]);
            add(&["--tls-port", &self.port.to_string()]);
            self.plain_port = 0;
            if let Role::ClusterNode = setup.role {
                add(&["--tls-cluster", "yes", "--tls-replication", "yes"]);
                self.plain_port = free_port()?;
            }
        }
        add(&["--port", &self.plain_port.to_string()]);
        if !matches!(setup.role, Role::Sentinel(_)) {
            add(&["--save", "", "--appendonly", "no"]);
        }
        match &setup.user {
            None => {}
            Some(User {
                name: None,
                password,
            }) => add(&["--requirepass", password, "--masterauth", password]),
            Some(User {
                name: Some(name),
                password,
            }) => {
                let password_of = format!(">{password}");
                add(&["--user", name, "on", &password_of, "~*", "&*", "+@all"]);
                add(&["--user", "default", "off"]);
                add(&["--masteruser", name, "--masterauth", password]);
            }
        }
        arguments.extend(setup.arguments.iter().cloned());
        self.arguments = arguments;
        // Empty or not: where there is a file, `CONFIG REWRITE` has a place for what becomes of a server.
        self.write("redis.conf", &configuration)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), ServerError> {
        fs::write(self.folder.join(name), text).map_err(machine(format!("writing {name}")))
    }

    fn launch(&mut self) -> Result<(), ServerError> {
        let program = find_program(PROGRAM, &[]).ok_or(MISSING)?;
        let arguments = self.arguments.iter().map(String::as_str);
        let mut child = Child::start(&self.folder, End::Kill, &program, arguments, [])?;
        let (port, tls) = (self.port, self.tls);
        wait_until_ready(PROGRAM, &mut child, || match tls {
            // It reads its certificate before it listens.
            true => connect(port).is_ok(),
            false => answers(port),
        })?;
        self.child = Some(child);
        self.paused = false;
        Ok(())
    }
}

impl Watched {
    fn configuration(&self) -> String {
        let Self {
            name, port, quorum, ..
        } = self;
        let down_after = self.down_after.as_millis();
        let failover_timeout = self.failover_timeout.as_millis();
        format!(
            "sentinel monitor {name} {LOOPBACK} {port} {quorum}\n\
             sentinel down-after-milliseconds {name} {down_after}\n\
             sentinel failover-timeout {name} {failover_timeout}\n"
        )
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
