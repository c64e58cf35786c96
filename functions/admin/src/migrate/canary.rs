//! What the canary needs to be answered: a client that may ask about everyone, and a rule that admits each caller once.

use limits::rule::OnFailure;
use limits::{Draft, Fields};
use limits_postgres::change_clients::ClientDraft;
use limits_postgres::{Database, Expected, Refusal, WriteError};
use serde_json::json;

use super::MigrateError;

const ACTOR: &str = "migrate";
const CLIENT: &str = "weir-canary";

/// Registers the canary as it has to be, by its IAM principal. What is so already is not written again.
///
/// # Errors
/// Where that is no principal or somebody else's, or the database is out.
pub async fn register(database: &Database, principal: &str) -> Result<(), MigrateError> {
    let client = client(principal)?;
    let registered = async {
        put_client(database, client).await?;
        put_rule(database, rule()).await
    };
    registered.await.map_err(|error| match error {
        WriteError::Refused(Refusal::PrincipalTaken { client }) => MigrateError::Property {
            property: "CanaryPrincipal",
            detail: format!("must be nobody else's: it is that of the client {client:?}"),
        },
        WriteError::Database(error) => error.into(),
        refused => MigrateError::Canary(refused),
    })
}

fn client(principal: &str) -> Result<ClientDraft, MigrateError> {
    let fault = |detail: String| MigrateError::Property {
        property: "CanaryPrincipal",
        detail,
    };
    let body = json!({
        "principal": principal,
        "may_ask": "any",
        "description": "asks again and again whether limits hold",
    });
    let faults = |faults: Vec<limits::Fault>| {
        let details: Vec<String> = faults.into_iter().map(|fault| fault.detail).collect();
        fault(details.join("; "))
    };
    let mut fields = Fields::of(&body).map_err(faults)?;
    let draft = ClientDraft::read(&mut fields);
    let wrong = fields.finish();
    if wrong.is_empty() {
        Ok(draft)
    } else {
        Err(faults(wrong))
    }
}

/// Once, and not again for an hour. A window aligned to the clock could end between the two.
fn rule() -> Draft {
    Draft {
        // Whatever else holds for everyone is not what the canary asks about.
        overrides: true,
        // What a container grants by itself while Redis is out would pass for a limit that holds.
        on_failure: OnFailure::Deny,
        description: "what the canary asks about, each time as somebody new".to_owned(),
        ..Draft::new("canary", Some(1), 3600)
    }
}

async fn put_client(database: &Database, draft: ClientDraft) -> Result<(), WriteError> {
    match database.create_client(ACTOR, CLIENT, draft.clone()).await {
        Err(WriteError::Refused(Refusal::ClientExists)) => {}
        created => return created.map(drop),
    }
    let known = database.client(CLIENT).await?;
    if known.is_some_and(|known| ClientDraft::of(&known) == draft) {
        return Ok(());
    }
    let replaced = database.replace_client(ACTOR, CLIENT, draft, Expected::Whatever);
    replaced.await.map(drop)
}

async fn put_rule(database: &Database, draft: Draft) -> Result<(), WriteError> {
    let rivals = match database.create_rule(ACTOR, draft.clone()).await {
        Err(WriteError::Refused(Refusal::RuleExists(rivals))) => rivals,
        created => return created.map(drop),
    };
    for rival in rivals {
        let known = database.rule(rival.id).await?;
        if known.is_some_and(|known| known.draft == draft) {
            continue;
        }
        let replaced = database.replace_rule(ACTOR, rival.id, draft.clone(), Expected::Whatever);
        replaced.await?;
    }
    Ok(())
}
