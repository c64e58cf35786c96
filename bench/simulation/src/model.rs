//! The model: calls, containers and shards, event by event.
//!
//! A call arrives, takes a container or is refused, and visits the shards that its buckets lie on, trip by trip, as `limiter` and
//! `limits-redis` do. A shard is a core and a network card, each of which serves one after the other.

mod calls;
mod containers;
mod shards;
mod tokens;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use histogram::Histogram;
use limits::Lane;
use limits::bucket::Owner;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1};
use uuid::Uuid;

use self::calls::Call;
use self::containers::Container;
use self::shards::{Ask, Shard};
use self::tokens::Tokens;
use crate::costs::{Assumptions, Costs, Ns, S};
use crate::measured::{Measured, Outcome};
use crate::population::Population;
use crate::scenario::{Calls, Scenario};
use crate::server::Server;

/// The client that makes a share of all calls by itself.
const HOT: u32 = 0;

/// Nobody: a container that starts.
const NOBODY: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A question of a call reaches a shard.
    Visit { call: u32, shard: u16, ask: Ask },
    /// A container can have its next call.
    Free { container: u32 },
}

/// A run of a scenario at a rate.
struct Run<'a> {
    scenario: &'a Scenario,
    costs: &'a Costs,
    assumed: &'a Assumptions,
    population: &'a Population,
    calls: Calls,
    rng: Xoshiro256PlusPlus,
    /// What happens when; what happens at the same time, in the order in which it was scheduled.
    events: BinaryHeap<Reverse<(Ns, u64, Event)>>,
    scheduled: u64,
    next_arrival: Ns,
    between_arrivals: f64,
    /// In how many pages a container reads the rules when it starts.
    pages: u32,
    /// How large a page of the rules is, and how long a container takes to read one.
    page_bytes: u64,
    page_reading: Ns,
    /// What is measured begins and ends then.
    window: [Ns; 2],
    /// Calls, and which of their places are free.
    on_way: Vec<Call>,
    over: Vec<u32>,
    containers: Vec<Container>,
    idle: Vec<u32>,
    /// Calls that wait for a container, one of which is being made for each.
    waiting: VecDeque<u32>,
    shards: Vec<Shard>,
    environments: Tokens,
    admitted: Tokens,
    hot_bucket: Tokens,
    measured: Measured,
}

/// Runs a scenario at so many requests a second.
///
/// # Errors
/// None: the classes of the histogram are given here.
pub(crate) fn run(
    scenario: &Scenario,
    rate: f64,
    costs: &Costs,
    assumed: &Assumptions,
    population: &Population,
) -> Result<Measured, histogram::Error> {
    let shards = scenario.shards(rate);
    let [warm_up, length] = scenario.times(rate);
    let pages = scenario.pages(assumed.rule_bytes);
    let mut run = Run {
        scenario,
        costs,
        assumed,
        population,
        calls: scenario.calls(shards),
        rng: Xoshiro256PlusPlus::seed_from_u64(1),
        events: BinaryHeap::new(),
        scheduled: 0,
        next_arrival: 0,
        between_arrivals: S as f64 / rate,
        pages,
        page_bytes: (scenario.bytes(assumed.rule_bytes) / f64::from(pages)) as u64,
        window: [warm_up, warm_up + length],
        page_reading: costs.load * u64::from(scenario.rules) / 100_000 / u64::from(pages),
        on_way: Vec::new(),
        over: Vec::new(),
        containers: Vec::new(),
        idle: Vec::new(),
        waiting: VecDeque::new(),
        shards: vec![Shard::default(); shards],
        environments: Tokens {
            left: assumed.environments[0],
            at: 0,
        },
        admitted: Tokens {
            left: assumed.environments[0] * assumed.calls_a_unit,
            at: 0,
        },
        hot_bucket: Tokens::default(),
        measured: Measured {
            rate,
            shards,
            seconds: length as f64 / S as f64,
            latencies: Histogram::new(7, 44)?,
            outcomes: [0; Outcome::COUNT],
            arrived: 0,
            core: 0.0,
            card: 0.0,
            busy: 0.0,
            containers: 0,
        },
    };
    run.until(warm_up);
    let spare = run.containers.len() as f64 * (assumed.warm - 1.0);
    let spare: Vec<u32> = (0..spare as u32)
        .map(|_| run.make_container(true))
        .collect();
    run.idle.splice(0..0, spare);
    run.shards
        .iter_mut()
        .flat_map(|shard| [&mut shard.core, &mut shard.card])
        .for_each(|server| server.work = 0);
    run.until(warm_up + length);
    let busiest = |server: fn(&Shard) -> &Server| {
        let work = run.shards.iter().map(|shard| server(shard).work).max();
        work.unwrap_or_default() as f64 / length as f64
    };
    let (core, card) = (busiest(|shard| &shard.core), busiest(|shard| &shard.card));
    run.next_arrival = Ns::MAX;
    run.until(Ns::MAX - 1);
    let containers = run.containers.len();
    Ok(Measured {
        core,
        card,
        containers,
        ..run.measured
    })
}

impl Run<'_> {
    fn until(&mut self, end: Ns) {
        loop {
            let event_at = self.events.peek().map_or(Ns::MAX, |Reverse((at, ..))| *at);
            if event_at.min(self.next_arrival) > end {
                return;
            }
            if self.next_arrival < event_at {
                let now = self.next_arrival;
                let gap: f64 = Exp1.sample(&mut self.rng);
                self.next_arrival += (gap * self.between_arrivals) as Ns;
                self.arrive(now);
            } else if let Some(Reverse((now, _, event))) = self.events.pop() {
                match event {
                    Event::Visit { call, shard, ask } => self.visit(now, call, shard.into(), ask),
                    Event::Free { container } => self.free(now, container),
                }
            }
        }
    }

    fn schedule(&mut self, at: Ns, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((at, self.scheduled, event)));
    }

    fn is_measured(&self, arrived: Ns) -> bool {
        (self.window[0]..self.window[1]).contains(&arrived)
    }

    fn arrive(&mut self, now: Ns) {
        let measured = self.is_measured(now);
        self.measured.arrived += u64::from(measured);
        let found = if self.admits(now) {
            self.find_container(now).ok_or(Outcome::NoEnvironment)
        } else {
            Err(Outcome::NotAdmitted)
        };
        if let Err(refused) = found {
            self.measured.outcomes[refused as usize] += u64::from(measured);
            return;
        }
        let hot = self.scenario.hot.as_ref();
        let client = match hot.is_some_and(|hot| self.rng.random_bool(hot.share)) {
            true => HOT,
            false => self.population.draw(&mut self.rng),
        };
        let split = self.scenario.split.unwrap_or(1);
        let share = match split {
            1 => Lane::SHARED,
            _ => Owner::Share {
                rule: Uuid::from_u128(1),
                number: self.rng.random_range(0..split),
                split,
            }
            .lane(),
        };
        let index = self.note(Call {
            client,
            share,
            ..Call::new(now)
        });
        self.waiting.push_back(index);
        if let Ok(Some(container)) = found {
            self.free(now, container);
        }
    }

    /// Keeps a call in a free place, by whose number it is known from then on.
    fn note(&mut self, call: Call) -> u32 {
        match self.over.pop() {
            Some(index) => {
                self.on_way[index as usize] = call;
                index
            }
            None => {
                self.on_way.push(call);
                self.on_way.len() as u32 - 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::SCENARIOS;

    const MADE_UP: &str = include_str!("../tests/performance.json");

    fn scenario(name: &str) -> &'static Scenario {
        SCENARIOS
            .iter()
            .find(|scenario| scenario.name == name)
            .unwrap()
    }

    fn simulate(scenario: &Scenario, rate: f64) -> Measured {
        let (costs, assumed) = (Costs::read(MADE_UP).unwrap(), Assumptions::default());
        let clients = scenario.clients.min(20_000);
        let population = Population::new(clients, assumed.zipf, assumed.most_names).unwrap();
        run(scenario, rate, &costs, &assumed, &population).unwrap()
    }

    #[test]
    fn every_request_ends_in_one_way() {
        for scenario in &SCENARIOS {
            for rate in [2_000.0, 80_000.0] {
                let measured = simulate(scenario, rate);
                let ended: u64 = measured.outcomes.iter().sum();
                assert_eq!(ended, measured.arrived, "{} at {rate}", scenario.name);
                let expected = rate * measured.seconds;
                assert!((measured.arrived as f64 / expected - 1.0).abs() < 0.05);
                let refused = [Outcome::NotAdmitted, Outcome::NoEnvironment];
                let refused: u64 = refused
                    .map(|of| measured.outcomes[of as usize])
                    .iter()
                    .sum();
                let told: u64 = measured.latencies.as_slice().iter().sum();
                assert_eq!(told + refused, ended);
            }
        }
    }

    #[test]
    fn the_same_again_is_the_same() {
        for name in ["a million clients", "a shard fails for 2 s"] {
            let [first, second] = [(); 2].map(|()| simulate(scenario(name), 80_000.0));
            assert_eq!(first, second);
        }
    }

    #[test]
    fn one_that_is_alone_waits_for_the_network_and_itself() {
        let measured = simulate(scenario("one shard"), 100.0);
        // 60 µs of its own, 8 µs of Redis, 300 or 1,000 µs of network and 100 µs that vary.
        assert!(
            (0.37..0.5).contains(&measured.percentile(10.0)),
            "{measured:?}"
        );
        assert!(
            (1.07..1.2).contains(&measured.percentile(75.0)),
            "{measured:?}"
        );
        assert_eq!(
            measured.first_over(scenario("one shard"), &Assumptions::default()),
            None
        );
    }

    #[test]
    fn the_load_of_a_shard_is_what_its_calls_cost() {
        let measured = simulate(scenario("one shard"), 65_000.0);
        assert!((measured.core - 0.5).abs() < 0.01, "{}", measured.core);
        let twice = simulate(scenario("`per: all`"), 45_000.0);
        assert!((twice.core - 0.5).abs() < 0.01, "{}", twice.core);
    }

    #[test]
    fn a_shard_that_is_brought_too_much_is_told_to_be_what_broke() {
        let scenario = scenario("one shard");
        let measured = simulate(scenario, 150_000.0);
        assert!(measured.undecided() > 0.1, "{}", measured.undecided());
        let broke = measured.first_over(scenario, &Assumptions::default());
        assert_eq!(broke, Some("the core of one shard"));
    }

    #[test]
    fn a_caller_who_is_denied_costs_one_that_is_allowed_less() {
        let allowed = simulate(scenario("one client makes a tenth"), 60_000.0);
        let denied = simulate(scenario("the same, 100 a minute allowed"), 60_000.0);
        let repeated = denied.share(&[Outcome::Repeated]);
        assert!((0.09..0.1).contains(&repeated), "{repeated}");
        assert!(denied.core < 0.92 * allowed.core);
    }

    #[test]
    fn lambda_refuses_what_grows_faster_than_it_does() {
        let measured = simulate(scenario("from nothing, first 10 s"), 100_000.0);
        // 10,000 at once, and as many as that again in the tenth second: 15,000 a second on average, and a second's worth kept.
        let admitted = 1.0 - measured.share(&[Outcome::NotAdmitted]);
        assert!((0.15..0.17).contains(&admitted), "{admitted}");
    }

    #[test]
    fn a_change_of_rules_is_one_more_conversation_for_each_container() {
        let quiet = simulate(scenario("one shard"), 20_000.0);
        let busy = simulate(scenario("a rule changes each second"), 20_000.0);
        assert!(busy.percentile(99.9) > 2.0 * quiet.percentile(99.9));
        assert_eq!(busy.share(&[Outcome::Answered]), 1.0);
    }
}
