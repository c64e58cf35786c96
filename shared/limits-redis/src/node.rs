//! One Redis server, and the connection to it.
//!
//! Made for containers that are frozen between two calls: nothing relies on a timer that fires meanwhile, every wait has a deadline
//! of its own, and a connection is looked at before it is trusted. One that is being made goes on when the call that asked for it
//! has given up, so that what a busy server has half done is not thrown away.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use aws::elasticache_token::ElastiCacheToken;
use aws::metrics;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use limits::moment::Moment;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, Pipeline, RedisConnectionInfo, RedisError, Value,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::address::Address;
use crate::breaker::{Breaker, Change, Standing};
use crate::fault::Fault;
use crate::store::StoreError;

/// How long connecting may take, whoever waits for it.
pub(crate) const CONNECT_DEADLINE: Duration = Duration::from_secs(1);

/// After so long without a call a connection is replaced: what lies between may have forgotten it without a word.
const IDLE: Duration = Duration::from_secs(10);

/// After so long without a call it is asked of the system whether the other end has closed.
const A_WHILE: Duration = Duration::from_millis(5);

/// How old a connection may get: one that was opened with an IAM token is cut after twelve hours.
const OLDEST: Duration = Duration::from_secs(11 * 60 * 60);

/// Whoever wakes so long after a deadline was frozen meanwhile: that no answer came says nothing of the server.
const FROZEN: Duration = Duration::from_secs(1);

/// How a connection is opened, whichever server it leads to.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) login: RedisConnectionInfo,
    /// What makes a password for each, in place of the login's.
    pub(crate) token: Option<ElastiCacheToken>,
    pub(crate) tls: Option<TlsConnector>,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}

impl Access {
    async fn open(&self, address: &Address) -> Result<Link, RedisError> {
        let mut login = self.login.clone();
        if let Some(token) = &self.token {
            let minted = token.mint(SystemTime::now()).map_err(|error| {
                RedisError::from((
                    ErrorKind::AuthenticationFailed,
                    "no token",
                    error.to_string(),
                ))
            });
            login = login.set_password(minted?);
        }
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
        stream.set_nodelay(true)?;
        match &self.tls {
            None => Link::over(stream, &login).await,
            Some(tls) => {
                let name = ServerName::try_from(address.host.clone())
                    .map_err(|_| std::io::Error::other("the host's name is none for TLS"))?;
                Link::over(tls.connect(name, stream).await?, &login).await
            }
        }
    }
}

/// An open connection. Dropping the last of its holders closes it.
#[derive(Debug)]
struct Link {
    connection: MultiplexedConnection,
    /// What reads and writes for it; it ends when the connection does.
    driver: JoinHandle<()>,
    opened: Moment,
    /// Whether a call was not answered in time, nor anything since.
    silent: Arc<AtomicBool>,
}

impl Link {
    async fn over<S>(stream: S, login: &RedisConnectionInfo) -> Result<Self, RedisError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // Every wait has the caller's deadline around it; the library's own would only hide which one struck.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None);
        let (connection, driver) =
            MultiplexedConnection::new_with_config(login, stream, config).await?;
        Ok(Self {
            connection,
            driver: tokio::spawn(driver),
            opened: Moment::now(),
            silent: Arc::default(),
        })
    }

    /// Notes that a call was not answered in time, and lets the connection tell whether it was only late: answers come in order,
    /// and each is paired with its own call. So a server that was merely busy need not greet everyone anew, and one that is not at
    /// the other end any more is found out by the next call.
    fn note_silence(&self) {
        if self.silent.swap(true, Ordering::Relaxed) {
            return;
        }
        // Holds the connection no longer than the link does, which ends what drives it.
        let (mut connection, silent) = (self.connection.clone(), Arc::clone(&self.silent));
        tokio::spawn(async move {
            let answer = connection.send_packed_command(&redis::cmd("PING")).await;
            silent.store(answer.is_err(), Ordering::Relaxed);
        });
    }

    async fn ask(&self, command: &Cmd, asking: bool) -> Result<Value, RedisError> {
        let mut connection = self.connection.clone();
        if !asking {
            let reply = connection.send_packed_command(command).await?;
            // What Redis answers as an error comes as a value here.
            return reply.extract_error();
        }
        // Both in one write, so that nobody else's command comes between.
        let mut both = Pipeline::with_capacity(2);
        both.cmd("ASKING");
        both.add_command(command.clone());
        let replies = connection.send_packed_commands(&both, 1, 1).await?;
        let reply = replies.into_iter().next().unwrap_or(Value::Nil);
        reply.extract_error()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

type Opening = Shared<BoxFuture<'static, Result<Arc<Link>, RedisError>>>;

/// The connection of a node.
#[derive(Debug, Default)]
struct Line {
    link: Option<Arc<Link>>,
    /// One that is being made, and since when.
    opening: Option<(Moment, Opening)>,
    /// When it was last used.
    used: Option<Moment>,
}

impl Line {
    /// The open connection, unless it can no longer be trusted.
    fn trusted(&mut self) -> Option<Arc<Link>> {
        let idle = self.used.is_none_or(|used| used.elapsed() > IDLE);
        let sound = self.link.as_ref().is_some_and(|link| {
            !idle
                && !link.driver.is_finished()
                && link.opened.elapsed() < OLDEST
                && !link.silent.load(Ordering::Relaxed)
        });
        if !sound {
            self.link = None;
        }
        self.link.clone()
    }
}

/// A Redis server.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) address: Address,
    access: Access,
    line: Mutex<Line>,
    breaker: Breaker,
}

impl Node {
    /// A server that nobody has spoken to yet.
    pub(crate) fn new(address: Address, access: Access) -> Self {
        Self {
            address,
            access,
            line: Mutex::default(),
            breaker: Breaker::default(),
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks one thing, within the deadline. `asking`: of a slot that is on its way here.
    ///
    /// # Errors
    /// At once where the server is being left alone.
    pub(crate) async fn ask(
        &self,
        command: &Cmd,
        asking: bool,
        deadline: Instant,
    ) -> Result<Value, StoreError> {
        let asked = Instant::now();
        if deadline <= asked {
            return Err(StoreError::Timeout);
        }
        let admitted = self.breaker.admit().ok_or(StoreError::Paused)?;
        let mut used = None;
        let answer = timeout_at(deadline, async {
            let link = used.insert(self.link().await?);
            link.ask(command, asking).await
        });
        let answer = answer.await;
        let change = match &answer {
            Ok(Ok(_)) => {
                metrics::REDIS_LATENCY.record_us(asked.elapsed());
                self.answered();
                admitted.succeeded()
            }
            Ok(Err(error)) => {
                let fault = Fault::of(error);
                if fault.ends_connection() {
                    self.close(used.as_ref());
                } else {
                    self.answered();
                }
                match fault {
                    // The caller looks for the one that took its place, and says if there is none.
                    Fault::Demoted => Change::Nothing,
                    Fault::Unready | Fault::Lost => admitted.failed(),
                    _ => admitted.succeeded(),
                }
            }
            Err(_) => {
                if let Some(link) = &used {
                    link.note_silence();
                }
                if deadline.elapsed() > FROZEN {
                    Change::Nothing
                } else {
                    admitted.failed()
                }
            }
        };
        let answer = match answer {
            Ok(answer) => answer.map_err(StoreError::Redis),
            Err(_) => Err(StoreError::Timeout),
        };
        self.tell(change, answer.as_ref().err());
        answer
    }

    /// How it stands.
    pub(crate) fn standing(&self) -> Standing {
        self.breaker.standing()
    }

    /// Leaves the server alone for a while, whatever it answered.
    pub(crate) fn leave_alone(&self, error: &StoreError) {
        self.tell(self.breaker.open(), Some(error));
    }

    /// Whether it did not answer when it was last tried, of late.
    pub(crate) fn is_out(&self) -> bool {
        self.breaker.is_open()
    }

    /// An outage is told when it begins and when it ends, not with each call.
    fn tell(&self, change: Change, error: Option<&StoreError>) {
        let node = &self.address;
        match (change, error) {
            (Change::Opened, Some(error)) => {
                metrics::BREAKER_OPENED.add(1);
                tracing::warn!(%node, %error, "Redis is out, and left alone");
            }
            (Change::Closed, _) => tracing::info!(%node, "Redis answers again"),
            _ => {}
        }
    }

    fn answered(&self) {
        self.line().used = Some(Moment::now());
    }

    /// Closes a connection, unless another has taken its place.
    fn close(&self, link: Option<&Arc<Link>>) {
        let mut line = self.line();
        if let (Some(link), Some(open)) = (link, &line.link)
            && Arc::ptr_eq(link, open)
        {
            line.link = None;
        }
    }

    async fn link(&self) -> Result<Arc<Link>, RedisError> {
        let idle = self
            .line()
            .used
            .is_some_and(|used| used.elapsed() > A_WHILE);
        if idle {
            // Lets the system tell what has happened to the connection since, such as while we were frozen; and then whoever waits
            // for an answer that has come.
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
        }
        let opening = {
            let mut line = self.line();
            if let Some(link) = line.trusted() {
                return Ok(link);
            }
            match line.opening.take() {
                Some((since, opening)) if !given_up(since, &opening) => {
                    line.opening = Some((since, opening.clone()));
                    opening
                }
                _ => {
                    let opening = self.start_opening();
                    line.opening = Some((Moment::now(), opening.clone()));
                    opening
                }
            }
        };
        let link = opening.clone().await?;
        let mut line = self.line();
        let own = |(_, current): &mut (Moment, Opening)| current.ptr_eq(&opening);
        if line.opening.take_if(own).is_some() {
            line.link = Some(Arc::clone(&link));
            line.used = Some(Moment::now());
        }
        Ok(link)
    }

    fn start_opening(&self) -> Opening {
        let (access, address) = (self.access.clone(), self.address.clone());
        let opening = async move {
            let open = timeout(CONNECT_DEADLINE, access.open(&address)).await;
            let late = std::io::Error::from(std::io::ErrorKind::TimedOut);
            open.unwrap_or_else(|_| Err(late.into())).map(Arc::new)
        };
        let opening = opening.boxed().shared();
        // It goes on whoever waits for it, and what it leads to is there for the next.
        tokio::spawn(opening.clone());
        opening
    }
}

/// Whether a connection that was being made is of no use: it failed, or what it led to has ended or grown old since, or it should
/// be made by now and was frozen with us, so that nobody knows what became of it.
fn given_up(since: Moment, opening: &Opening) -> bool {
    match opening.peek() {
        Some(Ok(link)) => link.driver.is_finished() || link.opened.elapsed() > IDLE,
        Some(Err(_)) => true,
        None => since.elapsed() > CONNECT_DEADLINE,
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_deadline_that_passed_in_a_freeze_says_nothing_of_the_server() {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = silent.local_addr().unwrap().port();
        let access = Access {
            login: RedisConnectionInfo::default().set_skip_set_lib_name(),
            token: None,
            tls: None,
        };
        let node = Node::new(format!("127.0.0.1:{port}").parse().unwrap(), access);
        let ping = redis::cmd("PING");
        let deadline = Instant::now() + Duration::from_millis(100);
        let frozen = async { std::thread::sleep(FROZEN * 2) };
        let (answer, ()) = tokio::join!(node.ask(&ping, false, deadline), frozen);
        assert!(matches!(answer, Err(StoreError::Timeout)), "{answer:?}");
        let (first, second) = (node.breaker.admit(), node.breaker.admit());
        assert!(first.is_some() && second.is_some());
    }
}
