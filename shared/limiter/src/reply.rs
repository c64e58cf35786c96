//! A decision as the body of an answer.

use serde::Serialize;
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::decision::Decision;

/// The body: whole seconds, and null where there is nothing to tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reply {
    status: &'static str,
    limit: Option<u64>,
    remaining: Option<u64>,
    reset: Option<u64>,
    rule_id: Option<Uuid>,
    reason: &'static str,
    retry_at: Option<String>,
    retry_after: Option<u64>,
}

impl Reply {
    /// What is told where nothing is decided, in a word.
    pub fn refused(reason: &'static str) -> Self {
        Self {
            status: "refused",
            limit: None,
            remaining: None,
            reset: None,
            rule_id: None,
            reason,
            retry_at: None,
            retry_after: None,
        }
    }

    /// What is told of a decision that was made `now`.
    pub fn of(decision: &Decision, now: OffsetDateTime) -> Self {
        let told = decision.told.as_ref();
        let wait = told.and_then(|told| told.wait);
        Self {
            status: if decision.allowed {
                "allowed"
            } else {
                "blocked"
            },
            limit: told.and_then(|told| told.limit),
            remaining: told.and_then(|told| told.remaining),
            reset: told.and_then(|told| told.reset_seconds()),
            rule_id: told.and_then(|told| told.rule),
            reason: decision.reason.as_str(),
            retry_at: wait.map(|wait| moment_after(now, wait)),
            retry_after: told.and_then(|told| told.retry_after_seconds()),
        }
    }
}

/// The first whole second at which the wait is over, in RFC 3339; the last of all years where that lies beyond them.
fn moment_after(now: OffsetDateTime, wait: std::time::Duration) -> String {
    let wait = Duration::try_from(wait).unwrap_or(Duration::MAX);
    let end = now.saturating_add(wait);
    let next = end.saturating_add(Duration::nanoseconds(999_999_999));
    let whole = next.replace_nanosecond(0).unwrap_or(next);
    whole.format(&Rfc3339).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decision::{Reason, Told};

    fn decision(allowed: bool, reason: Reason, told: Option<Told>) -> Decision {
        Decision {
            allowed,
            reason,
            client: None,
            told,
            policy: Vec::new(),
            degraded: false,
            would_deny: Vec::new(),
        }
    }

    fn told(wait_ms: Option<u64>) -> Option<Told> {
        Some(Told {
            rule: "01979c4e-0000-7000-8000-00000000002a".parse().ok(),
            limit: Some(10),
            remaining: Some(0),
            reset: Some(std::time::Duration::from_millis(59_200)),
            wait: wait_ms.map(std::time::Duration::from_millis),
        })
    }

    fn reply(decision: &Decision) -> serde_json::Value {
        // 2026-11-30T01:02:03.25Z
        let now = OffsetDateTime::from_unix_timestamp_nanos(1_796_000_523_250_000_000).unwrap();
        serde_json::to_value(Reply::of(decision, now)).unwrap()
    }

    #[test]
    fn a_denial_tells_when_to_come_back() {
        let denied = reply(&decision(false, Reason::Limit, told(Some(5_001))));
        assert_eq!(
            denied,
            json!({
                "status": "blocked",
                "limit": 10,
                "remaining": 0,
                "reset": 60,
                "rule_id": "01979c4e-0000-7000-8000-00000000002a",
                "reason": "limit",
                "retry_at": "2026-11-30T01:02:09Z",
                "retry_after": 6,
            })
        );
        let on_the_second = reply(&decision(false, Reason::Limit, told(Some(750))));
        assert_eq!(on_the_second["retry_at"], "2026-11-30T01:02:04Z");
    }

    #[test]
    fn a_wait_beyond_all_years_ends_with_them() {
        let denied = reply(&decision(
            false,
            Reason::Limit,
            told(Some(4_503_598_999_997_000)),
        ));
        assert_eq!(denied["retry_at"], "9999-12-31T23:59:59Z");
        assert_eq!(denied["retry_after"], 4_503_598_999_997_u64);
    }

    #[test]
    fn what_will_never_pass_tells_no_time() {
        let denied = reply(&decision(false, Reason::CostExceedsCapacity, told(None)));
        assert_eq!(denied["retry_at"], json!(null));
        assert_eq!(denied["retry_after"], json!(null));
        assert_eq!(denied["reason"], "cost_exceeds_capacity");
    }

    #[test]
    fn an_exemption_tells_that_there_is_nothing_to_tell() {
        let exempt = reply(&decision(true, Reason::Exempt, None));
        assert_eq!(
            exempt,
            json!({
                "status": "allowed",
                "limit": null,
                "remaining": null,
                "reset": null,
                "rule_id": null,
                "reason": "exempt",
                "retry_at": null,
                "retry_after": null,
            })
        );
    }
}
