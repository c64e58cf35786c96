//! An authority that nobody trusts by itself, and what it signs.

use std::sync::Arc;

use local::servers::Certificate;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto::ring};

/// A certificate for 127.0.0.1 and `localhost`, of a new authority.
pub fn of_loopback() -> Certificate {
    of(&["127.0.0.1", "localhost"])
}

/// A certificate for hosts, of a new authority.
pub fn of(hosts: &[&str]) -> Certificate {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // Who has signed goes by another name than what is signed: else it seems to have signed itself.
    params
        .distinguished_name
        .push(DnType::CommonName, "authority of the tests");
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let names: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
    let key = KeyPair::generate().unwrap();
    let signed = CertificateParams::new(names)
        .unwrap()
        .signed_by(&key, &authority);
    Certificate {
        certificate: signed.unwrap().pem(),
        key: key.serialize_pem(),
        authority: authority.pem(),
    }
}

/// What accepts connections by a certificate.
pub fn acceptor(certificate: &Certificate) -> TlsAcceptor {
    let key = PrivateKeyDer::from_pem_slice(certificate.key.as_bytes()).unwrap();
    let certificate = CertificateDer::from_pem_slice(certificate.certificate.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}
