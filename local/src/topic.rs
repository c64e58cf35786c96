//! An SNS endpoint on the loopback: takes `Publish` as the SDK sends it to `AWS_ENDPOINT_URL_SNS`, and hands the message
//! to its subscribers as the event that SNS hands to a Lambda function.
//!
//! A publish is answered before anything is delivered, as with SNS. What may go wrong between the two can be asked for.

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    Form, Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

/// The one topic that is known here.
pub const ARN: &str = "arn:aws:sns:us-east-1:000000000000:weir-rules";

/// How often SNS tries at once before it begins to wait. What fails so often is given up here.
const TRIES: u32 = 3;

/// Takes one event; what it answers as an error is tried again.
pub type Subscriber =
    Arc<dyn Fn(Value) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> + Send + Sync>;

/// What becomes of a published message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Every subscriber gets it, once.
    #[default]
    Deliver,
    /// Every subscriber gets it twice, at the same time.
    Duplicate,
    /// The publish succeeds and nobody gets it.
    Drop,
    /// It waits for [`Topic::release`].
    Hold,
    /// The publish fails.
    Refuse,
    /// The publish is never answered.
    Hang,
}

/// In which order held messages go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As they were published.
    AsPublished,
    /// The newest first.
    Reversed,
}

/// A running endpoint; dropping it ends it.
pub struct Topic {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

struct Shared {
    subscribers: Vec<Subscriber>,
    messages: Mutex<Messages>,
    /// How many deliveries are under way.
    under_way: watch::Sender<usize>,
}

#[derive(Default)]
struct Messages {
    mode: Mode,
    published: Vec<String>,
    held: Vec<Value>,
    failures: Vec<String>,
}

impl Topic {
    /// Listens on a free port of the loopback, in the Tokio runtime that this is called in.
    pub async fn start(subscribers: Vec<Subscriber>) -> io::Result<Self> {
        Self::listen(0, subscribers).await
    }

    /// The same on a port by number.
    pub async fn listen(port: u16, subscribers: Vec<Subscriber>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            subscribers,
            messages: Mutex::default(),
            under_way: watch::Sender::new(0),
        });
        let router = Router::new()
            .route("/", post(answer))
            .with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "the topic ended");
            }
        });
        Ok(Self {
            address,
            shared,
            server,
        })
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What a function needs in its environment to publish here: the topic, the endpoint, a region, and credentials
    /// that nobody looks at.
    pub fn variables(&self) -> [(&'static str, String); 5] {
        [
            ("RULES_TOPIC_ARN", ARN.to_owned()),
            ("AWS_ENDPOINT_URL_SNS", self.url()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "local".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "local".to_owned()),
        ]
    }

    /// From now on, this becomes of what is published.
    pub fn set(&self, mode: Mode) {
        self.shared.messages().mode = mode;
    }

    /// Every message that was published successfully, in order, delivered or not.
    pub fn published(&self) -> Vec<String> {
        self.shared.messages().published.clone()
    }

    /// What subscribers answered when they had failed for the last time.
    pub fn failures(&self) -> Vec<String> {
        self.shared.messages().failures.clone()
    }

    /// Delivers what is held, one message after the other.
    pub fn release(&self, order: Order) {
        let mut held = std::mem::take(&mut self.shared.messages().held);
        if order == Order::Reversed {
            held.reverse();
        }
        self.shared.dispatch(held, 1);
    }

    /// Waits until nothing is under way any more; false when that takes longer than `deadline`.
    pub async fn settled(&self, deadline: Duration) -> bool {
        let mut under_way = self.shared.under_way.subscribe();
        tokio::time::timeout(deadline, under_way.wait_for(|&count| count == 0))
            .await
            .is_ok_and(|outcome| outcome.is_ok())
    }
}

impl Drop for Topic {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Shared {
    fn messages(&self) -> MutexGuard<'_, Messages> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands the events to each subscriber, each event `times` times at once, one event after the other.
    fn dispatch(self: &Arc<Self>, events: Vec<Value>, times: usize) {
        for subscriber in &self.subscribers {
            for _ in 0..times {
                let (shared, subscriber) = (Arc::clone(self), Arc::clone(subscriber));
                let events = events.clone();
                shared.under_way.send_modify(|count| *count += 1);
                tokio::spawn(async move {
                    for event in events {
                        shared.deliver(&subscriber, event).await;
                    }
                    shared.under_way.send_modify(|count| *count -= 1);
                });
            }
        }
    }

    async fn deliver(&self, subscriber: &Subscriber, event: Value) {
        let mut failure = String::new();
        for _ in 0..TRIES {
            match subscriber(event.clone()).await {
                Ok(()) => return,
                Err(error) => failure = error,
            }
        }
        tracing::warn!(error = failure, "a subscriber failed");
        self.messages().failures.push(failure);
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    Form(form): Form<HashMap<String, String>>,
) -> Response {
    if form.get("Action").map(String::as_str) != Some("Publish") {
        return refusal(StatusCode::BAD_REQUEST, "InvalidAction", "only Publish");
    }
    if form.get("TopicArn").map(String::as_str) != Some(ARN) {
        return refusal(StatusCode::NOT_FOUND, "NotFound", "Topic does not exist");
    }
    let Some(message) = form.get("Message") else {
        return refusal(
            StatusCode::BAD_REQUEST,
            "InvalidParameter",
            "Message is missing",
        );
    };
    let mode = shared.messages().mode;
    match mode {
        Mode::Hang => std::future::pending().await,
        Mode::Refuse => {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            return refusal(status, "ServiceUnavailable", "this topic is dead");
        }
        Mode::Deliver | Mode::Duplicate | Mode::Drop | Mode::Hold => {}
    }
    let number = {
        let mut messages = shared.messages();
        messages.published.push(message.clone());
        messages.published.len()
    };
    let id = format!("00000000-0000-4000-8000-{number:012x}");
    let event = event(&id, message);
    match mode {
        Mode::Hold => shared.messages().held.push(event),
        Mode::Duplicate => shared.dispatch(vec![event], 2),
        Mode::Deliver => shared.dispatch(vec![event], 1),
        Mode::Drop | Mode::Refuse | Mode::Hang => {}
    }
    xml(
        StatusCode::OK,
        format!(
            "<PublishResponse xmlns=\"http://sns.amazonaws.com/doc/2010-03-31/\">\
             <PublishResult><MessageId>{id}</MessageId></PublishResult>\
             <ResponseMetadata><RequestId>{id}</RequestId></ResponseMetadata></PublishResponse>"
        ),
    )
}

/// The event that SNS hands to a Lambda function for one message.
pub fn event(id: &str, message: &str) -> Value {
    let now = OffsetDateTime::now_utc();
    json!({ "Records": [{
        "EventSource": "aws:sns",
        "EventVersion": "1.0",
        "EventSubscriptionArn": format!("{ARN}:{id}"),
        "Sns": {
            "Type": "Notification",
            "MessageId": id,
            "TopicArn": ARN,
            "Subject": null,
            "Message": message,
            "Timestamp": now.format(&Rfc3339).unwrap_or_default(),
            "SignatureVersion": "1",
            "Signature": "",
            "SigningCertUrl": "",
            "UnsubscribeUrl": "",
            "MessageAttributes": {},
        },
    }] })
}

fn refusal(status: StatusCode, code: &str, message: &str) -> Response {
    let side = if status.is_server_error() {
        "Receiver"
    } else {
        "Sender"
    };
    xml(
        status,
        format!(
            "<ErrorResponse xmlns=\"http://sns.amazonaws.com/doc/2010-03-31/\"><Error><Type>{side}</Type>\
             <Code>{code}</Code><Message>{message}</Message></Error><RequestId>local</RequestId></ErrorResponse>"
        ),
    )
}

fn xml(status: StatusCode, body: String) -> Response {
    (status, [(CONTENT_TYPE, "text/xml")], body).into_response()
}
