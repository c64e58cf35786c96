//! What is asked: in a body, or in a query.

use std::net::IpAddr;

use limits::path::LONGEST as LONGEST_RESOURCE;
use limits::quota::MOST_TOKENS;
use limits::registry::check_client_id;
use limits::{Fault, Fields};
use serde_json::{Map, Value};

/// May this client make such a call?
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The client's id, registered or not.
    pub client: String,
    /// What it calls: `GET /orders/1`, or the name of a service.
    pub resource: String,
    /// What the call costs, in requests.
    pub tokens: u64,
    /// Where the client calls from, if the asker tells.
    pub ip: Option<IpAddr>,
}

impl Question {
    /// Reads the pairs of a query about the client that the path names.
    ///
    /// # Errors
    /// Every field that is wrong.
    pub fn in_query(client: &str, pairs: Vec<(String, String)>) -> Result<Self, Vec<Fault>> {
        let mut fields = Map::new();
        let mut twice = Vec::new();
        for (name, text) in pairs {
            // A query has no kinds: a number is a text of digits, and an empty text is nothing.
            let value = match (name.as_str(), text.parse::<u64>()) {
                (_, _) if text.is_empty() => Value::Null,
                ("tokens", Ok(number)) => Value::from(number),
                _ => Value::from(text),
            };
            if fields.insert(name.clone(), value).is_some() {
                twice.push(Fault::new(name, "must not be told twice"));
            }
        }
        let question = Self::in_body(client, &Value::Object(fields));
        match (question, twice.is_empty()) {
            (question, true) => question,
            (Ok(_), false) => Err(twice),
            (Err(faults), false) => Err(faults.into_iter().chain(twice).collect()),
        }
    }

    /// Reads a JSON body about the client that the path names.
    ///
    /// # Errors
    /// Every field that is wrong.
    pub fn in_body(client: &str, body: &Value) -> Result<Self, Vec<Fault>> {
        let mut fields = Fields::of(body)?;
        if let Err(detail) = check_client_id(client) {
            fields.fault("client_id", detail);
        } else if fields.text("client_id").is_some_and(|told| told != client) {
            fields.fault("client_id", "must be the client that the path names");
        }
        let wanted = "must be what is called: `GET /orders/1`, or the name of a service";
        let resource = match fields.text("resource") {
            Some(text) if text.len() > LONGEST_RESOURCE => {
                fields.fault(
                    "resource",
                    format!("must be at most {LONGEST_RESOURCE} bytes"),
                );
                None
            }
            Some(text) if !text.trim().is_empty() => Some(text),
            _ => {
                fields.fault_once("resource", wanted);
                None
            }
        };
        let tokens = fields.integer("tokens", 1, MOST_TOKENS).unwrap_or(1);
        let ip = fields.text("ip").and_then(|text| {
            let ip = text.parse().ok();
            if ip.is_none() {
                fields.fault("ip", "must be an IPv4 or IPv6 address");
            }
            ip
        });
        let faults = fields.finish();
        match resource {
            Some(resource) if faults.is_empty() => Ok(Self {
                client: client.to_owned(),
                resource: resource.to_owned(),
                tokens,
                ip,
            }),
            _ => Err(faults),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body(body: &Value) -> Result<Question, Vec<String>> {
        let question = Question::in_body("eve", body);
        question.map_err(|faults| faults.into_iter().map(|fault| fault.field).collect())
    }

    #[test]
    fn what_is_left_out_or_null_takes_its_default() {
        let question = Question {
            client: "eve".to_owned(),
            resource: "GET /orders/1".to_owned(),
            tokens: 1,
            ip: None,
        };
        for whole in [
            json!({ "resource": "GET /orders/1" }),
            json!({ "resource": "GET /orders/1", "tokens": 1, "ip": null, "client_id": "eve" }),
        ] {
            assert_eq!(body(&whole), Ok(question.clone()));
        }
        let query = vec![
            ("resource".to_owned(), "GET /orders/1".to_owned()),
            ("ip".to_owned(), String::new()),
        ];
        assert_eq!(Question::in_query("eve", query), Ok(question));
    }

    #[test]
    fn every_field_that_is_wrong_is_told() {
        let wrong = json!({ "tokens": 0, "ip": "1.2.3", "client_id": "bob", "colour": 1 });
        let mut fields = body(&wrong).unwrap_err();
        fields.sort_unstable();
        assert_eq!(fields, ["client_id", "colour", "ip", "resource", "tokens"]);
        for (field, value) in [
            ("tokens", json!(1_000_001)),
            ("tokens", json!(-5)),
            ("tokens", json!(1.5)),
            ("tokens", json!("1")),
            ("resource", json!("  ")),
            ("resource", json!(null)),
            ("resource", json!(["GET /"])),
            ("ip", json!(7)),
            ("client_id", json!(7)),
        ] {
            let mut question = json!({ "resource": "billing" });
            question[field] = value.clone();
            assert_eq!(body(&question).unwrap_err(), [field], "{value}");
        }
        assert_eq!(body(&json!([])).unwrap_err(), [""]);
        assert!(Question::in_body("a\tb", &json!({ "resource": "x" })).is_err());
    }

    #[test]
    fn a_query_is_read_as_strictly_as_a_body() {
        let ask = |pairs: &[(&str, &str)]| {
            let owned = |&(name, text): &(&str, &str)| (name.to_owned(), text.to_owned());
            Question::in_query("eve", pairs.iter().map(owned).collect())
        };
        let question = ask(&[("resource", "12"), ("tokens", "3"), ("ip", "::1")]).unwrap();
        assert_eq!((question.resource.as_str(), question.tokens), ("12", 3));
        assert_eq!(question.ip, "::1".parse().ok());
        for (pairs, field) in [
            (&[("resource", "a"), ("resource", "b")], "resource"),
            (&[("resource", "a"), ("tokens", "many")], "tokens"),
            (&[("resource", "a"), ("client_id", "bob")], "client_id"),
            (&[("resource", "a"), ("x", "")], "x"),
        ] {
            assert_eq!(ask(pairs).unwrap_err()[0].field, field);
        }
    }
}
