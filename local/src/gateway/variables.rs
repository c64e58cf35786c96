//! `$context`: what API Gateway knows about a call, by name.

use serde_json::{Value, json};

/// The variables of one call.
#[derive(Debug, Clone)]
pub struct Variables(Value);

impl Variables {
    /// The variables in `context`, an object of which a dotted name is a path.
    pub fn new(context: Value) -> Self {
        Self(context)
    }

    pub(super) fn with_error(&self, kind: &str, message: &str) -> Self {
        let mut context = self.0.clone();
        context["error"] = json!({
            "message": message,
            "messageString": Value::from(message).to_string(),
            "responseType": kind,
        });
        Self(context)
    }

    /// The variable `name` (without `context.`) as text; what is not there is empty.
    pub fn text(&self, name: &str) -> String {
        let found = name
            .split('.')
            .try_fold(&self.0, |value, part| value.get(part));
        match found {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }

    /// `template` with each `$context.name` replaced. Nothing is escaped, as API Gateway does not.
    pub fn replaced_in(&self, template: &str) -> String {
        const MARK: &str = "$context.";
        let mut text = String::with_capacity(template.len());
        let mut rest = template;
        while let Some((before, after)) = rest.split_once(MARK) {
            text.push_str(before);
            let end = after
                .find(|letter: char| !(letter.is_ascii_alphanumeric() || "._-".contains(letter)))
                .unwrap_or(after.len());
            // A point at the end of a sentence belongs to the sentence.
            let name = after[..end].trim_end_matches('.');
            text.push_str(&self.text(name));
            rest = &after[name.len()..];
        }
        text.push_str(rest);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_where_they_stand() {
        let variables = Variables::new(
            json!({"requestId": "r", "authorizer": {"limit": "10", "n": 3, "no": null}}),
        );
        for (template, wanted) in [
            ("$context.requestId", "r"),
            ("\"$context.authorizer.limit\"", "\"10\""),
            (
                "$context.authorizer.limit of $context.requestId.",
                "10 of r.",
            ),
            ("$context.authorizer.n", "3"),
            ("<$context.authorizer.no$context.missing.deep>", "<>"),
            (
                "$ context.requestId $context",
                "$ context.requestId $context",
            ),
            ("$context.", ""),
        ] {
            assert_eq!(variables.replaced_in(template), wanted, "{template}");
        }
    }
}
