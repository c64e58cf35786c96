//! Whose certificates are believed of a database: besides those of [`aws::tls`], Amazon's for RDS, which no system knows.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio_postgres::config::SslNegotiation;
use tokio_postgres_rustls::MakeRustlsConnect;

const RDS: &[u8] = include_bytes!("rds_roots.pem");

/// What makes a connection one over TLS. Reads the system's certificates.
///
/// # Errors
/// Where TLS is not to be had, which no setting brings about.
pub(super) fn connector(negotiation: SslNegotiation) -> Result<MakeRustlsConnect, String> {
    let mut config = aws::tls::config(CertificateDer::pem_slice_iter(RDS).flatten())?;
    if negotiation == SslNegotiation::Direct {
        config.alpn_protocols = vec![b"postgresql".to_vec()];
    }
    Ok(MakeRustlsConnect::new(config))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use rustls::RootCertStore;
    use x509_cert::Certificate;
    use x509_cert::der::Decode;

    use super::*;

    #[test]
    fn amazons_roots_for_rds_can_be_trusted_and_are_good_for_years() {
        let roots: Vec<_> = CertificateDer::pem_slice_iter(RDS)
            .collect::<Result<_, _>>()
            .unwrap();
        assert_eq!(roots.len(), 87);
        let years = SystemTime::now() + Duration::from_secs(5 * 366 * 86_400);
        for root in &roots {
            let root = Certificate::from_der(root).unwrap().tbs_certificate;
            assert_eq!(root.subject, root.issuer);
            let subject = root.subject.to_string();
            assert!(subject.contains("Amazon RDS"), "{subject}");
            let end = root.validity.not_after.to_system_time();
            assert!(end > years, "{subject}");
        }
        let mut store = RootCertStore::empty();
        assert_eq!(store.add_parsable_certificates(roots), (87, 0));
    }
}
