//! Reading no query.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use limits::Fault;

use crate::problem::Problem;

/// The query of a route that takes none. A parameter that nobody looks at would pass for one that was heeded: it is a fault,
/// kept so that it can be told with what is wrong beside it.
#[derive(Debug)]
pub struct NoQuery(pub Result<(), Problem>);

impl<S: Sync> FromRequestParts<S> for NoQuery {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        let query = parts.uri.query().unwrap_or_default();
        let faults: Vec<Fault> = form_urlencoded::parse(query.as_bytes())
            .map(|(name, _)| Fault::new(name, "is not a parameter of this resource"))
            .collect();
        Ok(Self(if faults.is_empty() {
            Ok(())
        } else {
            Err(Problem::faults(faults))
        }))
    }
}
