//! Opening a connection: with the password of the URL or a token of the moment, over TLS or not.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use aws::rds_token::RdsToken;
use aws::signer::Signer;
use deadpool_postgres::Connect;
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config, Error, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;
use tracing::{error, warn};

use super::{causes, trust};

/// The port of a server that names none.
const USUAL_PORT: u16 = 5432;

/// Where the server is, and how one logs in.
#[derive(Clone)]
pub(super) struct Connector {
    config: Config,
    token: Option<Arc<RdsToken>>,
    /// None where the URL forbids it.
    tls: Option<MakeRustlsConnect>,
}

impl fmt::Debug for Connector {
    /// Without the address, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl Connector {
    /// Logs in as `config` says.
    ///
    /// # Errors
    /// Where TLS is not to be had.
    pub(super) fn with_password(config: Config) -> Result<Self, String> {
        let tls = match config.get_ssl_mode() {
            SslMode::Disable => None,
            _ => Some(trust::connector(config.get_ssl_negotiation())?),
        };
        Ok(Self {
            config,
            token: None,
            tls,
        })
    }

    /// Logs in with a token for each connection, which is never sent but over TLS.
    ///
    /// # Errors
    /// What the URL would have to be like; it is not quoted.
    pub(super) fn with_token(mut config: Config, signer: Signer) -> Result<Self, String> {
        if config.get_password().is_some() {
            return Err("must hold no password where DATABASE_AUTH is iam".to_owned());
        }
        let Some(user) = config.get_user().filter(|user| !user.is_empty()) else {
            return Err("must name a user where DATABASE_AUTH is iam".to_owned());
        };
        // A token is for one endpoint.
        let ([Host::Tcp(host)], [] | [_]) = (config.get_hosts(), config.get_ports()) else {
            return Err("must name one host where DATABASE_AUTH is iam".to_owned());
        };
        if config.get_ssl_mode() == SslMode::Disable {
            return Err("must not have sslmode=disable where DATABASE_AUTH is iam".to_owned());
        }
        let port = config.get_ports().first().copied().unwrap_or(USUAL_PORT);
        let token = RdsToken::new(host, port, user, signer)?;
        config.ssl_mode(SslMode::Require);
        Ok(Self {
            token: Some(Arc::new(token)),
            ..Self::with_password(config)?
        })
    }

    /// What it was made of, the token left out.
    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// Opens a connection, and what drives it until it ends.
    pub(super) async fn open(&self) -> Result<(Client, JoinHandle<()>), Error> {
        let mut config = self.config.clone();
        if let Some(token) = &self.token {
            match token.mint(SystemTime::now()).await {
                Ok(token) => {
                    config.password(token);
                }
                // The driver has no error for it: it misses the password.
                Err(error) => error!(%error, "no password"),
            }
        }
        match &self.tls {
            Some(tls) => {
                let (client, connection) = config.connect(tls.clone()).await?;
                Ok((client, drive(connection)))
            }
            None => {
                let (client, connection) = config.connect(NoTls).await?;
                Ok((client, drive(connection)))
            }
        }
    }
}

fn drive<T>(connection: tokio_postgres::Connection<Socket, T>) -> JoinHandle<()>
where
    T: tokio_postgres::tls::TlsStream + Send + Unpin + 'static,
{
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            warn!(error = causes(&error), "a database connection ended");
        }
    })
}

type Opened<'a> =
    Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), Error>> + Send + 'a>>;

impl Connect for Connector {
    fn connect(&self, _: &Config) -> Opened<'_> {
        Box::pin(self.open())
    }
}
