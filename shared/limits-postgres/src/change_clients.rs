//! Writing clients.

use limits::registry::{ClientStatus, MayAsk, Name, check_client_id, principal};
use limits::rule::{LONGEST_DESCRIPTION, Tier};
use limits::{Fault, Fields};

use crate::database::Database;
use crate::page::MOST;
use crate::record::ClientRecord;
use crate::refusal::{Expected, Refusal, WriteError};
use crate::session::RuleFilter;
use crate::write::{Write, Written};

/// The longest principal, in bytes.
pub const LONGEST_PRINCIPAL: usize = 2048;

/// What an operator writes of a client, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientDraft {
    tier: Tier,
    status: ClientStatus,
    principal: Option<String>,
    may_ask: MayAsk,
    description: String,
}

impl ClientDraft {
    /// A client of a tier, all else by default.
    pub fn new(tier: Tier) -> Self {
        Self {
            tier,
            status: ClientStatus::Active,
            principal: None,
            may_ask: MayAsk::Itself,
            description: String::new(),
        }
    }

    /// What would leave a client as it is.
    pub fn of(client: &ClientRecord) -> Self {
        Self {
            tier: client.tier,
            status: client.status,
            principal: client.principal.clone(),
            may_ask: client.may_ask,
            description: client.description.clone(),
        }
    }

    /// Reads a draft out of a request's body; what is left out takes its default. Faults are noted in `fields`.
    pub fn read(fields: &mut Fields<'_>) -> Self {
        let arn = fields.text("principal").map(str::to_owned);
        if let Some(arn) = &arn
            && (principal(arn).is_none()
                || arn.len() > LONGEST_PRINCIPAL
                || arn.contains(char::is_control))
        {
            fields.fault(
                "principal",
                "must be the ARN of an IAM user or role, or null",
            );
        }
        Self {
            tier: fields.choice("tier").unwrap_or(Tier::Free),
            status: fields.choice("status").unwrap_or(ClientStatus::Active),
            principal: arn,
            may_ask: fields.choice("may_ask").unwrap_or(MayAsk::Itself),
            description: read_description(fields),
        }
    }
}

/// The `description` of a body.
pub(crate) fn read_description(fields: &mut Fields<'_>) -> String {
    let description = fields.text("description").unwrap_or_default();
    if description.len() > LONGEST_DESCRIPTION || description.contains('\u{0}') {
        let detail = format!("must be at most {LONGEST_DESCRIPTION} bytes without NUL");
        fields.fault("description", detail);
    }
    description.to_owned()
}

impl Database {
    /// Makes a client.
    ///
    /// # Errors
    /// Where its id or its principal is taken or its id cannot be one, or the database is out.
    pub async fn create_client(
        &self,
        actor: &str,
        id: &str,
        draft: ClientDraft,
    ) -> Result<Written<ClientRecord>, WriteError> {
        check_client_id(id)
            .map_err(|detail| Refusal::Faults(vec![Fault::new("client_id", detail)]))?;
        let mut write = self.begin(actor).await?;
        let outcome = async {
            if write.session.client(id).await?.is_some() {
                return Err(Refusal::ClientExists.into());
            }
            put(&mut write, id, draft, None).await
        }
        .await;
        write.finish(outcome).await
    }

    /// Replaces a client as a whole. The entries of its id, its principals and all its keys follow.
    ///
    /// # Errors
    /// Where it is not there or not what it was taken to be, its principal is taken, or the database is out.
    pub async fn replace_client(
        &self,
        actor: &str,
        id: &str,
        draft: ClientDraft,
        expected: Expected,
    ) -> Result<Written<ClientRecord>, WriteError> {
        let mut write = self.begin(actor).await?;
        let outcome = async {
            let before = present(&mut write, id, &expected).await?;
            touch_keys(&mut write, id).await?;
            put(&mut write, id, draft, Some(before)).await
        }
        .await;
        write.finish(outcome).await
    }

    /// Deletes a client and its keys; with `cascade` also the rules that name it.
    ///
    /// # Errors
    /// Where it is not there or not what it was taken to be, rules name it and `cascade` is false, or the database is out.
    pub async fn delete_client(
        &self,
        actor: &str,
        id: &str,
        cascade: bool,
        expected: Expected,
    ) -> Result<Written<()>, WriteError> {
        let mut write = self.begin(actor).await?;
        let outcome = async {
            let before = present(&mut write, id, &expected).await?;
            remove_rules(&mut write, id, cascade).await?;
            remove_keys(&mut write, id).await?;
            write.note_client(Some(&before), None);
            write.session.remove_client(id).await?;
            Ok(())
        }
        .await;
        write.finish(outcome).await
    }
}

/// The client as it is now.
async fn present(
    write: &mut Write,
    id: &str,
    expected: &Expected,
) -> Result<ClientRecord, WriteError> {
    let client = write.session.client(id).await?;
    let client = client.ok_or(Refusal::NotFound("client"))?;
    expected.check(Some(client.revision))?;
    Ok(client)
}

async fn put(
    write: &mut Write,
    id: &str,
    draft: ClientDraft,
    before: Option<ClientRecord>,
) -> Result<ClientRecord, WriteError> {
    let client = ClientRecord {
        client_id: id.to_owned(),
        tier: draft.tier,
        status: draft.status,
        principal: draft.principal,
        may_ask: draft.may_ask,
        description: draft.description,
        revision: write.revision(),
        created_at: before
            .as_ref()
            .map_or(write.at(), |before| before.created_at),
        updated_at: write.at(),
    };
    if let Some(name) = client.principal_name()
        && let Some(other) = write.session.client_of(&name).await?
        && other != id
    {
        return Err(Refusal::PrincipalTaken { client: other }.into());
    }
    write.note_client(before.as_ref(), Some(&client));
    write.session.put_client(&client).await?;
    Ok(client)
}

/// Every key's entry tells of its client.
pub(crate) async fn touch_keys(write: &mut Write, client: &str) -> Result<(), WriteError> {
    for key in write.session.keys(client, None, usize::MAX).await? {
        write.touch(Name::Key(key.hash));
    }
    Ok(())
}

async fn remove_keys(write: &mut Write, client: &str) -> Result<(), WriteError> {
    // They go with the client; each is told.
    for key in write.session.keys(client, None, usize::MAX).await? {
        write.note_key(Some(&key), None);
    }
    Ok(())
}

async fn remove_rules(write: &mut Write, client: &str, cascade: bool) -> Result<(), WriteError> {
    let filter = RuleFilter {
        client: Some(Some(client.to_owned())),
        ..RuleFilter::default()
    };
    loop {
        let rules = write.session.list_rules(&filter, None, MOST).await?;
        let Some(first) = rules.first() else {
            return Ok(());
        };
        if !cascade {
            return Err(Refusal::ClientNamed { rule: first.id }.into());
        }
        for rule in &rules {
            write.note_rule(Some(rule), None);
        }
        let ids: Vec<_> = rules.iter().map(|rule| rule.id).collect();
        write.session.remove_rules(&ids).await?;
    }
}
