//! How many rules one call would meet.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use limits::rule::{Status, Tier};
use limits::rule_set::{Caller, MOST_MET};
use limits::{Fault, Pattern, Resource, Rule, RuleSet};

use crate::database::DatabaseError;
use crate::session::{Session, Whose};

/// A client that no rule can name.
const NOBODY: &str = "\u{0}";

/// Checks each rule, which is stored already but not committed, against all others. The text is the prefix of its fields.
pub(crate) async fn check(
    session: &mut Session,
    rules: &[(String, Rule)],
) -> Result<Vec<Fault>, DatabaseError> {
    let counted: Vec<&(String, Rule)> = rules
        .iter()
        .filter(|(_, rule)| rule.draft().status != Status::Terminated)
        .collect();
    if counted.is_empty() {
        return Ok(Vec::new());
    }
    let calls: Vec<Resource<'_>> = counted
        .iter()
        .map(|(_, rule)| Resource::of_pattern(rule.pattern()))
        .collect();
    let patterns: Vec<String> = met_patterns(session, &calls)
        .await?
        .iter()
        .map(|pattern| pattern.canonical().to_owned())
        .collect();
    let clients: BTreeSet<String> = counted
        .iter()
        .filter_map(|(_, rule)| rule.draft().client.clone())
        .collect();
    let clients: Vec<String> = clients.into_iter().collect();
    let met = session
        .rules_of(&patterns, Whose::Shared(&clients), None, usize::MAX)
        .await?;
    let mut set = RuleSet::new();
    for (_, record) in met {
        if let Ok(rule) = record.rule() {
            set.put(rule);
        }
    }
    let crowded = counted.iter().zip(&calls).filter_map(|((field, rule), call)| {
        let met = most_met(&set, rule, call);
        (met > MOST_MET).then(|| {
            let detail = format!("must not be a pattern where one call meets more than {MOST_MET} rules: it would meet {met}");
            Fault::new(format!("{field}resource"), detail)
        })
    });
    Ok(crowded.collect())
}

/// The patterns of any rule that one of these calls meets, most specific first.
pub(crate) async fn met_patterns(
    session: &mut Session,
    calls: &[Resource<'_>],
) -> Result<Vec<Pattern>, DatabaseError> {
    // A wildcard's stand-in is a control character, which no pattern has and Postgres does not take.
    let heads: BTreeSet<String> = calls
        .iter()
        .flat_map(Resource::heads)
        .filter(|head| !head.contains(char::is_control))
        .collect();
    let heads: Vec<String> = heads.into_iter().collect();
    let mut patterns: Vec<Pattern> = session
        .patterns(&heads)
        .await?
        .iter()
        .map(|canonical| Pattern::from_canonical(canonical))
        .filter(|pattern| calls.iter().any(|call| pattern.fits(call)))
        .collect();
    patterns.sort_unstable_by(|a, b| b.cmp(a));
    Ok(patterns)
}

/// The most rules that whoever the rule is for could meet by one call.
fn most_met(set: &RuleSet, rule: &Rule, call: &Resource<'_>) -> usize {
    let draft = rule.draft();
    let own_tier = [draft.tier];
    let any_tier = [
        None,
        Some(Tier::Free),
        Some(Tier::Paid),
        Some(Tier::Premium),
    ];
    let tiers: &[Option<Tier>] = if draft.tier.is_some() {
        &own_tier
    } else {
        &any_tier
    };
    let met = tiers.iter().map(|tier| {
        let caller = Caller {
            client: Some(draft.client.as_deref().unwrap_or(NOBODY)),
            tier: *tier,
            address: Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        };
        let applicable = set.applicable(call, &caller);
        applicable.active.len() + applicable.shadow.len()
    });
    met.max().unwrap_or_default()
}
