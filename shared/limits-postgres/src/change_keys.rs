//! Writing API keys.

use limits::registry::key_hash;
use limits::{Fault, Fields};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::change_clients::read_description;
use crate::database::Database;
use crate::record::{KeyRecord, moment};
use crate::refusal::{Refusal, WriteError};
use crate::write::Written;

/// What an operator writes of a key, checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyDraft {
    description: String,
    expires_at: Option<OffsetDateTime>,
}

impl KeyDraft {
    /// Reads a draft out of a request's body; what is left out takes its default. Faults are noted in `fields`.
    pub fn read(fields: &mut Fields<'_>) -> Self {
        let expires_at = fields
            .text("expires_at")
            .and_then(|text| match moment::parse(text) {
                Ok(moment) => Some(moment),
                Err(detail) => {
                    fields.fault("expires_at", format!("{detail}, or null"));
                    None
                }
            });
        Self {
            description: read_description(fields),
            // A whole second, as it is told.
            expires_at: expires_at.and_then(|end| end.replace_nanosecond(0).ok()),
        }
    }
}

impl Database {
    /// Keeps a new key of a client. Of the secret only the SHA-256 is kept.
    ///
    /// # Errors
    /// Where there is no such client, the key would have ended already, or the database is out.
    pub async fn create_key(
        &self,
        actor: &str,
        client: &str,
        secret: &str,
        draft: KeyDraft,
    ) -> Result<Written<KeyRecord>, WriteError> {
        let mut write = self.begin(actor).await?;
        let outcome = async {
            if write.session.client(client).await?.is_none() {
                return Err(Refusal::NotFound("client").into());
            }
            if draft.expires_at.is_some_and(|end| end <= write.at()) {
                let fault = Fault::new("expires_at", "must be in the future, or null");
                return Err(Refusal::Faults(vec![fault]).into());
            }
            let key = KeyRecord {
                key_id: Uuid::now_v7(),
                client_id: client.to_owned(),
                hash: key_hash(secret),
                description: draft.description,
                revision: write.revision(),
                created_at: write.at(),
                expires_at: draft.expires_at,
            };
            write.note_key(None, Some(&key));
            write.session.put_key(&key).await?;
            Ok(key)
        }
        .await;
        write.finish(outcome).await
    }

    /// Deletes a key of a client.
    ///
    /// # Errors
    /// Where it is not there or another client's, or the database is out.
    pub async fn delete_key(
        &self,
        actor: &str,
        client: &str,
        id: Uuid,
    ) -> Result<Written<()>, WriteError> {
        let mut write = self.begin(actor).await?;
        let outcome = async {
            let key = write.session.key(id).await?;
            let key = key
                .filter(|key| key.client_id == client)
                .ok_or(Refusal::NotFound("key"))?;
            write.note_key(Some(&key), None);
            write.session.remove_key(id).await?;
            Ok(())
        }
        .await;
        write.finish(outcome).await
    }
}
