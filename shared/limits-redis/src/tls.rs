//! TLS to Redis. ElastiCache's certificates come from a public authority.

use std::sync::{Arc, LazyLock};

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;

/// Made once in a process: it holds the certificates, and the tickets by which a server that knew us spares itself a signature when
/// we come back.
pub(crate) fn connector() -> Result<TlsConnector, String> {
    static CONFIG: LazyLock<Result<Arc<ClientConfig>, String>> =
        LazyLock::new(|| aws::tls::config([]).map(Arc::new));
    CONFIG.clone().map(TlsConnector::from)
}
