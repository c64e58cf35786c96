//! Reading who did what.

use uuid::Uuid;

use crate::database::{Database, DatabaseError};
use crate::page::Page;
use crate::record::AuditRecord;

impl Database {
    /// A page of what was done, oldest first: to a rule, about a client, or at all.
    ///
    /// # Errors
    /// Where the database is out.
    pub async fn audit(
        &self,
        rule: Option<Uuid>,
        client: Option<&str>,
        after: Option<(u64, u32)>,
        limit: usize,
    ) -> Result<Page<AuditRecord, (u64, u32)>, DatabaseError> {
        let mut session = self.session().await?;
        let notes = session.audit(rule, client, after, limit + 1).await?;
        Ok(Page::cut(notes, limit, |note| {
            (note.revision, note.position)
        }))
    }
}
