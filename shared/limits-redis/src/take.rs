//! Asking `take.lua`: how a call becomes arguments, and a reply answers.

use std::fmt::Write;
use std::sync::LazyLock;

use limits::algorithms::token_bucket::Reading;
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
    let text = include_str!("take.lua");
    Script::new(text.replace("--@token_bucket", include_str!("take/token_bucket.lua")))
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
        arguments.push(letter(bucket.quota).to_owned());
        for number in [
            bucket.quota.tick().per_second(),
            bucket.quota.limit(),
            bucket.quota.capacity(),
            bucket.cost,
        ] {
            let mut text = String::with_capacity(16);
            let _ = write!(text, "{number}");
            arguments.push(text);
        }
    }
    arguments
}

/// The word of an algorithm in `take.lua`.
fn letter(quota: &Quota) -> &'static str {
    match quota.algorithm() {
        Algorithm::TokenBucket => "t",
        // No quota of these can be made.
        Algorithm::LeakyBucket
        | Algorithm::FixedWindow
        | Algorithm::SlidingWindow
        | Algorithm::SlidingLog => "",
    }
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
        (one, 1) => vec![answer(one)?],
        (Value::Array(all), buckets) if all.len() == buckets => {
            all.into_iter().map(answer).collect::<Result<_, _>>()?
        }
        _ => return Err(StoreError::Malformed("not an answer for each bucket")),
    };
    Ok(Reply::Answers(spent(call, answers)))
}

/// The script tells levels as they were before the call: adds what it took.
fn spent(call: &Call<'_>, mut answers: Vec<Answer>) -> Vec<Answer> {
    if call.operation == Operation::Take && admitted(call.buckets, &answers) {
        for (answer, bucket) in answers.iter_mut().zip(call.buckets) {
            if answer.room {
                answer.reading.level += bucket.cost;
            }
        }
    }
    answers
}

fn answer(value: Value) -> Result<Answer, StoreError> {
    let (code, ahead) = match value {
        Value::Int(code) => (code, 0),
        Value::Array(pair) => match pair.as_slice() {
            [Value::Int(code), Value::Int(ahead)] => (*code, *ahead),
            _ => return Err(StoreError::Malformed("an answer of another shape")),
        },
        _ => return Err(StoreError::Malformed("an answer of another type")),
    };
    let level = if code >= 0 { code } else { -1 - code };
    Ok(Answer {
        room: code >= 0,
        reading: Reading {
            level: level.unsigned_abs(),
            ahead: ahead.unsigned_abs(),
        },
    })
}
