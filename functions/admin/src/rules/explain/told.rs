//! An explanation as operators are told it.

use std::net::IpAddr;

use http_events::openapi::Shape;
use limiter::explain::{BucketNow, Explained};
use limiter::{Decision, Explanation, Reason, Reply, Verdict};
use limits::Client;
use limits::registry::ClientStatus;
use limits::rule::{Algorithm, MOST_SHARES, Per, Rule, Status, Tier};
use limits::rule_set::Fate;
use serde::Serialize;
use time::OffsetDateTime;
use uuid::Uuid;

use super::Question;
use crate::describe::client_id;

/// What was asked, and what is answered.
#[derive(Serialize)]
pub(crate) struct Told {
    /// Who it would be from.
    client: Option<String>,
    registered: bool,
    tier: Option<Tier>,
    ip: Option<IpAddr>,
    resource: String,
    tokens: u64,
    /// Most specific first.
    rules: Vec<RuleTold>,
    /// How many more the call meets, none of which applies.
    left_out: usize,
    /// The bucket of the default limit, where no rule applies.
    default: Option<Bucket>,
    decision: Reply,
}

#[derive(Serialize)]
struct RuleTold {
    id: Uuid,
    resource: String,
    client: Option<String>,
    tier: Option<Tier>,
    per: Per,
    #[serde(rename = "override")]
    overrides: bool,
    split: u64,
    algorithm: Algorithm,
    limit: Option<u64>,
    time_window: u64,
    burst: Option<u64>,
    status: Status,
    fate: &'static str,
    /// The rule on account of which it does not apply.
    by: Option<Uuid>,
    reason: String,
    bucket: Option<Bucket>,
}

#[derive(Serialize)]
struct Bucket {
    /// Of a rule that is spread, the share that was asked, from 1.
    share: Option<u64>,
    limit: Option<u64>,
    burst: Option<u64>,
    remaining: Option<u64>,
    reset: Option<u64>,
    retry_after: Option<u64>,
    /// Whether the call fits.
    room: bool,
}

/// What the fate of each rule is told beside.
struct Context<'a> {
    client: Option<&'a Client>,
    /// None where nothing may be said.
    decision: Option<&'a Decision>,
    tokens: u64,
}

impl Told {
    pub(super) fn new(question: &Question, verdict: &Verdict, explanation: Explanation) -> Self {
        let client = explanation.client.as_deref();
        let context = Context {
            client,
            decision: match verdict {
                Verdict::Decided(decision) => Some(decision),
                Verdict::Refused(_) | Verdict::StoreOut => None,
            },
            tokens: question.tokens,
        };
        let rules = explanation.rules.iter();
        Self {
            client: question.client.clone(),
            registered: client.is_some_and(|client| client.registered),
            tier: client.and_then(|client| client.tier),
            ip: question.ip,
            resource: question.resource.clone(),
            tokens: question.tokens,
            rules: rules.map(|told| RuleTold::new(told, &context)).collect(),
            left_out: explanation.left_out,
            default: explanation.default.as_ref().map(Bucket::from),
            decision: decision(verdict, client),
        }
    }
}

impl RuleTold {
    fn new(explained: &Explained, context: &Context<'_>) -> Self {
        let draft = explained.rule.draft();
        let by = match explained.fate {
            Fate::CloserLevel(by) | Fate::SetAside(by) => Some(by),
            _ => None,
        };
        Self {
            id: explained.rule.id(),
            resource: draft.resource.clone(),
            client: draft.client.clone(),
            tier: draft.tier,
            per: draft.per,
            overrides: draft.overrides,
            split: draft.split,
            algorithm: draft.algorithm,
            limit: draft.limit,
            time_window: draft.time_window,
            burst: draft.burst,
            status: draft.status,
            fate: word(explained.fate),
            by,
            reason: reason(explained, context),
            bucket: explained.bucket.as_ref().map(Bucket::from),
        }
    }
}

fn word(fate: Fate) -> &'static str {
    match fate {
        Fate::Applies => "applies",
        Fate::OtherClient => "other_client",
        Fate::OtherTier => "other_tier",
        Fate::NoAddress => "no_address",
        Fate::CloserLevel(_) => "closer_level",
        Fate::SetAside(_) => "set_aside",
        Fate::Terminated => "terminated",
    }
}

/// Every word for a fate.
const WORDS: [&str; 7] = [
    "applies",
    "other_client",
    "other_tier",
    "no_address",
    "closer_level",
    "set_aside",
    "terminated",
];

fn reason(explained: &Explained, context: &Context<'_>) -> String {
    let draft = explained.rule.draft();
    match explained.fate {
        Fate::Applies => match (draft.status, explained.bucket) {
            (Status::Shadow, Some(bucket)) if bucket.room => "it watches, and has room".to_owned(),
            (Status::Shadow, Some(_)) => "it watches, and would deny".to_owned(),
            (Status::Shadow, None) => unasked_shadow(&explained.rule, context),
            (_, Some(bucket)) if bucket.room => "it is counted, and has room".to_owned(),
            (_, Some(_)) => "it is counted, and has no room".to_owned(),
            (_, None) => uncounted(&explained.rule, context),
        },
        Fate::OtherClient => {
            let client = draft.client.as_deref().unwrap_or_default();
            format!("it is for client {client}")
        }
        Fate::OtherTier => {
            let wanted = draft.tier.map_or("none", Tier::as_str);
            let tier = context.client.and_then(|client| client.tier);
            let tier = tier.map_or("none", Tier::as_str);
            format!("it is for tier {wanted}, and the caller's is {tier}")
        }
        Fate::NoAddress => "it counts per ip, and no address is known".to_owned(),
        Fate::CloserLevel(by) => {
            format!("rule {by}, of the same pattern and per, is closer to this caller")
        }
        Fate::SetAside(by) => {
            format!("rule {by} is more specific and overrides it")
        }
        Fate::Terminated => "it is terminated".to_owned(),
    }
}

/// Why a rule that applies keeps no count of the call.
fn uncounted(rule: &Rule, context: &Context<'_>) -> String {
    let other = context
        .decision
        .and_then(|decision| Some((decision.reason, decision.told?.rule?)));
    match other {
        _ if rule.is_stand_in() => {
            "this version does not understand it: it is treated as if Redis were out".to_owned()
        }
        _ if rule.blocks() => "it blocks: its limit is 0".to_owned(),
        Some((Reason::Blocked, by)) => format!("rule {by} blocks: nothing is counted"),
        _ if rule.exempts() => "it exempts: nothing is counted".to_owned(),
        Some((Reason::Exempt, by)) => format!("rule {by} exempts: nothing is counted"),
        _ if rule.never_fits(context.tokens) => never(rule),
        Some((_, by)) => format!("the cost is more than rule {by} ever has room for"),
        None => "a rule beside it is not understood by this version".to_owned(),
    }
}

/// Why a shadow rule that was chosen was not asked.
fn unasked_shadow(rule: &Rule, context: &Context<'_>) -> String {
    // A call that a bucket denies is watched all the same.
    let refused = context
        .decision
        .is_none_or(|decision| !decision.allowed && decision.reason != Reason::Limit);
    if !refused && rule.never_fits(context.tokens) {
        return never(rule);
    }
    let reason = if refused {
        "it would watch, but what is refused without a bucket is not watched"
    } else if rule.is_stand_in() {
        "this version does not understand it"
    } else if rule.blocks() {
        "it watches, and would block"
    } else if rule.exempts() {
        "it watches, and would exempt"
    } else {
        "a shadow rule beside it would exempt"
    };
    reason.to_owned()
}

/// Of a rule that has no room for the cost, ever.
fn never(rule: &Rule) -> String {
    match rule.shares().len() {
        1 => "the cost is more than it ever has room for".to_owned(),
        split => format!("the cost is more than one of its {split} shares ever has room for"),
    }
}

impl From<&BucketNow> for Bucket {
    fn from(bucket: &BucketNow) -> Self {
        let told = &bucket.told;
        Self {
            share: bucket.share.map(|number| number + 1),
            limit: told.limit,
            burst: bucket.burst,
            remaining: told.remaining,
            reset: told.reset_seconds(),
            retry_after: told.retry_after_seconds(),
            room: bucket.room,
        }
    }
}

/// As the check API answers.
fn decision(verdict: &Verdict, client: Option<&Client>) -> Reply {
    let terminated = client.is_some_and(|client| client.status == ClientStatus::Terminated);
    match verdict {
        _ if terminated => Reply::refused("terminated"),
        Verdict::Decided(decision) => Reply::of(decision, OffsetDateTime::now_utc()),
        Verdict::Refused(_) => Reply::refused("unknown"),
        Verdict::StoreOut => Reply::refused("store_unavailable"),
    }
}

const SHARE: &str = "Of a rule that is spread, the share that was asked, from 1; `remaining` is then what all of its shares would \
    have left, if they stood like this one.";

/// The shape of an answer.
pub(super) fn shape() -> Shape {
    let number = || Shape::count().or_null();
    let bucket = || {
        Shape::object()
            .required("share", number().meaning(SHARE))
            .required("limit", number())
            .required("burst", number().meaning("Capacity, in requests."))
            .required("remaining", number().meaning("Requests left now."))
            .required("reset", number().meaning("Seconds until it is full."))
            .required("retry_after", number().meaning("Seconds to wait."))
            .required("room", Shape::boolean().meaning("Whether the call fits."))
            .or_null()
    };
    let tiers: Vec<&str> = Tier::ALL.iter().map(|tier| tier.as_str()).collect();
    let tier = || Shape::words(&tiers).or_null();
    let statuses: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
    let pers: Vec<&str> = Per::ALL.iter().map(|per| per.as_str()).collect();
    let algorithms: Vec<&str> = Algorithm::ALL.iter().map(|one| one.as_str()).collect();
    let rule = Shape::object()
        .required("id", Shape::uuid())
        .required("resource", Shape::text())
        .required("client", client_id().or_null())
        .required("tier", tier())
        .required("per", Shape::words(&pers))
        .required("override", Shape::boolean())
        .required("split", Shape::integer(1, MOST_SHARES))
        .required("algorithm", Shape::words(&algorithms))
        .required("limit", number())
        .required("time_window", Shape::count())
        .required("burst", number())
        .required("status", Shape::words(&statuses))
        .required("fate", Shape::words(&WORDS))
        .required(
            "by",
            Shape::uuid()
                .or_null()
                .meaning("The rule on account of which it does not apply."),
        )
        .required("reason", Shape::text().meaning("For people."))
        .required(
            "bucket",
            bucket().meaning("Null where the call is not counted in it."),
        );
    let decision = Shape::object()
        .required("status", Shape::words(&["allowed", "blocked", "refused"]))
        .required("limit", number())
        .required("remaining", number())
        .required("reset", number())
        .required("rule_id", Shape::uuid().or_null())
        .required("reason", Shape::text())
        .required("retry_at", Shape::moment().or_null())
        .required("retry_after", number());
    Shape::object()
        .required("client", client_id().or_null())
        .required("registered", Shape::boolean())
        .required("tier", tier().meaning("The one that was decided by."))
        .required("ip", Shape::text().or_null())
        .required("resource", Shape::text())
        .required("tokens", Shape::count())
        .required("rules", Shape::list(rule).meaning("Most specific first."))
        .required(
            "left_out",
            Shape::count().meaning("How many more rules the call meets, none of which applies."),
        )
        .required(
            "default",
            bucket().meaning("The bucket of the default limit, where no rule applies."),
        )
        .required("decision", decision.meaning("As the check API answers."))
}
