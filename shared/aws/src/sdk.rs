//! What the SDK's clients are made with.

use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;

/// How a service is spoken to that must answer within `deadline`. Speaks to nobody yet; the SDK reads its own settings (credentials,
/// endpoints, the region where none is told) from the environment.
pub(crate) async fn config(region: Option<Region>, deadline: Duration) -> SdkConfig {
    let http = aws_smithy_http_client::Builder::new()
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .build_https();
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(deadline / 2)
        .operation_timeout(deadline);
    let config = aws_config::defaults(BehaviorVersion::latest())
        .http_client(http)
        // The deadline leaves no room for a second try that waits, and who asked can ask again.
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts.build());
    match region {
        Some(region) => config.region(region),
        None => config,
    }
    .load()
    .await
}
