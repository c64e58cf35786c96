//! The Lambda Runtime API for one container: what a function's binary talks to inside Lambda.

use std::{
    collections::HashMap,
    future::pending,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{
    Router,
    body::Bytes,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::{Mutex as AsyncMutex, mpsc, oneshot, watch},
    task::JoinHandle,
};

use crate::FunctionError;

/// Of the only extension.
const IDENTIFIER: &str = "00000000-0000-4000-8000-000000000000";

pub(crate) type Outcome = Result<Value, FunctionError>;

/// None until the function has asked for an event, or has said that it cannot start.
pub(crate) type Start = Option<Result<(), FunctionError>>;

pub(crate) struct RuntimeApi {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

/// How far the container's extension has come: as long as one is registered that has not asked, the start is not over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extension {
    /// None is there, or it has not been answered.
    Unregistered,
    Registered,
    Asked,
}

struct Shared {
    queue: mpsc::UnboundedSender<Event>,
    events: AsyncMutex<mpsc::UnboundedReceiver<Event>>,
    waiting: Mutex<HashMap<String, oneshot::Sender<Outcome>>>,
    start: watch::Sender<Start>,
    extension: watch::Sender<Extension>,
    /// Whether whoever would register an extension is answered.
    registers: bool,
    count: AtomicU64,
}

struct Event {
    id: String,
    payload: String,
    deadline: SystemTime,
}

impl RuntimeApi {
    /// `registers`: whether whoever would register an extension is answered.
    pub(crate) async fn start(registers: bool) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (queue, events) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            queue,
            events: AsyncMutex::new(events),
            waiting: Mutex::default(),
            start: watch::Sender::new(None),
            extension: watch::Sender::new(Extension::Unregistered),
            registers,
            count: AtomicU64::new(1),
        });
        let router = Router::new()
            .route("/2018-06-01/runtime/invocation/next", get(next))
            .route(
                "/2018-06-01/runtime/invocation/{id}/response",
                post(response),
            )
            .route("/2018-06-01/runtime/invocation/{id}/error", post(error))
            .route("/2018-06-01/runtime/init/error", post(init_error))
            .route("/2020-01-01/extension/register", post(register))
            .route("/2020-01-01/extension/event/next", get(extension_next))
            .with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move {
            axum::serve(listener, router).await.unwrap();
        });
        Self {
            address,
            shared,
            server,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until the function has started or failed to.
    pub(crate) async fn started(&self) -> Result<(), FunctionError> {
        let mut start = self.shared.start.subscribe();
        let start = start.wait_for(Option::is_some).await;
        start
            .expect("the sender lives as long as the API")
            .clone()
            .unwrap()
    }

    /// Whether a process that is not needed any more is told: it is where an extension is registered.
    pub(crate) fn tells_of_the_end(&self) -> bool {
        *self.shared.extension.borrow() == Extension::Asked
    }

    /// Queues an event, for as long as the receiver is kept.
    pub(crate) fn send(&self, payload: String, deadline: Duration) -> oneshot::Receiver<Outcome> {
        let number = self.shared.count.fetch_add(1, Ordering::Relaxed);
        let id = format!("00000000-0000-4000-8000-{number:012x}");
        let (outcome, receiver) = oneshot::channel();
        self.shared
            .waiting
            .lock()
            .unwrap()
            .insert(id.clone(), outcome);
        let queued = self.shared.queue.send(Event {
            id,
            payload,
            deadline: SystemTime::now() + deadline,
        });
        assert!(queued.is_ok(), "the queue lives as long as the API");
        receiver
    }
}

impl Drop for RuntimeApi {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn next(State(shared): State<Arc<Shared>>) -> Response {
    let mut extension = shared.extension.subscribe();
    let over = extension.wait_for(|extension| *extension != Extension::Registered);
    over.await.expect("the sender lives as long as the API");
    shared
        .start
        .send_if_modified(|start| start.replace(Ok(())).is_none());
    let event = shared.events.lock().await.recv().await;
    let Some(event) = event else {
        return StatusCode::GONE.into_response();
    };
    let deadline = event.deadline.duration_since(UNIX_EPOCH).unwrap();
    let headers = [
        ("content-type", "application/json".to_owned()),
        ("lambda-runtime-aws-request-id", event.id),
        (
            "lambda-runtime-deadline-ms",
            deadline.as_millis().to_string(),
        ),
        (
            "lambda-runtime-invoked-function-arn",
            "arn:aws:lambda:us-east-1:000000000000:function:test".to_owned(),
        ),
    ];
    (headers, event.payload).into_response()
}

async fn response(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    body: Bytes,
) -> StatusCode {
    let outcome = serde_json::from_slice(&body).map_err(|error| FunctionError {
        error_type: "Runtime.InvalidResponse".to_owned(),
        error_message: error.to_string(),
    });
    shared.finish(&id, outcome)
}

async fn error(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    body: Bytes,
) -> StatusCode {
    shared.finish(&id, Err(FunctionError::read(&body)))
}

async fn init_error(State(shared): State<Arc<Shared>>, body: Bytes) -> StatusCode {
    let failed = Err(FunctionError::read(&body));
    shared.start.send_replace(Some(failed));
    StatusCode::ACCEPTED
}

/// Of one that runs inside the process of the function: it cannot be told of the end by an event, and not begin after the start.
async fn register(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    if !shared.registers {
        return pending().await;
    }
    let asked: Value = serde_json::from_slice(&body).unwrap();
    if asked["events"] != json!([]) || shared.start.borrow().is_some() {
        return StatusCode::BAD_REQUEST.into_response();
    }
    shared.extension.send_replace(Extension::Registered);
    let function =
        json!({ "functionName": "test", "functionVersion": "$LATEST", "handler": "bootstrap" });
    let identifier = [("lambda-extension-identifier", IDENTIFIER)];
    (identifier, function.to_string()).into_response()
}

/// There is no event that an extension could be told.
async fn extension_next(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    if headers["lambda-extension-identifier"] != IDENTIFIER {
        return StatusCode::FORBIDDEN.into_response();
    }
    shared.extension.send_replace(Extension::Asked);
    pending().await
}

impl Shared {
    fn finish(&self, id: &str, outcome: Outcome) -> StatusCode {
        match self.waiting.lock().unwrap().remove(id) {
            Some(waiting) => {
                // Whoever asked may have given up meanwhile.
                let _ = waiting.send(outcome);
                StatusCode::ACCEPTED
            }
            None => StatusCode::BAD_REQUEST,
        }
    }
}
