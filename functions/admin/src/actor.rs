//! Who asks.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use http_events::Identity;

/// Who asks, as the audit has it: the ARN of the caller's IAM identity, or `anonymous` where the event carries none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor(pub String);

impl Actor {
    /// The actor of this identity.
    pub(crate) fn of(identity: Option<&Identity>) -> Self {
        let arn = identity.map(|identity| identity.0.as_str());
        // No ARN holds a control character; an event that was made up may, and Postgres takes not all of them.
        let arn = arn.filter(|arn| !arn.contains(char::is_control));
        arn.map_or_else(Self::anonymous, |arn| Self(arn.to_owned()))
    }

    fn anonymous() -> Self {
        Self("anonymous".to_owned())
    }
}

impl<S: Sync> FromRequestParts<S> for Actor {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self::of(parts.extensions.get()))
    }
}
