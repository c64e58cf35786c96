//! `POST /throttleRequest`: may this service call that one?
//!
//! Both are clients of the registry. Whoever is called asks about its callers, and need not name itself.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use http_events::{Body, NoQuery, Problem, both};
use limiter::{Pair, Party, Refusal, Verdict};
use limits::registry::check_client_id;
use limits::{Fault, Fields};
use serde_json::Value;

use crate::asker::Asker;
use crate::reply::respond_between;
use crate::{Check, refused, store_out};

const SOURCE: &str = "SourceService";
const DESTINATION: &str = "DestinationService";

/// Who calls whom, as the body tells.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    source: String,
    /// None is whoever asks.
    destination: Option<String>,
}

pub(crate) async fn handle(
    State(check): State<Arc<Check>>,
    asker: Asker,
    NoQuery(query): NoQuery,
    body: Body,
) -> Result<Response, Problem> {
    let asker = asker.as_limiter(check.anonymous_allowed);
    let is_someone = !matches!(asker, limiter::Asker::Anyone);
    let read = body.read(|body| read(body, is_someone).map_err(Problem::faults));
    let ((), told) = both(query, read)?;
    let pair = Pair {
        source: &told.source,
        destination: told.destination.as_deref(),
        asker,
    };
    match check.limiter.decide_between(&pair).await {
        Verdict::Decided(decision) => Ok(respond_between(&decision)),
        Verdict::StoreOut => Err(store_out()),
        Verdict::Refused(Refusal::NotRegistered(party)) => {
            let name = match party {
                Party::Source => pair.source,
                Party::Destination => pair.destination.unwrap_or_default(),
            };
            let detail = "this service is not registered, or is terminated";
            Err(Problem::no_service(StatusCode::FORBIDDEN, name, detail))
        }
        Verdict::Refused(refusal) => Err(refused(refusal)),
    }
}

/// Reads a body. `is_someone`: whether the asker can be the destination.
///
/// # Errors
/// Every field that is wrong.
fn read(body: &Value, is_someone: bool) -> Result<Told, Vec<Fault>> {
    let mut fields = Fields::of(body)?;
    let mut name = |field| {
        let name = fields.text(field)?;
        if let Err(detail) = check_client_id(name) {
            fields.fault(field, detail);
        }
        Some(name.to_owned())
    };
    let (source, destination) = (name(SOURCE), name(DESTINATION));
    if source.is_none() {
        fields.fault_once(SOURCE, "is required: the id of the service that calls");
    }
    if destination.is_none() && !is_someone {
        let detail = "is required of whoever has no identity: the id of the service that is called";
        fields.fault_once(DESTINATION, detail);
    }
    let faults = fields.finish();
    match source {
        Some(source) if faults.is_empty() => Ok(Told {
            source,
            destination,
        }),
        _ => Err(faults),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wrong(body: &Value, is_someone: bool) -> Vec<String> {
        let faults = read(body, is_someone).err().unwrap_or_default();
        faults.into_iter().map(|fault| fault.field).collect()
    }

    #[test]
    fn a_destination_is_left_out_by_those_who_are_it() {
        let alone = json!({ "SourceService": "b", "DestinationService": null });
        let told = Told {
            source: "b".to_owned(),
            destination: None,
        };
        assert_eq!(read(&alone, true), Ok(told));
        assert_eq!(wrong(&alone, false), [DESTINATION]);
        let both = json!({ "SourceService": "b", "DestinationService": "GET /a" });
        let told = read(&both, false).unwrap();
        assert_eq!(told.destination.as_deref(), Some("GET /a"));
    }

    #[test]
    fn every_field_that_is_wrong_is_told_once() {
        for name in [
            json!(""),
            json!("a\nb"),
            json!(7),
            json!(["b"]),
            json!("x".repeat(257)),
        ] {
            let body = json!({ "SourceService": name, "DestinationService": name, "Tps": 1 });
            assert_eq!(wrong(&body, false), [SOURCE, DESTINATION, "Tps"], "{name}");
        }
        assert_eq!(wrong(&json!({}), false), [SOURCE, DESTINATION]);
        assert_eq!(wrong(&json!({}), true), [SOURCE]);
        assert_eq!(wrong(&json!([]), true), [""]);
    }
}
