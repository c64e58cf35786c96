//! Requests to AWS, signed as it wants them (Signature Version 4).

use std::time::SystemTime;

use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use http::Request;

use crate::signer::Signer;

/// Why a request is not signed. It has a header that is no text, or no absolute address.
#[derive(Debug, thiserror::Error)]
#[error("the request is not signed: {0}")]
pub struct SignError(String);

impl SignError {
    fn of(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

impl Signer {
    /// Signs a request to a service, such as `lambda` for function URLs, by what it holds now: nothing may be added to it after.
    /// A signature is good for five minutes from `now` on.
    ///
    /// # Errors
    /// Where the request cannot be signed.
    pub fn sign<B: AsRef<[u8]>>(
        &self,
        service: &str,
        request: &mut Request<B>,
        now: SystemTime,
    ) -> Result<(), SignError> {
        let identity = self.credentials.clone().into();
        let params = SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(service)
            .time(now)
            .settings(SigningSettings::default())
            .build()
            .map_err(SignError::of)?
            .into();
        let headers: Vec<_> = request
            .headers()
            .iter()
            .map(|(name, value)| Ok((name.as_str(), value.to_str()?)))
            .collect::<Result<_, http::header::ToStrError>>()
            .map_err(SignError::of)?;
        let signable = SignableRequest::new(
            request.method().as_str(),
            request.uri().to_string(),
            headers.into_iter(),
            SignableBody::Bytes(request.body().as_ref()),
        )
        .map_err(SignError::of)?;
        let signed = sign(signable, &params).map_err(SignError::of)?;
        signed.into_parts().0.apply_to_request_http1x(request);
        Ok(())
    }
}
