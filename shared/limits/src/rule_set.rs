//! Which rules apply to a call: an index by pattern and by client, so that many rules decide as fast as few.

mod fate;

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use foldhash::HashMap;
use uuid::Uuid;

use crate::path::{Resource, Target};
use crate::pattern::{Pattern, Segment, Shape};
use crate::rule::{Per, Rule, Status, Tier};

pub use fate::{Fate, Fates, Met};

/// The most rules that a call to a rule's own pattern may meet, shadow rules included: each is a bucket in one script.
pub const MOST_MET: usize = 32;

/// Who calls, as far as it was verified.
#[derive(Debug, Clone, Copy, Default)]
pub struct Caller<'a> {
    /// The client; none for one known by its address alone.
    pub client: Option<&'a str>,
    /// The client's tier.
    pub tier: Option<Tier>,
    /// Where the call comes from.
    pub address: Option<IpAddr>,
}

/// The rules that apply to a call, most specific first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applicable<'a> {
    /// Those that must all allow.
    pub active: Vec<&'a Rule>,
    /// Those that only watch, chosen by themselves in the same way.
    pub shadow: Vec<&'a Rule>,
}

/// An index of rules. Finding those of one call costs a walk along its path and one look for its client at each pattern met,
/// whatever the number of rules.
#[derive(Debug, Clone, Default)]
pub struct RuleSet {
    rules: HashMap<Uuid, Arc<Rule>>,
    everything: Slot,
    services: HashMap<Box<str>, Slot>,
    paths: Node,
}

/// A step of the trie of path patterns.
#[derive(Debug, Clone, Default)]
struct Node {
    // Boxed, since a map holds room for four where there is one.
    literals: HashMap<Box<str>, Box<Node>>,
    any: Option<Box<Node>>,
    here: Slot,
    rest: Slot,
}

/// The patterns that differ in their method alone.
#[derive(Debug, Clone, Default)]
struct Slot(Vec<(Option<Box<str>>, Rivals)>);

/// The rules of one pattern.
#[derive(Debug, Clone, Default)]
struct Rivals {
    /// For a tier or for anyone: few, since they are rivals for one call.
    shared: Vec<Arc<Rule>>,
    /// For one client: perhaps many.
    clients: HashMap<Box<str>, Vec<Arc<Rule>>>,
}

impl RuleSet {
    /// No rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many rules are held, those included that are not in force.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rule of that id.
    pub fn get(&self, id: Uuid) -> Option<&Rule> {
        self.rules.get(&id).map(Arc::as_ref)
    }

    /// Puts a rule in the place of the one with its id.
    pub fn put(&mut self, rule: impl Into<Arc<Rule>>) {
        let rule = rule.into();
        self.remove(rule.id());
        self.rules.insert(rule.id(), Arc::clone(&rule));
        if rule.draft().status != Status::Terminated {
            self.slot_mut(rule.pattern()).put(rule);
        }
    }

    /// Takes a rule out; nothing happens where there is none of that id.
    pub fn remove(&mut self, id: Uuid) {
        if let Some(rule) = self.rules.remove(&id)
            && rule.draft().status != Status::Terminated
        {
            match rule.pattern().shape() {
                Shape::Everything => self.everything.remove(&rule),
                Shape::Service(name) => {
                    if let Some(place) = self.services.get_mut(name.as_ref()) {
                        place.remove(&rule);
                        if place.0.is_empty() {
                            self.services.remove(name.as_ref());
                        }
                    }
                }
                Shape::Path(steps) => self.paths.remove(&steps, &rule),
            }
        }
    }

    fn slot_mut(&mut self, pattern: &Pattern) -> &mut Slot {
        match pattern.shape() {
            Shape::Everything => &mut self.everything,
            Shape::Service(name) => self.services.entry(name.into()).or_default(),
            Shape::Path(steps) => {
                let mut node = &mut self.paths;
                for step in steps {
                    node = match step {
                        Segment::Literal(name) => node.literals.entry(name.into()).or_default(),
                        Segment::Any => node.any.get_or_insert_default(),
                        Segment::Rest => return &mut node.rest,
                    };
                }
                &mut node.here
            }
        }
    }

    /// Calls `found` with the rules of every pattern that a call meets; each pattern once.
    fn each_met<'a>(&'a self, call: &Resource<'_>, mut found: impl FnMut(&'a Rivals)) {
        let method = call.method.as_deref();
        self.everything.met(method, &mut found);
        match &call.target {
            Target::Service(name) => {
                if let Some(place) = self.services.get(name.as_ref()) {
                    place.met(method, &mut found);
                }
            }
            Target::Path(path) => self
                .paths
                .walk(path, &mut |place| place.met(method, &mut found)),
        }
        // The template that the gateway matched, unless the walk along the path came by it anyway.
        if let Some(route) = &call.route
            && !route.fits(&Resource {
                route: None,
                ..call.clone()
            })
            && let Some(place) = self.slot(route)
        {
            place.met(method, &mut found);
        }
    }

    fn slot(&self, pattern: &Pattern) -> Option<&Slot> {
        match pattern.shape() {
            Shape::Everything => Some(&self.everything),
            Shape::Service(name) => self.services.get(name.as_ref()),
            Shape::Path(steps) => {
                let mut node = &self.paths;
                for step in steps {
                    node = match step {
                        Segment::Literal(name) => node.literals.get(name.as_ref())?,
                        Segment::Any => node.any.as_deref()?,
                        Segment::Rest => return Some(&node.rest),
                    };
                }
                Some(&node.here)
            }
        }
    }

    /// The rules that apply to a call by `caller`. Within one (pattern, `per`) the closest level wins, client before tier before
    /// anyone, and all rules of that level apply; then those set aside by an `override` drop out. Rules `per: ip` need an
    /// address.
    pub fn applicable<'a>(&'a self, call: &Resource<'_>, caller: &Caller<'_>) -> Applicable<'a> {
        let mut applicable = self.chosen(call, caller);
        settle(&mut applicable.active);
        settle(&mut applicable.shadow);
        applicable
    }

    /// The rules of the closest levels, in no order, those included that are set aside.
    fn chosen<'a>(&'a self, call: &Resource<'_>, caller: &Caller<'_>) -> Applicable<'a> {
        let mut chosen = Applicable::default();
        self.each_met(call, |rivals| {
            rivals.choose(caller, Status::Active, &mut chosen.active);
            rivals.choose(caller, Status::Shadow, &mut chosen.shadow);
        });
        chosen
    }
}

fn most_specific_first(rules: &mut [&Rule]) {
    if rules.len() > 1 {
        rules.sort_unstable_by(|a, b| by_specificity(a, b));
    }
}

/// The order of answers: the more specific first, then the lower id.
fn by_specificity(a: &Rule, b: &Rule) -> Ordering {
    b.pattern()
        .cmp(a.pattern())
        .then_with(|| a.id().cmp(&b.id()))
}

/// Orders the chosen rules and drops those that a rule of a more specific pattern sets aside.
fn settle(rules: &mut Vec<&Rule>) {
    most_specific_first(rules);
    if rules.iter().any(|rule| rule.draft().overrides) {
        let all = rules.clone();
        rules.retain(|rule| !all.iter().any(|other| sets_aside(other, rule)));
    }
}

/// Whether of two rules that were both chosen the one makes the other step aside.
fn sets_aside(one: &Rule, other: &Rule) -> bool {
    one.draft().overrides && one.draft().per == other.draft().per && one.pattern() > other.pattern()
}

impl Node {
    /// Takes a rule out, and with it the nodes that hold nothing else: a map must not grow with rules that came and went.
    fn remove(&mut self, steps: &[Segment<'_>], rule: &Rule) {
        match steps.split_first() {
            None => self.here.remove(rule),
            Some((Segment::Rest, _)) => self.rest.remove(rule),
            Some((Segment::Any, steps)) => {
                if let Some(node) = &mut self.any {
                    node.remove(steps, rule);
                    if node.is_empty() {
                        self.any = None;
                    }
                }
            }
            Some((Segment::Literal(name), steps)) => {
                if let Some(node) = self.literals.get_mut(name.as_ref()) {
                    node.remove(steps, rule);
                    if node.is_empty() {
                        self.literals.remove(name.as_ref());
                    }
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.literals.is_empty()
            && self.any.is_none()
            && self.here.0.is_empty()
            && self.rest.0.is_empty()
    }

    fn walk<'a>(&'a self, path: &[impl AsRef<str>], found: &mut impl FnMut(&'a Slot)) {
        found(&self.rest);
        match path.split_first() {
            None => found(&self.here),
            Some((name, rest)) => {
                if let Some(node) = self.literals.get(name.as_ref()) {
                    node.walk(rest, found);
                }
                if let Some(node) = &self.any {
                    node.walk(rest, found);
                }
            }
        }
    }
}

impl Slot {
    fn met<'a>(&'a self, method: Option<&str>, found: &mut impl FnMut(&'a Rivals)) {
        for (own, rivals) in &self.0 {
            if own.is_none() || own.as_deref() == method {
                found(rivals);
            }
        }
    }

    fn put(&mut self, rule: Arc<Rule>) {
        let method = rule.pattern().method();
        let i = match self.0.iter().position(|(own, _)| own.as_deref() == method) {
            Some(i) => i,
            None => {
                // Most patterns have one, with one rule: no room for more until there are.
                self.0.reserve_exact(1);
                self.0.push((method.map(Into::into), Rivals::default()));
                self.0.len() - 1
            }
        };
        let rivals = &mut self.0[i].1;
        match &rule.draft().client {
            Some(client) => {
                let rules = rivals.clients.entry(client.as_str().into()).or_default();
                rules.reserve_exact(1);
                rules.push(rule);
            }
            None => {
                rivals.shared.reserve_exact(1);
                rivals.shared.push(rule);
            }
        }
    }

    fn remove(&mut self, rule: &Rule) {
        let method = rule.pattern().method();
        if let Some((_, rivals)) = self.0.iter_mut().find(|(own, _)| own.as_deref() == method) {
            match &rule.draft().client {
                Some(client) => {
                    if let Some(rules) = rivals.clients.get_mut(client.as_str()) {
                        rules.retain(|other| other.id() != rule.id());
                        if rules.is_empty() {
                            rivals.clients.remove(client.as_str());
                        }
                    }
                }
                None => rivals.shared.retain(|other| other.id() != rule.id()),
            }
        }
        self.0
            .retain(|(_, rivals)| !(rivals.shared.is_empty() && rivals.clients.is_empty()));
    }
}

impl Rivals {
    /// Adds the rules of the closest level, for each `per`.
    fn choose<'a>(&'a self, caller: &Caller<'_>, status: Status, chosen: &mut Vec<&'a Rule>) {
        let own = caller
            .client
            .and_then(|client| self.clients.get(client))
            .map_or(&[] as &[Arc<Rule>], Vec::as_slice);
        for &per in Per::ALL {
            if per == Per::Ip && caller.address.is_none() {
                continue;
            }
            let fits = |rule: &&Arc<Rule>| rule.draft().status == status && rule.draft().per == per;
            let of_tier = |tier: Option<Tier>| move |rule: &&Arc<Rule>| rule.draft().tier == tier;
            let before = chosen.len();
            chosen.extend(own.iter().filter(fits).map(Arc::as_ref));
            if chosen.len() == before && caller.tier.is_some() {
                let tier = self.shared.iter().filter(fits).filter(of_tier(caller.tier));
                chosen.extend(tier.map(Arc::as_ref));
            }
            if chosen.len() == before {
                let anyone = self.shared.iter().filter(fits).filter(of_tier(None));
                chosen.extend(anyone.map(Arc::as_ref));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Draft;

    /// A set of rules, each numbered by its place in the list.
    fn set(drafts: &[Draft]) -> RuleSet {
        let mut set = RuleSet::new();
        for (i, draft) in drafts.iter().enumerate() {
            set.put(Rule::new(Uuid::from_u128(i as u128), draft.clone()).unwrap());
        }
        set
    }

    fn numbers(rules: &[&Rule]) -> Vec<u128> {
        rules.iter().map(|rule| rule.id().as_u128()).collect()
    }

    fn active(set: &RuleSet, call: &str, caller: &Caller<'_>) -> Vec<u128> {
        numbers(&set.applicable(&Resource::parse(call), caller).active)
    }

    fn rule(resource: &str) -> Draft {
        Draft::new(resource, Some(10), 60)
    }

    const FREE_EVE: Caller<'static> = Caller {
        client: Some("eve"),
        tier: Some(Tier::Free),
        address: None,
    };

    #[test]
    fn the_closest_level_wins_within_a_pattern_and_all_its_rules_apply() {
        let set = set(&[
            rule("/a"),
            Draft {
                tier: Some(Tier::Free),
                ..rule("/a")
            },
            Draft {
                client: Some("eve".into()),
                ..rule("/a")
            },
            Draft {
                client: Some("eve".into()),
                time_window: 86_400,
                ..rule("/a")
            },
            Draft {
                per: Per::All,
                ..rule("/a")
            },
        ]);
        assert_eq!(active(&set, "/a", &FREE_EVE), [2, 3, 4]);
        let free = Caller {
            client: Some("bob"),
            ..FREE_EVE
        };
        assert_eq!(active(&set, "/a", &free), [1, 4]);
        let paid = Caller {
            tier: Some(Tier::Paid),
            ..free
        };
        assert_eq!(active(&set, "/a", &paid), [0, 4]);
        assert_eq!(active(&set, "/a", &Caller::default()), [0, 4]);
    }

    #[test]
    fn an_override_sets_broader_patterns_of_its_per_aside() {
        let set = set(&[
            rule("*"),
            rule("/a/**"),
            Draft {
                overrides: true,
                ..rule("/a/b")
            },
            Draft {
                per: Per::All,
                ..rule("*")
            },
            rule("GET /a/b"),
        ]);
        assert_eq!(active(&set, "GET /a/b", &FREE_EVE), [4, 2, 3]);
        assert_eq!(active(&set, "GET /a/c", &FREE_EVE), [1, 0, 3]);
    }

    #[test]
    fn shadow_rules_are_chosen_by_themselves_and_switch_nothing_off() {
        let set = set(&[
            Draft {
                tier: Some(Tier::Free),
                ..rule("/a/*")
            },
            Draft {
                client: Some("eve".into()),
                status: Status::Shadow,
                overrides: true,
                ..rule("/a/*")
            },
            Draft {
                status: Status::Shadow,
                ..rule("*")
            },
            Draft {
                client: Some("eve".into()),
                status: Status::Terminated,
                ..rule("/a/*")
            },
        ]);
        let call = Resource::parse("/a/b");
        let applicable = set.applicable(&call, &FREE_EVE);
        assert_eq!(numbers(&applicable.active), [0]);
        assert_eq!(numbers(&applicable.shadow), [1]);
    }

    #[test]
    fn a_rule_per_address_needs_an_address() {
        let set = set(&[Draft {
            per: Per::Ip,
            ..rule("*")
        }]);
        assert!(active(&set, "/", &FREE_EVE).is_empty());
        let there = Caller {
            address: Some([1, 2, 3, 4].into()),
            ..FREE_EVE
        };
        assert_eq!(active(&set, "/", &there), [0]);
    }

    #[test]
    fn the_route_counts_once_whether_or_not_the_path_meets_it() {
        let set = set(&[rule("GET /users/{id}"), rule("/users/**")]);
        for path in ["/users/1", "/users/1%2F2"] {
            let call = Resource::path("GET", path, Some("/users/{name}"));
            let applicable = set.applicable(&call, &FREE_EVE);
            assert_eq!(numbers(&applicable.active), [0, 1], "{path}");
        }
    }

    #[test]
    fn a_rule_that_was_replaced_or_removed_applies_no_more() {
        let mut set = set(&[rule("/a"), rule("svc")]);
        set.put(Rule::new(Uuid::from_u128(0), rule("/b")).unwrap());
        assert!(active(&set, "/a", &FREE_EVE).is_empty());
        assert_eq!(active(&set, "/b", &FREE_EVE), [0]);
        assert_eq!(active(&set, "svc", &FREE_EVE), [1]);
        set.remove(Uuid::from_u128(1));
        assert!(active(&set, "svc", &FREE_EVE).is_empty());
        assert_eq!(set.len(), 1);
        set.remove(Uuid::from_u128(0));
        assert!(set.is_empty() && set.paths.is_empty() && set.services.is_empty());
    }

    #[test]
    fn the_index_finds_what_a_scan_finds() {
        // Every pattern of up to three steps over a small alphabet, against every path of the same.
        let steps = ["a", "b", "*"];
        let mut patterns = vec![
            "*".to_owned(),
            "/".to_owned(),
            "/**".to_owned(),
            "a".to_owned(),
        ];
        for x in steps {
            patterns.push(format!("/{x}"));
            patterns.push(format!("GET /{x}/**"));
            for y in steps {
                patterns.push(format!("PUT /{x}/{y}"));
                patterns.extend(steps.iter().map(|z| format!("/{x}/{y}/{z}")));
            }
        }
        let set = set(&patterns.iter().map(|p| rule(p)).collect::<Vec<_>>());
        for text in [
            "/",
            "a",
            "/a",
            "GET /a",
            "PUT /a/b",
            "/b/a/c",
            "GET /c/c/c",
            "/a/a/a/a",
        ] {
            for route in [
                None,
                Some("/{x}"),
                Some("/{x}/{y}/a"),
                Some("/{x}/{proxy+}"),
            ] {
                let mut call = Resource::parse(text);
                call.route = route.map(|route| Pattern::parse(route).unwrap());
                let mut scanned: Vec<u128> = (0..patterns.len())
                    .filter(|i| Pattern::parse(&patterns[*i]).unwrap().fits(&call))
                    .map(|i| i as u128)
                    .collect();
                let mut found = numbers(&set.applicable(&call, &Caller::default()).active);
                found.sort_unstable();
                scanned.sort_unstable();
                assert_eq!(found, scanned, "{text} {route:?}");
            }
        }
    }
}
