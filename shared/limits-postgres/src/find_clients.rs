//! Reading the registry.

use uuid::Uuid;

use crate::database::{Database, DatabaseError};
use crate::page::Page;
use crate::record::{ClientRecord, KeyRecord};

impl Database {
    /// The client of that id.
    ///
    /// # Errors
    /// Where the database is out.
    pub async fn client(&self, id: &str) -> Result<Option<ClientRecord>, DatabaseError> {
        self.session().await?.client(id).await
    }

    /// A page of clients, by id.
    ///
    /// # Errors
    /// Where the database is out.
    pub async fn list_clients(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<ClientRecord, String>, DatabaseError> {
        let mut session = self.session().await?;
        let clients = session.list_clients(after, limit + 1).await?;
        Ok(Page::cut(clients, limit, |client| client.client_id.clone()))
    }

    /// A page of a client's keys, by id; none where there is no such client.
    ///
    /// # Errors
    /// Where the database is out.
    pub async fn list_keys(
        &self,
        client: &str,
        after: Option<Uuid>,
        limit: usize,
    ) -> Result<Option<Page<KeyRecord, Uuid>>, DatabaseError> {
        let mut session = self.session().await?;
        if session.client(client).await?.is_none() {
            return Ok(None);
        }
        let keys = session.keys(client, after, limit + 1).await?;
        Ok(Some(Page::cut(keys, limit, |key| key.key_id)))
    }
}
