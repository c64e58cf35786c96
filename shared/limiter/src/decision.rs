//! What came out of a request.

use std::sync::Arc;
use std::time::Duration;

use limits::Client;
use limits::rule::Tier;
use uuid::Uuid;

/// How a request ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It was judged by the rules.
    Decided(Decision),
    /// It was not: the caller is none whom the rules are for.
    Refused(Refusal),
    /// It could not be judged: Redis is out, and nothing may be said in its place. 503.
    StoreOut,
}

/// Why a caller is refused before any rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// No credentials, or none that are known.
    Unknown,
    /// The client is terminated.
    Terminated,
    /// The asker may not ask about this client.
    MayNotAsk,
    /// A service that takes part is not registered, or is terminated.
    NotRegistered(Party),
}

/// One of the two services of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Party {
    /// The one that calls.
    Source,
    /// The one that is called.
    Destination,
}

/// Why a request was allowed or denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Denied: a bucket is empty.
    Limit,
    /// Denied: a rule's limit is 0.
    Blocked,
    /// Denied: the cost would not fit even a full bucket.
    CostExceedsCapacity,
    /// Denied: Redis is out, and what this container grants by itself meanwhile is used up, or less than the cost.
    StoreUnavailable,
    /// Allowed: a rule lets it through uncounted.
    Exempt,
    /// Allowed: no rule fits.
    Default,
    /// Allowed by the rules.
    Rule,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Reason; 7] = [
        Reason::Limit,
        Reason::Blocked,
        Reason::CostExceedsCapacity,
        Reason::StoreUnavailable,
        Reason::Exempt,
        Reason::Default,
        Reason::Rule,
    ];

    /// The word that callers are told.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Limit => "limit",
            Reason::Blocked => "blocked",
            Reason::CostExceedsCapacity => "cost_exceeds_capacity",
            Reason::StoreUnavailable => "store_unavailable",
            Reason::Exempt => "exempt",
            Reason::Default => "default",
            Reason::Rule => "rule",
        }
    }
}

/// A judgement by the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request passes.
    pub allowed: bool,
    /// Why.
    pub reason: Reason,
    /// Who asked; none for one known by its address alone.
    pub client: Option<Arc<Client>>,
    /// The rule that is told, and its numbers; none where nothing counts.
    pub told: Option<Told>,
    /// Each rule that the request is counted in.
    pub policy: Vec<Policy>,
    /// Whether it was decided without Redis, or by rules that may be old.
    pub degraded: bool,
    /// The shadow rules that would have denied it.
    pub would_deny: Vec<Uuid>,
}

impl Decision {
    /// The client's id, or nothing.
    pub fn client_id(&self) -> &str {
        self.client.as_ref().map_or("", |client| &client.id)
    }

    /// The same, told so much later: there is so much less to wait.
    pub(crate) fn told_later(mut self, since: Duration) -> Self {
        if let Some(told) = &mut self.told {
            for time in [&mut told.reset, &mut told.wait] {
                *time = time.map(|time| time.saturating_sub(since));
            }
        }
        self
    }

    /// The client's tier.
    pub fn tier(&self) -> Option<Tier> {
        self.client.as_ref().and_then(|client| client.tier)
    }
}

/// A rule as it is told to callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// The rule; none is the default limit.
    pub rule: Option<Uuid>,
    /// Requests a window.
    pub limit: u64,
    /// The window in seconds.
    pub window_seconds: u64,
}

/// The rule that is told, and how it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// The rule; none is the default limit.
    pub rule: Option<Uuid>,
    /// Its limit; none for an exemption.
    pub limit: Option<u64>,
    /// Requests that are left now, at most the limit; none where no bucket was asked.
    pub remaining: Option<u64>,
    /// Time until nothing is counted any more: the bucket is full, or the last window has ended; none where no bucket was asked.
    pub reset: Option<Duration>,
    /// Time to wait; none where the request passed, or where no wait will do.
    pub wait: Option<Duration>,
}

impl Told {
    /// `reset` in whole seconds, rounded up.
    pub fn reset_seconds(&self) -> Option<u64> {
        self.reset.map(seconds_up)
    }

    /// `wait` in whole seconds, rounded up: the least after which the request passes, nothing else being counted.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.wait.map(seconds_up)
    }
}

fn seconds_up(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}
