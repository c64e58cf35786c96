//! What API Gateway asks a REQUEST authorizer: REST API, and HTTP API in both of its payload formats.
//!
//! A type of our own, since nothing that a caller can send (a header named with a space, a null, a value of an odd kind) may
//! make the reading fail.

use std::{borrow::Cow, net::IpAddr};

use aws::lenient::{Object, items, text};
use limits::Resource;
use serde::{Deserialize, Deserializer};

/// The one header that may hold an API key, in any case.
const API_KEY: &str = "x-api-key";

/// The one that may hold a token.
const AUTHORIZATION: &str = "authorization";

/// The one in which proxies write where a call came from.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// What the answer must look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Door {
    /// A REST API, or an HTTP API with payload format 1.0: a policy for this ARN.
    Policy {
        /// The ARN of the method that is called.
        method_arn: String,
    },
    /// An HTTP API with payload format 2.0: yes or no.
    Simple,
}

/// One call to a protected API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Where it comes from.
    pub door: Door,
    /// The API key that it shows, right or wrong; empty where the header holds no text. None without the header.
    pub api_key: Option<String>,
    /// The token that it shows, right or wrong. None without the header, or where that is of another scheme than `Bearer`.
    pub bearer: Option<String>,
    /// The lines of `X-Forwarded-For`, in their order.
    pub forwarded_for: Vec<String>,
    /// Where the call comes from, as API Gateway saw it.
    pub address: Option<IpAddr>,
    method: String,
    path: String,
    /// What API Gateway put in front of the path.
    stage: String,
    route: Option<String>,
}

impl Event {
    /// The event that an object is. There is none that cannot be read; what is not in it is missing in what comes out.
    fn of(event: &Object<'_>) -> Self {
        let context = event.object("requestContext");
        let headers = Headers::of(event);
        let owned = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned);
        let simple = event.text("version").as_deref() == Some("2.0");
        if simple {
            let http = context.object("http");
            // `$default` is no stage in the path, nor a template.
            let stage = owned(context.text("stage")).filter(|stage| stage != "$default");
            let key = event.text("routeKey").or_else(|| context.text("routeKey"));
            let route = key.and_then(|key| key.split_once(' ').map(|(_, path)| path.to_owned()));
            Self {
                door: Door::Simple,
                api_key: headers.api_key(),
                bearer: headers.bearer(),
                forwarded_for: headers.forwarded_for(),
                address: address(http.text("sourceIp")),
                method: owned(http.text("method")).unwrap_or_default(),
                path: owned(event.text("rawPath").or_else(|| http.text("path")))
                    .unwrap_or_default(),
                stage: stage.unwrap_or_default(),
                route,
            }
        } else {
            let method = event
                .text("httpMethod")
                .or_else(|| context.text("httpMethod"));
            Self {
                door: Door::Policy {
                    method_arn: owned(event.text("methodArn")).unwrap_or_default(),
                },
                api_key: headers.api_key(),
                bearer: headers.bearer(),
                forwarded_for: headers.forwarded_for(),
                address: address(context.object("identity").text("sourceIp")),
                method: owned(method).unwrap_or_default(),
                path: owned(event.text("path")).unwrap_or_default(),
                stage: String::new(),
                route: owned(
                    event
                        .text("resource")
                        .or_else(|| context.text("resourcePath")),
                ),
            }
        }
    }

    /// What is called, without the stage and without `base_path`.
    pub fn resource(&self, base_path: &str) -> Resource<'_> {
        Resource::path(&self.method, &self.path, self.route.as_deref())
            .below(&self.stage)
            .below(base_path)
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Object::deserialize(deserializer).map(|event| Self::of(&event))
    }
}

/// The headers of a call, in both of the forms in which an event may have them.
struct Headers<'a> {
    single: Object<'a>,
    multiple: Object<'a>,
}

impl<'a> Headers<'a> {
    fn of(event: &Object<'a>) -> Self {
        Self {
            single: event.object("headers"),
            multiple: event.object("multiValueHeaders"),
        }
    }

    /// The API key of all spellings of the header. Different ones are joined, as HTTP joins the values of a header that comes
    /// twice: that is no key, so that nobody can hide one behind another.
    fn api_key(&self) -> Option<String> {
        let keys = self.values(API_KEY);
        (!keys.is_empty()).then(|| keys.join(","))
    }

    /// The token of an `Authorization` whose scheme is `Bearer`, in any case. What stands beside it makes it no token, so that
    /// nobody can hide one behind another; without any it is an empty one.
    fn bearer(&self) -> Option<String> {
        let all = self.values(AUTHORIZATION);
        let mut tokens = all.iter().filter_map(|value| {
            let value = value.trim_ascii();
            let (scheme, token) = value.split_once([' ', '\t']).unwrap_or((value, ""));
            scheme.eq_ignore_ascii_case("bearer").then_some(token)
        });
        let token = tokens.next()?;
        Some(if all.len() == 1 {
            token.trim_ascii().to_owned()
        } else {
            String::new()
        })
    }

    /// The lines of `X-Forwarded-For`. Of two spellings of the name nobody knows which line came first: they are no list.
    fn forwarded_for(&self) -> Vec<String> {
        let mut members = self.multiple.in_any_case(FORWARDED_FOR);
        let lines = match members.next() {
            Some(lines) => items(lines).unwrap_or_default(),
            None => {
                members = self.single.in_any_case(FORWARDED_FOR);
                members.next().into_iter().collect()
            }
        };
        if members.next().is_some() {
            return Vec::new();
        }
        let lines = lines.into_iter();
        lines
            .map(|line| text(line).unwrap_or_default().into_owned())
            .collect()
    }

    /// The different values of a header in all its spellings.
    fn values(&self, name: &str) -> Vec<String> {
        let single = self.single.in_any_case(name).map(|value| vec![value]);
        let multiple = self.multiple.in_any_case(name);
        let multiple = multiple.map(|value| items(value).unwrap_or_default());
        let mut values: Vec<String> = Vec::new();
        for value in single.chain(multiple).flatten() {
            let value = text(value).unwrap_or_default().into_owned();
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values
    }
}

fn address(text: Option<Cow<'_, str>>) -> Option<IpAddr> {
    text.and_then(|text| text.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use limits::Pattern;
    use serde_json::{Value, json};

    use super::*;

    fn rest() -> Value {
        json!({
            "type": "REQUEST",
            "methodArn": "arn:aws:execute-api:us-east-1:123456789012:api/prod/GET/orders/1",
            "resource": "/orders/{id}",
            "path": "/orders/1",
            "httpMethod": "GET",
            "headers": { "X-Api-Key": "key", "Host": "api" },
            "multiValueHeaders": { "X-Api-Key": ["key"], "Host": ["api"] },
            "requestContext": {
                "stage": "prod",
                "path": "/prod/orders/1",
                "identity": { "sourceIp": "192.0.2.1" },
            },
        })
    }

    fn http() -> Value {
        json!({
            "version": "2.0",
            "type": "REQUEST",
            "routeArn": "arn:aws:execute-api:us-east-1:123456789012:api/prod/GET/orders/1",
            "routeKey": "GET /orders/{id}",
            "rawPath": "/prod/orders/1",
            "headers": { "x-api-key": "key" },
            "requestContext": {
                "stage": "prod",
                "http": { "method": "GET", "path": "/prod/orders/1", "sourceIp": "2001:db8::1" },
            },
        })
    }

    fn read(event: &Value) -> Event {
        serde_json::from_str(&event.to_string()).unwrap()
    }

    fn meets(event: &Event, pattern: &str) -> bool {
        Pattern::parse(pattern).unwrap().fits(&event.resource(""))
    }

    #[test]
    fn a_rest_event_is_read() {
        let event = read(&rest());
        let method_arn = "arn:aws:execute-api:us-east-1:123456789012:api/prod/GET/orders/1";
        let method_arn = method_arn.to_owned();
        assert_eq!(event.door, Door::Policy { method_arn });
        assert_eq!(event.api_key.as_deref(), Some("key"));
        assert_eq!(event.address, "192.0.2.1".parse().ok());
        assert!(meets(&event, "GET /orders/1") && meets(&event, "/orders/{id}"));
        assert!(!meets(&event, "/prod/**") && !meets(&event, "POST /orders/1"));
    }

    #[test]
    fn an_http_event_is_read_without_its_stage() {
        let mut event = http();
        let http = read(&event);
        assert_eq!(http.door, Door::Simple);
        assert_eq!(http.api_key.as_deref(), Some("key"));
        assert_eq!(http.address, "2001:db8::1".parse().ok());
        assert!(meets(&http, "GET /orders/1") && !meets(&http, "/prod/**"));

        event["requestContext"]["stage"] = "$default".into();
        assert!(meets(&read(&event), "/prod/orders/1"));
        event["routeKey"] = "$default".into();
        event["rawPath"] = "/a".into();
        assert!(meets(&read(&event), "/a"));
    }

    #[test]
    fn an_http_event_of_payload_format_1_is_read_as_one_of_rest() {
        let mut event = rest();
        event["version"] = "1.0".into();
        assert_eq!(read(&event), read(&rest()));
    }

    #[test]
    fn the_template_that_the_gateway_matched_counts_whatever_the_path() {
        let mut event = rest();
        event["path"] = "/elsewhere".into();
        assert!(meets(&read(&event), "GET /orders/{id}"));
        let mut event = http();
        event["rawPath"] = "/prod/elsewhere".into();
        assert!(meets(&read(&event), "GET /orders/{id}"));
    }

    #[test]
    fn a_base_path_is_left_out_where_it_is() {
        let fits = |path: &str| {
            let mut event = rest();
            event["path"] = path.into();
            event["resource"] = Value::Null;
            let pattern = Pattern::parse("/orders").unwrap();
            pattern.fits(&read(&event).resource("/shop/v1"))
        };
        assert!(fits("/shop/v1/orders") && fits("/orders") && fits("/%73hop//v1/orders/"));
        assert!(!fits("/shop/orders") && !fits("/shop/v1x/orders"));
    }

    #[test]
    fn an_api_key_counts_in_any_case_and_in_no_other_header() {
        for (headers, key) in [
            (json!({ "X-API-KEY": "a" }), Some("a")),
            (json!({ "x-api-key": "" }), Some("")),
            (json!({ "x-api-key": 5 }), Some("")),
            (json!({ "x-api-key": "a", "X-Api-Key": "a" }), Some("a")),
            (json!({ "x-api-key": "a", "X-Api-Key": "b" }), Some("b,a")),
            (json!({ "x-api-key": null }), None),
            (
                json!({ "authorization": "a", "x-api-key2": "b", "api-key": "c" }),
                None,
            ),
            (json!({ "x-api-key ": "a", "": "b", "ü": "c" }), None),
            (json!([]), None),
            (json!("x-api-key"), None),
            (Value::Null, None),
        ] {
            let mut event = rest();
            event["headers"] = headers.clone();
            event["multiValueHeaders"] = Value::Null;
            assert_eq!(read(&event).api_key.as_deref(), key, "{headers}");
        }
        let mut event = rest();
        event["multiValueHeaders"]["X-Api-Key"] = json!(["other", "key"]);
        assert_eq!(read(&event).api_key.as_deref(), Some("key,other"));
        event["headers"] = Value::Null;
        event["multiValueHeaders"]["X-Api-Key"] = json!("key");
        assert_eq!(read(&event).api_key, None);
    }

    #[test]
    fn the_lines_of_x_forwarded_for_keep_their_order() {
        let lines = |headers: Value, multiple: Value| {
            let mut event = rest();
            event["headers"] = headers;
            event["multiValueHeaders"] = multiple;
            read(&event).forwarded_for
        };
        let both = json!({ "x-forwarded-FOR": ["a, b", "c", 7, "a, b"] });
        let last = json!({ "x-forwarded-FOR": "a, b" });
        assert_eq!(lines(last.clone(), both), ["a, b", "c", "", "a, b"]);
        assert_eq!(lines(last.clone(), Value::Null), ["a, b"]);
        let none: [&str; 0] = [];
        assert_eq!(lines(json!({}), json!({})), none);
        // Two spellings: nobody knows whose is the later.
        let two = json!({ "X-Forwarded-For": ["a"], "x-forwarded-for": ["b"] });
        assert_eq!(lines(last.clone(), two), none);
        assert_eq!(lines(last, json!({ "x-forwarded-for": "a" })), none);
    }

    #[test]
    fn no_event_is_too_odd_to_be_read() {
        let parse = |json| serde_json::from_str::<Event>(json).unwrap();
        let nothing = parse("{}");
        assert_eq!(
            nothing.door,
            Door::Policy {
                method_arn: String::new()
            }
        );
        assert_eq!((nothing.address, &nothing.api_key), (None, &None));
        assert!(meets(&nothing, "*") && meets(&nothing, "/**") && !meets(&nothing, "/x"));
        let odd = [
            "null",
            "5",
            "-5",
            "0.5",
            "true",
            "[[]]",
            "\"\"",
            "{\"requestContext\": null}",
        ];
        for odd in odd {
            assert_eq!(parse(odd), nothing, "{odd}");
        }
        for (whole, names) in [
            (
                rest(),
                [
                    "headers",
                    "multiValueHeaders",
                    "path",
                    "httpMethod",
                    "requestContext",
                ],
            ),
            (
                http(),
                [
                    "headers",
                    "routeKey",
                    "rawPath",
                    "routeArn",
                    "requestContext",
                ],
            ),
        ] {
            for name in names {
                for odd in [
                    json!(null),
                    json!(7),
                    json!([null]),
                    json!({ "a": { "b": [] } }),
                ] {
                    let mut event = whole.clone();
                    event[name] = odd;
                    assert_eq!(read(&event).door, read(&whole).door);
                    event.as_object_mut().unwrap().remove(name);
                    assert_eq!(read(&event).door, read(&whole).door);
                }
            }
        }
    }

    #[test]
    fn an_address_that_is_none_is_none() {
        for odd in ["", "test-invoke-source-ip", "1.2.3", "1.2.3.4:80"] {
            let mut event = rest();
            event["requestContext"]["identity"]["sourceIp"] = odd.into();
            assert_eq!(read(&event).address, None, "{odd}");
        }
    }
}
