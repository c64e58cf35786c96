//! Asking `take.lua`: how a call becomes arguments, and a reply answers.

use std::sync::LazyLock;

use limits::algorithms::{Reading, fixed_window, sliding_log, sliding_window, token_bucket};
use limits::bucket::Bucket;
use limits::counters::{Answer, Operation, admitted};
use limits::rule::Algorithm;
use limits::{Lane, Quota};
use redis::Value;

use crate::keys::Keys;
use crate::script::Script;
use crate::store::StoreError;

pub(crate) static TAKE: LazyLock<Script> = LazyLock::new(|| {
    let mut text = include_str!("take.lua").to_owned();
    for (place, algorithm) in [
        ("--@token_bucket", include_str!("take/token_bucket.lua")),
        ("--@fixed_window", include_str!("take/fixed_window.lua")),
        ("--@sliding_window", include_str!("take/sliding_window.lua")),
        ("--@sliding_log", include_str!("take/sliding_log.lua")),
    ] {
        text = text.replace(place, algorithm);
    }
    Script::new(text)
});

/// One call to all buckets of a request.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    /// Whether to take, only to look, or to hold.
    pub operation: Operation,
    /// The stamp of the view that the request was decided by.
    pub epoch: u64,
    /// The lanes whose epochs are compared: the caller's own and those of its buckets, each once.
    pub lanes: &'a [Lane],
    /// The buckets; may be none.
    pub buckets: &'a [Bucket<'a>],
}

/// What a call was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// An answer for each bucket, in their order.
    Answers(Vec<Answer>),
    /// A lane has moved to this epoch: the view is older, and nothing was taken.
    Behind(u64),
}

/// What a hold was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// As of a take.
    pub reply: Reply,
    /// Of each bucket what [`crate::give`] must be told to give it back; none of one that was not taken from.
    pub marks: Vec<Option<u64>>,
}

/// The text of the script.
pub fn text() -> &'static str {
    TAKE.text()
}

/// The keys of a call, as `take.lua` wants them.
pub fn names(keys: &Keys, call: &Call<'_>) -> Vec<String> {
    let mut names = Vec::with_capacity(call.lanes.len() + call.buckets.len());
    names.extend(call.lanes.iter().map(|lane| keys.epoch(*lane)));
    let buckets = call.buckets.iter();
    names.extend(buckets.map(|bucket| keys.bucket(bucket.lane, &bucket.name)));
    names
}

/// The arguments of a call, as `take.lua` wants them.
pub fn arguments(call: &Call<'_>) -> Vec<Vec<u8>> {
    let operation = match call.operation {
        Operation::Take => "take",
        Operation::Look => "look",
        Operation::Hold => "hold",
    };
    let mut arguments = Vec::with_capacity(2 + call.buckets.len());
    arguments.push(operation.into());
    arguments.push(call.epoch.to_string().into());
    arguments.extend(call.buckets.iter().map(describe));
    arguments
}

/// A bucket, as `take.lua` wants it. Each of its numbers is one that a double holds exactly.
pub(crate) fn describe(bucket: &Bucket<'_>) -> Vec<u8> {
    let quota = bucket.quota;
    let (letter, size) = match quota.algorithm() {
        Algorithm::TokenBucket | Algorithm::LeakyBucket => (b't', quota.capacity()),
        Algorithm::FixedWindow => (b'f', quota.window_ticks()),
        Algorithm::SlidingWindow => (b's', quota.window_ticks()),
        Algorithm::SlidingLog => (b'l', quota.window_ticks()),
    };
    let mut text = Vec::with_capacity(34);
    text.extend([letter, bucket.shadow.into()]);
    for number in [quota.tick().per_second(), quota.limit(), size, bucket.cost] {
        text.extend((number as f64).to_le_bytes());
    }
    text
}

/// Reads what `take.lua` replied to a take or a look.
///
/// # Errors
/// Where a lane lost its data, or the reply is none of the script's.
pub fn read(call: &Call<'_>, reply: Value) -> Result<Reply, StoreError> {
    let answers = match (reply, call.buckets.len()) {
        (Value::Nil, _) => return Err(StoreError::LaneLost),
        (Value::BulkString(epoch), _) => return behind(&epoch),
        (one, 1) => vec![answer(&one, call.buckets[0].quota)?],
        (Value::Array(all), _) => each(call, &all)?,
        _ => return Err(MISSING),
    };
    Ok(Reply::Answers(spent(call, answers)))
}

/// Reads what `take.lua` replied to a hold.
///
/// # Errors
/// Where a lane lost its data, or the reply is none of the script's. What was taken is then not known, and cannot be given back.
pub fn read_held(call: &Call<'_>, reply: Value) -> Result<Held, StoreError> {
    let unmarked = |reply| Held {
        reply,
        marks: vec![None; call.buckets.len()],
    };
    match reply {
        Value::Nil => Err(StoreError::LaneLost),
        Value::BulkString(epoch) => behind(&epoch).map(unmarked),
        Value::Array(none) if none.is_empty() && call.buckets.is_empty() => {
            Ok(unmarked(Reply::Answers(Vec::new())))
        }
        Value::Array(both) => {
            let [Value::Array(answers), Value::Array(marks)] = both.as_slice() else {
                return Err(MISSING);
            };
            let answers = spent(call, each(call, answers)?);
            let mut held = unmarked(Reply::Answers(answers));
            if !marks.is_empty() {
                held.marks = marks.iter().map(mark).collect::<Result<_, _>>()?;
            }
            if held.marks.len() != call.buckets.len() {
                return Err(MISSING);
            }
            Ok(held)
        }
        _ => Err(MISSING),
    }
}

const MISSING: StoreError = StoreError::Malformed("not an answer for each bucket");

fn behind(epoch: &[u8]) -> Result<Reply, StoreError> {
    let epoch = std::str::from_utf8(epoch).ok();
    epoch
        .and_then(|text| text.parse().ok())
        .map(Reply::Behind)
        .ok_or(StoreError::Malformed("an epoch that is no number"))
}

fn mark(value: &Value) -> Result<Option<u64>, StoreError> {
    const BAD: StoreError = StoreError::Malformed("a mark that is no number");
    match value {
        Value::Nil => Ok(None),
        Value::Int(tick) => u64::try_from(*tick).map(Some).map_err(|_| BAD),
        _ => Err(BAD),
    }
}

fn each(call: &Call<'_>, all: &[Value]) -> Result<Vec<Answer>, StoreError> {
    if all.len() != call.buckets.len() {
        return Err(MISSING);
    }
    let each = all.iter().zip(call.buckets);
    each.map(|(one, bucket)| answer(one, bucket.quota))
        .collect()
}

/// The script tells buckets as they were before the call: adds what it took.
fn spent(call: &Call<'_>, mut answers: Vec<Answer>) -> Vec<Answer> {
    if call.operation.takes() && admitted(call.buckets, &answers) {
        for (answer, bucket) in answers.iter_mut().zip(call.buckets) {
            if answer.room {
                answer.reading.spend(bucket.quota, bucket.cost);
            }
        }
    }
    answers
}

fn answer(value: &Value, quota: &Quota) -> Result<Answer, StoreError> {
    let malformed = Err(StoreError::Malformed("an answer of another shape"));
    let mut numbers = [0; 4];
    let told = match value {
        Value::Int(_) => std::slice::from_ref(value),
        Value::Array(all) if all.len() <= numbers.len() => all.as_slice(),
        _ => return malformed,
    };
    for (number, value) in numbers.iter_mut().zip(told) {
        let Value::Int(told) = value else {
            return malformed;
        };
        *number = *told;
    }
    let [code, rest @ ..] = numbers;
    let counted = if code >= 0 { code } else { -1 - code }.unsigned_abs();
    let [a, b, c] = rest.map(i64::unsigned_abs);
    let reading = match (quota.algorithm(), told.len()) {
        (Algorithm::TokenBucket | Algorithm::LeakyBucket, 1 | 2) => {
            Reading::Bucket(token_bucket::Reading {
                level: counted,
                ahead: a,
            })
        }
        (Algorithm::FixedWindow, 2) => Reading::Fixed(fixed_window::Reading {
            count: counted,
            left: a,
        }),
        (Algorithm::SlidingWindow, 4) => Reading::Sliding(sliding_window::Reading {
            current: counted,
            previous: a,
            left: b,
            ahead: c,
        }),
        (Algorithm::SlidingLog, 3) => Reading::Log(sliding_log::Reading {
            count: counted,
            empty_in: a,
            fits_in: b,
        }),
        _ => return malformed,
    };
    Ok(Answer {
        room: code >= 0,
        reading,
    })
}
