//! What is kept of rules, clients and keys, in the shape in which the API shows it.

use limits::registry::{Client, ClientStatus, MayAsk, Resets};
use limits::rule::Tier;
use limits::{Draft, Fault, Rule};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use time::OffsetDateTime;
use uuid::Uuid;

/// A rule as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleRecord {
    /// Its id.
    pub id: Uuid,
    /// What was written of it.
    #[serde(flatten)]
    pub draft: Draft,
    /// The revision of its last change.
    pub revision: u64,
    /// When it was made.
    #[serde(with = "moment")]
    pub created_at: OffsetDateTime,
    /// When it was last changed.
    #[serde(with = "moment")]
    pub updated_at: OffsetDateTime,
}

impl RuleRecord {
    /// The rule, by the one constructor.
    ///
    /// # Errors
    /// Never for one that this version wrote.
    pub fn rule(&self) -> Result<Rule, Vec<Fault>> {
        Rule::new(self.id, self.draft.clone())
    }
}

/// A client as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientRecord {
    /// Its id.
    pub client_id: String,
    /// Its tier.
    pub tier: Tier,
    /// Whether it may call.
    pub status: ClientStatus,
    /// The IAM principal that it comes as, as written.
    pub principal: Option<String>,
    /// About whom it may ask.
    pub may_ask: MayAsk,
    /// For people.
    pub description: String,
    /// The revision of its last change.
    pub revision: u64,
    /// When it was made.
    #[serde(with = "moment")]
    pub created_at: OffsetDateTime,
    /// When it was last changed.
    #[serde(with = "moment")]
    pub updated_at: OffsetDateTime,
}

impl ClientRecord {
    /// What the registry tells of it, its counters having been reset so.
    pub(crate) fn entry(&self, resets: Resets) -> Client {
        Client {
            id: self.client_id.clone(),
            registered: true,
            tier: Some(self.tier),
            status: self.status,
            may_ask: self.may_ask,
            resets,
            expires_at: None,
        }
    }

    /// The principal as it is compared.
    pub(crate) fn principal_name(&self) -> Option<String> {
        self.principal
            .as_deref()
            .and_then(limits::registry::principal)
    }
}

/// An API key as it is kept: all but the secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRecord {
    /// Its id, which is no secret.
    pub key_id: Uuid,
    /// Whose it is.
    pub client_id: String,
    /// The SHA-256 of the secret in hexadecimal.
    #[serde(skip_serializing)]
    pub hash: String,
    /// For people.
    pub description: String,
    /// The revision at which it was made.
    pub revision: u64,
    /// When it was made.
    #[serde(with = "moment")]
    pub created_at: OffsetDateTime,
    /// When it ends; none is never.
    #[serde(with = "moment::option")]
    pub expires_at: Option<OffsetDateTime>,
}

/// One thing that one write did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// The write.
    pub revision: u64,
    /// Which of the things that the write did.
    pub position: u32,
    /// When.
    #[serde(with = "moment")]
    pub at: OffsetDateTime,
    /// Who.
    pub actor: String,
    /// What: `create`, `update`, `delete` or `reset`.
    pub action: Action,
    /// The rule that it was done to.
    pub rule: Option<Uuid>,
    /// The clients that it concerns: the one that was changed, whose key was, or that the rule named before or names after.
    pub clients: Vec<String>,
    /// The key that it was done to.
    pub key_id: Option<Uuid>,
    /// What was there before, as the API shows it; none for a creation.
    pub before: Option<Value>,
    /// What is there since, as the API shows it; none for a deletion.
    pub after: Option<Value>,
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Something new.
    Create,
    /// Something replaced.
    Update,
    /// Something gone.
    Delete,
    /// Counters that start fresh.
    Reset,
}

impl Action {
    /// Every one of them.
    pub const ALL: [Self; 4] = [Self::Create, Self::Update, Self::Delete, Self::Reset];

    pub(crate) fn of<T>(before: Option<&T>, after: Option<&T>) -> Self {
        match (before, after) {
            (None, _) => Action::Create,
            (_, None) => Action::Delete,
            _ => Action::Update,
        }
    }
}

/// A record as the API shows it.
pub(crate) fn shown(record: &impl Serialize) -> Value {
    // These are plain structs: nothing in them can fail to become JSON.
    serde_json::to_value(record).unwrap_or_else(|error| json!({"unreadable": error.to_string()}))
}

/// Moments in JSON: RFC 3339, in UTC, whole seconds.
pub mod moment {
    use serde::{Deserialize, Deserializer, Serializer};
    use time::format_description::well_known::Rfc3339;
    use time::{OffsetDateTime, UtcOffset};

    /// A moment as it stands in JSON.
    pub fn text(moment: OffsetDateTime) -> String {
        let whole = moment.replace_nanosecond(0).unwrap_or(moment);
        // Only years beyond 9999 have no such text, and no parser lets one in.
        whole
            .to_offset(UtcOffset::UTC)
            .format(&Rfc3339)
            .unwrap_or_default()
    }

    /// Reads a moment.
    ///
    /// # Errors
    /// What would be right.
    pub fn parse(text: &str) -> Result<OffsetDateTime, String> {
        OffsetDateTime::parse(text, &Rfc3339)
            .ok()
            // Some moments of the last day of all years lie beyond them in UTC.
            .and_then(|moment| moment.checked_to_offset(UtcOffset::UTC))
            // And some of the days before do in the time zone of a database.
            .filter(|moment| moment.year() < 9999)
            .ok_or_else(|| {
                "must be a moment like 2026-11-30T01:02:03Z, before the year 9999".to_owned()
            })
    }

    pub(crate) fn serialize<S: Serializer>(
        moment: &OffsetDateTime,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_str(&text(*moment))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<OffsetDateTime, D::Error> {
        let text = String::deserialize(from)?;
        parse(&text).map_err(serde::de::Error::custom)
    }

    pub(crate) mod option {
        use serde::{Deserialize, Deserializer, Serializer};
        use time::OffsetDateTime;

        pub(crate) fn serialize<S: Serializer>(
            moment: &Option<OffsetDateTime>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            match moment {
                Some(moment) => super::serialize(moment, to),
                None => to.serialize_none(),
            }
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<OffsetDateTime>, D::Error> {
            let text = Option::<String>::deserialize(from)?;
            text.map(|text| super::parse(&text).map_err(serde::de::Error::custom))
                .transpose()
        }
    }
}
