//! The APIs over HTTP: every wait has a deadline, and every answer that is no yes says what it was.

mod answer;
mod signing;

use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Request, Url};
use serde_json::Value;

pub use answer::{Answer, ApiError, Problem};
pub use signing::{Signer, Signing, When};

use crate::text::shown;

/// The most bytes of an answer: 64 MiB, of which a page of a thousand rules is a small part.
const MOST_BYTES: usize = 64 << 20;

/// One API, and how it is spoken to.
#[derive(Debug)]
pub struct Api {
    client: Client,
    base: Url,
    signer: Option<Signer>,
    deadline: Duration,
}

impl Api {
    /// The API at `base`. Speaks to nobody yet. `deadline` is for each request, credentials and connecting included.
    ///
    /// # Errors
    /// What would be right, where the URL cannot be asked or is not known to be signed for.
    pub fn new(base: &str, signing: &Signing, deadline: Duration) -> Result<Self, String> {
        let base = read_url(base)?;
        let signer = signing.signer(&base)?;
        // Whoever comes first has chosen the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::builder()
            .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
            // A signature is for one host, and an API of ours never sends elsewhere.
            .redirect(Policy::none());
        // What is signed in the clear is for this machine alone.
        if signer.is_some() && base.scheme() == "http" {
            client = client.no_proxy();
        }
        let client = client
            .build()
            .map_err(|error| format!("HTTP cannot be spoken here: {error}"))?;
        Ok(Self {
            client,
            base,
            signer,
            deadline,
        })
    }

    /// `GET` of the path of these segments.
    ///
    /// # Errors
    /// Where there is no answer that can be read.
    pub async fn get(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Answer, ApiError> {
        let mut url = self.url(path)?;
        if !query.is_empty() {
            // `+` for a space is the form's way, and no signature's.
            let pairs = query
                .iter()
                .map(|(name, value)| format!("{name}={}", encoded(value)));
            url.set_query(Some(&pairs.collect::<Vec<_>>().join("&")));
        }
        self.send(Request::new(Method::GET, url)).await
    }

    /// `POST` of JSON to the path of these segments.
    ///
    /// # Errors
    /// Where there is no answer that can be read.
    pub async fn post(&self, path: &[&str], body: &Value) -> Result<Answer, ApiError> {
        let mut request = Request::new(Method::POST, self.url(path)?);
        let json = reqwest::header::HeaderValue::from_static("application/json");
        request.headers_mut().insert(CONTENT_TYPE, json);
        *request.body_mut() = Some(body.to_string().into_bytes().into());
        self.send(request).await
    }

    fn url(&self, path: &[&str]) -> Result<Url, ApiError> {
        let mut url = self.base.clone();
        // What a URL takes for the folder itself or the one above, however it is escaped.
        if let Some(name) = path.iter().find(|name| ["", ".", ".."].contains(name)) {
            return Err(ApiError::NoPath(format!(
                "{name:?} cannot be named in a path"
            )));
        }
        match url.path_segments_mut() {
            Ok(mut segments) => segments.pop_if_empty().extend(path),
            // Only a URL without a host, which was refused.
            Err(()) => return Err(ApiError::NoPath("the URL has no path".to_owned())),
        };
        Ok(url)
    }

    async fn send(&self, mut request: Request) -> Result<Answer, ApiError> {
        let place = place(request.url());
        let conversation = async {
            if let Some(signer) = &self.signer {
                let signed = signer.sign(&mut request).await;
                signed.map_err(|reason| ApiError::Unsigned { reason })?;
            }
            let lost = |error: reqwest::Error| ApiError::Unreachable {
                place: place.clone(),
                reason: reason(&error),
            };
            let mut answer = self.client.execute(request).await.map_err(lost)?;
            let status = answer.status();
            let kind = answer.headers().get(CONTENT_TYPE).cloned();
            let mut body = Vec::new();
            while let Some(chunk) = answer.chunk().await.map_err(lost)? {
                if body.len() + chunk.len() > MOST_BYTES {
                    let place = place.clone();
                    return Err(ApiError::Endless { place });
                }
                body.extend_from_slice(&chunk);
            }
            answer::read(&place, status, kind.as_ref(), &body)
        };
        let late = || ApiError::Late {
            place: place.clone(),
            seconds: self.deadline.as_secs(),
        };
        tokio::time::timeout(self.deadline, conversation)
            .await
            .map_err(|_| late())?
    }
}

/// The URL of an API: without what follows a path, and without a secret that would be shown with it.
fn read_url(text: &str) -> Result<Url, String> {
    let wanted =
        "must be like http://127.0.0.1:8081 or https://API.execute-api.REGION.amazonaws.com/STAGE";
    let url = Url::parse(text).map_err(|error| format!("the URL {wanted}: {error}"))?;
    let plain = ["http", "https"].contains(&url.scheme())
        && url.query().is_none()
        && url.fragment().is_none();
    if !plain || url.cannot_be_a_base() {
        return Err(format!("the URL {wanted}"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(
            "the URL must not hold a name or a password: requests are signed, or are not"
                .to_owned(),
        );
    }
    Ok(url)
}

/// What was asked, as it is told of when it fails: no query, which may be long.
fn place(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    shown(url.as_str()).into_owned()
}

/// What signatures leave as it is.
const ESCAPED: AsciiSet = NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A value in a query, escaped as signatures want it.
fn encoded(value: &str) -> PercentEncode<'_> {
    utf8_percent_encode(value, &ESCAPED)
}

/// Why there was no answer, to the innermost reason, without the URL.
fn reason(error: &reqwest::Error) -> String {
    let mut reasons = Vec::new();
    let mut next = std::error::Error::source(error);
    while let Some(error) = next {
        reasons.push(error.to_string());
        next = error.source();
    }
    match reasons.last() {
        Some(innermost) => shown(innermost).into_owned(),
        None => "the connection was lost".to_owned(),
    }
}
