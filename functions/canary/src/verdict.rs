//! What answers must be like where a rule lets each caller through once in an hour.

use crate::question::Answer;

/// The longest that one may be told to wait, in seconds.
const LONGEST_WAIT: u64 = 3600;

/// What the first answer must be, in words.
pub const ALLOWED: &str = "200 \"allowed\" by a rule with limit 1";

/// What the second answer must be, in words.
pub const BLOCKED: &str =
    "429 \"blocked\" by that limit, with Retry-After and retry_after the same, 1 to 3600 s";

pub(crate) fn is_allowed(answer: &Answer) -> bool {
    let body = &answer.body;
    answer.status == 200
        && body.status.as_deref() == Some("allowed")
        && body.reason.as_deref() == Some("rule")
        && body.limit == Some(1)
}

pub(crate) fn is_blocked(answer: &Answer) -> bool {
    let body = &answer.body;
    answer.status == 429
        && body.status.as_deref() == Some("blocked")
        && body.reason.as_deref() == Some("limit")
        && body.limit == Some(1)
        && answer.retry_after_header == body.retry_after
        && body
            .retry_after
            .is_some_and(|wait| (1..=LONGEST_WAIT).contains(&wait))
}
