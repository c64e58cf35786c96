//! Why a request would be decided as it would: for operators, by the very code that decides.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use limits::counters::{Answer, Operation};
use limits::registry::Name;
use limits::rule::Tier;
use limits::rule_set::{Caller, Fate};
use limits::{Client, Resource, Rule, RuleSet};
use tokio::time::Instant;

use crate::decision::{Told, Verdict};
use crate::judge::Known;
use crate::limiter::{Failure, Limiter, Question};
use crate::plan::Plan;
use crate::view::View;

/// How many rules one explanation tells of, unless more apply.
pub const MOST_RULES: usize = 100;

/// A request that an operator supposes.
#[derive(Debug, Clone)]
pub struct Supposition<'a> {
    /// The client that it is from, registered or not; none is one that never called or, with an address and no tier, nobody but
    /// that address.
    pub client: Option<&'a str>,
    /// The client's tier, in place of the one that the registry tells.
    pub tier: Option<Tier>,
    /// Where it comes from.
    pub address: Option<IpAddr>,
    /// What it asks for.
    pub resource: Resource<'a>,
    /// What it costs, in requests; at least 1.
    pub tokens: u64,
}

/// Why what would come out would.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// Who it would be from; none for one known by its address alone.
    pub client: Option<Arc<Client>>,
    /// The rules that it meets, most specific first.
    pub rules: Vec<Explained>,
    /// How many more it meets, none of which applies.
    pub left_out: usize,
    /// The bucket of the default limit, where that counts.
    pub default: Option<BucketNow>,
}

/// A rule that a request meets.
#[derive(Debug, Clone)]
pub struct Explained {
    /// The rule.
    pub rule: Rule,
    /// What becomes of it.
    pub fate: Fate,
    /// Its bucket now, where the request would be counted in it.
    pub bucket: Option<BucketNow>,
}

/// How a bucket stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketNow {
    /// The same as callers are told.
    pub told: Told,
    /// The capacity of a token or leaky bucket, in requests; the others have none.
    pub burst: Option<u64>,
    /// Of a rule that is spread, the number of the share that was asked, from 0; the numbers are what all of its shares would have
    /// together, if they stood like this one.
    pub share: Option<u64>,
    /// Whether the request fits.
    pub room: bool,
}

/// What a decision was made of.
pub(crate) struct Basis<'a> {
    pub(crate) rules: &'a RuleSet,
    pub(crate) resource: &'a Resource<'a>,
    pub(crate) caller: &'a Caller<'a>,
    pub(crate) client: Option<&'a Arc<Client>>,
    pub(crate) plan: &'a Plan<'a>,
    /// Of the plan's buckets.
    pub(crate) answers: &'a [Answer],
}

/// Where it is noted what a decision was made of; empty where Redis or the newest rules had no say in it.
#[derive(Debug, Default)]
pub(crate) struct Sheet(Mutex<Option<Explanation>>);

impl Sheet {
    pub(crate) fn note(&self, basis: &Basis<'_>) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *noted = Some(explained(basis));
    }
}

impl Limiter {
    /// What would come of a request by the rules, were the client not terminated, and why. Spends nothing. No explanation where
    /// Redis is out or the newest rules cannot be had: then nothing can be said.
    pub async fn explain(&self, supposed: &Supposition<'_>) -> (Verdict, Option<Explanation>) {
        let sheet = Sheet::default();
        let verdict = self.answer(Question::Supposition(supposed, &sheet)).await;
        let noted = sheet.0.into_inner();
        (verdict, noted.unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) async fn attempt_supposed(
        &self,
        supposed: &Supposition<'_>,
        sheet: &Sheet,
        view: &View,
        deadline: Instant,
        stale: bool,
    ) -> Result<Verdict, Failure> {
        let client = match (supposed.client, supposed.tier, supposed.address) {
            (None, None, Some(_)) => None,
            (id, tier, _) => {
                let known = match id {
                    Some(id) => {
                        let name = Name::Client(id.to_owned());
                        self.look_up(&name, view, deadline, stale).await?
                    }
                    None => None,
                };
                // No client has an empty id.
                let client = known.map_or_else(
                    || Client::unregistered(id.unwrap_or_default()),
                    |known| Client::clone(&known),
                );
                Some(Arc::new(Client {
                    tier: tier.or(client.tier),
                    ..client
                }))
            }
        };
        let known = Known {
            client,
            registry_out: false,
            address: supposed.address,
            resource: &supposed.resource,
            destination: None,
            tokens: supposed.tokens,
            operation: Operation::Look,
            default_limit: self.default_limit(),
            sheet: Some(sheet),
        };
        self.judge(known, view, deadline, stale).await
    }
}

fn explained(basis: &Basis<'_>) -> Explanation {
    let buckets: Vec<BucketNow> = basis.plan.each_now(basis.answers).collect();
    let of = |rule| {
        let own = buckets.iter().find(|bucket| bucket.told.rule == rule);
        own.copied()
    };
    let fates = basis.rules.fates(basis.resource, basis.caller, MOST_RULES);
    let rules = fates.met.into_iter().map(|met| Explained {
        rule: met.rule.clone(),
        fate: met.fate,
        bucket: of(Some(met.rule.id())),
    });
    Explanation {
        client: basis.client.cloned(),
        rules: rules.collect(),
        left_out: fates.left_out,
        default: of(None),
    }
}
