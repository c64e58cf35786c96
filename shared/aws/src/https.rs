//! One request over HTTPS, by a connection of its own: one that idles while a container is frozen is not to be trusted. No
//! redirect is followed. How long all of it may take is the caller's to say.

use std::net::IpAddr;

use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::TokioExecutor;

use crate::tls;

/// Why there is no answer. Nothing of what was received is told: it is not ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Others could read it on its way.
    #[error("not sent: only https://, or http:// of this machine")]
    Plain,
    /// There are no authorities to verify a certificate by.
    #[error("no certificates to verify the server by")]
    Certificates,
    /// It could not be reached, or was lost before it answered.
    #[error("no connection, or none that lasted")]
    Connection,
    /// The answer is longer than was allowed, or ends too early.
    #[error("the answer is too long, or was cut off")]
    Body,
}

/// Reads an address that requests may be sent to.
///
/// # Errors
/// What would be right; the address, which may hold a secret, is not quoted.
pub fn address(text: &str) -> Result<Uri, String> {
    let address: Option<Uri> = text.parse().ok();
    let address = address.filter(|address| scheme(address).is_some());
    address.ok_or_else(|| "must be an https:// address, or http:// of this machine".to_owned())
}

/// Sends a request, and reads an answer of at most so many bytes, whatever its status.
///
/// # Errors
/// Where there is none.
pub async fn send(
    request: Request<Bytes>,
    most_bytes: usize,
) -> Result<Response<Bytes>, SendError> {
    let mut http = HttpConnector::new();
    match scheme(request.uri()).ok_or(SendError::Plain)? {
        Scheme::Http => exchange(http, request, most_bytes).await,
        Scheme::Https => {
            http.enforce_http(false);
            let config = tls::config([]).map_err(|_| SendError::Certificates)?;
            let tls = HttpsConnectorBuilder::new().with_tls_config(config);
            let https = tls.https_only().enable_http1().wrap_connector(http);
            exchange(https, request, most_bytes).await
        }
    }
}

enum Scheme {
    Http,
    Https,
}

/// How an address is spoken to; none where it is not.
fn scheme(address: &Uri) -> Option<Scheme> {
    let host = address.host().filter(|host| !host.is_empty())?;
    if address.authority()?.as_str().contains('@') {
        return None;
    }
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    let here = host == "localhost" || plain.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    match address.scheme_str() {
        Some("https") => Some(Scheme::Https),
        Some("http") if here => Some(Scheme::Http),
        _ => None,
    }
}

async fn exchange<C>(
    connector: C,
    request: Request<Bytes>,
    most_bytes: usize,
) -> Result<Response<Bytes>, SendError>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let client = Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(0)
        .build(connector);
    let sent = client.request(request.map(Full::new)).await;
    let (parts, body) = sent.map_err(|_| SendError::Connection)?.into_parts();
    let body = Limited::new(body, most_bytes).collect().await;
    let body = body.map_err(|_| SendError::Body)?.to_bytes();
    Ok(Response::from_parts(parts, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_go_over_tls_or_to_this_machine() {
        for right in [
            "https://issuer.example/.well-known/jwks.json",
            "https://10.0.0.1:8443/keys?set=1",
            "http://127.0.0.1:9/keys",
            "http://[::1]:9/keys",
            "http://localhost/keys",
        ] {
            assert!(address(right).is_ok(), "{right}");
        }
        for wrong in [
            "http://issuer.example/keys",
            "http://127.0.0.1.issuer.example/keys",
            "http://localhost@issuer.example/keys",
            "https://eve:hunter2@issuer.example/keys",
            "ftp://issuer.example/keys",
            "/keys",
            "issuer.example",
            "https://",
            "{\"keys\":[]}",
        ] {
            let told = address(wrong).unwrap_err();
            assert!(told.starts_with("must be an https://"), "{wrong}");
        }
    }
}
