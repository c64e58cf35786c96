//! Gateway responses: what API Gateway answers by itself when a call does not reach its backend.

use std::collections::BTreeMap;

use super::variables::Variables;
use crate::template::{Section, TemplateError};
use http::{HeaderName, HeaderValue, Response, StatusCode, header};

/// Why API Gateway answers by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The authorizer's policy does not allow the call.
    AccessDenied,
    /// The authorizer failed with the one message that means: credentials are missing or wrong.
    Unauthorized,
    /// The authorizer failed otherwise, or did not answer in time.
    AuthorizerFailure,
    /// The authorizer's answer is not what API Gateway understands.
    AuthorizerConfigurationError,
    /// No route covers the call.
    MissingAuthenticationToken,
    /// The body is larger than API Gateway takes.
    RequestTooLarge,
    /// The backend did not answer in time.
    IntegrationTimeout,
}

impl Refusal {
    /// The name of its gateway response.
    pub fn name(self) -> &'static str {
        self.defaults().0
    }

    /// Name, status and message where the template says nothing.
    fn defaults(self) -> (&'static str, StatusCode, &'static str) {
        use StatusCode as Is;
        match self {
            Self::AccessDenied => (
                "ACCESS_DENIED",
                Is::FORBIDDEN,
                "User is not authorized to access this resource",
            ),
            Self::Unauthorized => ("UNAUTHORIZED", Is::UNAUTHORIZED, "Unauthorized"),
            Self::AuthorizerFailure => (
                "AUTHORIZER_FAILURE",
                Is::INTERNAL_SERVER_ERROR,
                "Internal server error",
            ),
            Self::AuthorizerConfigurationError => (
                "AUTHORIZER_CONFIGURATION_ERROR",
                Is::INTERNAL_SERVER_ERROR,
                "Internal server error",
            ),
            Self::MissingAuthenticationToken => (
                "MISSING_AUTHENTICATION_TOKEN",
                Is::FORBIDDEN,
                "Missing Authentication Token",
            ),
            Self::RequestTooLarge => (
                "REQUEST_TOO_LARGE",
                Is::PAYLOAD_TOO_LARGE,
                "Request Too Long",
            ),
            Self::IntegrationTimeout => (
                "INTEGRATION_TIMEOUT",
                Is::GATEWAY_TIMEOUT,
                "Endpoint request timed out",
            ),
        }
    }

    fn fallback(self) -> &'static str {
        if self.defaults().1.is_server_error() {
            "DEFAULT_5XX"
        } else {
            "DEFAULT_4XX"
        }
    }
}

/// The gateway responses of one API.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GatewayResponses(BTreeMap<String, GatewayResponse>);

/// One of them, as the template maps it.
#[derive(Debug, Clone, PartialEq)]
pub struct GatewayResponse {
    /// None keeps the status of the refusal.
    pub status: Option<StatusCode>,
    /// Each header and where its value comes from.
    pub headers: BTreeMap<String, Source>,
    /// The body, in which `$context.…` is replaced. None is API Gateway's own.
    pub body: Option<String>,
}

/// Where the value of a header comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Written in the template, in single quotes.
    Static(String),
    /// A variable, by its name without `context.`.
    Context(String),
}

const OWN_BODY: &str = r#"{"message":$context.error.messageString}"#;

impl GatewayResponses {
    pub(super) fn read(api: &Section<'_>) -> Result<Self, TemplateError> {
        api.get("Properties")
            .entries("GatewayResponses")
            .into_iter()
            .map(|(name, section)| Ok((name.to_owned(), GatewayResponse::read(&section)?)))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The gateway response `name`, if the template has it.
    pub fn get(&self, name: &str) -> Option<&GatewayResponse> {
        self.0.get(name)
    }

    /// Each gateway response, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &GatewayResponse)> {
        self.0
            .iter()
            .map(|(name, response)| (name.as_str(), response))
    }

    /// What the caller gets for `refusal`.
    pub fn render(&self, refusal: Refusal, variables: &Variables) -> Response<String> {
        let (name, status, message) = refusal.defaults();
        let variables = variables.with_error(name, message);
        let mapped = self.get(name).or_else(|| self.get(refusal.fallback()));
        let body = mapped
            .and_then(|response| response.body.as_deref())
            .unwrap_or(OWN_BODY);
        let mut answer = Response::new(variables.replaced_in(body));
        *answer.status_mut() = mapped
            .and_then(|response| response.status)
            .unwrap_or(status);
        answer.headers_mut().insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        for (name, source) in mapped.iter().flat_map(|response| &response.headers) {
            let value = match source {
                Source::Static(text) => text.clone(),
                Source::Context(path) => variables.text(path),
            };
            // A header without a value is not sent: an empty `Retry-After` would say "at once" to some callers.
            if value.is_empty() {
                continue;
            }
            if let (Ok(name), Ok(value)) = (
                HeaderName::try_from(name.as_str()),
                HeaderValue::try_from(value),
            ) {
                answer.headers_mut().insert(name, value);
            }
        }
        answer
    }
}

impl GatewayResponse {
    fn read(section: &Section<'_>) -> Result<Self, TemplateError> {
        let status = section.get("StatusCode");
        let status = match status.integer()? {
            None => None,
            Some(code) => Some(
                u16::try_from(code)
                    .ok()
                    .and_then(|code| StatusCode::from_u16(code).ok())
                    .ok_or_else(|| status.wrong("must be an HTTP status"))?,
            ),
        };
        let headers = section
            .get("ResponseParameters")
            .entries("Headers")
            .into_iter()
            .map(|(name, value)| Ok((name.to_owned(), Source::read(&value)?)))
            .collect::<Result<_, TemplateError>>()?;
        // The media type of the answer is a header; a second template would be chosen by what the caller accepts.
        let templates = section.entries("ResponseTemplates");
        let body = match templates.as_slice() {
            [] => None,
            [("application/json", body)] => Some(body.required_text()?.to_owned()),
            _ => {
                return Err(section
                    .get("ResponseTemplates")
                    .wrong("must be one template, for application/json"));
            }
        };
        Ok(Self {
            status,
            headers,
            body,
        })
    }
}

impl Source {
    fn read(section: &Section<'_>) -> Result<Self, TemplateError> {
        Self::parse(section.required_text()?).map_err(|detail| section.wrong(detail))
    }

    /// The source that a mapping expression names.
    pub fn parse(expression: &str) -> Result<Self, String> {
        if let Some(text) = expression
            .strip_prefix('\'')
            .and_then(|text| text.strip_suffix('\''))
        {
            return match HeaderValue::from_str(text) {
                Ok(_) => Ok(Self::Static(text.to_owned())),
                Err(_) => Err("must be printable ASCII".to_owned()),
            };
        }
        match expression.strip_prefix("context.") {
            Some(path)
                if path
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) =>
            {
                Ok(Self::Context(path.to_owned()))
            }
            _ => Err("must be 'text' in single quotes, or context.name without $".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::template::Template;

    fn read(yaml: &str) -> Result<GatewayResponses, TemplateError> {
        let text = format!(
            "Resources: {{ Api: {{ Type: A, Properties: {{ GatewayResponses: {yaml} }} }} }}"
        );
        let template = Template::parse(&text).unwrap();
        GatewayResponses::read(&template.resource("Api", "A").unwrap())
    }

    fn variables(authorizer: Value) -> Variables {
        Variables::new(json!({"requestId": "r-1", "authorizer": authorizer}))
    }

    #[test]
    fn a_denial_becomes_what_the_template_maps() {
        let responses = read(
            r#"{ ACCESS_DENIED: { StatusCode: 429, ResponseParameters: { Headers: {
                Content-Type: "'application/problem+json'", Retry-After: context.authorizer.retryAfter,
                X-None: context.authorizer.absent, X-Empty: context.authorizer.empty } },
                ResponseTemplates: { application/json: '{"wait":"$context.authorizer.retryAfter","id":"$context.requestId"}' } } }"#,
        )
        .unwrap();
        let answer = responses.render(
            Refusal::AccessDenied,
            &variables(json!({"retryAfter": "6", "empty": ""})),
        );
        assert_eq!(answer.status(), 429);
        assert_eq!(answer.headers()["retry-after"], "6");
        assert_eq!(answer.headers()["content-type"], "application/problem+json");
        assert!(!answer.headers().contains_key("x-none"));
        assert!(!answer.headers().contains_key("x-empty"));
        assert_eq!(answer.body(), r#"{"wait":"6","id":"r-1"}"#);
    }

    #[test]
    fn what_the_template_leaves_out_is_api_gateways_own() {
        let responses = GatewayResponses::default();
        for (refusal, status, body) in [
            (
                Refusal::AccessDenied,
                403,
                r#"{"message":"User is not authorized to access this resource"}"#,
            ),
            (Refusal::Unauthorized, 401, r#"{"message":"Unauthorized"}"#),
            (
                Refusal::AuthorizerFailure,
                500,
                r#"{"message":"Internal server error"}"#,
            ),
            (
                Refusal::MissingAuthenticationToken,
                403,
                r#"{"message":"Missing Authentication Token"}"#,
            ),
        ] {
            let answer = responses.render(refusal, &variables(json!({})));
            assert_eq!(answer.status(), status, "{refusal:?}");
            assert_eq!(answer.headers()["content-type"], "application/json");
            assert_eq!(answer.body(), body);
        }
    }

    #[test]
    fn a_default_covers_its_class_and_keeps_the_status() {
        let responses = read(
            r#"{ DEFAULT_4XX: { ResponseTemplates: { application/json: '{"title":$context.error.messageString,"kind":"$context.error.responseType"}' } } }"#,
        )
        .unwrap();
        let answer = responses.render(Refusal::MissingAuthenticationToken, &variables(json!({})));
        assert_eq!(answer.status(), 403);
        assert_eq!(
            answer.body(),
            r#"{"title":"Missing Authentication Token","kind":"MISSING_AUTHENTICATION_TOKEN"}"#
        );
        let answer = responses.render(Refusal::AuthorizerFailure, &variables(json!({})));
        assert_eq!(answer.body(), r#"{"message":"Internal server error"}"#);
    }

    #[test]
    fn a_mapping_that_api_gateway_would_not_take_is_refused() {
        for expression in [
            "60",
            "$context.authorizer.retryAfter",
            "context.authorizer.a b",
            "stageVariables.x",
            "",
        ] {
            let yaml = format!(
                "{{ THROTTLED: {{ ResponseParameters: {{ Headers: {{ Retry-After: \"{expression}\" }} }} }} }}"
            );
            let error = read(&yaml).unwrap_err().to_string();
            assert!(
                error.contains("THROTTLED.ResponseParameters.Headers.Retry-After: must be"),
                "{error}"
            );
        }
        assert!(read("{ THROTTLED: { StatusCode: 7 } }").is_err());
        assert!(read("{ THROTTLED: { ResponseTemplates: { text/html: no } } }").is_err());
    }
}
