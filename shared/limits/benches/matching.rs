//! Finding the rules of one call must not slow down with their number.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use limits::rule::Tier;
use limits::rule_set::Caller;
use limits::{Draft, Resource, Rule, RuleSet};
use uuid::Uuid;

/// A set as operators have them: a rule for everything by tier, one for each route, and one for each client.
fn rules(number: u64) -> RuleSet {
    let mut set = RuleSet::new();
    for i in 0..number {
        let draft = match i {
            0 => Draft {
                tier: Some(Tier::Free),
                ..Draft::new("*", Some(10), 60)
            },
            i if i % 2 == 0 => Draft::new(format!("GET /service{i}/orders/*"), Some(100), 60),
            i => Draft {
                client: Some(format!("client{i}")),
                ..Draft::new("/service2/orders/**", Some(100), 60)
            },
        };
        if let Ok(rule) = Rule::new(Uuid::from_u128(i.into()), draft) {
            set.put(rule);
        }
    }
    set
}

fn matching(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("matching");
    for number in [10, 1_000, 100_000] {
        let set = rules(number);
        assert_eq!(set.len() as u64, number);
        let caller = Caller {
            client: Some("client5"),
            tier: Some(Tier::Free),
            address: None,
        };
        group.bench_function(BenchmarkId::from_parameter(number), |bencher| {
            bencher.iter(|| {
                let call = Resource::path("GET", black_box("/service2/orders/17"), None);
                let applicable = set.applicable(&call, &caller);
                assert_eq!(applicable.active.len(), 3);
                black_box(applicable.active.len())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, matching);
criterion_main!(benches);
