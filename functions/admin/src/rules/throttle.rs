//! `/setThrottleRule`, `/getThrottleRule`: how often one service may call another.
//!
//! Both speak of one rule: {client: source, resource: destination, per client, token bucket, window 1 s}. Rules of the pair that
//! count otherwise stand beside it and are neither told nor touched here.

use axum::Json;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use http_events::openapi::{Answer, Operation, Shape, reference};
use http_events::{Body, Problem, both};
use limits::registry::check_client_id;
use limits::rule::{MOST, Status};
use limits::{Fields, Pattern, Quota};
use limits_postgres::between_services::Services;
use limits_postgres::{RuleRecord, Written};
use serde::Serialize;
use serde_json::{Value, json};

use super::wording::Wording;
use crate::actor::Actor;
use crate::answer;
use crate::body::{IfMatch, fields, finish};
use crate::describe::{self, if_match, operation, tagged, writing, written};
use crate::failure::Failure;
use crate::query::Query;
use crate::state::State;

pub(crate) const SOURCE: &str = "SourceService";
pub(crate) const DESTINATION: &str = "DestinationService";
pub(crate) const TPS: &str = "Tps";
pub(crate) const STATUS: &str = "Status";

/// The most requests a second that this form can say.
pub(crate) const MOST_TPS: u64 = 10_000;
pub(crate) const ACTIVE: &str = "Active";
pub(crate) const TERMINATED: &str = "Terminated";

const WORDING: Wording = Wording(&[
    ("client", SOURCE),
    ("resource", DESTINATION),
    ("limit", TPS),
]);

/// How a limit stands.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Limit {
    /// None for an exemption, which only another form can write.
    tps: Option<u64>,
    status: &'static str,
}

impl Limit {
    fn of(rule: &RuleRecord) -> Self {
        Self {
            tps: rule.draft.limit,
            status: match rule.draft.status {
                Status::Active => ACTIVE,
                // Neither is enforced.
                Status::Shadow | Status::Terminated => TERMINATED,
            },
        }
    }
}

/// A limit as it is told.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    limit: Limit,
    /// Whether nobody has set it.
    default: bool,
}

/// A limit as it was written, in the shape of the body that wrote it.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Set {
    source_service: String,
    destination_service: String,
    #[serde(flatten)]
    limit: Limit,
    #[serde(rename = "revision")]
    revision: u64,
}

/// What a body says.
struct Told {
    between: Services,
    tps: u64,
    status: Status,
}

pub(crate) fn describe_set() -> Operation {
    let operation = writing(
        "setServiceLimit",
        "Set how often one service may call another",
    )
    .body(
        reference("ServiceLimitDraft"),
        json!({SOURCE: "billing", DESTINATION: "orders", TPS: 100, STATUS: ACTIVE}),
    )
    .answer(written(StatusCode::OK, "ServiceLimit"))
    .problem(StatusCode::NOT_FOUND);
    if_match(operation)
}

pub(crate) fn describe_show() -> Operation {
    let told = Shape::object()
        .required(
            TPS,
            Shape::integer(0, MOST)
                .or_null()
                .meaning("Requests a second; null is an exemption."),
        )
        .required(STATUS, Shape::words(&[ACTIVE, TERMINATED]))
        .required(
            "default",
            Shape::boolean().meaning("Whether nobody has set it."),
        );
    let answer = Answer::json(
        StatusCode::OK,
        "The limit; with an `ETag` where it was set.",
        told,
    );
    operation(
        "showServiceLimit",
        "Show how often one service may call another",
    )
    .required_query(SOURCE, describe::client_id().meaning("The one that calls."))
    .required_query(
        DESTINATION,
        describe::client_id().meaning("The one that is called."),
    )
    .answer(tagged(answer))
    .problem(StatusCode::NOT_FOUND)
}

/// `PUT /setThrottleRule`
pub(crate) async fn set(
    Shared(state): Shared<State>,
    Actor(actor): Actor,
    query: Query,
    IfMatch(expected): IfMatch,
    body: Body,
) -> Result<Response, Failure> {
    let ((), told) = both(query.finish(), body.read(read))?;
    let Told {
        between,
        tps,
        status,
    } = told;
    let written = state
        .database
        .set_service_limit(&actor, &between, tps, status, expected)
        .await
        .map_err(|error| WORDING.of_error(error))?;
    let Services {
        source,
        destination,
    } = between;
    let set = Written {
        revision: written.revision,
        value: Set {
            source_service: source,
            destination_service: destination,
            limit: Limit::of(&written.value),
            revision: written.revision,
        },
    };
    Ok(answer::put(&state, StatusCode::OK, &set).await)
}

/// `GET /getThrottleRule`
pub(crate) async fn show(
    Shared(state): Shared<State>,
    mut query: Query,
) -> Result<Response, Failure> {
    let names = [SOURCE, DESTINATION].map(|field| {
        if !query.told(field) {
            query.fault(field, "is required: the id of a service");
        }
        query.client(field)
    });
    query.finish()?;
    let [source, destination] = names.map(Option::unwrap_or_default);
    let between = Services {
        source,
        destination,
    };
    Ok(match state.database.service_limit(&between).await? {
        Some(rule) => {
            let limit = Limit::of(&rule);
            let default = false;
            answer::shown(&Shown { limit, default }, rule.revision)
        }
        None => {
            let limit = Limit {
                tps: Some(Quota::BETWEEN_SERVICES.limit()),
                status: ACTIVE,
            };
            let default = true;
            Json(Shown { limit, default }).into_response()
        }
    })
}

fn read(body: &Value) -> Result<Told, Problem> {
    let mut fields = fields(body)?;
    // Told by the other of the two.
    fields.ignore("default");
    let source = service(&mut fields, SOURCE);
    let destination = service(&mut fields, DESTINATION);
    if let Err(detail) = Pattern::service(&destination) {
        fields.fault_once(DESTINATION, detail);
    }
    let tps = fields.integer(TPS, 0, MOST_TPS);
    if tps.is_none() {
        let detail = format!("is required: requests a second, 0 to {MOST_TPS}");
        fields.fault_once(TPS, detail);
    }
    let status = match fields.text(STATUS) {
        None | Some(ACTIVE) => Status::Active,
        Some(TERMINATED) => Status::Terminated,
        Some(_) => {
            fields.fault(STATUS, "must be one of Active, Terminated");
            Status::Active
        }
    };
    finish(fields)?;
    Ok(Told {
        between: Services {
            source,
            destination,
        },
        tps: tps.unwrap_or_default(),
        status,
    })
}

/// The id of a service; empty where a fault was noted.
fn service(fields: &mut Fields<'_>, name: &'static str) -> String {
    let id = fields.text(name);
    match id.map(check_client_id) {
        None => fields.fault_once(name, "is required: the id of a service"),
        Some(Err(detail)) => fields.fault(name, detail),
        Some(Ok(())) => {}
    }
    id.unwrap_or_default().to_owned()
}
