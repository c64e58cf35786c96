//! Who is known: clients, the keys they show and the principals they come as.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::lane::Lane;
use crate::words::{Tier, words};

words! {
    /// Whether a client may call at all.
    ClientStatus, "must be one of active, terminated" {
        /// It may.
        Active = "active",
        /// It is refused by whatever door.
        Terminated = "terminated",
    }
}

words! {
    /// About whom a client may ask the check API.
    MayAsk, "must be one of self, any" {
        /// About itself and, as destination, about its callers.
        Itself = "self",
        /// About everyone: a gateway.
        Any = "any",
    }
}

/// What the registry tells of a client, or of a key or principal that stands for one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// The client's id.
    #[serde(rename = "client_id")]
    pub id: String,
    /// False for one that is only known because its counters were reset.
    pub registered: bool,
    /// Its tier; none where it is not registered.
    pub tier: Option<Tier>,
    /// Whether it may call.
    pub status: ClientStatus,
    /// About whom it may ask.
    pub may_ask: MayAsk,
    /// Since when its counters count: part of the names of its buckets.
    #[serde(flatten)]
    pub resets: Resets,
    /// On a key's entry: when the key ends, in Unix seconds; none is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
}

impl Client {
    /// A client of whom the registry knows nothing.
    pub fn unregistered(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            registered: false,
            tier: None,
            status: ClientStatus::Active,
            may_ask: MayAsk::Itself,
            resets: Resets::default(),
            expires_at: None,
        }
    }
}

/// How many rules of one client may have been reset by themselves: what a container remembers of a client is bounded.
pub const MOST_RESET: usize = 32;

/// Since when the counters of a client count: numbers that are part of the names of its buckets, so that another one begins a
/// fresh bucket. They never go back, whatever becomes of the client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resets {
    /// The newest reset of all its counters; 0 where there was none.
    pub generation: u64,
    /// The newest reset of single rules, where that is newer: at most [`MOST_RESET`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub generations: BTreeMap<Uuid, u64>,
}

impl Resets {
    /// Whether nothing was ever reset.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The newest reset that its bucket of a rule knows of; none as a rule is the default limit.
    pub fn of(&self, rule: Option<Uuid>) -> u64 {
        let own = rule.and_then(|rule| self.generations.get(&rule));
        own.copied().unwrap_or(self.generation)
    }
}

/// What a registry entry is found by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    /// A client's id.
    Client(String),
    /// The SHA-256 of an API key, in hexadecimal.
    Key(String),
    /// A principal as [`principal`] writes it.
    Principal(String),
}

impl Name {
    /// The word for the kind of name, as tables and keys have it.
    pub fn kind(&self) -> &'static str {
        match self {
            Name::Client(_) => "client",
            Name::Key(_) => "key",
            Name::Principal(_) => "principal",
        }
    }

    /// The name itself.
    pub fn id(&self) -> &str {
        match self {
            Name::Client(id) | Name::Key(id) | Name::Principal(id) => id,
        }
    }

    /// A name from its two parts; `None` where the kind is none of the three.
    pub fn from_parts(kind: &str, id: impl Into<String>) -> Option<Self> {
        match kind {
            "client" => Some(Name::Client(id.into())),
            "key" => Some(Name::Key(id.into())),
            "principal" => Some(Name::Principal(id.into())),
            _ => None,
        }
    }

    /// The lane that its entry lies in. A client's is that of its buckets.
    pub fn lane(&self) -> Lane {
        Lane::of(self.id())
    }
}

/// The SHA-256 of an API key in hexadecimal: all of it that is ever kept.
pub fn key_hash(api_key: &str) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let hash = Sha256::digest(api_key.as_bytes());
    // Once a call: no formatting machinery for 32 bytes.
    let digits = hash.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

/// An IAM principal as it is compared: `ACCOUNT/role/NAME` or `ACCOUNT/user/NAME`. The path is left out, and a session of an
/// assumed role counts as its role. `None` where the ARN is of no user or role.
///
/// ```
/// use limits::registry::principal;
/// let role = principal("arn:aws:iam::123456789012:role/teams/orders/caller");
/// assert_eq!(role.as_deref(), Some("123456789012/role/caller"));
/// assert_eq!(role, principal("arn:aws:sts::123456789012:assumed-role/caller/i-0abc"));
/// assert_eq!(principal("caller"), None);
/// ```
pub fn principal(arn: &str) -> Option<String> {
    let mut parts = arn.splitn(6, ':');
    if parts.next() != Some("arn") {
        return None;
    }
    let service = parts.nth(1)?;
    let account = parts.nth(1)?;
    let (kind, rest) = parts.next()?.split_once('/')?;
    let (kind, name) = match (service, kind) {
        ("sts", "assumed-role") => ("role", rest.split('/').next()?),
        ("iam", "role" | "user") => (kind, rest.rsplit('/').next()?),
        _ => return None,
    };
    let sound = account.len() == 12 && account.bytes().all(|b| b.is_ascii_digit());
    (sound && !name.is_empty()).then(|| format!("{account}/{kind}/{name}"))
}

/// The longest client's id, in bytes.
pub const LONGEST_CLIENT_ID: usize = 256;

/// # Errors
/// What a client's id must be: 1 to 256 bytes of UTF-8 without control characters.
pub fn check_client_id(id: &str) -> Result<(), String> {
    if (1..=LONGEST_CLIENT_ID).contains(&id.len()) && !id.chars().any(char::is_control) {
        Ok(())
    } else {
        Err(format!(
            "must be 1 to {LONGEST_CLIENT_ID} bytes of UTF-8 without control characters"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_kept_as_its_sha256_alone() {
        assert_eq!(
            key_hash("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn an_entry_is_read_by_whoever_knows_nothing_of_single_rules_and_from_whoever_does_not() {
        let old = r#"{"client_id":"eve","registered":true,"tier":"free","status":"active","may_ask":"self","generation":4}"#;
        let mut client: Client = serde_json::from_str(old).unwrap();
        assert_eq!(client.resets.of(Some(Uuid::nil())), 4);
        assert_eq!(serde_json::to_string(&client).unwrap(), old);
        client.resets.generations.insert(Uuid::nil(), 5);
        let text = serde_json::to_string(&client).unwrap();
        let client: Client = serde_json::from_str(&text).unwrap();
        let resets = &client.resets;
        let other = Some(Uuid::max());
        assert_eq!(
            (
                resets.of(Some(Uuid::nil())),
                resets.of(other),
                resets.of(None)
            ),
            (5, 4, 4)
        );
    }

    #[test]
    fn a_user_with_a_path_is_known_by_account_and_name() {
        assert_eq!(
            principal("arn:aws-cn:iam::123456789012:user/a/b/eve").as_deref(),
            Some("123456789012/user/eve")
        );
        assert_eq!(principal("arn:aws:iam::123456789012:root"), None);
        assert_eq!(principal("arn:aws:iam::12345:user/eve"), None);
        assert_eq!(
            principal("arn:aws:sts::123456789012:federated-user/eve"),
            None
        );
    }
}
