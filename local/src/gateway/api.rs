//! What the template says of one REST API.

use std::time::Duration;

use http::{HeaderName, HeaderValue};

use super::response::{GatewayResponses, Source};
use super::route::Route;
use crate::template::{Section, Template, TemplateError};

const API: &str = "AWS::Serverless::Api";
const FUNCTION: &str = "AWS::Serverless::Function";

/// One REST API: its routes, who is asked before a call goes through, and what it answers by itself.
#[derive(Debug, Clone)]
pub struct Api {
    /// The name of its one stage.
    pub stage: String,
    /// Every method of every resource.
    pub routes: Vec<Route>,
    /// Who is asked about each call.
    pub guard: Guard,
    /// The headers with which a browser's `OPTIONS` is answered; None where the API leaves that to its backend.
    pub preflight: Option<Preflight>,
    /// What it answers by itself.
    pub responses: GatewayResponses,
}

/// Who is asked before a call goes through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guard {
    /// A Lambda function, asked about every call.
    Authorizer {
        /// Its logical id.
        function: String,
        /// How long it may take.
        timeout: Duration,
    },
    /// AWS itself, by the signature of the call. There is none on one machine, so every call goes through.
    Iam,
}

/// The answer to a browser that asks before it calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preflight {
    /// `Access-Control-…`.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Whether the guard is asked about it as well.
    pub guarded: bool,
}

impl Api {
    /// The API with the logical id `id`.
    pub fn read(template: &Template, id: &str) -> Result<Self, TemplateError> {
        let api = template.resource(id, API)?;
        let properties = api.get("Properties");
        Ok(Self {
            stage: properties.get("StageName").required_text()?.to_owned(),
            routes: routes(template, id)?,
            guard: guard(template, &properties.get("Auth"))?,
            preflight: preflight(&properties)?,
            responses: GatewayResponses::read(&api)?,
        })
    }
}

fn routes(template: &Template, api: &str) -> Result<Vec<Route>, TemplateError> {
    let mut routes = Vec::new();
    for (function, resource) in template.resources(FUNCTION) {
        for (_, event) in resource.get("Properties").entries("Events") {
            let properties = event.get("Properties");
            if event.get("Type").text() != Some("Api")
                || properties.get("RestApiId").reference() != Some(api)
            {
                continue;
            }
            let own = properties.get("Auth");
            if !own.is_absent() {
                return Err(
                    own.wrong("must be left to the API: a route of its own is not emulated")
                );
            }
            routes.push(Route {
                resource: properties.get("Path").required_text()?.to_owned(),
                method: properties.get("Method").required_text()?.to_uppercase(),
                function: function.to_owned(),
            });
        }
    }
    Ok(routes)
}

fn guard(template: &Template, auth: &Section<'_>) -> Result<Guard, TemplateError> {
    let chosen = auth.get("DefaultAuthorizer");
    let name = chosen.required_text()?;
    if name == "AWS_IAM" {
        return Ok(Guard::Iam);
    }
    let authorizer = auth.get("Authorizers").get(name);
    let kind = authorizer.get("FunctionPayloadType");
    if kind.text() != Some("REQUEST") {
        return Err(kind.wrong("must be REQUEST"));
    }
    let identity = authorizer.get("Identity");
    let cached = identity.get("ReauthorizeEvery");
    if cached.integer()? != Some(0) {
        return Err(cached.wrong("must be 0: a cached answer counts no call"));
    }
    for source in ["Headers", "QueryStrings", "StageVariables", "Context"] {
        let source = identity.get(source);
        if !source.is_absent() {
            return Err(
                source.wrong("must be left out: a call without it would not be asked about")
            );
        }
    }
    let arn = authorizer.get("FunctionArn");
    let function = arn
        .reference()
        .ok_or_else(|| arn.wrong("must refer to a function"))?;
    let function = function.split('.').next().unwrap_or(function);
    let timeout = template
        .resource(function, FUNCTION)?
        .get("Properties")
        .get("Timeout");
    let seconds = timeout
        .integer()?
        .ok_or_else(|| timeout.wrong("must be the seconds the authorizer may take"))?;
    Ok(Guard::Authorizer {
        function: function.to_owned(),
        timeout: Duration::from_secs(seconds),
    })
}

fn preflight(properties: &Section<'_>) -> Result<Option<Preflight>, TemplateError> {
    let cors = properties.get("Cors");
    if cors.is_absent() {
        return Ok(None);
    }
    let mut headers = Vec::new();
    for (key, name) in [
        ("AllowOrigin", "access-control-allow-origin"),
        ("AllowMethods", "access-control-allow-methods"),
        ("AllowHeaders", "access-control-allow-headers"),
        ("MaxAge", "access-control-max-age"),
    ] {
        let section = cors.get(key);
        if section.is_absent() {
            continue;
        }
        let value = match Source::parse(section.required_text()?) {
            Ok(Source::Static(text)) => HeaderValue::try_from(text).ok(),
            _ => None,
        };
        let value = value.ok_or_else(|| section.wrong("must be 'text' in single quotes"))?;
        headers.push((HeaderName::from_static(name), value));
    }
    let guarded = properties
        .get("Auth")
        .get("AddDefaultAuthorizerToCorsPreflight")
        .flag()?
        .unwrap_or(true);
    Ok(Some(Preflight { headers, guarded }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str = include_str!("../../../template.yaml");

    #[test]
    fn the_protected_api_asks_the_authorizer_about_everything_but_options() {
        let template = Template::parse(TEMPLATE).unwrap();
        let api = Api::read(&template, "ProtectedApi").unwrap();
        assert_eq!(
            api.guard,
            Guard::Authorizer {
                function: "AuthorizerFunction".to_owned(),
                timeout: Duration::from_secs(5)
            }
        );
        let mut resources: Vec<_> = api
            .routes
            .iter()
            .map(|route| (route.method.as_str(), route.resource.as_str()))
            .collect();
        resources.sort_unstable();
        assert_eq!(resources, [("ANY", "/"), ("ANY", "/{proxy+}")]);
        assert!(!api.preflight.unwrap().guarded);
    }

    #[test]
    fn the_control_api_is_guarded_by_iam() {
        let template = Template::parse(TEMPLATE).unwrap();
        let api = Api::read(&template, "ControlApi").unwrap();
        assert_eq!(api.guard, Guard::Iam);
        assert_eq!(api.preflight, None);
    }

    #[test]
    fn what_cannot_be_emulated_is_refused_with_its_place() {
        for (from, to, place) in [
            (
                "ReauthorizeEvery: 0",
                "ReauthorizeEvery: 300",
                "Authorizers.Weir.Identity.ReauthorizeEvery: must be 0",
            ),
            (
                "ReauthorizeEvery: 0",
                "{ ReauthorizeEvery: 0, Headers: [X-Api-Key] }",
                "Identity.Headers: must be left out",
            ),
            (
                "FunctionPayloadType: REQUEST",
                "FunctionPayloadType: TOKEN",
                "FunctionPayloadType: must be REQUEST",
            ),
            (
                "StageName: prod",
                "StageName: [prod]",
                "StageName: must be text",
            ),
        ] {
            let text = TEMPLATE.replacen(from, to, 1);
            assert_ne!(text, TEMPLATE, "{from}");
            let template = Template::parse(&text).unwrap();
            let error = Api::read(&template, "ProtectedApi")
                .unwrap_err()
                .to_string();
            assert!(error.contains(place), "{error}");
        }
    }
}
