//! The password of an ElastiCache user that logs in by IAM: the signature of a request that is never sent.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use aws_sigv4::http_request::{
    SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign,
};
use aws_sigv4::sign::v4::SigningParams;
use percent_encoding::utf8_percent_encode;

use crate::signer::{QUERY, Signer, TokenError};

/// For how long a token opens connections. A connection that it opened stays open for 12 hours.
pub const VALIDITY: Duration = Duration::from_secs(900);

/// The name of a cache: `NAME`, the id of a replication group, or `serverless:NAME`. It is not the address of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheName {
    name: String,
    serverless: bool,
}

impl CacheName {
    /// Without what says that it is serverless.
    #[cfg(feature = "store-health")]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    #[cfg(feature = "store-health")]
    pub(crate) fn is_serverless(&self) -> bool {
        self.serverless
    }
}

impl FromStr for CacheName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, serverless) = match text.strip_prefix("serverless:") {
            Some(name) => (name, true),
            None => (text, false),
        };
        let sensible = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(sensible) {
            return Err(
                "must be the name of a cache, in lower case: NAME, or serverless:NAME".to_owned(),
            );
        }
        Ok(Self {
            name: name.to_owned(),
            serverless,
        })
    }
}

/// Makes tokens for one user of one cache. It speaks to nobody.
#[derive(Debug, Clone)]
pub struct ElastiCacheToken {
    cache: CacheName,
    user: String,
    signer: Signer,
}

impl ElastiCacheToken {
    /// `user`: the user's id, which for IAM is its name too.
    pub fn new(cache: CacheName, user: impl Into<String>, signer: Signer) -> Self {
        Self {
            cache,
            user: user.into(),
            signer,
        }
    }

    /// A token that is good for [`VALIDITY`] from `now` on.
    ///
    /// # Errors
    /// Where what is to be signed is no URL, which no name of a cache brings about.
    pub fn mint(&self, now: SystemTime) -> Result<String, TokenError> {
        let uri = self.uri();
        let failed = |error: &dyn fmt::Display| TokenError(error.to_string());
        let mut settings = SigningSettings::default();
        settings.signature_location = SignatureLocation::QueryParams;
        settings.expires_in = Some(VALIDITY);
        let identity = self.signer.credentials.clone().into();
        let params = SigningParams::builder()
            .identity(&identity)
            .region(&self.signer.region)
            .name("elasticache")
            .time(now)
            .settings(settings)
            .build()
            .map_err(|error| failed(&error))?
            .into();
        let body = SignableBody::empty();
        let request = SignableRequest::new("GET", uri.as_str(), std::iter::empty(), body)
            .map_err(|error| failed(&error))?;
        let signed = sign(request, &params).map_err(|error| failed(&error))?;
        let mut request = http::Request::get(uri)
            .body(())
            .map_err(|error| failed(&error))?;
        signed.into_parts().0.apply_to_request_http1x(&mut request);
        let uri = request.uri().to_string();
        Ok(uri.strip_prefix("http://").unwrap_or(&uri).to_owned())
    }

    fn uri(&self) -> String {
        let user = utf8_percent_encode(&self.user, QUERY);
        let mut uri = format!("http://{}/?Action=connect&User={user}", self.cache.name);
        if self.cache.serverless {
            uri.push_str("&ResourceType=ServerlessCache");
        }
        uri
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_told_by_its_name_and_not_by_its_address() {
        let name = |text: &str| text.parse::<CacheName>();
        assert!(!name("weir-1").unwrap().serverless);
        let serverless = name("serverless:weir").unwrap();
        assert!(serverless.serverless && serverless.name == "weir");
        for wrong in [
            "",
            "serverless:",
            "Serverless:weir",
            "serverless:serverless:weir",
            "Weir",
            "1weir",
            "-weir",
            "weir/x",
            "weir x",
            "weir:6379",
            "weir@x",
            "wéir",
            "weir.abc.0001.euw1.cache.amazonaws.com",
        ] {
            assert!(
                name(wrong).unwrap_err().contains("in lower case"),
                "{wrong}"
            );
        }
    }
}
