//! Signature Version 4, as API Gateway and Lambda's function URLs want requests signed.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use aws_config::{BehaviorVersion, Region};
use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use clap::ValueEnum;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Request, Url};
use tokio::sync::Mutex;

/// How long credentials must still be good to be used again.
const SPARE: Duration = Duration::from_secs(60);

/// Whether requests are signed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// Sign for hosts of AWS (execute-api, lambda-url), and for no other
    #[default]
    Auto,
    /// Sign every request: for an API behind a domain of its own
    Always,
    /// Sign nothing
    Never,
}

/// What is known of signing before there is a host.
#[derive(Debug, Clone, Default)]
pub struct Signing {
    /// Whether requests are signed.
    pub when: When,
    /// The region that was asked for, whatever the host.
    pub region: Option<String>,
    /// The region of the environment, where neither the host nor the command line tells one.
    pub usual_region: Option<String>,
}

impl Signing {
    /// What signs for this host; none where nothing does.
    ///
    /// # Errors
    /// Where the region is not known, or others could read what is signed.
    pub fn signer(&self, url: &Url) -> Result<Option<Signer>, String> {
        let host = url.host_str().unwrap_or_default();
        let known = service(host);
        match self.when {
            When::Never => return Ok(None),
            When::Auto if known.is_none() => return Ok(None),
            When::Auto | When::Always => {}
        }
        // Whoever reads a request on its way has its session token, and may send it again.
        if url.scheme() == "http" && !is_loopback(host) {
            return Err(format!(
                "requests to {host} are not signed over http://, where others can read them: use https://, or --sigv4 never"
            ));
        }
        let of_host = known.map(|(_, region)| region.to_owned());
        let region = self
            .region
            .clone()
            .or(of_host)
            .or(self.usual_region.clone());
        let Some(region) = region.filter(|region| !region.is_empty()) else {
            return Err(format!(
                "requests to {host} are signed for a region: tell it with --region or AWS_REGION"
            ));
        };
        Ok(Some(Signer {
            service: known.map_or("execute-api", |(service, _)| service),
            region,
            credentials: Mutex::new(None),
        }))
    }
}

/// Whether a host is this machine itself.
fn is_loopback(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

/// The service that a host of AWS belongs to, and its region.
fn service(host: &str) -> Option<(&'static str, &str)> {
    let labels: Vec<&str> = host.split('.').collect();
    match labels[..] {
        [_, "lambda-url", region, "on", "aws"] => Some(("lambda", region)),
        [_, "execute-api", region, "amazonaws", "com"]
        | [_, "execute-api", region, "amazonaws", "com", "cn"]
        | [_, "execute-api", region, "vpce", "amazonaws", "com"] => Some(("execute-api", region)),
        _ => None,
    }
}

/// Signs requests to one host.
#[derive(Debug)]
pub struct Signer {
    service: &'static str,
    region: String,
    credentials: Mutex<Option<(SharedCredentialsProvider, Credentials)>>,
}

impl Signer {
    /// Signs a request, by the credentials that the AWS CLI would take.
    ///
    /// # Errors
    /// Where there are none.
    pub async fn sign(&self, request: &mut Request) -> Result<(), String> {
        let identity = self.credentials().await?.into();
        let params = SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(self.service)
            .time(SystemTime::now())
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| error.to_string())?;
        let headers = request.headers().iter();
        let headers =
            headers.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let body = request.body().and_then(reqwest::Body::as_bytes);
        let body = SignableBody::Bytes(body.unwrap_or_default());
        let signable = SignableRequest::new(
            request.method().as_str(),
            request.url().as_str(),
            headers,
            body,
        );
        let signed = signable.and_then(|signable| sign(signable, &params.into()));
        let (instructions, _) = signed.map_err(|error| error.to_string())?.into_parts();
        for header in instructions.into_parts().0 {
            let name = HeaderName::from_static(header.name());
            let value = HeaderValue::from_str(header.value());
            let mut value = value.map_err(|error| error.to_string())?;
            value.set_sensitive(header.sensitive());
            request.headers_mut().insert(name, value);
        }
        Ok(())
    }

    /// The credentials of the standard chain, kept while they are good.
    async fn credentials(&self) -> Result<Credentials, String> {
        let mut kept = self.credentials.lock().await;
        if let Some((_, credentials)) = kept.as_ref()
            && credentials
                .expiry()
                .is_none_or(|end| end > SystemTime::now() + SPARE)
        {
            return Ok(credentials.clone());
        }
        let provider = match kept.take() {
            Some((provider, _)) => provider,
            None => chain(&self.region).await?,
        };
        let credentials = provider.provide_credentials().await;
        let credentials = credentials.map_err(|error| {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            format!("no AWS credentials: {error}{}", cause.unwrap_or_default())
        })?;
        *kept = Some((provider, credentials.clone()));
        Ok(credentials)
    }
}

async fn chain(region: &str) -> Result<SharedCredentialsProvider, String> {
    let http = aws_smithy_http_client::Builder::new()
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .build_https();
    let config = aws_config::defaults(BehaviorVersion::latest())
        .http_client(http)
        .region(Region::new(region.to_owned()))
        .load()
        .await;
    config
        .credentials_provider()
        .ok_or_else(|| "no AWS credentials".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signer(url: &str, signing: &Signing) -> Result<Option<(&'static str, String)>, String> {
        let signer = signing.signer(&url.parse().unwrap())?;
        Ok(signer.map(|signer| (signer.service, signer.region)))
    }

    #[test]
    fn hosts_of_aws_are_signed_for_their_service_and_region() {
        for (host, wanted) in [
            (
                "abc.execute-api.eu-west-1.amazonaws.com",
                Some(("execute-api", "eu-west-1")),
            ),
            (
                "abc.execute-api.cn-north-1.amazonaws.com.cn",
                Some(("execute-api", "cn-north-1")),
            ),
            (
                "vpce-1-2.execute-api.us-east-1.vpce.amazonaws.com",
                Some(("execute-api", "us-east-1")),
            ),
            (
                "abc.lambda-url.us-west-2.on.aws",
                Some(("lambda", "us-west-2")),
            ),
            ("127.0.0.1", None),
            ("limits.example.com", None),
            ("execute-api.eu-west-1.amazonaws.com.example.com", None),
        ] {
            assert_eq!(service(host), wanted, "{host}");
            let signed = signer(&format!("https://{host}/prod"), &Signing::default()).unwrap();
            let wanted = wanted.map(|(service, region)| (service, region.to_owned()));
            assert_eq!(signed, wanted, "{host}");
        }
    }

    #[test]
    fn a_domain_of_its_own_is_signed_for_when_asked_to_and_needs_a_region() {
        let url = "https://limits.example.com";
        let mut signing = Signing {
            when: When::Always,
            ..Signing::default()
        };
        assert!(signer(url, &signing).unwrap_err().contains("--region"));
        signing.usual_region = Some("eu-west-1".to_owned());
        assert_eq!(
            signer(url, &signing),
            Ok(Some(("execute-api", "eu-west-1".to_owned())))
        );
        signing.region = Some("eu-west-2".to_owned());
        assert_eq!(
            signer(url, &signing),
            Ok(Some(("execute-api", "eu-west-2".to_owned())))
        );
        signing.when = When::Never;
        let host = "https://abc.lambda-url.us-west-2.on.aws";
        assert_eq!(signer(host, &signing), Ok(None));
    }
}
