//! Logs as JSON lines on stdout, which is where Lambda reads them.

use tracing_subscriber::EnvFilter;

/// Writes logs from here on. `filter` is like `info` or `admin=debug,info`; one that cannot be read, or none, is `info`.
pub fn start(filter: Option<&str>) {
    let filter = filter.and_then(|filter| EnvFilter::try_new(filter).ok());
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_env_filter(filter.unwrap_or_else(|| EnvFilter::new("info")))
        .init();
}
