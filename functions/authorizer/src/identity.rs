//! By what a caller is known: `IDENTITY`.

use std::net::IpAddr;

use crate::Event;

/// One way of being known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// `api-key`: the header `x-api-key`.
    ApiKey,
    /// `jwt`: the header `Authorization: Bearer …`.
    Jwt,
    /// `ip`: where the call comes from.
    Address,
}

/// The ways that count, in their order. The first that a call shows decides, be it right or wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identities(Vec<Identity>);

/// By what a call makes itself known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown<'a> {
    /// An API key, right or wrong.
    Key(&'a str),
    /// A token, right or wrong.
    Token(&'a str),
    /// Where it comes from.
    Address,
    /// Nothing that counts.
    Nothing,
}

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
        const RIGHT: &str =
            "must be one or more of api-key, jwt and ip, each once, with commas between";
        let mut identities = Vec::new();
        for word in text.split(',') {
            let identity = match word.trim() {
                "api-key" => Identity::ApiKey,
                "jwt" => Identity::Jwt,
                "ip" => Identity::Address,
                _ => return Err(RIGHT.to_owned()),
            };
            if identities.contains(&identity) {
                return Err(RIGHT.to_owned());
            }
            identities.push(identity);
        }
        Ok(Self(identities))
    }

    /// Whether this is one of the ways.
    pub(crate) fn have(&self, identity: Identity) -> bool {
        self.0.contains(&identity)
    }

    /// What a call from `address` shows of the first way that it shows anything of.
    pub(crate) fn shown<'a>(&self, event: &'a Event, address: Option<IpAddr>) -> Shown<'a> {
        let shown = self.0.iter().find_map(|identity| match identity {
            Identity::ApiKey => event.api_key.as_deref().map(Shown::Key),
            Identity::Jwt => event.bearer.as_deref().map(Shown::Token),
            Identity::Address => address.map(|_| Shown::Address),
        });
        shown.unwrap_or(Shown::Nothing)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(identity: &str, headers: serde_json::Value, address: &str) -> String {
        let event = json!({
            "headers": headers,
            "requestContext": { "identity": { "sourceIp": address } },
        });
        let event: Event = serde_json::from_str(&event.to_string()).unwrap();
        let identities = Identities::parse(identity).unwrap();
        format!("{:?}", identities.shown(&event, event.address))
    }

    #[test]
    fn the_first_that_is_present_decides_be_it_wrong() {
        let (key, none) = (json!({ "x-api-key": "" }), json!({}));
        assert_eq!(shown("api-key,ip", key.clone(), "192.0.2.1"), r#"Key("")"#);
        assert_eq!(shown("api-key, ip", none.clone(), "192.0.2.1"), "Address");
        assert_eq!(shown("ip,api-key", key.clone(), "192.0.2.1"), "Address");
        assert_eq!(shown("ip,api-key", key, "?"), r#"Key("")"#);
        assert_eq!(shown("api-key", none.clone(), "192.0.2.1"), "Nothing");
        assert_eq!(shown("ip", none, "?"), "Nothing");
    }

    #[test]
    fn a_token_is_there_where_the_scheme_is_bearer() {
        const ALL: &str = "jwt,api-key,ip";
        for (authorization, wanted) in [
            ("Bearer a.b.c", r#"Token("a.b.c")"#),
            ("bEARER   a.b.c ", r#"Token("a.b.c")"#),
            (" Bearer\ta", r#"Token("a")"#),
            ("Bearer", r#"Token("")"#),
            ("Bearer a, Basic b", r#"Token("a, Basic b")"#),
            ("Basic a", "Address"),
            ("Basic a, Bearer b", "Address"),
            ("Bearera.b.c", "Address"),
            ("a.b.c", "Address"),
            ("", "Address"),
        ] {
            let headers = json!({ "aUTHORIZATION": authorization });
            let address = "192.0.2.1";
            assert_eq!(shown(ALL, headers, address), wanted, "{authorization}");
        }
        let both = json!({ "Authorization": "Bearer a", "x-api-key": "k" });
        assert_eq!(shown(ALL, both.clone(), "?"), r#"Token("a")"#);
        assert_eq!(shown("api-key,jwt", both.clone(), "?"), r#"Key("k")"#);
        assert_eq!(shown("ip", both, "?"), "Nothing");
        let basic = json!({ "Authorization": "Basic a", "x-api-key": "k" });
        assert_eq!(shown(ALL, basic, "?"), r#"Key("k")"#);
        // Two of them are none, and hide nothing.
        let two = json!({ "Authorization": "Bearer a", "authorization": "Bearer b" });
        assert_eq!(shown(ALL, two, "?"), r#"Token("")"#);
        let beside = json!({ "Authorization": "Basic a", "authorization": "Bearer b" });
        assert_eq!(shown(ALL, beside, "?"), r#"Token("")"#);
        let same = json!({ "Authorization": "Bearer a", "authorization": "Bearer a" });
        assert_eq!(shown(ALL, same, "?"), r#"Token("a")"#);
    }

    #[test]
    fn what_is_not_known_is_told() {
        for wrong in [
            "",
            "key",
            "ip,",
            "ip,ip",
            "jwt,api-key,jwt",
            "API-KEY",
            "token",
        ] {
            assert!(
                Identities::parse(wrong).unwrap_err().starts_with("must be"),
                "{wrong}"
            );
        }
    }
}
