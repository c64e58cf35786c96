//! Waiting for what comes in its own time.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Waits until something holds, half a minute at most: longer than anything should take on a slow and busy machine.
pub async fn until(holds: impl AsyncFn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !holds().await {
        assert!(Instant::now() < end, "not so in half a minute");
        sleep(Duration::from_millis(5)).await;
    }
}
