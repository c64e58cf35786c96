//! A rule: who may call what how often.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::fields::{Fault, Fields};
use crate::pattern::Pattern;
use crate::quota::Quota;
use crate::registry::check_client_id;
use crate::shares;
pub use crate::words::{Algorithm, OnFailure, Per, Status, Tier};

/// The largest `limit` and `burst`.
pub const MOST: u64 = 1_000_000_000;
/// The longest `time_window`, in seconds: a leap year.
pub const LONGEST_WINDOW: u64 = 31_622_400;
/// The largest `split`.
pub const MOST_SHARES: u64 = 64;
/// The longest `description`, in bytes.
pub const LONGEST_DESCRIPTION: usize = 1024;

/// What an operator writes of a rule, not yet checked as a whole.
///
/// As JSON it is what is published: a field that this code does not know makes it unreadable, since it may mean anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Draft {
    /// `[METHOD ]pattern` or a service's name, as written.
    pub resource: String,
    /// The client that the rule is for; none is anyone.
    #[serde(default)]
    pub client: Option<String>,
    /// The tier that the rule is for; none is anyone. Not beside a client.
    #[serde(default)]
    pub tier: Option<Tier>,
    /// Who shares a bucket.
    #[serde(default = "default::per")]
    pub per: Per,
    /// Whether broader rules of the same `per` step aside where this one applies.
    #[serde(default, rename = "override")]
    pub overrides: bool,
    /// Over how many buckets the rule is spread. Another number starts fresh.
    #[serde(default = "default::split")]
    pub split: u64,
    /// How its buckets count.
    #[serde(default = "default::algorithm")]
    pub algorithm: Algorithm,
    /// Requests a window; none is an exemption, 0 a block. Never left out: an omission must not exempt anyone.
    #[serde(deserialize_with = "Option::deserialize")]
    pub limit: Option<u64>,
    /// The window, in seconds.
    pub time_window: u64,
    /// Capacity of a token or leaky bucket, in requests; none follows the algorithm.
    #[serde(default)]
    pub burst: Option<u64>,
    /// What happens while Redis is out.
    #[serde(default = "default::on_failure")]
    pub on_failure: OnFailure,
    /// Whether it is in force.
    #[serde(default = "default::status")]
    pub status: Status,
    /// For people.
    #[serde(default)]
    pub description: String,
}

mod default {
    use super::{Algorithm, OnFailure, Per, Status};

    pub(super) fn per() -> Per {
        Per::Client
    }
    pub(super) fn split() -> u64 {
        1
    }
    pub(super) fn algorithm() -> Algorithm {
        Algorithm::TokenBucket
    }
    pub(super) fn on_failure() -> OnFailure {
        OnFailure::Limit
    }
    pub(super) fn status() -> Status {
        Status::Active
    }
}

impl Draft {
    /// A rule of so many requests in so many seconds, all else by default.
    pub fn new(resource: impl Into<String>, limit: Option<u64>, time_window: u64) -> Self {
        Self {
            resource: resource.into(),
            client: None,
            tier: None,
            per: default::per(),
            overrides: false,
            split: default::split(),
            algorithm: default::algorithm(),
            limit,
            time_window,
            burst: None,
            on_failure: default::on_failure(),
            status: default::status(),
            description: String::new(),
        }
    }

    /// Reads a draft out of a request's body: `resource`, `limit` and `time_window` must be there, what else is left out takes
    /// its default. `None` where a fault was noted in `fields`.
    pub fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let limit_is = "an integer from 0 to 1000000000, or null for an exemption";
        let there = [
            fields.require("resource", "what the rule is about, as in `GET /orders/*`"),
            fields.require("limit", limit_is),
            fields.require("time_window", "seconds, 1 to 31622400"),
        ];
        let resource = fields.text("resource");
        let limit = match fields.value("limit") {
            None | Some(Value::Null) => Some(None),
            Some(value) => match value.as_u64() {
                Some(limit) => Some(Some(limit)),
                None => {
                    fields.fault("limit", format!("must be {limit_is}"));
                    None
                }
            },
        };
        // Bounds are the constructor's: here only what JSON can get wrong.
        let time_window = fields.unbounded("time_window", 1, LONGEST_WINDOW);
        let client = fields.text("client").map(str::to_owned);
        let tier = fields.choice("tier");
        let per = fields.choice("per").unwrap_or_else(default::per);
        let overrides = fields.boolean("override").unwrap_or_default();
        let split = fields
            .unbounded("split", 1, MOST_SHARES)
            .unwrap_or_else(default::split);
        let algorithm = fields
            .choice("algorithm")
            .unwrap_or_else(default::algorithm);
        let burst = fields.unbounded("burst", 1, MOST);
        let on_failure = fields
            .choice("on_failure")
            .unwrap_or_else(default::on_failure);
        let status = fields.choice("status").unwrap_or_else(default::status);
        let description = fields.text("description").unwrap_or_default().to_owned();
        if there.contains(&false) {
            return None;
        }
        let nothing = "must not be null";
        if resource.is_none() && fields.has("resource") {
            fields.fault_once("resource", nothing);
        }
        if time_window.is_none() {
            fields.fault_once("time_window", "must be an integer from 1 to 31622400");
        }
        Some(Self {
            resource: resource?.to_owned(),
            client,
            tier,
            per,
            overrides,
            split,
            algorithm,
            limit: limit?,
            time_window: time_window?,
            burst,
            on_failure,
            status,
            description,
        })
    }
}

/// A rule that can be counted. There is no other way to one than [`Rule::new`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    id: Uuid,
    draft: Draft,
    generation: u64,
    pattern: Pattern,
    quota: Option<Quota>,
    /// None where it is not spread.
    shares: Box<[Quota]>,
}

impl Rule {
    /// The one constructor: every road to a rule goes through it, a request's body, a row of Postgres and the published copy
    /// alike.
    ///
    /// # Errors
    /// Every fault of the draft, by field.
    pub fn new(id: Uuid, draft: Draft) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut fault = |field: &str, detail: String| faults.push(Fault::new(field, detail));

        let pattern = Pattern::parse(&draft.resource);
        if let Err(detail) = &pattern {
            fault("resource", detail.clone());
        }
        if let Some(client) = &draft.client {
            if let Err(detail) = check_client_id(client) {
                fault("client", detail);
            }
            if draft.tier.is_some() {
                fault("tier", "must be null where a client is named".to_owned());
            }
        }
        if draft.limit.is_some_and(|limit| limit > MOST) {
            fault(
                "limit",
                format!("must be an integer from 0 to {MOST}, or null"),
            );
        }
        if !(1..=LONGEST_WINDOW).contains(&draft.time_window) {
            fault(
                "time_window",
                format!("must be an integer from 1 to {LONGEST_WINDOW}"),
            );
        }
        if draft
            .burst
            .is_some_and(|burst| !(1..=MOST).contains(&burst))
        {
            fault(
                "burst",
                format!("must be an integer from 1 to {MOST}, or null"),
            );
        }
        if let Err(detail) = shares::check(&draft) {
            fault("split", detail);
        }
        if draft.description.len() > LONGEST_DESCRIPTION || draft.description.contains('\u{0}') {
            fault(
                "description",
                format!("must be at most {LONGEST_DESCRIPTION} bytes without NUL"),
            );
        }
        let quota = match draft.limit {
            _ if !faults.is_empty() => None,
            None | Some(0) => Quota::check_burst(draft.algorithm, draft.burst)
                .map_err(|fault| faults.push(fault))
                .ok()
                .and(None),
            Some(limit) => Quota::new(draft.algorithm, limit, draft.burst, draft.time_window)
                .map_err(|fault| faults.push(fault))
                .ok(),
        };
        match pattern {
            Ok(pattern) if faults.is_empty() => Ok(Self {
                id,
                shares: match &quota {
                    Some(quota) if draft.split > 1 => shares::of(quota, draft.split),
                    _ => Box::default(),
                },
                draft,
                generation: 0,
                pattern,
                quota,
            }),
            _ => Err(faults),
        }
    }

    /// What stands in for a rule that was published and is not understood: it concerns whom and what `draft` says, and counts by
    /// nothing, so that it must be treated as if Redis were out for it. None where not even its pattern is understood.
    pub fn stand_in(id: Uuid, draft: Draft) -> Option<Self> {
        let pattern = Pattern::parse(&draft.resource).ok()?;
        Some(Self {
            id,
            draft: Draft {
                limit: Some(1),
                ..draft
            },
            generation: 0,
            pattern,
            quota: None,
            shares: Box::default(),
        })
    }

    /// The same rule, all of whose buckets were last reset at `generation`.
    #[must_use]
    pub fn with_generation(mut self, generation: u64) -> Self {
        self.generation = generation;
        self
    }

    /// The same rule of which so many percent are granted, as [`Quota::percent`] has it, over no more buckets than have a request
    /// each. A block stays one, and so does an exemption.
    #[must_use]
    pub fn percent(mut self, percent: u64) -> Self {
        self.quota = self.quota.map(|quota| quota.percent(percent));
        if let Some(quota) = self.quota.as_ref().filter(|_| self.draft.split > 1) {
            let most = quota.limit().min(quota.capacity() / quota.window_ticks());
            self.shares = shares::of(quota, self.draft.split.min(most));
        }
        self
    }

    /// Its id.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// The newest reset of all its buckets, whoever owns them: part of their names. 0 where there was none.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// What was written of it.
    pub fn draft(&self) -> &Draft {
        &self.draft
    }

    /// What it is about.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// Requests a window that are granted; none is an exemption, 0 a block.
    pub fn limit(&self) -> Option<u64> {
        let written = self.draft.limit;
        self.quota().map_or(written, |quota| Some(quota.limit()))
    }

    /// How it counts as a whole; none where it does not: an exemption, a block, or a stand-in for a rule that is not understood.
    pub fn quota(&self) -> Option<&Quota> {
        self.quota.as_ref()
    }

    /// How each of its buckets counts, none holding less than the last: the shares of a rule that is spread, of any other the
    /// whole. Empty where it does not count.
    pub fn shares(&self) -> &[Quota] {
        if self.shares.is_empty() {
            self.quota.as_slice()
        } else {
            &self.shares
        }
    }

    /// Whether a call of so many tokens is more than it ever has room for: more than the smallest share holds, so that it does not
    /// depend on which is asked.
    pub fn never_fits(&self, tokens: u64) -> bool {
        let smallest = self.shares().last();
        smallest.is_some_and(|quota| quota.cost(tokens).is_none())
    }

    /// Whether it only stands in for a rule that is not understood.
    pub fn is_stand_in(&self) -> bool {
        self.quota.is_none() && !self.exempts() && !self.blocks()
    }

    /// Whether it lets through without counting (`limit: null`).
    pub fn exempts(&self) -> bool {
        self.draft.limit.is_none()
    }

    /// Whether it lets nothing through (`limit: 0`).
    pub fn blocks(&self) -> bool {
        self.draft.limit == Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn faults(body: Value) -> Vec<String> {
        let mut fields = Fields::of(&body).unwrap();
        let draft = Draft::read(&mut fields);
        let mut faults = fields.finish();
        if let Some(draft) = draft
            && let Err(more) = Rule::new(Uuid::nil(), draft)
        {
            faults.extend(more);
        }
        faults.into_iter().map(|fault| fault.field).collect()
    }

    #[test]
    fn three_fields_make_a_rule() {
        assert!(faults(json!({"resource": "/x", "limit": 1, "time_window": 60})).is_empty());
        assert!(faults(json!({"resource": "/x", "limit": null, "time_window": 60})).is_empty());
        assert!(faults(json!({"resource": "/x", "limit": 0, "time_window": 60})).is_empty());
        assert_eq!(faults(json!({})), ["resource", "limit", "time_window"]);
    }

    #[test]
    fn every_fault_is_told_at_once() {
        let told = faults(json!({
            "resource": "/a*", "client": "", "tier": "free", "limit": 2_000_000_000, "time_window": 0, "burst": 0,
            "description": "x".repeat(1025),
        }));
        assert_eq!(
            told,
            [
                "resource",
                "client",
                "tier",
                "limit",
                "time_window",
                "burst",
                "description"
            ]
        );
        let told = faults(json!({
            "resource": 7, "per": "galaxy", "override": "yes", "split": "two", "algorithm": "guess", "limit": -1, "time_window": 1.5,
            "on_failure": "panic", "status": "on", "colour": "red",
        }));
        for field in [
            "resource",
            "per",
            "override",
            "split",
            "algorithm",
            "limit",
            "time_window",
            "on_failure",
            "status",
            "colour",
        ] {
            assert_eq!(
                told.iter().filter(|told| *told == field).count(),
                1,
                "{field}: {told:?}"
            );
        }
    }

    #[test]
    fn what_is_no_number_is_told_the_bounds_of_one() {
        let body = json!({"resource": "/x", "limit": 1, "time_window": "60", "burst": -1});
        let mut fields = Fields::of(&body).unwrap();
        let _ = Draft::read(&mut fields);
        let told: Vec<String> = fields
            .finish()
            .into_iter()
            .map(|fault| fault.detail)
            .collect();
        let right = [
            "must be an integer from 1 to 31622400",
            "must be an integer from 1 to 1000000000",
        ];
        assert_eq!(told, right);
    }

    #[test]
    fn what_cannot_be_counted_exactly_is_refused() {
        let big = json!({"resource": "/x", "limit": 1, "time_window": 60, "burst": 1_000_000_000});
        assert_eq!(faults(big), ["burst"]);
        let big = json!({"resource": "/x", "limit": 1_000_000_000, "time_window": 60});
        assert_eq!(faults(big), ["limit"]);
        let month = json!({"resource": "/x", "limit": 1_000_000_000, "time_window": 2_678_400});
        assert!(faults(month).is_empty());
    }

    #[test]
    fn each_algorithm_has_its_own_bounds() {
        let told = |algorithm: &str, limit: Value, burst: Value, window: u64| {
            faults(json!({
                "resource": "/x", "algorithm": algorithm, "limit": limit, "burst": burst, "time_window": window,
            }))
        };
        let null = Value::Null;
        for windows in ["fixed_window", "sliding_window", "sliding_log"] {
            assert!(told(windows, json!(10_000), null.clone(), 60).is_empty());
            for limit in [json!(5), json!(0), null.clone()] {
                assert_eq!(told(windows, limit, json!(5), 60), ["burst"]);
            }
        }
        assert_eq!(
            told("sliding_log", json!(10_001), null.clone(), 60),
            ["limit"]
        );
        assert!(told("fixed_window", json!(1_000_000_000), null.clone(), 60).is_empty());
        assert_eq!(
            told("sliding_window", json!(1_000_000_000), null.clone(), 60),
            ["limit"]
        );
        assert!(told("leaky_bucket", json!(1_000_000_000), null.clone(), 61).is_empty());
        assert_eq!(
            told("leaky_bucket", json!(1_000_000_000), json!(75_059_994), 60),
            ["burst"]
        );
    }

    #[test]
    fn only_what_all_share_is_spread_and_each_share_has_a_part() {
        let told = |split: u64, more: Value| {
            let mut body = json!({
                "resource": "/x", "limit": 9, "time_window": 60, "per": "all", "split": split,
            });
            for (name, value) in more.as_object().unwrap() {
                body[name] = value.clone();
            }
            let mut fields = Fields::of(&body).unwrap();
            let draft = Draft::read(&mut fields);
            let rule = Rule::new(Uuid::nil(), draft.unwrap());
            let told: Vec<String> = rule
                .err()
                .into_iter()
                .flatten()
                .map(|fault| format!("{} {}", fault.field, fault.detail))
                .collect();
            told.join("; ")
        };
        for (split, more) in [
            (1, json!({"per": "client"})),
            (1, json!({"limit": 0})),
            (1, json!({"limit": null})),
            (1, json!({"algorithm": "leaky_bucket"})),
            (9, json!({})),
            (64, json!({"limit": 64})),
            (9, json!({"burst": 9})),
            (9, json!({"algorithm": "leaky_bucket", "burst": 20})),
            (9, json!({"algorithm": "sliding_log"})),
        ] {
            assert_eq!(told(split, more.clone()), "", "{split} {more}");
        }
        let each = "each share has a part of it";
        for (split, more, right) in [
            (0, json!({}), "an integer from 1 to 64"),
            (65, json!({"limit": 100}), "an integer from 1 to 64"),
            (
                2,
                json!({"per": "client"}),
                "1: only what all share is spread, and `per` is client",
            ),
            (
                2,
                json!({"per": "ip"}),
                "1: only what all share is spread, and `per` is ip",
            ),
            (
                2,
                json!({"limit": 0}),
                "1: a block (`limit` is 0) counts nothing",
            ),
            (
                2,
                json!({"limit": null}),
                "1: an exemption (`limit` is null) counts nothing",
            ),
            (10, json!({}), &format!("at most the limit, 9: {each}")),
            (
                9,
                json!({"burst": 8}),
                &format!("at most the burst, 8: {each}"),
            ),
            (
                2,
                json!({"algorithm": "leaky_bucket"}),
                &format!("at most the burst, 1: {each}"),
            ),
            (
                10,
                json!({"algorithm": "fixed_window"}),
                &format!("at most the limit, 9: {each}"),
            ),
        ] {
            assert_eq!(told(split, more), format!("split must be {right}"));
        }
        // Nothing is said of what does not follow.
        let two = json!({"burst": 0});
        assert_eq!(
            told(2, two),
            "burst must be an integer from 1 to 1000000000, or null"
        );
    }
}
