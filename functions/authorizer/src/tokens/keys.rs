//! The keys that an issuer signs with.

use jsonwebtoken::jwk::{
    AlgorithmParameters, CommonParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations,
    PublicKeyUse,
};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

/// The keys of a JSON Web Key Set by which tokens can be verified here: RSA keys of 2,048 bits or more for RS256, keys on P-256
/// for ES256, on Ed25519 for EdDSA. All others are left out, those that are secret above all.
#[derive(Debug)]
pub(super) struct KeySet(Vec<Key>);

#[derive(Debug)]
struct Key {
    id: Option<String>,
    algorithm: Algorithm,
    key: DecodingKey,
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

impl KeySet {
    /// Reads a set. None where `json` is none, or no key of it is of use.
    pub(super) fn parse(json: &[u8]) -> Option<Self> {
        let document: Document = serde_json::from_slice(json).ok()?;
        let keys = document.keys.into_iter().filter_map(Key::read);
        let keys: Vec<Key> = keys.collect();
        (!keys.is_empty()).then_some(Self(keys))
    }

    /// Whether a key has this id.
    pub(super) fn names(&self, id: &str) -> bool {
        self.0.iter().any(|key| key.id.as_deref() == Some(id))
    }

    /// The key that a token names, if it is one for this algorithm. A token that names none means the only one there is.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&DecodingKey> {
        let mut named = self.0.iter().filter(|key| match id {
            Some(_) => key.id.as_deref() == id,
            None => self.0.len() == 1,
        });
        named
            .find(|key| key.algorithm == algorithm)
            .map(|key| &key.key)
    }
}

impl Key {
    fn read(json: Value) -> Option<Self> {
        let Jwk { common, algorithm } = Jwk::deserialize(json).ok()?;
        if !verifies(&common) {
            return None;
        }
        let (algorithm, key) = match &algorithm {
            AlgorithmParameters::RSA(rsa) => (Algorithm::RS256, rsa_key(&rsa.n, &rsa.e)?),
            AlgorithmParameters::EllipticCurve(point) if point.curve == EllipticCurve::P256 => {
                let key = DecodingKey::from_ec_components(&point.x, &point.y).ok()?;
                (Algorithm::ES256, of_length(key, 65)?)
            }
            AlgorithmParameters::OctetKeyPair(point) if point.curve == EllipticCurve::Ed25519 => {
                let key = DecodingKey::from_ed_components(&point.x).ok()?;
                (Algorithm::EdDSA, of_length(key, 32)?)
            }
            _ => return None,
        };
        let said = common.key_algorithm;
        said.is_none_or(|said| said == KeyAlgorithm::from(algorithm))
            .then_some(Self {
                id: common.key_id,
                algorithm,
                key,
            })
    }
}

/// Whether a key is meant for signatures.
fn verifies(key: &CommonParameters) -> bool {
    let used = key.public_key_use.as_ref();
    let operations = key.key_operations.as_ref();
    used.is_none_or(|used| *used == PublicKeyUse::Signature)
        && operations.is_none_or(|all| all.contains(&KeyOperations::Verify))
}

/// A key with a modulus of 2,048 to 8,192 bits, which some write with zeros in front.
fn rsa_key(modulus: &str, exponent: &str) -> Option<DecodingKey> {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    let decode = |text: &str| {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        Some(bytes[zeros..].to_vec())
    };
    let (modulus, exponent) = (decode(modulus)?, decode(exponent)?);
    ((256..=1024).contains(&modulus.len()) && !exponent.is_empty())
        .then(|| DecodingKey::from_rsa_raw_components(&modulus, &exponent))
}

fn of_length(key: DecodingKey, bytes: usize) -> Option<DecodingKey> {
    let length = key.try_get_as_bytes().ok()?.len();
    (length == bytes).then_some(key)
}
