//! An authority that nobody trusts by itself, and what it signs.

use local::servers::Certificate;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

/// A certificate for 127.0.0.1 and `localhost`, of a new authority.
pub fn of_loopback() -> Certificate {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // Who has signed goes by another name than what is signed: else it seems to have signed itself.
    params
        .distinguished_name
        .push(DnType::CommonName, "authority of the tests");
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
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
