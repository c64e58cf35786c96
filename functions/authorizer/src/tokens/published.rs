//! The keys that an issuer publishes: `JWT_JWKS_URL`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws::https::{self, SendError};
use hyper::body::Bytes;
use hyper::header::{ACCEPT, HeaderValue};
use hyper::{Request, StatusCode, Uri};
use limits::Moment;
use tokio::time::timeout;

use super::keys::KeySet;

/// How long one look at the keys may take, from the first packet to the last.
const PATIENCE: Duration = Duration::from_secs(2);

/// More is no key set: those of large issuers have some tens of thousands of bytes.
const MOST_BYTES: usize = 256 * 1024;

/// How long a look serves before another is taken: whoever makes up key ids causes no more.
const PAUSE: Duration = Duration::from_secs(60);

/// The same as long as there are no keys at all, and no token can be judged.
const PAUSE_WITHOUT_KEYS: Duration = Duration::from_secs(5);

/// When keys are looked at again though nobody asks for a new one: one that was withdrawn must not be believed for good.
const OLD: Duration = Duration::from_secs(600);

/// Keys as they were last seen. Where there is no newer look, the last good one counts.
#[derive(Debug)]
pub(super) struct Published {
    address: Uri,
    seen: Mutex<Seen>,
    /// One looks, and those who need to know wait for it.
    looking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Seen {
    keys: Option<Arc<KeySet>>,
    /// When the keys were asked for.
    at: Option<Moment>,
    /// When a token last caused a look. The one at start does not count: the issuer may have been about to change.
    caused: Option<Moment>,
}

/// Why there is no newer key set. Nothing of what was received is told: it is not ours.
#[derive(Debug, Clone, Copy, thiserror::Error)]
enum Failure {
    #[error("no answer within {PATIENCE:?}")]
    Timeout,
    #[error(transparent)]
    Unanswered(#[from] SendError),
    #[error("the answer is not 200 but {0}")]
    Status(StatusCode),
    #[error("the answer is no key set with a key for RS256, ES256 or EdDSA")]
    Malformed,
}

impl Seen {
    /// Whether a token may cause a look.
    fn due(&self, now: Moment) -> bool {
        let pause = if self.keys.is_some() {
            PAUSE
        } else {
            PAUSE_WITHOUT_KEYS
        };
        self.caused.is_none_or(|last| last.until(now) >= pause)
    }

    fn old(&self, now: Moment) -> bool {
        self.at.is_some_and(|at| at.until(now) >= OLD)
    }
}

impl Published {
    /// Keys of which nothing has been seen.
    pub(super) fn new(address: Uri) -> Self {
        Self {
            address,
            seen: Mutex::default(),
            looking: tokio::sync::Mutex::default(),
        }
    }

    /// Reads the address of a key set.
    ///
    /// # Errors
    /// What would be right.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        https::address(text).map(Self::new)
    }

    /// Takes a look ahead of the first token. Never fatal.
    pub(super) async fn load(&self) {
        let _looking = self.looking.lock().await;
        self.look(Moment::now()).await;
    }

    /// The keys to judge a token by that names this key; none where none were ever seen. A key that is not known is looked for,
    /// once a minute at most.
    pub(super) async fn keys(&self, id: Option<&str>) -> Option<Arc<KeySet>> {
        let (keys, old) = {
            let seen = self.seen();
            (seen.keys.clone(), seen.old(Moment::now()))
        };
        let missing = match (&keys, id) {
            (None, _) => true,
            (Some(keys), Some(id)) => !keys.names(id),
            (Some(_), None) => false,
        };
        // Old keys still serve everyone but the one who looks for newer.
        let looking = match (missing, old) {
            (true, _) => timeout(PATIENCE, self.looking.lock()).await.ok(),
            (false, true) => self.looking.try_lock().ok(),
            (false, false) => return keys,
        };
        let now = Moment::now();
        if looking.is_some() && self.begin(now) {
            self.look(now).await;
        }
        self.seen().keys.clone()
    }

    fn begin(&self, now: Moment) -> bool {
        let mut seen = self.seen();
        let due = seen.due(now);
        if due {
            seen.caused = Some(now);
        }
        due
    }

    async fn look(&self, now: Moment) {
        let fetched = timeout(PATIENCE, fetch(&self.address)).await;
        match fetched.unwrap_or(Err(Failure::Timeout)) {
            Ok(keys) => {
                let mut seen = self.seen();
                seen.keys = Some(Arc::new(keys));
                seen.at = Some(now);
            }
            Err(error) => tracing::warn!(%error, "the issuer's keys could not be read"),
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn fetch(address: &Uri) -> Result<KeySet, Failure> {
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = address.clone();
    let json = HeaderValue::from_static("application/json");
    request.headers_mut().insert(ACCEPT, json);
    let answer = https::send(request, MOST_BYTES).await?;
    if answer.status() != StatusCode::OK {
        return Err(Failure::Status(answer.status()));
    }
    KeySet::parse(answer.body()).ok_or(Failure::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn later(moment: Moment, by: Duration) -> Moment {
        Moment {
            at: moment.at + by,
            wall: moment.wall + by,
        }
    }

    fn some_keys() -> Option<Arc<KeySet>> {
        let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
        let set = format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","x":"{x}"}}]}}"#);
        KeySet::parse(set.as_bytes()).map(Arc::new)
    }

    #[test]
    fn a_look_is_due_once_a_minute_by_the_clock_that_saw_more_time_pass() {
        let start = Moment::now();
        let mut seen = Seen {
            keys: some_keys(),
            at: Some(start),
            caused: None,
        };
        // The look at start does not count.
        assert!(seen.due(start));
        seen.caused = Some(start);
        assert!(!seen.due(later(start, Duration::from_secs(59))));
        assert!(seen.due(later(start, Duration::from_secs(60))));
        // Frozen for an hour, and only one of the clocks knows.
        let hour = later(start, Duration::from_secs(3600));
        let (at, wall) = (start.at, start.wall);
        assert!(seen.due(Moment { at, ..hour }) && seen.due(Moment { wall, ..hour }));
        assert!(seen.old(hour) && !seen.old(later(start, Duration::from_secs(599))));
        // The wall clock is set back: nobody knows how long it has been, and one look more costs little.
        let back = Moment {
            wall: start.wall - Duration::from_secs(86_400),
            ..later(start, Duration::from_secs(1))
        };
        assert!(seen.due(back) && seen.old(back));
        seen.caused = Some(back);
        assert!(!seen.due(later(back, Duration::from_secs(59))));
        assert!(seen.due(later(back, Duration::from_secs(60))));
        seen.caused = Some(start);
        seen.keys = None;
        assert!(!seen.due(later(start, Duration::from_secs(4))));
        assert!(seen.due(later(start, Duration::from_secs(5))));
    }
}
