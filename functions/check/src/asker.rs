//! Who asks: the IAM principal of the event.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use http_events::Identity;
use limits::registry::principal;

/// Who asks, as the event tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asker {
    /// An IAM user or role.
    Principal(String),
    /// An IAM identity that is neither, such as an account's root: it may ask about nobody.
    Stranger,
    /// There is no identity in the event, or no event at all.
    Anonymous,
}

impl Asker {
    /// Who comes as this identity.
    pub fn of(identity: Option<&Identity>) -> Self {
        match identity {
            Some(Identity(arn)) => principal(arn).map_or(Self::Stranger, Self::Principal),
            None => Self::Anonymous,
        }
    }

    /// About whom it may ask. `anonymous_allowed`: one without an identity about everyone.
    pub fn as_limiter(&self, anonymous_allowed: bool) -> limiter::Asker<'_> {
        match self {
            Self::Principal(principal) => limiter::Asker::Principal(principal),
            Self::Anonymous if anonymous_allowed => limiter::Asker::Anyone,
            Self::Anonymous | Self::Stranger => limiter::Asker::Nobody,
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Asker {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self::of(parts.extensions.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asker(arn: &str) -> Asker {
        Asker::of(Some(&Identity(arn.to_owned())))
    }

    #[test]
    fn an_assumed_role_is_known_as_its_role() {
        let arn = "arn:aws:sts::123456789012:assumed-role/orders/session";
        let known = Asker::Principal("123456789012/role/orders".to_owned());
        assert_eq!(asker(arn), known);
    }

    #[test]
    fn an_identity_that_is_neither_user_nor_role_is_not_taken_for_none() {
        let stranger = asker("arn:aws:iam::123456789012:root");
        assert_eq!(stranger, Asker::Stranger);
        assert!(matches!(stranger.as_limiter(true), limiter::Asker::Nobody));
        assert!(matches!(
            Asker::Anonymous.as_limiter(true),
            limiter::Asker::Anyone
        ));
        assert!(matches!(
            Asker::Anonymous.as_limiter(false),
            limiter::Asker::Nobody
        ));
    }
}
