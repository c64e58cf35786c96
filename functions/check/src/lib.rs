//! The same question over HTTP, for services without a gateway.
//!
//! `POST /ratelimit/status/{client_id}` asks and counts, `GET` looks; `POST /throttleRequest` asks for one service that calls
//! another. [`question`] and [`throttle`] read what is asked, [`asker`] who asks, `limiter` decides, [`reply`] tells it.

pub mod asker;
mod describe;
pub mod question;
pub mod reply;
pub mod throttle;

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use http_events::health::{answer, asked};
use http_events::openapi::{OpenApi, document, respond as respond_document};
use http_events::{Body, Named, NoQuery, Problem, Routes, both};
use limiter::{Config, Decision, Limiter, Refusal, Request, Verdict, Who};
use limits::Resource;
use limits::counters::Operation;
use limits::settings::Settings;
use serde_json::Map;

use crate::asker::Asker;
use crate::question::Question;
use crate::reply::respond;

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
        let store = limits_redis::Store::from_settings(settings);
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
        match self.limiter.decide(&request).await {
            Verdict::Decided(decision) => Ok(decision),
            Verdict::StoreOut => Err(store_out()),
            Verdict::Refused(refusal) => Err(refused(refusal)),
        }
    }
}

/// 503: Redis is out, and nothing may be said in its place.
fn store_out() -> Problem {
    Problem::store_out("the call could not be judged: try again")
}

/// 403, whoever was refused.
fn refused(refusal: Refusal) -> Problem {
    let detail = match refusal {
        Refusal::Terminated => "the client is terminated",
        Refusal::MayNotAsk | Refusal::Unknown => "the asker may not ask about this client",
        Refusal::NotRegistered(_) => "a service is not registered, or is terminated",
    };
    Problem::new(StatusCode::FORBIDDEN, detail)
}

/// The routes.
pub fn router(check: Arc<Check>) -> Router {
    routes().into_router().with_state(check)
}

fn routes() -> Routes<Arc<Check>> {
    const STATUS: &str = "/ratelimit/status/{client_id}";
    Routes::new()
        .get(STATUS, look, describe::look)
        .post(STATUS, ask, describe::ask)
        .post("/throttleRequest", throttle::handle, describe::throttle)
        .get("/health", health, describe::health)
        .get("/openapi.json", openapi, http_events::openapi::describe)
}

/// The document of the check API.
pub fn check_api() -> OpenApi {
    document(
        "Weir: the check API",
        "May this client make such a call? For services without a gateway.",
        routes().described(),
        describe::shapes(),
    )
}

async fn openapi(NoQuery(query): NoQuery) -> Result<Response, Problem> {
    // Made when it is first asked for: a cold start has better things to do.
    static DOCUMENT: LazyLock<String> = LazyLock::new(|| check_api().to_json().unwrap_or_default());
    query.map(|()| respond_document(&DOCUMENT))
}

/// Whether Redis answers, and has rules to decide by. Asks about nobody, so whoever may call may ask.
async fn health(
    State(check): State<Arc<Check>>,
    NoQuery(query): NoQuery,
) -> Result<Response, Problem> {
    query?;
    let redis = match asked(check.limiter.store().head()).await {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err("nothing is published there".to_owned()),
        Err(reason) => Err(reason),
    };
    answer([("redis", redis)], Map::new())
}

async fn ask(
    State(check): State<Arc<Check>>,
    asker: Asker,
    Named(client): Named<String>,
    NoQuery(query): NoQuery,
    body: Body,
) -> Result<Response, Problem> {
    let read = body.read(|body| Question::in_body(&client, body).map_err(Problem::faults));
    let ((), question) = both(query, read)?;
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
    asker: Asker,
    Named(client): Named<String>,
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(pairs) =
        query.map_err(|_| Problem::fault("", "the query must be form-encoded UTF-8"))?;
    let question = Question::in_query(&client, pairs).map_err(Problem::faults)?;
    let decision = check.decide(&question, &asker, Operation::Look).await?;
    Ok(respond(&decision, StatusCode::OK))
}
