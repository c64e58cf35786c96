//! Whose certificates are believed: those of the authorities that the system trusts, or of the file in `SSL_CERT_FILE`. Chain and
//! name are always verified.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use tracing::warn;

/// How servers are spoken to over TLS, whose certificates `more` authorities may have signed. Reads the system's.
///
/// # Errors
/// Where nobody is trusted.
pub fn config(
    more: impl IntoIterator<Item = CertificateDer<'static>>,
) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs();
    for error in system.errors {
        warn!(%error, "certificates that the system trusts cannot be read");
    }
    roots.add_parsable_certificates(system.certs);
    roots.add_parsable_certificates(more);
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
