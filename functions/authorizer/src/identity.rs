//! By what a caller is known: `IDENTITY`.

use limiter::Who;

use crate::Event;

/// One way of being known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// `api-key`: the header `x-api-key`.
    ApiKey,
    /// `ip`: where the call comes from.
    Address,
}

/// The ways that count, in their order. The first that a call shows decides, be it right or wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identities(Vec<Identity>);

impl Default for Identities {
    fn default() -> Self {
        Self(vec![Identity::ApiKey])
    }
}

impl Identities {
    /// Reads a list with commas between.
    ///
    /// # Errors
    /// What would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        const RIGHT: &str = "must be one or more of api-key and ip, each once, with commas between";
        let mut identities = Vec::new();
        for word in text.split(',') {
            let identity = match word.trim() {
                "api-key" => Identity::ApiKey,
                "ip" => Identity::Address,
                "jwt" => return Err(format!("{RIGHT}: jwt is not supported")),
                _ => return Err(RIGHT.to_owned()),
            };
            if identities.contains(&identity) {
                return Err(RIGHT.to_owned());
            }
            identities.push(identity);
        }
        Ok(Self(identities))
    }

    /// As whom a call comes.
    pub(crate) fn of<'a>(&self, event: &'a Event) -> Who<'a> {
        for identity in &self.0 {
            match identity {
                Identity::ApiKey => {
                    if let Some(key) = &event.api_key {
                        return Who::Key(key);
                    }
                }
                Identity::Address => {
                    if event.address.is_some() {
                        return Who::Address;
                    }
                }
            }
        }
        Who::Nobody
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn who(identity: &str, headers: serde_json::Value, address: &str) -> String {
        let event = json!({
            "headers": headers,
            "requestContext": { "identity": { "sourceIp": address } },
        });
        let event = Event::read(&event.to_string());
        format!("{:?}", Identities::parse(identity).unwrap().of(&event))
    }

    #[test]
    fn the_first_that_is_present_decides_be_it_wrong() {
        let (key, none) = (json!({ "x-api-key": "" }), json!({}));
        assert_eq!(who("api-key,ip", key.clone(), "192.0.2.1"), r#"Key("")"#);
        assert_eq!(who("api-key, ip", none.clone(), "192.0.2.1"), "Address");
        assert_eq!(who("ip,api-key", key.clone(), "192.0.2.1"), "Address");
        assert_eq!(who("ip,api-key", key, "?"), r#"Key("")"#);
        assert_eq!(who("api-key", none.clone(), "192.0.2.1"), "Nobody");
        assert_eq!(who("ip", none, "?"), "Nobody");
    }

    #[test]
    fn what_is_not_supported_or_not_known_is_told() {
        assert!(
            Identities::parse("api-key,jwt")
                .unwrap_err()
                .contains("jwt is not supported")
        );
        for wrong in ["", "key", "ip,", "ip,ip", "API-KEY"] {
            assert!(
                Identities::parse(wrong).unwrap_err().starts_with("must be"),
                "{wrong}"
            );
        }
    }
}
