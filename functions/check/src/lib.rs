//! The same question over HTTP, for services without a gateway.
//!
//! `POST /ratelimit/status/{client_id}` asks and counts, `GET` looks. [`question`] reads what is asked, [`asker`] who asks,
//! `limiter` decides, [`reply`] tells it.

pub mod asker;
pub mod problem;
pub mod question;
pub mod reply;

use std::sync::Arc;

use axum::{
    Extension, Router,
    body::Bytes,
    extract::{
        DefaultBodyLimit, Path, Query, State,
        rejection::{BytesRejection, PathRejection, QueryRejection},
    },
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE},
    response::Response,
    routing::get,
};
use lambda_http::request::RequestContext;
use limiter::{Config, Decision, Limiter, Refusal, Request, Verdict, Who};
use limits::{Resource, counters::Operation, settings::Settings};

use crate::{asker::Asker, problem::Problem, question::Question, reply::respond};

/// The largest body that is read, in bytes.
const LARGEST_BODY: usize = 1 << 20;

/// One in a container, shared by all that it does at once.
#[derive(Debug)]
pub struct Check {
    limiter: Limiter,
    /// `CHECK_ANONYMOUS`: whether one without an IAM principal may ask about everyone.
    anonymous_allowed: bool,
}

impl Check {
    /// A check that has loaded nothing yet.
    pub fn new(limiter: Limiter, anonymous_allowed: bool) -> Self {
        Self {
            limiter,
            anonymous_allowed,
        }
    }

    /// The check that the environment describes. None where a fault was noted in `settings`.
    pub fn read(settings: &mut Settings<'_>) -> Option<Self> {
        let store = limiter::config::store(settings);
        let config = Config::read(settings);
        let anonymous_allowed = settings.or("CHECK_ANONYMOUS", false, |text| match text {
            "allow" => Ok(true),
            "deny" => Ok(false),
            _ => Err("must be allow or deny".to_owned()),
        });
        Some(Self::new(Limiter::new(config?, store?), anonymous_allowed?))
    }

    /// Loads the rules ahead of the first question. Never fatal.
    pub async fn load(&self) {
        self.limiter.load().await;
    }

    async fn decide(
        &self,
        question: &Question,
        asker: &Asker,
        operation: Operation,
    ) -> Result<Decision, Problem> {
        let request = Request {
            who: Who::Client {
                id: &question.client,
                asker: asker.as_limiter(self.anonymous_allowed),
            },
            address: question.ip,
            resource: Resource::parse(&question.resource),
            tokens: question.tokens,
            operation,
        };
        let detail = match self.limiter.decide(&request).await {
            Verdict::Decided(decision) => return Ok(decision),
            Verdict::StoreOut => {
                return Err(Problem::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "The call could not be judged. Try again.",
                ));
            }
            Verdict::Refused(Refusal::Terminated) => "The client is terminated.",
            Verdict::Refused(Refusal::MayNotAsk | Refusal::Unknown) => {
                "The asker may not ask about this client."
            }
        };
        Err(Problem::new(StatusCode::FORBIDDEN, detail))
    }
}

/// The routes.
pub fn router(check: Arc<Check>) -> Router {
    Router::new()
        .route("/ratelimit/status/{client_id}", get(look).post(ask))
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .fallback(async || Problem::new(StatusCode::NOT_FOUND, "There is nothing here."))
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "This takes GET and POST.")
        })
        .with_state(check)
}

async fn ask(
    State(check): State<Arc<Check>>,
    context: Option<Extension<RequestContext>>,
    client: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    if !is_json(&headers) {
        let detail = "The body must be application/json.";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let body =
        body.map_err(|rejection| Problem::new(rejection.status(), "The body is too large."))?;
    let question = Question::in_body(&known(client)?, &body).map_err(Problem::faults)?;
    let asker = Asker::of(context.as_deref());
    let decision = check.decide(&question, &asker, Operation::Take).await?;
    let status = if decision.allowed {
        StatusCode::OK
    } else {
        StatusCode::TOO_MANY_REQUESTS
    };
    Ok(respond(&decision, status))
}

async fn look(
    State(check): State<Arc<Check>>,
    context: Option<Extension<RequestContext>>,
    client: Result<Path<String>, PathRejection>,
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(pairs) = query.map_err(|_| unreadable("The query is not form-encoded UTF-8."))?;
    let question = Question::in_query(&known(client)?, pairs).map_err(Problem::faults)?;
    let asker = Asker::of(context.as_deref());
    let decision = check.decide(&question, &asker, Operation::Look).await?;
    Ok(respond(&decision, StatusCode::OK))
}

fn known(client: Result<Path<String>, PathRejection>) -> Result<String, Problem> {
    client
        .map(|Path(client)| client)
        .map_err(|_| unreadable("The client in the path is not UTF-8."))
}

fn unreadable(detail: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, detail)
}

/// Whether a body is JSON, or does not say what it is.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(CONTENT_TYPE) else {
        return true;
    };
    let kind = kind.to_str().unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}
