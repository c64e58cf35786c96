//! What the container of every function does alike: it answers events until Lambda ends it, and tells what it counted.

mod end;

use std::fmt::Debug;

use futures::FutureExt;
use lambda_runtime::{Diagnostic, Error, LambdaEvent, run_concurrent, service_fn};
use serde::{Deserialize, Serialize};

use crate::metrics;

/// Answers the events of this container by `answer`, until Lambda ends it.
///
/// # Errors
/// Where the runtime cannot go on.
pub async fn run<E, A, F, Answering, Failure>(answer: F) -> Result<(), Error>
where
    F: Fn(LambdaEvent<E>) -> Answering + Clone + Send + 'static,
    Answering: Future<Output = Result<A, Failure>> + Send + 'static,
    E: for<'de> Deserialize<'de> + Send + 'static,
    A: Serialize + Send + 'static,
    Failure: Into<Diagnostic> + Debug + Send + 'static,
{
    // Who is not told serves all the same; what is counted after the last flush is lost then.
    if let Err(error) = end::at_end(metrics::flush).await {
        tracing::warn!(%error, "nobody will tell this container of its end");
    }
    metrics::note_ready();
    // In a box: what futures hold futures that hold others goes deeper than the compiler follows.
    Box::pin(run_concurrent(service_fn(move |event| {
        // Not awaited in a block of ours, which would move it once more: it is some 10 KB.
        answer(event).inspect(|_| metrics::flush_if_due())
    })))
    .await
}
