//! The password of a database user that logs in by IAM: the signature of a request that is never sent.

use std::fmt;
use std::time::SystemTime;

use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_rds::auth_token::{AuthTokenGenerator, Config};
use aws_smithy_async::time::StaticTimeSource;
use aws_types::SdkConfig;
use aws_types::region::Region;
use percent_encoding::utf8_percent_encode;

use crate::signer::{QUERY, Signer, TokenError};

/// Makes tokens for one user of one database server, or of a proxy before it. It speaks to nobody.
pub struct RdsToken {
    generator: AuthTokenGenerator,
    signer: Signer,
}

impl fmt::Debug for RdsToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RdsToken")
    }
}

impl RdsToken {
    /// `host` is the endpoint's own name, not one that stands for it. It is signed for the region in that name, and for the
    /// function's own where there is none.
    ///
    /// # Errors
    /// Where a host cannot be called so.
    pub fn new(host: &str, port: u16, user: &str, signer: Signer) -> Result<Self, String> {
        let sensible = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.' || c == '_';
        if host.is_empty() || !host.chars().all(sensible) {
            return Err("must name the host of an endpoint".to_owned());
        }
        let host = host.to_ascii_lowercase();
        let region = region(&host).unwrap_or(&signer.region).to_owned();
        let config = Config::builder()
            // It takes the name as it is, and every other way to write this one is another signature.
            .username(utf8_percent_encode(user, QUERY).to_string())
            .hostname(host)
            .port(port.into())
            .region(Region::new(region))
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self {
            generator: AuthTokenGenerator::new(config),
            signer,
        })
    }

    /// A token that opens connections for 900 s from `now` on.
    ///
    /// # Errors
    /// Where it cannot be signed, which no name of a host or a user brings about.
    pub async fn mint(&self, now: SystemTime) -> Result<String, TokenError> {
        let credentials = SharedCredentialsProvider::new(self.signer.credentials.clone());
        let config = SdkConfig::builder()
            .credentials_provider(credentials)
            .time_source(StaticTimeSource::new(now))
            .build();
        match self.generator.auth_token(&config).await {
            Ok(token) => Ok(token.to_string()),
            Err(error) => Err(TokenError(error.to_string())),
        }
    }
}

/// The region in the name of an endpoint: `….REGION.rds.amazonaws.com`, and in China `….rds.REGION.amazonaws.com.cn`.
fn region(host: &str) -> Option<&str> {
    let labels: Vec<&str> = host.split('.').collect();
    match labels[..] {
        [.., region, "rds", "amazonaws", "com"] => Some(region),
        [.., "rds", region, "amazonaws", "com", "cn"] => Some(region),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_region_is_the_one_in_the_name_of_the_endpoint() {
        for (host, wanted) in [
            ("db.abc.eu-west-1.rds.amazonaws.com", Some("eu-west-1")),
            (
                "weir.proxy-abc.us-east-2.rds.amazonaws.com",
                Some("us-east-2"),
            ),
            ("db.abc.rds.cn-north-1.amazonaws.com.cn", Some("cn-north-1")),
            ("db.example.com", None),
            ("rds.amazonaws.com", None),
            ("eu-west-1.rds.amazonaws.com.example.com", None),
            ("localhost", None),
        ] {
            assert_eq!(region(host), wanted, "{host}");
        }
    }
}
