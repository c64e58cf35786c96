//! Learning of the end of a container.
//!
//! Lambda ends a process by SIGTERM only where an extension is registered, and by SIGKILL else. So we register one inside this
//! process, for no event: it costs a request at start, and is never woken.

use std::time::Duration;

use lambda_runtime::Error;
use lambda_runtime_api_client::PooledClient;
use lambda_runtime_api_client::body::Body;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

const ID: &str = "lambda-extension-identifier";

/// How long the start of a container waits to be registered: the one who answers is on the same machine.
const PATIENCE: Duration = Duration::from_millis(500);

/// Does `last` when Lambda ends this container, and ends. To be called before the first event is asked for; Lambda waits for half a
/// second.
///
/// # Errors
/// Where nobody would tell, or nobody has said so yet.
pub(super) async fn at_end(last: fn()) -> Result<(), Error> {
    let mut end = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        end.recv().await;
        last();
        std::process::exit(0);
    });
    // Goes on by itself where that takes longer.
    timeout(PATIENCE, tokio::spawn(register())).await??
}

async fn register() -> Result<(), Error> {
    let client = PooledClient::builder().build();
    let register = http::Request::post("/2020-01-01/extension/register")
        .header("lambda-extension-name", "weir")
        .header("content-type", "application/json")
        .body(Body::from(r#"{"events":[]}"#))?;
    let registered = client.call(register).await?;
    let id = registered
        .headers()
        .get(ID)
        .ok_or("an extension is not registered")?;
    // Whoever is registered must ask, or the start of the container is never over. There is no event that would be the answer.
    let next = http::Request::get("/2020-01-01/extension/event/next").header(ID, id);
    let next = client.call(next.body(Body::empty())?);
    tokio::spawn(next);
    Ok(())
}
