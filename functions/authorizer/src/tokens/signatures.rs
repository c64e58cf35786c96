//! How `jsonwebtoken` verifies signatures: by ring, which the authorizer needs for TLS anyway.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};

/// Verifies and never signs, and only by the algorithms of [`super::keys::KeySet`].
static RING: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
    verifier_factory,
    // For thumbprints and private keys: nothing here has either.
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes ring verify, in this process, from now on.
pub(super) fn install() {
    // An error says that it has been done before.
    let _ = RING.install_default();
}

fn verifier_factory(
    algorithm: &Algorithm,
    key: &DecodingKey,
) -> Result<Box<dyn JwtVerifier>, Error> {
    // A key that is not of the algorithm's family is an error, here or where its bytes are asked for.
    if key.family() != algorithm.family() {
        return Err(ErrorKind::InvalidKeyFormat.into());
    }
    let key = match (algorithm, key.kind()) {
        (Algorithm::RS256, DecodingKeyKind::RsaModulusExponent { n, e }) => {
            Key::Rsa(RsaPublicKeyComponents {
                n: n.clone(),
                e: e.clone(),
            })
        }
        (Algorithm::ES256, DecodingKeyKind::SecretOrDer(point)) => Key::Curve(
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point.clone()),
        ),
        (Algorithm::EdDSA, DecodingKeyKind::SecretOrDer(point)) => {
            Key::Curve(UnparsedPublicKey::new(&ED25519, point.clone()))
        }
        _ => return Err(ErrorKind::UnsupportedAlgorithm.into()),
    };
    Ok(Box::new(Ring {
        algorithm: *algorithm,
        key,
    }))
}

struct Ring {
    algorithm: Algorithm,
    key: Key,
}

enum Key {
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
    Curve(UnparsedPublicKey<Vec<u8>>),
}

impl Verifier<Vec<u8>> for Ring {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let verified = match &self.key {
            Key::Rsa(key) => key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature),
            Key::Curve(key) => key.verify(message, signature),
        };
        verified.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for Ring {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
