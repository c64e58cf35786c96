//! What goes wrong, one after the other, each with a time to recover.

use std::{fmt, time::Duration};

use limits::Lane;
use limits_redis::keys::Keys;
use local::servers::{End, Postgres};
use tokio::time::sleep;

use super::{
    stage::{Seat, Stage, client_name},
    stores::Stores,
};

/// How long nothing is wrong between two faults.
const CALM: Duration = Duration::from_millis(1_000);

/// How long all answers must be right before a fault counts as over: a caller gets through all that it asks meanwhile.
const QUIET: Duration = Duration::from_secs(1);

/// How long a run waits for a recovery before it goes on all the same.
const PATIENCE: Duration = Duration::from_secs(30);

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A server ends and loses what it has; another takes over, or it comes back empty.
    Killed,
    /// A server stands still, and goes on.
    Hung,
    /// All is deleted.
    Flushed,
    /// A replica takes over, with nothing wrong.
    FailedOver,
    /// Slots move to other servers, and are half moved for a while.
    Resharded,
    /// What is sent to a server is gone, without a word.
    Silent,
    /// All connections are forgotten, without a word.
    Lost,
    /// The containers stand still, and go on.
    Frozen,
    /// The containers stand still, and meanwhile their connections are reset.
    FrozenAndCut,
    /// The containers stand still, and meanwhile their connections are forgotten.
    FrozenAndLost,
    /// Postgres ends as in a crash, and comes back.
    PostgresKilled,
    /// What is sent to Postgres is gone, without a word.
    PostgresSilent,
}

impl Fault {
    /// Whether decisions may feel it. Postgres is none of their business, and nothing is wrong when a container only stood still.
    pub(super) fn touches_decisions(self) -> bool {
        !matches!(
            self,
            Self::PostgresKilled | Self::PostgresSilent | Self::Frozen
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Killed => "killed",
            Self::Hung => "hung",
            Self::Flushed => "flushed",
            Self::FailedOver => "failed over",
            Self::Resharded => "resharded",
            Self::Silent => "silent network",
            Self::Lost => "lost connections",
            Self::Frozen => "frozen",
            Self::FrozenAndCut => "frozen and cut",
            Self::FrozenAndLost => "frozen and lost",
            Self::PostgresKilled => "Postgres killed",
            Self::PostgresSilent => "Postgres silent",
        })
    }
}

/// All of them.
const ALL: [Fault; 12] = [
    Fault::Killed,
    Fault::FrozenAndLost,
    Fault::Silent,
    Fault::PostgresKilled,
    Fault::Hung,
    Fault::Flushed,
    Fault::FailedOver,
    Fault::Resharded,
    Fault::Lost,
    Fault::Frozen,
    Fault::PostgresSilent,
    Fault::FrozenAndCut,
];

/// What a short run of a cluster must not miss.
const OF_A_CLUSTER: [Fault; 3] = [Fault::Killed, Fault::Resharded, Fault::FailedOver];

/// The order in which they come, again and again.
fn order(stores: &Stores) -> Vec<Fault> {
    let first: &[Fault] = match stores {
        Stores::Cluster(_) => &OF_A_CLUSTER,
        Stores::Primary(_) | Stores::Sentinel(_) => &[],
    };
    let possible = |fault: &Fault| match fault {
        Fault::FailedOver => stores.has_replicas(),
        Fault::Resharded => matches!(stores, Stores::Cluster(_)),
        _ => true,
    };
    let rest = ALL.into_iter().filter(|fault| !first.contains(fault));
    let all = first.iter().copied().chain(rest);
    all.filter(possible).collect()
}

/// A fault that has happened, in times of the run.
#[derive(Debug, Clone)]
pub(super) struct Happened {
    pub(super) fault: Fault,
    pub(super) began: Duration,
    /// When the last of it was over: from here on it is the product's turn.
    pub(super) lifted: Duration,
    /// How long after `lifted` the last answer was that told of the fault. None if that went on and on.
    pub(super) recovered: Option<Duration>,
    /// Whether counters may have been lost by it.
    pub(super) loses: bool,
}

impl Happened {
    /// When it was over for everybody.
    pub(super) fn over(&self) -> Duration {
        self.lifted + self.recovered.unwrap_or(PATIENCE)
    }

    pub(super) fn covers(&self, began: Duration, ended: Duration) -> bool {
        began <= self.over() && self.began <= ended
    }
}

/// Lets one fault after the other happen until the time of the run is over.
pub(super) async fn happen(
    stage: &Stage,
    stores: &mut Stores,
    postgres: &mut Postgres,
) -> Vec<Happened> {
    let short = stage.length < Duration::from_secs(60);
    let hold = if short {
        Duration::from_millis(1_200)
    } else {
        Duration::from_secs(3)
    };
    let order = order(stores);
    let mut happened = Vec::new();
    sleep(CALM).await;
    for (turn, fault) in order.into_iter().cycle().enumerate() {
        let began = stage.now();
        // Time to fail, to recover, and to show it.
        if began + hold + QUIET + CALM > stage.length {
            break;
        }
        let mut strike = Strike {
            stage,
            stores,
            postgres,
            turn,
            hold,
            dead: None,
        };
        let lifted = strike.with(fault).await;
        let dead = strike.dead;
        let recovered = recovery(stage, lifted).await;
        if let Some(dead) = dead {
            stores.restart(dead).await;
        }
        stores.settled().await;
        happened.push(Happened {
            fault,
            began,
            lifted,
            recovered,
            loses: loses(fault, stores),
        });
        sleep(CALM).await;
    }
    happened
}

fn loses(fault: Fault, stores: &Stores) -> bool {
    match fault {
        Fault::Killed | Fault::Flushed | Fault::FailedOver => true,
        // Whoever takes over may lack the newest.
        Fault::Hung | Fault::Silent => stores.has_replicas(),
        _ => false,
    }
}

/// How long after `lifted` the last answer was that told of it.
async fn recovery(stage: &Stage, lifted: Duration) -> Option<Duration> {
    while stage.now() < lifted + PATIENCE {
        let last_out = stage.seats.iter().map(Seat::last_out).max();
        let last_out = last_out.unwrap_or_default().max(lifted);
        // Since then each container has been answered by the store, and has had time to ask about everything.
        let recovered = |seat: &Seat| seat.last_right() > last_out;
        if stage.now() > last_out + QUIET && stage.seats.iter().all(recovered) {
            return Some(last_out - lifted);
        }
        sleep(Duration::from_millis(5)).await;
    }
    None
}

struct Strike<'a> {
    stage: &'a Stage,
    stores: &'a mut Stores,
    postgres: &'a mut Postgres,
    turn: usize,
    hold: Duration,
    /// A server that another has taken over from, to be started when all is well again.
    dead: Option<usize>,
}

impl Strike<'_> {
    /// Lets the fault happen, and tells when the last of it was over.
    async fn with(&mut self, fault: Fault) -> Duration {
        let victim = self.stores.victim(self.turn).await;
        match fault {
            Fault::Killed => self.kill(victim).await,
            Fault::Hung => {
                self.stores.pause(victim);
                sleep(self.hold).await;
                self.stores.resume(victim);
            }
            Fault::Flushed => self.stores.flush().await,
            Fault::FailedOver => self.stores.fail_over(victim).await,
            Fault::Resharded => self.reshard().await,
            Fault::Silent => {
                self.stores.line(victim).silence().await;
                sleep(self.hold).await;
                self.stores.line(victim).restore().await;
            }
            Fault::Lost => self.stores.lose_connections(),
            Fault::Frozen => self.freeze(|_| {}).await,
            Fault::FrozenAndCut => self.freeze(Stores::cut_connections).await,
            Fault::FrozenAndLost => self.freeze(Stores::lose_connections).await,
            Fault::PostgresKilled => {
                let postgres = &mut *self.postgres;
                tokio::task::block_in_place(|| postgres.stop(End::Quit));
                sleep(self.hold).await;
                tokio::task::block_in_place(|| postgres.restart())
                    .unwrap_or_else(|error| panic!("{error}"));
            }
            Fault::PostgresSilent => {
                self.stage.to_postgres.silence().await;
                sleep(self.hold).await;
                self.stage.to_postgres.restore().await;
            }
        }
        // Nobody can be expected to find a primary before there is one.
        self.stores.victim(self.turn).await;
        self.stage.now()
    }

    async fn kill(&mut self, victim: usize) {
        self.stores.kill(victim);
        if self.stores.has_replicas() {
            self.stores.taken_over(victim, self.turn).await;
            self.dead = Some(victim);
        } else {
            sleep(self.hold).await;
            self.stores.restart(victim).await;
        }
    }

    async fn reshard(&mut self) {
        let keys = Keys::new(self.stage.region.variable("KEY_PREFIX")).unwrap();
        let own = (0..2).map(|number| Lane::of(&client_name(number)));
        let lanes: Vec<Lane> = own.chain([Lane::SHARED]).collect();
        let moves = self.stores.begin_moves(&keys, &lanes).await;
        sleep(self.hold).await;
        self.stores.end_moves(moves).await;
    }

    /// All containers but the last authorizer and `check`, which go on.
    async fn freeze(&mut self, meanwhile: impl Fn(&Stores)) {
        let seats = &self.stage.seats[..self.stage.seats.len() - 2];
        let mut turns = Vec::new();
        for seat in seats {
            turns.push(seat.turn.lock().await);
            seat.container.freeze();
        }
        sleep(self.hold / 2).await;
        meanwhile(self.stores);
        sleep(self.hold / 2).await;
        for seat in seats {
            seat.container.thaw();
        }
    }
}
