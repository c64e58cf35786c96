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

#[cfg(test)]
mod tests {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    use serde_json::json;

    use super::*;

    fn bytes(length: usize) -> String {
        URL_SAFE_NO_PAD.encode(vec![0xA5; length])
    }

    fn rsa(length: usize) -> Value {
        json!({ "kty": "RSA", "kid": "a", "n": bytes(length), "e": "AQAB" })
    }

    fn curve() -> Value {
        json!({ "kty": "EC", "crv": "P-256", "kid": "a", "x": bytes(32), "y": bytes(32) })
    }

    fn edwards() -> Value {
        json!({ "kty": "OKP", "crv": "Ed25519", "kid": "a", "x": bytes(32) })
    }

    fn set(keys: &[Value]) -> Option<KeySet> {
        KeySet::parse(json!({ "keys": keys }).to_string().as_bytes())
    }

    #[test]
    fn each_key_is_for_one_algorithm() {
        for (key, algorithm) in [
            (rsa(256), Algorithm::RS256),
            (rsa(1024), Algorithm::RS256),
            (curve(), Algorithm::ES256),
            (edwards(), Algorithm::EdDSA),
        ] {
            let mut said = key.clone();
            said["alg"] = json!(algorithm);
            said["use"] = "sig".into();
            said["key_ops"] = json!(["verify"]);
            for key in [key, said] {
                let set = set(&[key]).unwrap();
                for other in [
                    Algorithm::RS256,
                    Algorithm::ES256,
                    Algorithm::EdDSA,
                    Algorithm::HS256,
                ] {
                    let found = set.find(Some("a"), other).is_some();
                    assert_eq!(found, other == algorithm);
                }
            }
        }
    }

    #[test]
    fn what_is_no_key_for_signatures_is_left_out() {
        let with = |mut key: Value, name: &str, value: Value| {
            key[name] = value;
            key
        };
        for key in [
            rsa(128),
            rsa(255),
            rsa(1025),
            with(rsa(256), "alg", "PS256".into()),
            with(rsa(256), "alg", "RS512".into()),
            with(rsa(256), "alg", "RSA-OAEP".into()),
            with(rsa(256), "alg", "none".into()),
            with(rsa(256), "use", "enc".into()),
            with(rsa(256), "key_ops", json!(["encrypt"])),
            with(rsa(256), "n", "not base64!".into()),
            with(rsa(256), "e", "".into()),
            with(curve(), "crv", "P-384".into()),
            with(curve(), "x", bytes(31).into()),
            with(curve(), "alg", "RS256".into()),
            with(edwards(), "x", bytes(33).into()),
            with(edwards(), "crv", "Ed448".into()),
            json!({ "kty": "oct", "kid": "a", "k": bytes(32) }),
            json!({ "kty": "RSA", "kid": "a" }),
            json!(null),
        ] {
            assert!(set(std::slice::from_ref(&key)).is_none(), "{key}");
            // And does not take the others with it.
            let both = set(&[key, edwards()]).unwrap();
            assert!(both.find(Some("a"), Algorithm::EdDSA).is_some());
        }
        for no_set in ["", "[]", "{}", "{\"keys\":{}}", "{\"keys\":[]}"] {
            assert!(KeySet::parse(no_set.as_bytes()).is_none(), "{no_set}");
        }
    }

    #[test]
    fn a_modulus_with_zeros_in_front_is_the_same_one() {
        let padded = [vec![0; 2], vec![0xA5; 256]].concat();
        let mut key = rsa(256);
        key["n"] = URL_SAFE_NO_PAD.encode(padded).into();
        let (set, plain) = (set(&[key]).unwrap(), set(&[rsa(256)]).unwrap());
        let modulus = |set: &KeySet| {
            let key = set.find(Some("a"), Algorithm::RS256).unwrap();
            let jsonwebtoken::DecodingKeyKind::RsaModulusExponent { n, .. } = key.kind() else {
                panic!("an RSA key of another kind");
            };
            n.clone()
        };
        assert_eq!(modulus(&set), modulus(&plain));
    }
}
