//! Reading a request's body and its preconditions.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::header::IF_MATCH;
use axum::http::request::Parts;
use http_events::Problem;
use limits::Fields;
use limits_postgres::Expected;
use serde_json::Value;

/// A reader over the fields of what is written, which may be what was answered.
///
/// # Errors
/// Where the body is no object.
pub(crate) fn fields(body: &Value) -> Result<Fields<'_>, Problem> {
    let mut fields = Fields::of(body).map_err(Problem::faults)?;
    ignore_answered(&mut fields);
    Ok(fields)
}

/// Accepts what an answer holds beside what was written.
pub(crate) fn ignore_answered(fields: &mut Fields<'_>) {
    for told in ["revision", "propagation", "created_at", "updated_at"] {
        fields.ignore(told);
    }
}

/// # Errors
/// Every fault that the reader noted.
pub(crate) fn finish(fields: Fields<'_>) -> Result<(), Problem> {
    let faults = fields.finish();
    if faults.is_empty() {
        Ok(())
    } else {
        Err(Problem::faults(faults))
    }
}

/// What `If-Match` takes to be there.
pub(crate) struct IfMatch(pub(crate) Expected);

impl<S: Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        let mut values = parts.headers.get_all(IF_MATCH).iter().peekable();
        if values.peek().is_none() {
            return Ok(Self(Expected::Whatever));
        }
        let mut revisions = Vec::new();
        for tag in values.flat_map(|value| value.to_str().unwrap_or_default().split(',')) {
            let tag = tag.trim();
            if tag == "*" {
                return Ok(Self(Expected::Something));
            }
            // A tag that is none of ours, a weak one included, is no revision: it matches nothing.
            let own = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
            revisions.extend(own.and_then(|number| number.parse::<u64>().ok()));
        }
        Ok(Self(Expected::Revisions(revisions)))
    }
}
