//! Reading a request's body and its preconditions.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::header::IF_MATCH;
use axum::http::request::Parts;
use http_events::Problem;
use limits::Fields;
use limits_postgres::Expected;
use serde_json::Value;

/// A reader over the fields of what is written, which may be what was answered.
///
/// # Errors
/// Where the body is no object.
pub(crate) fn fields(body: &Value) -> Result<Fields<'_>, Problem> {
    let mut fields = Fields::of(body).map_err(Problem::faults)?;
    ignore_answered(&mut fields);
    Ok(fields)
}

/// Accepts what an answer holds beside what was written.
pub(crate) fn ignore_answered(fields: &mut Fields<'_>) {
    for told in ["revision", "propagation", "created_at", "updated_at"] {
        fields.ignore(told);
    }
}

/// # Errors
/// Every fault that the reader noted.
pub(crate) fn finish(fields: Fields<'_>) -> Result<(), Problem> {
    let faults = fields.finish();
    if faults.is_empty() {
        Ok(())
    } else {
        Err(Problem::faults(faults))
    }
}

/// What `If-Match` takes to be there.
pub(crate) struct IfMatch(pub(crate) Expected);

impl<S: Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        let values = parts.headers.get_all(IF_MATCH);
        let values: Vec<&str> = values
            .iter()
            .map(|value| value.to_str().unwrap_or_default())
            .collect();
        Ok(Self(if values.is_empty() {
            Expected::Whatever
        } else {
            expected(&values.join(","))
        }))
    }
}

/// RFC 9110: `*`, or a list of entity tags, of which those that are weak match nothing. What is neither matches nothing too.
fn expected(told: &str) -> Expected {
    if told.trim() == "*" {
        return Expected::Something;
    }
    let mut revisions = Vec::new();
    let mut rest = told;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let weak = rest.strip_prefix("W/");
        let Some((tag, after)) = weak
            .unwrap_or(rest)
            .strip_prefix('"')
            .and_then(|tag| tag.split_once('"'))
        else {
            return Expected::Revisions(revisions);
        };
        // Ours is a number as it is printed: `+1` and `01` are the tags of something else.
        let revision = tag.parse::<u64>().ok();
        revisions.extend(revision.filter(|own| weak.is_none() && own.to_string() == tag));
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_compared_as_text() {
        let none = Expected::Revisions(Vec::new());
        for tag in [
            "\"+1\"",
            "\"01\"",
            "\" 1\"",
            "\"1 \"",
            "\"-1\"",
            "\"1,2\"",
            "\"\"",
            "1",
            "\"1",
            "W/\"1\"",
            "w/\"1\"",
            "",
            "*,",
            "*, \"1\"",
            "\"99999999999999999999\"",
        ] {
            assert_eq!(expected(tag), none, "{tag}");
        }
        assert_eq!(expected(" * "), Expected::Something);
        for (tags, revisions) in [
            ("\"1\"", vec![1]),
            ("\"1\", \"2\"", vec![1, 2]),
            (" ,, \"1\" ,W/\"2\",\t\"3\",", vec![1, 3]),
            ("\"a,\"b\", \"1\"", vec![]),
            ("\"a,b\",\"1\"", vec![1]),
        ] {
            assert_eq!(expected(tags), Expected::Revisions(revisions), "{tags}");
        }
    }
}
