//! Asking `take.lua`: how a call becomes arguments, and a reply answers.

use std::fmt::Write;
use std::sync::LazyLock;

use limits::algorithms::{Reading, fixed_window, sliding_log, sliding_window, token_bucket};
use limits::bucket::Bucket;
use limits::counters::{Answer, Operation, admitted};
use limits::rule::Algorithm;
use limits::{Lane, Quota};
use redis::Value;
use tokio::time::Instant;

use crate::connection::{Node, Script};
use crate::keys::Keys;
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
    /// Whether to take or only to look.
    pub operation: Operation,
    /// The stamp of the view that the request was decided by.
    pub epoch: u64,
    /// The lanes whose epochs are compared: the caller's own and those of its buckets, each once.
    pub lanes: &'a [Lane],
    /// The buckets, shadows last; may be none.
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

pub(crate) async fn ask(
    node: &Node,
    keys: &Keys,
    call: &Call<'_>,
    deadline: Instant,
) -> Result<Reply, StoreError> {
    let reply = node
        .script(&TAKE, &names(keys, call), &arguments(call), deadline)
        .await?;
    read(call, reply)
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
pub fn arguments(call: &Call<'_>) -> Vec<String> {
    let mut arguments = Vec::with_capacity(3 + 5 * call.buckets.len());
    arguments.push(
        match call.operation {
            Operation::Take => "take",
            Operation::Look => "look",
        }
        .to_owned(),
    );
    arguments.push(call.epoch.to_string());
    let shadows = call.buckets.iter().filter(|bucket| bucket.shadow).count();
    arguments.push(shadows.to_string());
    for bucket in call.buckets {
        let quota = bucket.quota;
        let (letter, size) = match quota.algorithm() {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => ("t", quota.capacity()),
            Algorithm::FixedWindow => ("f", quota.window_ticks()),
            Algorithm::SlidingWindow => ("s", quota.window_ticks()),
            Algorithm::SlidingLog => ("l", quota.window_ticks()),
        };
        arguments.push(letter.to_owned());
        for number in [quota.tick().per_second(), quota.limit(), size, bucket.cost] {
            let mut text = String::with_capacity(16);
            let _ = write!(text, "{number}");
            arguments.push(text);
        }
    }
    arguments
}

/// Reads what `take.lua` replied to a call.
///
/// # Errors
/// Where a lane lost its data, or the reply is none of the script's.
pub fn read(call: &Call<'_>, reply: Value) -> Result<Reply, StoreError> {
    let answers = match (reply, call.buckets.len()) {
        (Value::Nil, _) => return Err(StoreError::LaneLost),
        (Value::BulkString(epoch), _) => {
            let epoch = std::str::from_utf8(&epoch)
                .ok()
                .and_then(|text| text.parse().ok());
            return epoch
                .map(Reply::Behind)
                .ok_or(StoreError::Malformed("an epoch that is no number"));
        }
        (one, 1) => vec![answer(&one, call.buckets[0].quota)?],
        (Value::Array(all), buckets) if all.len() == buckets => {
            let each = all.iter().zip(call.buckets);
            each.map(|(one, bucket)| answer(one, bucket.quota))
                .collect::<Result<_, _>>()?
        }
        _ => return Err(StoreError::Malformed("not an answer for each bucket")),
    };
    Ok(Reply::Answers(spent(call, answers)))
}

/// The script tells buckets as they were before the call: adds what it took.
fn spent(call: &Call<'_>, mut answers: Vec<Answer>) -> Vec<Answer> {
    if call.operation == Operation::Take && admitted(call.buckets, &answers) {
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
