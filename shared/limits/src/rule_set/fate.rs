//! What becomes of every rule that a call meets, and why: for operators, by the same choice that decides.

use uuid::Uuid;

use super::{Applicable, Caller, RuleSet, by_specificity, sets_aside};
use crate::path::Resource;
use crate::rule::{Per, Rule, Status};

/// What becomes of a rule that a call meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It applies, among those of its status.
    Applies,
    /// It is for another client.
    OtherClient,
    /// It is for another tier.
    OtherTier,
    /// It is per address, and none is known.
    NoAddress,
    /// A rule of the same pattern and `per` is for a closer level: this one, or others beside it.
    CloserLevel(Uuid),
    /// The override of a more specific rule sets it aside.
    SetAside(Uuid),
    /// It is terminated.
    Terminated,
}

/// A rule that a call meets, and what becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Met<'a> {
    /// The rule.
    pub rule: &'a Rule,
    /// What becomes of it.
    pub fate: Fate,
}

/// The rules that a call meets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fates<'a> {
    /// Most specific first.
    pub met: Vec<Met<'a>>,
    /// How many more there are: none of them applies.
    pub left_out: usize,
}

impl RuleSet {
    /// What becomes of every rule whose pattern a call meets, terminated ones included. Those that apply are all told; of the
    /// others as many as make `most` with them, those for other callers last. Reads all rules: nothing for the way of a request.
    pub fn fates<'a>(&'a self, call: &Resource<'_>, caller: &Caller<'_>, most: usize) -> Fates<'a> {
        let chosen = self.chosen(call, caller);
        let mut rules: Vec<&Rule> = Vec::new();
        self.each_met(call, |rivals| {
            let own = rivals.clients.values().flatten();
            rules.extend(rivals.shared.iter().chain(own).map(AsRef::as_ref));
        });
        let all = self.rules.values().map(AsRef::as_ref);
        rules.extend(all.filter(|rule: &&Rule| {
            rule.draft().status == Status::Terminated && rule.pattern().fits(call)
        }));
        let found = rules.len();
        let mut met: Vec<Met<'a>> = rules
            .into_iter()
            .map(|rule| Met {
                rule,
                fate: fate(rule, caller, &chosen),
            })
            .collect();
        // One pattern may have a rule for each of a hundred thousand clients.
        met.sort_unstable_by_key(|met| (importance(met.fate), met.rule.id()));
        let applying = met.partition_point(|met| met.fate == Fate::Applies);
        met.truncate(most.max(applying));
        let left_out = found - met.len();
        met.sort_unstable_by(|a, b| by_specificity(a.rule, b.rule));
        Fates { met, left_out }
    }
}

fn importance(fate: Fate) -> u8 {
    match fate {
        Fate::Applies => 0,
        Fate::SetAside(_) | Fate::CloserLevel(_) | Fate::NoAddress => 1,
        Fate::OtherTier | Fate::Terminated => 2,
        Fate::OtherClient => 3,
    }
}

/// The fate of a rule whose pattern is met, by what was chosen.
fn fate(rule: &Rule, caller: &Caller<'_>, chosen: &Applicable<'_>) -> Fate {
    let draft = rule.draft();
    let rivals = match draft.status {
        Status::Active => &chosen.active,
        Status::Shadow => &chosen.shadow,
        Status::Terminated => return Fate::Terminated,
    };
    if rivals.iter().any(|other| other.id() == rule.id()) {
        let mut by = rivals.iter().filter(|other| sets_aside(other, rule));
        return by
            .next()
            .map_or(Fate::Applies, |by| Fate::SetAside(by.id()));
    }
    if draft.client.is_some() && draft.client.as_deref() != caller.client {
        return Fate::OtherClient;
    }
    if draft.tier.is_some() && draft.tier != caller.tier {
        return Fate::OtherTier;
    }
    if draft.per == Per::Ip && caller.address.is_none() {
        return Fate::NoAddress;
    }
    let closer = rivals
        .iter()
        .filter(|other| other.pattern() == rule.pattern() && other.draft().per == draft.per)
        .map(|other| other.id())
        .min();
    // Whom the rule is for and is not chosen has lost to a closer level.
    closer.map_or(Fate::OtherTier, Fate::CloserLevel)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Draft, Tier};

    const CALL: &str = "GET /a/b";

    /// A rule of each kind: pattern, whom for, per, override and status, numbered by its place.
    fn every_kind(part: impl Fn(usize) -> bool) -> RuleSet {
        let mut set = RuleSet::new();
        let mut number = 0;
        let whom = [
            (None, None),
            (None, Some(Tier::Free)),
            (None, Some(Tier::Paid)),
            (Some("eve"), None),
            (Some("bob"), None),
        ];
        for resource in ["*", "/a/**", "/a/*", "GET /a/b", "/other"] {
            for (client, tier) in whom {
                for per in Per::ALL {
                    for overrides in [false, true] {
                        for status in Status::ALL {
                            let draft = Draft {
                                client: client.map(str::to_owned),
                                tier,
                                per: *per,
                                overrides,
                                status: *status,
                                ..Draft::new(resource, Some(1), 60)
                            };
                            let id = Uuid::from_u128(number as u128);
                            if part(number) {
                                set.put(Rule::new(id, draft).unwrap());
                            }
                            number += 1;
                        }
                    }
                }
            }
        }
        set
    }

    fn callers() -> Vec<Caller<'static>> {
        let mut callers = Vec::new();
        for client in [None, Some("eve"), Some("ann")] {
            for tier in [None, Some(Tier::Free), Some(Tier::Premium)] {
                for address in [None, Some([1, 2, 3, 4].into())] {
                    callers.push(Caller {
                        client,
                        tier,
                        address,
                    });
                }
            }
        }
        callers
    }

    #[test]
    fn what_is_told_to_apply_is_what_applies_and_every_other_rule_has_its_reason() {
        let call = Resource::parse(CALL);
        // Whole, and thinned out so that levels and overrides are missing here and there.
        for step in 1..24 {
            let set = every_kind(|number| number % step == 0 || (number / 7) % step == 1);
            for caller in callers() {
                let fates = set.fates(&call, &caller, usize::MAX);
                let applicable = set.applicable(&call, &caller);
                for (status, rules) in [
                    (Status::Active, applicable.active),
                    (Status::Shadow, applicable.shadow),
                ] {
                    let told = fates.met.iter().filter(|met| {
                        met.fate == Fate::Applies && met.rule.draft().status == status
                    });
                    let told: Vec<&Rule> = told.map(|met| met.rule).collect();
                    assert_eq!(told, rules, "{caller:?}");
                }
                let met = set.rules.values().filter(|rule| rule.pattern().fits(&call));
                assert_eq!((fates.met.len(), fates.left_out), (met.count(), 0));
                for Met { rule, fate } in fates.met {
                    let draft = rule.draft();
                    let by = |id| set.get(id).unwrap();
                    match fate {
                        Fate::Applies => {}
                        Fate::OtherClient => assert_ne!(draft.client.as_deref(), caller.client),
                        Fate::OtherTier => {
                            assert!(draft.tier.is_some() && draft.tier != caller.tier)
                        }
                        Fate::NoAddress => {
                            assert!(draft.per == Per::Ip && caller.address.is_none())
                        }
                        Fate::CloserLevel(id) => {
                            let closer = by(id).draft();
                            assert_eq!(by(id).pattern(), rule.pattern());
                            assert_eq!((closer.per, closer.status), (draft.per, draft.status));
                            assert!(draft.client.is_none());
                            assert!(
                                closer.client.is_some()
                                    || closer.tier.is_some() && draft.tier.is_none()
                            );
                        }
                        Fate::SetAside(id) => {
                            let specific = by(id).draft();
                            assert!(specific.overrides && by(id).pattern() > rule.pattern());
                            assert_eq!((specific.per, specific.status), (draft.per, draft.status));
                        }
                        Fate::Terminated => assert_eq!(draft.status, Status::Terminated),
                    }
                }
            }
        }
    }

    #[test]
    fn those_that_apply_are_all_told_and_others_as_far_as_there_is_room() {
        let set = every_kind(|_| true);
        let call = Resource::parse(CALL);
        let caller = Caller {
            client: Some("eve"),
            tier: Some(Tier::Free),
            address: Some([1, 2, 3, 4].into()),
        };
        let applying = |fates: &Fates<'_>| {
            let met = fates.met.iter();
            met.filter(|met| met.fate == Fate::Applies).count()
        };
        let whole = set.fates(&call, &caller, usize::MAX);
        for most in [0, 5, 40] {
            let fates = set.fates(&call, &caller, most);
            assert_eq!(applying(&fates), applying(&whole));
            assert_eq!(fates.met.len(), most.max(applying(&whole)));
            assert_eq!(fates.met.len() + fates.left_out, whole.met.len());
            let others = fates.met.iter().any(|met| met.fate == Fate::OtherClient);
            assert!(!others, "who is not asked about comes last");
        }
    }
}
