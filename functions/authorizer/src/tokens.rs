//! Tokens that an issuer has signed: `jwt` in `IDENTITY`, and the variables that begin with `JWT_`.
//!
//! [`Tokens::verify`] is the whole of it. Which algorithm a token is verified by is its key's to say and never the token's, so
//! that neither `none` nor a public key taken for a secret is ever believed.

mod keys;
mod published;
mod signatures;

use std::sync::Arc;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use limits::registry::check_client_id;
use limits::rule::Tier;
use limits::settings::Settings;
use serde_json::{Map, Value};

use self::keys::KeySet;
use self::published::Published;

/// API Gateway lets 10,240 bytes of headers through: what is longer comes from elsewhere.
const LONGEST: usize = 10_240;

/// The variables that say something about tokens.
const VARIABLES: [&str; 7] = [
    "JWT_JWKS",
    "JWT_JWKS_URL",
    "JWT_ISSUER",
    "JWT_AUDIENCE",
    "JWT_CLIENT_CLAIM",
    "JWT_TIER_CLAIM",
    "JWT_LEEWAY_SECONDS",
];

/// Whose tokens are believed, and what they say.
#[derive(Debug)]
pub struct Tokens {
    keys: Keys,
    /// What must hold of a token, for each algorithm.
    rules: [Validation; 3],
    client_claim: String,
    tier_claim: Option<String>,
}

#[derive(Debug)]
enum Keys {
    Known(Arc<KeySet>),
    Published(Published),
}

/// Who shows a token, by a token that was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bearer {
    /// The client's id.
    pub client: String,
    /// The tier that the token gives it; none where it gives none that is known.
    pub tier: Option<Tier>,
}

/// Why a token makes nobody known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unverified {
    /// It is wrong.
    Wrong,
    /// It cannot be judged: no keys could be read so far.
    NoKeys,
}

impl Tokens {
    /// Reads the variables, all of which but the claims' and the leeway must be there. None where a fault was noted in
    /// `settings`.
    pub fn read(settings: &mut Settings<'_>) -> Option<Self> {
        let keys = read_keys(settings);
        let own = |text: &str| Ok(text.to_owned());
        let issuer = settings.required("JWT_ISSUER", own);
        let audience = settings.required("JWT_AUDIENCE", own);
        let client_claim = settings.or("JWT_CLIENT_CLAIM", "sub".to_owned(), own);
        let tier_claim = settings.or("JWT_TIER_CLAIM", None, |text| Ok(Some(text.to_owned())));
        let leeway = settings.integer("JWT_LEEWAY_SECONDS", 60, 0, 3600)?;
        let (issuer, audience) = (issuer?, audience?);
        signatures::install();
        let rules = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA].map(|algorithm| {
            let mut rules = Validation::new(algorithm);
            rules.set_required_spec_claims(&["exp", "iss", "aud"]);
            rules.set_issuer(&[&issuer]);
            rules.set_audience(&[&audience]);
            rules.validate_nbf = true;
            rules.leeway = leeway;
            rules
        });
        Some(Self {
            keys: keys?,
            rules,
            client_claim: client_claim?,
            tier_claim: tier_claim?,
        })
    }

    /// Tells the log of variables that are there and not used, which is rarely what was meant.
    pub fn warn_unused(settings: &mut Settings<'_>) {
        for name in VARIABLES {
            let there = settings.or(name, false, |_| Ok(true));
            if there == Some(true) {
                tracing::warn!("{name} is not used: IDENTITY has no jwt");
            }
        }
    }

    /// Reads published keys ahead of the first token. Never fatal.
    pub async fn load(&self) {
        if let Keys::Published(published) = &self.keys {
            published.load().await;
        }
    }

    /// Who shows this token.
    ///
    /// # Errors
    /// Where it makes nobody known. The log is told why only where debugging is on, and nothing of the token.
    pub async fn verify(&self, token: &str) -> Result<Bearer, Unverified> {
        let refuse = |reason: &'static str| {
            tracing::debug!(reason, "a token is refused");
            Unverified::Wrong
        };
        if token.len() > LONGEST {
            return Err(refuse("it is too long"));
        }
        let header = decode_header(token).map_err(|_| refuse("it is malformed"))?;
        if header.crit.is_some() {
            return Err(refuse("it demands what is not understood"));
        }
        let rules = self
            .rules
            .iter()
            .find(|rules| rules.algorithms.contains(&header.alg));
        let rules = rules.ok_or_else(|| refuse("its algorithm is not supported"))?;
        let id = header.kid.as_deref();
        let keys = match &self.keys {
            Keys::Known(keys) => Some(Arc::clone(keys)),
            Keys::Published(published) => published.keys(id).await,
        };
        let keys = keys.ok_or(Unverified::NoKeys)?;
        let key = keys.find(id, header.alg);
        let key = key.ok_or_else(|| refuse("there is no such key for its algorithm"))?;
        let verified = decode::<Map<String, Value>>(token, key, rules);
        let claims = verified
            .map_err(|error| refuse(reason(error.kind())))?
            .claims;
        // A list of issuers is not what the standard means by one.
        if !claims.get("iss").is_some_and(Value::is_string) {
            return Err(refuse("its issuer is another"));
        }
        let text = |claim: &str| claims.get(claim).and_then(Value::as_str);
        let client = text(&self.client_claim).filter(|id| check_client_id(id).is_ok());
        let client = client.ok_or_else(|| refuse("its client is none"))?;
        let tier = self.tier_claim.as_deref().and_then(text);
        Ok(Bearer {
            client: client.to_owned(),
            tier: tier.and_then(|tier| tier.parse().ok()),
        })
    }
}

fn read_keys(settings: &mut Settings<'_>) -> Option<Keys> {
    let known = settings.or("JWT_JWKS", None, |text| {
        let keys = KeySet::parse(text.as_bytes());
        let keys = keys.ok_or("must be a JSON Web Key Set with a key for RS256, ES256 or EdDSA")?;
        Ok(Some(Keys::Known(Arc::new(keys))))
    });
    let published = settings.or("JWT_JWKS_URL", None, |text| {
        Published::parse(text).map(|keys| Some(Keys::Published(keys)))
    });
    match (known?, published?) {
        (Some(_), Some(_)) => {
            settings.fault("JWT_JWKS and JWT_JWKS_URL must not both be there");
            None
        }
        (None, None) => {
            settings.fault("JWT_JWKS or JWT_JWKS_URL is missing");
            None
        }
        (known, published) => known.or(published),
    }
}

/// Why a token is wrong, in words of our own: the library's may quote it.
fn reason(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidSignature => "its signature is not the key's",
        ErrorKind::ExpiredSignature => "it has ended",
        ErrorKind::ImmatureSignature => "it does not hold yet",
        ErrorKind::InvalidIssuer => "its issuer is another",
        ErrorKind::InvalidAudience => "it is for others",
        ErrorKind::MissingRequiredClaim(_) => "it lacks one of exp, iss, aud",
        _ => "it is malformed",
    }
}
