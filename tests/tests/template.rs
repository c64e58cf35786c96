//! What CloudFormation makes of the template: the SAM translator's output, pinned.

use std::collections::BTreeSet;

use local::gateway::{Api, GatewayResponse, Source};
use local::template::Template;
use serde_json::{Value, json};
use tests::template::resources;

fn body(api: &str) -> &'static Value {
    &resources()[api]["Properties"]["Body"]
}

fn gateway_responses() -> &'static Value {
    &body("ProtectedApi")["x-amazon-apigateway-gateway-responses"]
}

/// The headers of a gateway response with their mapping expressions.
fn headers(response: &Value) -> impl Iterator<Item = (&str, &str)> {
    response["responseParameters"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, expression)| {
            let name = key.strip_prefix("gatewayresponse.header.").unwrap();
            (name, expression.as_str().unwrap())
        })
}

fn expression<'a>(response: &'a Value, header: &str) -> &'a str {
    headers(response)
        .find(|(name, _)| *name == header)
        .unwrap_or_else(|| panic!("no header {header}"))
        .1
}

fn template_of(response: &Value) -> &str {
    response["responseTemplates"]["application/json"]
        .as_str()
        .unwrap()
}

/// The names after `$context.authorizer.` in a body.
fn names_in(body: &str) -> impl Iterator<Item = &str> {
    body.split("$context.authorizer.").skip(1).map(|rest| {
        let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric());
        &rest[..end.unwrap_or(rest.len())]
    })
}

#[test]
fn each_refusal_has_its_status() {
    for (name, status) in [
        ("ACCESS_DENIED", "429"),
        ("UNAUTHORIZED", "401"),
        ("AUTHORIZER_FAILURE", "503"),
        ("AUTHORIZER_CONFIGURATION_ERROR", "503"),
        ("THROTTLED", "429"),
        ("QUOTA_EXCEEDED", "429"),
    ] {
        assert_eq!(gateway_responses()[name]["statusCode"], status, "{name}");
    }
}

#[test]
fn a_denial_carries_every_header_of_the_contract_from_the_context() {
    let denied = &gateway_responses()["ACCESS_DENIED"];
    for (header, key) in [
        ("Retry-After", "retryAfter"),
        ("RateLimit", "rateLimit"),
        ("RateLimit-Policy", "rateLimitPolicy"),
        ("X-RateLimit-Limit", "limit"),
        ("X-RateLimit-Remaining", "remaining"),
        ("X-RateLimit-Reset", "reset"),
        ("X-RateLimit-RetryAfter", "retryAfter"),
    ] {
        assert_eq!(
            expression(denied, header),
            format!("context.authorizer.{key}")
        );
    }
}

#[test]
fn what_a_denial_maps_is_what_the_authorizer_emits() {
    let context = serde_json::to_value(authorizer::answer::Context::default()).unwrap();
    let emitted = context.as_object().unwrap();
    let denied = &gateway_responses()["ACCESS_DENIED"];
    let in_headers =
        headers(denied).filter_map(|(_, source)| source.strip_prefix("context.authorizer."));
    let mapped: BTreeSet<_> = in_headers.chain(names_in(template_of(denied))).collect();
    assert!(mapped.len() > 7, "{mapped:?}");
    for key in mapped {
        assert!(emitted.contains_key(key), "nobody emits {key}");
    }
}

#[test]
fn what_comes_before_or_without_a_context_tells_its_own_wait() {
    for name in [
        "AUTHORIZER_FAILURE",
        "AUTHORIZER_CONFIGURATION_ERROR",
        "THROTTLED",
        "QUOTA_EXCEEDED",
    ] {
        assert_eq!(
            expression(&gateway_responses()[name], "Retry-After"),
            "'1'",
            "{name}"
        );
    }
}

#[test]
fn only_a_denial_reads_the_context() {
    for (name, response) in gateway_responses().as_object().unwrap() {
        if name != "ACCESS_DENIED" {
            assert!(
                !response.to_string().contains("context.authorizer"),
                "{name}"
            );
        }
    }
}

#[test]
fn a_value_that_may_hold_a_quote_or_anything_goes_into_no_body() {
    for (name, response) in gateway_responses().as_object().unwrap() {
        for key in names_in(template_of(response)) {
            assert!(
                !["rateLimit", "rateLimitPolicy", "clientId", "tier"].contains(&key),
                "{name}: {key}"
            );
        }
        for (header, expression) in headers(response) {
            assert!(
                !["context.authorizer.clientId", "context.authorizer.tier"].contains(&expression),
                "{name}: {header}"
            );
        }
    }
}

#[test]
fn every_answer_is_a_problem_a_browser_may_read() {
    for (name, response) in gateway_responses().as_object().unwrap() {
        assert_eq!(
            expression(response, "Content-Type"),
            "'application/problem+json'",
            "{name}"
        );
        assert_eq!(
            expression(response, "Access-Control-Allow-Origin"),
            "'*'",
            "{name}"
        );
        let filled = template_of(response)
            .replace("$context.error.messageString", "\"x\"")
            .replace("$context.", "");
        let problem: Value = serde_json::from_str(&filled).unwrap();
        assert!(problem["title"].is_string(), "{name}");
        assert!(problem["request_id"].is_string(), "{name}");
        if let Some(status) = response["statusCode"].as_str() {
            assert_eq!(problem["status"].to_string(), status, "{name}");
        }
    }
}

#[test]
fn a_browser_may_read_every_header_that_tells_a_limit() {
    for (name, response) in gateway_responses().as_object().unwrap() {
        let told: BTreeSet<_> = headers(response)
            .map(|(header, _)| header)
            .filter(|header| header.contains("RateLimit") || *header == "Retry-After")
            .collect();
        if told.is_empty() {
            continue;
        }
        let exposed = expression(response, "Access-Control-Expose-Headers").trim_matches('\'');
        assert_eq!(exposed.split(',').collect::<BTreeSet<_>>(), told, "{name}");
    }
}

#[test]
fn every_429_has_one_shape() {
    let keys = |name: &str| {
        let filled = template_of(&gateway_responses()[name]).replace("$context.", "");
        let problem: Value = serde_json::from_str(&filled).unwrap();
        problem
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(keys("THROTTLED"), keys("ACCESS_DENIED"));
    assert_eq!(keys("QUOTA_EXCEEDED"), keys("ACCESS_DENIED"));
}

#[test]
fn every_call_is_asked_about_and_no_answer_is_kept() {
    let schemes = body("ProtectedApi")["components"]["securitySchemes"]
        .as_object()
        .unwrap();
    assert_eq!(schemes.len(), 1);
    let authorizer = &schemes["Weir"]["x-amazon-apigateway-authorizer"];
    assert_eq!(authorizer["type"], "request");
    assert_eq!(authorizer["authorizerResultTtlInSeconds"], 0);
    assert_eq!(authorizer.get("identitySource"), None);
}

#[test]
fn every_method_but_options_is_guarded() {
    let paths = body("ProtectedApi")["paths"].as_object().unwrap();
    assert_eq!(paths.keys().collect::<Vec<_>>(), ["/", "/{proxy+}"]);
    for (path, methods) in paths {
        let methods = methods.as_object().unwrap();
        assert_eq!(
            methods.keys().collect::<Vec<_>>(),
            ["options", "x-amazon-apigateway-any-method"],
            "{path}"
        );
        assert_eq!(methods["options"].get("security"), None, "{path}");
        assert_eq!(
            methods["options"]["x-amazon-apigateway-integration"]["type"],
            "mock"
        );
        assert_eq!(
            methods["x-amazon-apigateway-any-method"]["security"],
            json!([{"Weir": []}]),
            "{path}"
        );
    }
}

#[test]
fn the_control_api_is_apart_and_signed_with_iam() {
    let api = body("ControlApi");
    for (path, methods) in api["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            assert_eq!(
                operation["security"],
                json!([{"AWS_IAM": []}]),
                "{method} {path}"
            );
            let integration = &operation["x-amazon-apigateway-integration"];
            assert_eq!(
                integration.get("credentials"),
                None,
                "the caller would need leave to invoke the function"
            );
        }
    }
    let scheme = &api["components"]["securitySchemes"]["AWS_IAM"];
    assert_eq!(scheme["x-amazon-apigateway-authtype"], "awsSigv4");
    assert_eq!(
        resources()["CheckFunctionUrl"]["Properties"]["AuthType"],
        "AWS_IAM"
    );
}

#[test]
fn refresh_hears_of_a_change_and_wakes_each_minute() {
    let refresh = json!({"Fn::GetAtt": ["RefreshFunction", "Arn"]});
    let subscription = &resources()["RefreshFunctionAnnouncement"]["Properties"];
    assert_eq!(subscription["Endpoint"], refresh);
    assert_eq!(subscription["TopicArn"], json!({"Ref": "RulesTopic"}));
    let schedule = &resources()["RefreshFunctionEachMinute"]["Properties"];
    assert_eq!(schedule["ScheduleExpression"], "rate(1 minute)");
    assert_eq!(schedule["Targets"][0]["Arn"], refresh);
}

#[test]
fn each_function_is_told_of_its_stores_and_no_others() {
    let variables = |function: &str| {
        let variables = &resources()[function]["Properties"]["Environment"]["Variables"];
        variables
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .filter(|name| ["REDIS_URL", "DATABASE_URL", "RULES_TOPIC_ARN"].contains(name))
            .collect::<Vec<_>>()
    };
    assert_eq!(variables("AuthorizerFunction"), ["REDIS_URL"]);
    assert_eq!(variables("CheckFunction"), ["REDIS_URL"]);
    assert_eq!(variables("RefreshFunction"), ["DATABASE_URL", "REDIS_URL"]);
    assert_eq!(variables("MigrateFunction"), ["DATABASE_URL"]);
    assert_eq!(
        variables("ClientsFunction"),
        ["DATABASE_URL", "RULES_TOPIC_ARN"]
    );
    assert_eq!(
        variables("RulesFunction"),
        ["DATABASE_URL", "REDIS_URL", "RULES_TOPIC_ARN"]
    );
}

#[test]
fn the_stand_in_reads_what_deploys() {
    let template = Template::parse(include_str!("../../template.yaml")).unwrap();
    for id in ["ProtectedApi", "ControlApi"] {
        let api = Api::read(&template, id).unwrap();
        let deployed = body(id);
        let responses = deployed["x-amazon-apigateway-gateway-responses"]
            .as_object()
            .unwrap();
        assert_eq!(
            api.responses
                .iter()
                .map(|(name, _)| name)
                .collect::<Vec<_>>(),
            responses.keys().collect::<Vec<_>>()
        );
        for (name, response) in responses {
            assert_eq!(
                api.responses.get(name),
                Some(&as_read(response)),
                "{id} {name}"
            );
        }
        let resources: BTreeSet<_> = api.routes.iter().map(|route| &route.resource).collect();
        let paths: BTreeSet<_> = deployed["paths"].as_object().unwrap().keys().collect();
        assert_eq!(resources, paths, "{id}");
        let preflight = api.preflight.map(|preflight| preflight.headers);
        let mapped =
            deployed["paths"]["/{proxy+}"]["options"].get("x-amazon-apigateway-integration");
        let mapped = mapped.map(|integration| {
            integration["responses"]["default"]["responseParameters"]
                .as_object()
                .unwrap()
        });
        assert_eq!(preflight.is_some(), mapped.is_some(), "{id}");
        for (name, value) in preflight.into_iter().flatten() {
            let found = mapped.unwrap().iter().find(|(key, _)| {
                key.strip_prefix("method.response.header.")
                    .is_some_and(|header| header.eq_ignore_ascii_case(name.as_str()))
            });
            let quoted = format!("'{}'", value.to_str().unwrap());
            assert_eq!(found.unwrap().1, &quoted, "{id} {name}");
        }
    }
}

/// A gateway response of the translated template in the form in which the stand-in reads one.
fn as_read(response: &Value) -> GatewayResponse {
    GatewayResponse {
        status: response["statusCode"]
            .as_str()
            .map(|status| status.parse().unwrap()),
        headers: headers(response)
            .map(|(name, expression)| (name.to_owned(), Source::parse(expression).unwrap()))
            .collect(),
        body: Some(template_of(response).to_owned()),
    }
}
