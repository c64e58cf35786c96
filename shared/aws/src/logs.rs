//! Logs as JSON lines on stdout, which is where Lambda reads them.

use tracing::{Level, Metadata};
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{EnvFilter, Layer};

/// Writes logs from here on. `filter` is like `info` or `admin=debug,info`; one that cannot be read, or none, is `info`.
pub fn start(filter: Option<&str>) {
    let filter = filter.and_then(|filter| EnvFilter::try_new(filter).ok());
    let filter = filter.unwrap_or_else(|| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_filter(filter.and(filter_fn(holds_no_event)));
    // Not by `init`, which would take in what libraries tell another crate, as soon as any dependency asks for that.
    let subscriber = tracing_subscriber::registry().with(lines);
    // A second time is the only error, and the first one serves.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// At its finest the runtime writes down each event as it came, keys and bodies included: never, whoever asks for it.
fn holds_no_event(line: &Metadata<'_>) -> bool {
    *line.level() < Level::TRACE || !line.target().starts_with("lambda_runtime")
}
