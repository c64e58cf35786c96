//! The event with which API Gateway (REST, payload format 1.0) asks a REQUEST authorizer.

use std::net::SocketAddr;

use axum::extract::Query;
use http::request::Parts;
use http::{HeaderMap, HeaderName, Version};
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::macros::format_description;
use uuid::Uuid;

use super::route::Match;

const ACCOUNT: &str = "123456789012";
const REGION: &str = "us-east-1";
const API_ID: &str = "local";
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// One call, as API Gateway describes it.
#[derive(Debug, Clone)]
pub struct Event {
    /// `requestContext`: what a gateway response finds under `$context`.
    pub context: Value,
    /// What the policy is about: the stage, the method and the very path.
    pub method_arn: String,
    fields: Map<String, Value>,
}

impl Event {
    /// The event of a call from `caller` to `stage`; without a match the call has no resource.
    pub fn of(
        parts: &Parts,
        caller: SocketAddr,
        stage: &str,
        found: Option<&Match<'_>>,
        now: OffsetDateTime,
    ) -> Self {
        let (method, path) = (parts.method.as_str(), parts.uri.path());
        let resource = found.map_or(Value::Null, |found| {
            Value::from(found.route.resource.as_str())
        });
        let headers = headers(&parts.headers, caller);
        let context = json!({
            "accountId": ACCOUNT,
            "apiId": API_ID,
            "domainName": host(&parts.headers),
            "domainPrefix": API_ID,
            "extendedRequestId": Uuid::new_v4().simple().to_string(),
            "httpMethod": method,
            "identity": {
                "accessKey": null,
                "accountId": null,
                "caller": null,
                "cognitoAuthenticationProvider": null,
                "cognitoAuthenticationType": null,
                "cognitoIdentityId": null,
                "cognitoIdentityPoolId": null,
                "principalOrgId": null,
                "sourceIp": caller.ip().to_string(),
                "user": null,
                "userAgent": single(&parts.headers, &http::header::USER_AGENT),
                "userArn": null,
            },
            "path": format!("/{stage}{path}"),
            "protocol": protocol(parts.version),
            "requestId": Uuid::new_v4().to_string(),
            "requestTime": now
                .format(format_description!("[day]/[month repr:short]/[year]:[hour]:[minute]:[second] +0000"))
                .unwrap_or_default(),
            "requestTimeEpoch": u64::try_from(now.unix_timestamp_nanos() / 1_000_000).unwrap_or_default(),
            "resourceId": "local1",
            "resourcePath": resource.clone(),
            "stage": stage,
        });
        let method_arn =
            format!("arn:aws:execute-api:{REGION}:{ACCOUNT}:{API_ID}/{stage}/{method}{path}");
        let (query, queries) = query(parts);
        let parameters: Map<String, Value> = found
            .into_iter()
            .flat_map(|found| &found.parameters)
            .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
            .collect();
        let fields = [
            ("resource", resource),
            ("path", Value::from(path)),
            ("httpMethod", Value::from(method)),
            ("headers", last_of_each(&headers)),
            ("multiValueHeaders", Value::Object(headers)),
            ("queryStringParameters", query),
            ("multiValueQueryStringParameters", queries),
            ("pathParameters", Value::Object(parameters)),
            ("stageVariables", json!({})),
        ];
        Self {
            context,
            method_arn,
            fields: fields
                .map(|(name, value)| (name.to_owned(), value))
                .into_iter()
                .collect(),
        }
    }

    /// What the authorizer is sent.
    pub fn for_authorizer(&self) -> Value {
        let mut event = self.fields.clone();
        event.insert("type".to_owned(), Value::from("REQUEST"));
        event.insert(
            "methodArn".to_owned(),
            Value::from(self.method_arn.as_str()),
        );
        event.insert("requestContext".to_owned(), self.context.clone());
        Value::Object(event)
    }

    /// The headers as the backend finds them, the last value of each name.
    pub fn headers(&self) -> &Value {
        &self.fields["headers"]
    }

    /// The query as the backend finds it, the last value of each name.
    pub fn query(&self) -> &Value {
        &self.fields["queryStringParameters"]
    }
}

/// Every header with all its values, and those that API Gateway adds.
fn headers(sent: &HeaderMap, caller: SocketAddr) -> Map<String, Value> {
    let mut headers = Map::new();
    for name in sent.keys().filter(|name| **name != FORWARDED_FOR) {
        headers.insert(name.to_string(), Value::from(values(sent, name)));
    }
    // What came from outside stays in front: whom to believe is the authorizer's to decide.
    let mut path = values(sent, &FORWARDED_FOR);
    path.push(caller.ip().to_string());
    headers.insert("X-Forwarded-For".to_owned(), json!([path.join(", ")]));
    headers.insert("X-Forwarded-Port".to_owned(), json!(["443"]));
    headers.insert("X-Forwarded-Proto".to_owned(), json!(["https"]));
    headers
}

fn values(headers: &HeaderMap, name: &HeaderName) -> Vec<String> {
    headers
        .get_all(name)
        .iter()
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        .collect()
}

fn single(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    values(headers, name).pop()
}

fn host(headers: &HeaderMap) -> String {
    single(headers, &http::header::HOST).unwrap_or_else(|| "localhost".to_owned())
}

fn last_of_each(lists: &Map<String, Value>) -> Value {
    lists
        .iter()
        .filter_map(|(name, values)| Some((name.clone(), values.as_array()?.last()?.clone())))
        .collect::<Map<_, _>>()
        .into()
}

/// The decoded query: the last value of each name, and all of them.
fn query(parts: &Parts) -> (Value, Value) {
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
        .map(|Query(pairs)| pairs)
        .unwrap_or_default();
    let mut lists = Map::new();
    for (name, value) in pairs {
        let list = lists.entry(name).or_insert_with(|| json!([]));
        if let Value::Array(values) = list {
            values.push(Value::from(value));
        }
    }
    (last_of_each(&lists), Value::Object(lists))
}

fn protocol(version: Version) -> &'static str {
    if version == Version::HTTP_2 {
        "HTTP/2.0"
    } else {
        "HTTP/1.1"
    }
}

#[cfg(test)]
mod tests {
    use http::Request;
    use time::macros::datetime;

    use super::super::route::{Route, find};
    use super::*;

    fn event(request: http::request::Builder) -> Event {
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let routes = [Route {
            resource: "/{proxy+}".to_owned(),
            method: "ANY".to_owned(),
            function: "F".to_owned(),
        }];
        let found = find(&routes, parts.method.as_str(), parts.uri.path());
        Event::of(
            &parts,
            "10.1.2.3:5000".parse().unwrap(),
            "prod",
            found.as_ref(),
            datetime!(2026-11-30 01:02:03.456 UTC),
        )
    }

    #[test]
    fn a_call_is_described_as_api_gateway_does() {
        let event = event(
            Request::get("/orders/a%2Fb?x=1&x=2+3&y=%C3%BC")
                .header("host", "api.example.com")
                .header("x-api-key", "k")
                .header("accept", "a")
                .header("accept", "b"),
        );
        assert_eq!(
            event.method_arn,
            "arn:aws:execute-api:us-east-1:123456789012:local/prod/GET/orders/a%2Fb"
        );
        let sent = event.for_authorizer();
        assert_eq!(sent["type"], "REQUEST");
        assert_eq!(sent["methodArn"], event.method_arn.as_str());
        assert_eq!(sent["resource"], "/{proxy+}");
        assert_eq!(sent["path"], "/orders/a%2Fb");
        assert_eq!(sent["pathParameters"], json!({"proxy": "orders/a%2Fb"}));
        assert_eq!(sent["queryStringParameters"], json!({"x": "2 3", "y": "ü"}));
        assert_eq!(
            sent["multiValueQueryStringParameters"],
            json!({"x": ["1", "2 3"], "y": ["ü"]})
        );
        assert_eq!(sent["headers"]["accept"], "b");
        assert_eq!(sent["multiValueHeaders"]["accept"], json!(["a", "b"]));
        let context = &sent["requestContext"];
        assert_eq!(context["identity"]["sourceIp"], "10.1.2.3");
        assert_eq!(context["path"], "/prod/orders/a%2Fb");
        assert_eq!(context["resourcePath"], "/{proxy+}");
        assert_eq!(context["stage"], "prod");
        assert_eq!(context["requestTime"], "30/Nov/2026:01:02:03 +0000");
        assert_eq!(context["requestTimeEpoch"], 1_796_000_523_456_u64);
    }

    #[test]
    fn the_caller_is_appended_to_what_it_claims() {
        let sent = event(
            Request::get("/")
                .header("x-forwarded-for", "1.1.1.1")
                .header("x-forwarded-for", "2.2.2.2"),
        )
        .for_authorizer();
        assert_eq!(
            sent["headers"]["X-Forwarded-For"],
            "1.1.1.1, 2.2.2.2, 10.1.2.3"
        );
        assert!(sent["headers"].get("x-forwarded-for").is_none());
    }

    #[test]
    fn no_header_and_no_query_breaks_the_event() {
        let sent = event(
            Request::get("/%zz?a=%ff&=&b")
                .header("x-odd", http::HeaderValue::from_bytes(b"\xff\x80").unwrap()),
        )
        .for_authorizer();
        assert_eq!(sent["headers"]["x-odd"], "\u{fffd}\u{fffd}");
        assert_eq!(sent["path"], "/%zz");
    }
}
