//! TLS to Redis: rustls with ring, and the certificates that the system trusts.

use std::sync::{Arc, LazyLock};

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Made once in a process: it holds the certificates, and the tickets by which a server that knew us spares itself a signature when
/// we come back.
pub(crate) fn connector() -> Result<TlsConnector, String> {
    static CONFIG: LazyLock<Result<Arc<ClientConfig>, String>> =
        LazyLock::new(|| config().map(Arc::new));
    CONFIG.clone().map(TlsConnector::from)
}

fn config() -> Result<ClientConfig, String> {
    // ElastiCache's certificates come from a public authority. `SSL_CERT_FILE` names others.
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(
            "asks for TLS, and the system trusts no certificate (SSL_CERT_FILE)".to_owned(),
        );
    }
    // Named, so that nothing else in the process decides which cryptography this is.
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
