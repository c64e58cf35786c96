//! Everything that a run has, but the stores.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use local::{servers::Postgres, topic::Topic};
use serde_json::{Value, json};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep},
};

use super::{
    control::say,
    rules::{CLIENTS, FALLBACK_PERCENT, STANDING},
    stores::Stores,
};
use crate::{Container, Function, Line, Region, stores as shared};

/// How long a decision may talk with Redis. More than a deployment gives: what makes it late here is the machine.
pub(super) const REDIS_TIMEOUT: Duration = Duration::from_millis(500);

/// How long a container may catch up.
pub(super) const LOAD_TIMEOUT: Duration = Duration::from_secs(2);

/// How often the schedule wakes `refresh`.
pub(super) const SCHEDULE: Duration = Duration::from_secs(2);

const AUTHORIZERS: usize = 4;
const CHECKS: usize = 1;

/// A container with its caller. As in Lambda, it does one thing at a time.
pub(super) struct Seat {
    pub(super) container: Container,
    pub(super) function: Function,
    /// Held during a call, and by whoever freezes the container.
    pub(super) turn: Mutex<()>,
    /// When the last call began that was answered by the store, in microseconds of the run.
    right: AtomicU64,
    /// When the last call ended that was answered without the store.
    out: AtomicU64,
}

impl Seat {
    fn of(function: Function, container: Container) -> Self {
        Self {
            container,
            function,
            turn: Mutex::new(()),
            right: AtomicU64::new(0),
            out: AtomicU64::new(0),
        }
    }

    pub(super) fn name(&self, number: usize) -> String {
        format!("{} {number}", self.function.name())
    }

    pub(super) fn was_right(&self, began: Duration) {
        self.right.fetch_max(microseconds(began), Ordering::Relaxed);
    }

    pub(super) fn was_out(&self, ended: Duration) {
        self.out.fetch_max(microseconds(ended), Ordering::Relaxed);
    }

    pub(super) fn last_right(&self) -> Duration {
        Duration::from_micros(self.right.load(Ordering::Relaxed))
    }

    pub(super) fn last_out(&self) -> Duration {
        Duration::from_micros(self.out.load(Ordering::Relaxed))
    }
}

fn microseconds(time: Duration) -> u64 {
    time.as_micros() as u64
}

/// A client that loses its key in the course of the run.
pub(super) struct Leaver {
    pub(super) client: String,
    pub(super) key_id: String,
    pub(super) key: String,
}

pub(super) struct Stage {
    begun: Instant,
    pub(super) length: Duration,
    over: AtomicBool,
    pub(super) seats: Vec<Seat>,
    /// The keys of the clients that stay.
    pub(super) keys: Vec<String>,
    pub(super) leavers: Vec<Leaver>,
    /// The ids of the rules that stay.
    pub(super) standing: Vec<String>,
    pub(super) region: Region,
    pub(super) rules: Container,
    pub(super) clients: Container,
    /// Woken by the schedule alone, so that it does not wait for what the topic tells.
    pub(super) scheduled: Container,
    /// Between everybody and Postgres.
    pub(super) to_postgres: Line,
}

impl Stage {
    pub(super) async fn set(stores: &Stores, length: Duration) -> (Self, Postgres) {
        let postgres = Postgres::start().unwrap_or_else(|error| panic!("{error}"));
        let to_postgres = Line::to(postgres.port()).await;
        shared::migrate(&postgres.url()).await;
        let region = Region::with(&stores.url(), &to_postgres.through(&postgres.url())).await;
        let (rules, clients, scheduled) = tokio::join!(
            region.container(Function::Rules),
            region.container(Function::Clients),
            region.container(Function::Refresh),
        );
        let mut standing = Vec::new();
        for rule in &STANDING {
            let told = say(&rules, "POST", "/ratelimit/rules", rule.body()).await;
            standing.push(text(&told.body, "id"));
        }
        let mut keys = Vec::new();
        for number in 0..CLIENTS {
            keys.push(client(&clients, &client_name(number)).await.key);
        }
        let mut leavers = Vec::new();
        // One each two seconds, and some to lose nobody.
        for number in 0..length.as_secs() / 2 + 2 {
            leavers.push(client(&clients, &format!("leaver-{number}")).await);
        }
        refresh(&scheduled).await;
        let mut seats = Vec::new();
        for function in [
            [Function::Authorizer; AUTHORIZERS].as_slice(),
            &[Function::Check; CHECKS],
        ]
        .concat()
        {
            seats.push(seat(&region, function).await);
        }
        let stage = Self {
            begun: Instant::now(),
            length,
            over: AtomicBool::new(false),
            seats,
            keys,
            leavers,
            standing,
            region,
            rules,
            clients,
            scheduled,
            to_postgres,
        };
        (stage, postgres)
    }

    /// The time of the run.
    pub(super) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Nothing new is begun from now on.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Sleeps, but not into the end of the run.
    pub(super) async fn rest(&self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until && !self.is_over() {
            sleep(Duration::from_millis(50).min(until - Instant::now())).await;
        }
    }

    pub(super) fn topic(&self) -> &Topic {
        &self.region.topic
    }
}

/// The client of a number.
pub(super) fn client_name(number: usize) -> String {
    format!("client-{number}")
}

pub(super) fn text(body: &Value, name: &str) -> String {
    body[name].as_str().unwrap_or_default().to_owned()
}

async fn client(clients: &Container, name: &str) -> Leaver {
    say(clients, "POST", "/clients", json!({"client_id": name})).await;
    let key = say(clients, "POST", &format!("/clients/{name}/keys"), json!({})).await;
    Leaver {
        client: name.to_owned(),
        key_id: text(&key.body, "key_id"),
        key: text(&key.body, "api_key"),
    }
}

async fn seat(region: &Region, function: Function) -> Seat {
    let timeout = REDIS_TIMEOUT.as_millis().to_string();
    let load = LOAD_TIMEOUT.as_millis().to_string();
    let percent = FALLBACK_PERCENT.to_string();
    let variables = [
        ("REDIS_TIMEOUT_MS", timeout.as_str()),
        ("RULES_LOAD_TIMEOUT_MS", &load),
        ("FALLBACK_PERCENT", &percent),
        ("DEFAULT_LIMIT", "unlimited"),
        // Strangers are looked up each time.
        ("ANONYMOUS_LIMIT", "1000000/1s"),
        ("CHECK_ANONYMOUS", "allow"),
    ];
    let container = region.container_with(function, &variables).await;
    container.ready().await.unwrap();
    Seat::of(function, container)
}

/// One run of `refresh` as the schedule wakes it, and the revision that it has published, if it succeeded.
pub(super) async fn refresh(container: &Container) -> Option<u64> {
    let event = include_str!("../../../events/refresh-schedule.json");
    let event: Value = serde_json::from_str(event).unwrap();
    let report = container.invoke(&event).await.ok()?;
    report["revision"].as_u64()
}

/// Everybody, for whoever needs them in a task of one's own.
pub(super) type Shared = Arc<Stage>;
