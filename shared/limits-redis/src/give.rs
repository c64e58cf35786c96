//! Asking `give.lua`: what a hold took goes back where another lane of the call then had no room.
//!
//! A call whose buckets lie in several lanes is taken lane by lane, after a look at all of them has found room. Where another
//! caller took the last of it in between, what the lanes before had given is given back.
//!
//! Whatever is given back and however late, **never more is admitted** than the rules allow had it never been taken
//! (`limits::algorithms::token_bucket` has the argument; windows and logs forget those very requests, or, where they count no
//! more, nothing). Meanwhile others may be denied who would have found room; and of a bucket from which something was taken since,
//! what drained while it was held does not come back: at most `min(cost, limit · held)` for each hold, so that the loss is bounded
//! by the calls that are in flight. Once a hold has not been answered, what it took cannot be told, and stays taken.
//!
//! It is asked once for each hold. A second time would give back as much again, of what others took: at most the cost more would
//! be admitted, once. So where the answer does not come it is not asked again.

use std::sync::LazyLock;

use limits::bucket::Bucket;

use crate::keys::Keys;
use crate::script::Script;
use crate::take;

pub(crate) static GIVE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("give.lua").to_owned()));

/// The text of the script.
pub fn text() -> &'static str {
    GIVE.text()
}

/// The keys of what is given back, as `give.lua` wants them: of the buckets of a hold, which lie in one lane, those that have a
/// mark. None: there is nothing to give back, nor to ask.
pub fn names(keys: &Keys, buckets: &[Bucket<'_>], marks: &[Option<u64>]) -> Vec<String> {
    let taken = taken(buckets, marks);
    taken
        .map(|(bucket, _)| keys.bucket(bucket.lane, &bucket.name))
        .collect()
}

/// The arguments of the same, as `give.lua` wants them.
pub fn arguments(buckets: &[Bucket<'_>], marks: &[Option<u64>]) -> Vec<Vec<u8>> {
    let taken = taken(buckets, marks);
    taken
        .flat_map(|(bucket, mark)| [take::describe(bucket), mark.to_string().into()])
        .collect()
}

fn taken<'a, 'b>(
    buckets: &'a [Bucket<'b>],
    marks: &[Option<u64>],
) -> impl Iterator<Item = (&'a Bucket<'b>, u64)> {
    let marked = buckets.iter().zip(marks);
    marked.filter_map(|(bucket, mark)| Some((bucket, (*mark)?)))
}
