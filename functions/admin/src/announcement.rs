//! Telling every region that there is something new.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use aws::metrics::{PENDING_ANNOUNCEMENTS, WRITES};
use aws::sns::{PUBLISH_DEADLINE, Topic};
use serde::Serialize;
use serde_json::json;
use tokio::time::timeout;
use tracing::warn;

/// Tells a listener in this process of a revision.
pub type Listener =
    Arc<dyn Fn(u64) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> + Send + Sync>;

/// What tells every region of a change.
#[derive(Clone)]
pub enum Announcer {
    /// An SNS topic, to which every region's `refresh` is subscribed.
    Sns(Topic),
    /// A listener in this process.
    InProcess(Listener),
    /// Nothing: the schedule will find out.
    Unset,
}

/// How far the news of a write got before it was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Propagation {
    /// It was announced.
    Announced,
    /// It was not. The schedule heals that within a minute.
    Pending,
}

impl Propagation {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Propagation::Announced => "announced",
            Propagation::Pending => "pending",
        }
    }
}

impl Announcer {
    /// Announces a revision, never the change itself: whoever hears of it reads the database. Takes two seconds at most.
    pub(crate) async fn announce(&self, revision: u64) -> Propagation {
        let propagation = self.tell(revision).await;
        WRITES.add(1);
        if propagation == Propagation::Pending {
            PENDING_ANNOUNCEMENTS.add(1);
        }
        propagation
    }

    async fn tell(&self, revision: u64) -> Propagation {
        let outcome = match self {
            Announcer::Sns(topic) => topic
                .publish(&json!({"revision": revision}).to_string())
                .await
                .map_err(|error| error.to_string()),
            Announcer::InProcess(listener) => {
                match timeout(PUBLISH_DEADLINE, listener(revision)).await {
                    Ok(outcome) => outcome,
                    Err(_) => Err("the listener did not answer in time".to_owned()),
                }
            }
            Announcer::Unset => return Propagation::Pending,
        };
        match outcome {
            Ok(()) => Propagation::Announced,
            Err(reason) => {
                warn!(revision, reason, "a change was written and not announced");
                Propagation::Pending
            }
        }
    }
}
