//! Which store: Postgres, or the memory of this process.

use aws::signer::{Signer, by_role};
use limits::settings::Settings;
use tracing::error;

use crate::memory::Memory;
use crate::postgres::Postgres;
use crate::session::Session;
use crate::write::Write;

/// Why the store did not do its part.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DatabaseError {
    /// It could not be asked, or did not answer in time. Nothing was written.
    #[error("the database is out: {0}")]
    Unavailable(String),
    /// The commit was sent and not answered: whether it was written is not known.
    #[error("the database was lost while it wrote: {0}")]
    Undecided(String),
    /// It is a replica, which follows another and only reads. Nothing was written.
    #[error("the database is a replica, which only reads")]
    Follows,
    /// It answered something that this code has no name for. Nothing was written.
    #[error("the database answered: {0}")]
    Unexpected(String),
}

/// The store of rules, registry, revisions and audit.
#[derive(Clone)]
pub enum Database {
    /// A Postgres server.
    Postgres(Box<Postgres>),
    /// This process alone, for as long as it lives.
    Memory(Memory),
}

impl std::fmt::Debug for Database {
    /// Without the address, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Database::Postgres(_) => "Database::Postgres",
            Database::Memory(_) => "Database::Memory",
        })
    }
}

impl Database {
    /// The store that `DATABASE_URL` and `DATABASE_AUTH` name. Speaks to nobody yet. `None` where a fault was noted.
    pub fn from_settings(settings: &mut Settings<'_>) -> Option<Self> {
        let signer = match by_role(settings, "DATABASE_AUTH") {
            Some(true) => Signer::from_settings(settings).map(Some),
            Some(false) => Some(None),
            None => None,
        };
        // The address is looked at whatever is wrong with the rest: all is told at once.
        let database = settings.required("DATABASE_URL", |url| {
            Self::open(url, signer.clone().flatten())
        });
        signer.and(database)
    }

    /// The store of a URL: `postgres://…` or `memory://`.
    ///
    /// # Errors
    /// What would be right; the URL itself, which may hold a password, is not quoted.
    pub fn parse(url: &str) -> Result<Self, String> {
        Self::open(url, None)
    }

    fn open(url: &str, signer: Option<Signer>) -> Result<Self, String> {
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            Postgres::parse(url, signer).map(|postgres| Database::Postgres(Box::new(postgres)))
        } else if signer.is_some() {
            Err("must be postgres://… where DATABASE_AUTH is iam".to_owned())
        } else if url == "memory://" {
            Ok(Self::memory())
        } else {
            Err("must be postgres://… or memory://".to_owned())
        }
    }

    /// An empty store in this process.
    pub fn memory() -> Self {
        Database::Memory(Memory::new())
    }

    /// Brings the schema up to date; twice and at once are safe. In memory there is none. Gives the names of the migrations that
    /// were applied.
    ///
    /// # Errors
    /// Where the database is out, or a migration that was applied before reads otherwise now.
    pub async fn migrate(&self) -> Result<Vec<String>, DatabaseError> {
        match self {
            Database::Postgres(postgres) => postgres.migrate().await,
            Database::Memory(_) => Ok(Vec::new()),
        }
    }

    pub(crate) async fn session(&self) -> Result<Session, DatabaseError> {
        match self {
            Database::Postgres(postgres) => {
                Ok(Session::Postgres(Box::new(postgres.connection().await?)))
            }
            Database::Memory(memory) => Ok(Session::Memory(memory.view().await?)),
        }
    }

    /// Begins a write. It has the newest revision from here on, and every other write waits for it.
    pub(crate) async fn begin(&self, actor: &str) -> Result<Write, DatabaseError> {
        Write::begin(self.session().await?, actor).await
    }
}

/// A row that this version cannot read is left out rather than in the way of all others.
pub(crate) fn readable<T: serde::de::DeserializeOwned>(row: serde_json::Value) -> Option<T> {
    let id = ["id", "client_id", "key_id"]
        .iter()
        .find_map(|name| row.get(name).cloned());
    match serde_json::from_value(row) {
        Ok(record) => Some(record),
        Err(fault) => {
            error!(id = ?id, %fault, "a row cannot be read by this version");
            None
        }
    }
}
