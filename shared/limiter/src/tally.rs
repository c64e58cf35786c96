//! What is counted of each answer, and the line that tells of a denial.

use std::net::IpAddr;

use aws::metrics;
use tokio::time::Instant;

use crate::decision::{Decision, Verdict};

/// What is known of a call beside its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    /// When it came in.
    pub(crate) since: Instant,
    /// Where it comes from, if that is known.
    pub(crate) address: Option<IpAddr>,
    /// The service that is called, where one service calls another.
    pub(crate) service: Option<&'a str>,
}

/// A verdict that was reached without asking a limiter, counted like any other.
pub fn conclude(verdict: Verdict) -> Verdict {
    count(&verdict);
    verdict
}

/// Counts a call.
pub(crate) fn note(verdict: &Verdict, call: &Call<'_>) {
    metrics::DECISION_LATENCY.record_us(call.since.elapsed());
    count(verdict);
    let Verdict::Decided(decision) = verdict else {
        return;
    };
    if decision.degraded {
        metrics::DEGRADED_DECISIONS.add(1);
    }
    if !decision.would_deny.is_empty() {
        metrics::SHADOW_DENIALS.add(decision.would_deny.len() as u64);
    }
    let told = decision.told.map(|told| told.rule);
    if decision.allowed {
        // An exemption counts in no bucket, and is a rule all the same.
        let uncounted = told.filter(|_| decision.policy.is_empty());
        let counted = decision.policy.iter().map(|policy| policy.rule);
        metrics::RULE_ALLOWED.add(counted.chain(uncounted));
    } else {
        metrics::RULE_THROTTLED.add([told.flatten()]);
        tell(decision, call);
    }
}

fn count(verdict: &Verdict) {
    metrics::DECISIONS.add(1);
    let outcome = match verdict {
        Verdict::Decided(decision) if decision.allowed => &metrics::ALLOWED,
        Verdict::Decided(_) => &metrics::THROTTLED,
        Verdict::Refused(_) => &metrics::REFUSED,
        Verdict::StoreOut => &metrics::STORE_OUT,
    };
    outcome.add(1);
}

fn tell(decision: &Decision, call: &Call<'_>) {
    metrics::denied(&metrics::Denial {
        rule: decision.told.and_then(|told| told.rule),
        client: decision.client.as_deref().map(|client| client.id.as_str()),
        address: call.address,
        service: call.service,
        reason: decision.reason.as_str(),
    });
}
