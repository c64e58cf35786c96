//! Asking all buckets of a request, wherever they lie: all are taken from, or none.
//!
//! Where all of them lie together, that is one script. In a cluster they may lie in several lanes, which no script reaches at
//! once. Then all lanes are looked at first, at the same time and spending nothing: a denial ends it there, with the longest wait
//! of all that answered, and so does a lane that is newer than the caller. Only then they are taken from, the caller's own first
//! and what many share last; so a caller who is throttled never touches what others share. Where somebody else took the last of a
//! lane between the look and the take, what was taken before is given back.
//!
//! What that costs. Something that was held and given back counts less than if it had never been held, by what would have come
//! back meanwhile: never more is admitted than a rule allows, and fewer only for calls of the same caller that overlap with one
//! that lost. If the give-back itself fails, what was taken before the last stays charged for this one call, which comes back as
//! time passes, as for any call: the caller's own bucket, and what others share only where a rule is spread, so that it lies in
//! several lanes.
//!
//! While a slot is on its way from one server to another, its keys are parted, and no call with several of them is served. Each key
//! by itself is: the epoch is read, and every bucket is asked as if it were a lane of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use limits::Lane;
use limits::algorithms::Reading;
use limits::bucket::Bucket;
use limits::counters::{Answer, Operation, admitted};
use redis::Value;
use tokio::time::{Instant, timeout_at};

use crate::give;
use crate::keys::Place;
use crate::publish::LaneState;
use crate::store::{RedisStore, StoreError};
use crate::take::{self, Call, Held, Reply, TAKE};

/// How long a give-back may take. It goes on when the decision is told, and is worth nothing after a freeze.
const GIVE_DEADLINE: Duration = Duration::from_millis(500);

/// How buckets are asked.
#[derive(Debug, Clone, Copy)]
struct Asking {
    operation: Operation,
    /// The stamp that the request is decided by.
    epoch: u64,
    deadline: Instant,
}

/// Buckets that one script can ask.
#[derive(Debug)]
struct Part<'a> {
    lane: Lane,
    /// Whether the lane's epoch is compared with it.
    with_epoch: bool,
    buckets: Vec<Bucket<'a>>,
    /// Where each of them stands in the whole.
    of: Vec<usize>,
}

impl<'a> Part<'a> {
    /// The buckets of a call that lie in a lane, and its epoch.
    fn of_lane(call: &Call<'a>, lane: Lane) -> Self {
        let own = call.buckets.iter().enumerate();
        let (of, buckets) = own
            .filter(|(_, bucket)| bucket.lane == lane)
            .map(|(at, bucket)| (at, bucket.clone()))
            .unzip();
        Self {
            lane,
            with_epoch: true,
            buckets,
            of,
        }
    }

    /// Whether nothing in it stops anything.
    fn only_watches(&self) -> bool {
        !self.buckets.is_empty() && self.buckets.iter().all(|bucket| bucket.shadow)
    }
}

impl RedisStore {
    /// Asks all buckets of a call, within the deadline.
    pub(crate) async fn ask(
        &self,
        call: &Call<'_>,
        deadline: Instant,
    ) -> Result<Reply, StoreError> {
        if !self.servers.is_cluster() {
            let place = Place::Lane(call.lanes.first().copied().unwrap_or(Lane::SHARED));
            let (names, arguments) = (take::names(&self.keys, call), take::arguments(call));
            let reply = self
                .servers
                .script(place, &TAKE, &names, &arguments, deadline);
            return take::read(call, reply.await?);
        }
        let parts = call.lanes.iter().map(|lane| Part::of_lane(call, *lane));
        let mut parts: Vec<Part<'_>> = parts.collect();
        // A lane is asked without a bucket for its epoch alone. Whatever moves that moves the shared one too.
        let shared = |part: &Part<'_>| part.lane == Lane::SHARED && !part.buckets.is_empty();
        if parts.iter().any(shared) {
            parts.retain(|part| !part.buckets.is_empty());
        }
        let asking = Asking {
            operation: call.operation,
            epoch: call.epoch,
            deadline,
        };
        let held = match parts.as_slice() {
            [only] => self.part(only, asking).await,
            _ => self.in_parts(&parts, asking).await,
        };
        Ok(held?.reply)
    }

    /// Looks at all parts, then takes from one after the other.
    async fn in_parts(&self, parts: &[Part<'_>], asking: Asking) -> Result<Held, StoreError> {
        let look = Asking {
            operation: Operation::Look,
            ..asking
        };
        // Nothing that only watches may take all the time of those that decide.
        let half = Asking {
            deadline: half_of(asking.deadline),
            ..look
        };
        let looks = parts
            .iter()
            .map(|part| self.part(part, if part.only_watches() { half } else { look }));
        let looks = join_all(looks).await;
        let mut whole = Whole::of(parts);
        let mut passes = true;
        let mut unanswered = None;
        for (part, look) in parts.iter().zip(looks) {
            match look {
                Ok(Held {
                    reply: Reply::Answers(answers),
                    ..
                }) => {
                    passes &= admitted(&part.buckets, &answers);
                    whole.put(part, &answers, &[]);
                }
                Ok(behind) => return Ok(behind),
                // Nothing that only watches has a say.
                Err(_) if part.only_watches() => {}
                Err(error) => unanswered = unanswered.or(Some(error)),
            }
        }
        // All must have room: who has none somewhere is denied, whatever is the matter elsewhere.
        if let Some(error) = unanswered
            && passes
        {
            return Err(error);
        }
        if asking.operation == Operation::Look || !passes {
            return Ok(whole.into_held());
        }
        let looked = whole.clone();
        // What only watches comes last: it is spent when the others have let the call through.
        let (watching, deciding): (Vec<_>, Vec<_>) = parts
            .iter()
            .filter(|part| !part.buckets.is_empty())
            .partition(|part| part.only_watches());
        let last = deciding.len().saturating_sub(1);
        let mut held: Vec<&Part<'_>> = Vec::with_capacity(deciding.len());
        for (n, part) in deciding.into_iter().chain(watching).enumerate() {
            let operation = match asking.operation {
                // Nothing has to be undone after the last.
                operation if n >= last => operation,
                _ => Operation::Hold,
            };
            match self
                .part(
                    part,
                    Asking {
                        operation,
                        ..asking
                    },
                )
                .await
            {
                Ok(Held {
                    reply: Reply::Answers(answers),
                    marks,
                }) => {
                    if admitted(&part.buckets, &answers) {
                        whole.put(part, &answers, &marks);
                        held.push(part);
                        continue;
                    }
                    self.give_back(&held, &whole, asking.deadline).await;
                    let mut denied = looked;
                    denied.put(part, &answers, &[]);
                    return Ok(denied.into_held());
                }
                Err(_) if part.only_watches() => {}
                lost => {
                    self.give_back(&held, &whole, asking.deadline).await;
                    return lost;
                }
            }
        }
        Ok(whole.into_held())
    }

    /// Asks one part, and its keys one by one where they are parted between two servers.
    fn part<'s>(
        &'s self,
        part: &'s Part<'_>,
        asking: Asking,
    ) -> BoxFuture<'s, Result<Held, StoreError>> {
        Box::pin(async move {
            match self.script_of(part, asking).await {
                Err(error) if error.is_parted() => self.parted(part, asking).await,
                answered => answered,
            }
        })
    }

    async fn script_of(&self, part: &Part<'_>, asking: Asking) -> Result<Held, StoreError> {
        let lanes = [part.lane];
        let call = Call {
            operation: asking.operation,
            epoch: asking.epoch,
            lanes: if part.with_epoch { &lanes } else { &[] },
            buckets: &part.buckets,
        };
        let arguments = take::arguments(&call);
        let place = Place::Lane(part.lane);
        let names = take::names(&self.keys, &call);
        let reply = self
            .servers
            .script(place, &TAKE, &names, &arguments, asking.deadline)
            .await?;
        match asking.operation {
            Operation::Hold => take::read_held(&call, reply),
            Operation::Look | Operation::Take => take::read(&call, reply).map(unmarked),
        }
    }

    async fn parted(&self, part: &Part<'_>, asking: Asking) -> Result<Held, StoreError> {
        if part.with_epoch {
            let place = Place::Lane(part.lane);
            let keys = [self.keys.epoch(part.lane)];
            let values = self.servers.each(place, &keys, asking.deadline).await?;
            let epoch = match values.as_slice() {
                [Value::BulkString(text)] => LaneState::read(Some(text), None).epoch,
                _ => None,
            };
            let epoch = epoch.ok_or(StoreError::LaneLost)?;
            if epoch > asking.epoch {
                return Ok(unmarked(Reply::Behind(epoch)));
            }
        }
        let singles = part.buckets.iter().enumerate().map(|(at, bucket)| Part {
            lane: part.lane,
            with_epoch: false,
            buckets: vec![bucket.clone()],
            of: vec![at],
        });
        let singles: Vec<Part<'_>> = singles.collect();
        match singles.as_slice() {
            [] => Ok(unmarked(Reply::Answers(Vec::new()))),
            [only] => self.script_of(only, asking).await,
            _ => self.in_parts(&singles, asking).await,
        }
    }

    /// Gives back what parts hold. It goes on when the deadline is over, by which whoever asked must be told.
    async fn give_back(&self, held: &[&Part<'_>], whole: &Whole, deadline: Instant) {
        let buckets = held
            .iter()
            .flat_map(|part| part.buckets.iter().zip(&part.of));
        let calls: Vec<_> = buckets
            .filter_map(|(bucket, at)| {
                // Each by itself, since a slot may be on its way.
                let (bucket, mark) = (std::slice::from_ref(bucket), &whole.marks[*at..=*at]);
                let names = give::names(&self.keys, bucket, mark);
                let place = Place::Lane(bucket[0].lane);
                (!names.is_empty()).then(|| (place, names, give::arguments(bucket, mark)))
            })
            .collect();
        if calls.is_empty() {
            return;
        }
        let servers = self.servers.clone();
        let given = tokio::spawn(async move {
            let end = Instant::now() + GIVE_DEADLINE;
            let each = calls.iter().map(|(place, keys, arguments)| {
                servers.script(*place, &give::GIVE, keys, arguments, end)
            });
            for failed in join_all(each).await.into_iter().filter_map(Result::err) {
                tracing::warn!(error = %failed, "a bucket stays charged for a call that was denied");
            }
        });
        let _ = timeout_at(deadline, given).await;
    }
}

/// When half of the time is over that is left.
fn half_of(deadline: Instant) -> Instant {
    let now = Instant::now();
    now + deadline.saturating_duration_since(now) / 2
}

/// What nothing need be given back of.
fn unmarked(reply: Reply) -> Held {
    Held {
        reply,
        marks: Vec::new(),
    }
}

/// The answers of all parts, in the order of the whole.
#[derive(Debug, Clone)]
struct Whole {
    answers: Vec<Answer>,
    marks: Vec<Option<u64>>,
}

impl Whole {
    /// Nothing is counted anywhere yet: what cannot be asked, and only watches, is told like that.
    fn of(parts: &[Part<'_>]) -> Self {
        let buckets = parts
            .iter()
            .flat_map(|part| part.of.iter().zip(&part.buckets));
        let fresh = buckets.map(|(at, bucket)| {
            let reading = Reading::at(None, bucket.quota, bucket.cost, 0);
            (
                *at,
                Answer {
                    room: true,
                    reading,
                },
            )
        });
        let answers: Vec<Answer> = fresh.collect::<BTreeMap<_, _>>().into_values().collect();
        Self {
            marks: vec![None; answers.len()],
            answers,
        }
    }

    fn put(&mut self, part: &Part<'_>, answers: &[Answer], marks: &[Option<u64>]) {
        for (at, answer) in part.of.iter().zip(answers) {
            self.answers[*at] = *answer;
        }
        for (at, mark) in part.of.iter().zip(marks) {
            self.marks[*at] = *mark;
        }
    }

    fn into_held(self) -> Held {
        Held {
            reply: Reply::Answers(self.answers),
            marks: self.marks,
        }
    }
}
