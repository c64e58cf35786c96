//! Ports of this machine, and an end to serving on them.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long calls that are under way may still take when it ends.
const GRACE: Duration = Duration::from_secs(5);

/// A port on 127.0.0.1; 0 is any that is free. An error says how to choose another: by `flag` or `variable`.
pub async fn listen(port: u16, flag: &str, variable: &str) -> Result<TcpListener, String> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .await
        .map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => format!(
                "port {port} of 127.0.0.1 is taken: choose another by {flag} or the variable {variable}"
            ),
            io::ErrorKind::PermissionDenied => format!(
                "port {port} of 127.0.0.1 is not for everybody: choose one above 1023 by {flag} or the variable {variable}"
            ),
            _ => format!("port {port} of 127.0.0.1 ({flag}): {error}"),
        })
}

/// The port that a listener has.
pub fn port(listener: &TcpListener) -> Result<u16, String> {
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    Ok(address.port())
}

/// The address of a listener as `http://127.0.0.1:PORT`.
pub fn url(listener: &TcpListener) -> Result<String, String> {
    Ok(format!(
        "http://{}:{}",
        Ipv4Addr::LOCALHOST,
        port(listener)?
    ))
}

/// Serves until `end`, and then lets the calls that are under way finish, for a while.
pub async fn serve(
    servers: Vec<(TcpListener, Router)>,
    end: impl Future<Output = Result<(), String>>,
) -> Result<(), String> {
    let (ending, ended) = watch::channel(false);
    let mut tasks = JoinSet::new();
    for (listener, app) in servers {
        let mut ended = ended.clone();
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        tasks.spawn(async move {
            axum::serve(listener, app)
                .with_graceful_shutdown(async move {
                    // An error means that nobody is left to tell: the same.
                    let _ = ended.wait_for(|ended| *ended).await;
                })
                .await
        });
    }
    let reason = end.await;
    ending.send_replace(true);
    // What is not done by then is cut off.
    let _ = timeout(GRACE, async { while tasks.join_next().await.is_some() {} }).await;
    reason
}

/// Ctrl-C, or the SIGTERM by which others end a program. From the moment it is made, neither ends this one by itself.
#[derive(Debug)]
pub struct Interruption {
    interrupt: Signal,
    terminate: Signal,
}

impl Interruption {
    /// Begins to listen.
    pub fn new() -> Result<Self, String> {
        let heard =
            |kind| signal(kind).map_err(|error| format!("signals cannot be heard: {error}"));
        Ok(Self {
            interrupt: heard(SignalKind::interrupt())?,
            terminate: heard(SignalKind::terminate())?,
        })
    }

    /// Waits for either.
    pub async fn come(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
