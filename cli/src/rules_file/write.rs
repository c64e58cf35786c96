//! Rules as the text of a file.

use std::fmt;

use limits::Rule;
use saphyr::{Mapping, Scalar, ScalarStyle, Yaml, YamlEmitter};
use serde_json::Value;

use crate::fields::told_fields;
use crate::text::is_obeyed;

/// The text of a file with these rules, in the order of their places: the same for the same rules, whoever writes it and when.
/// Only what is no default is written.
///
/// # Errors
/// Never for rules that can be.
pub fn write(rules: &[&Rule]) -> Result<String, fmt::Error> {
    let mut rules: Vec<_> = rules
        .iter()
        .map(|rule| (rule.place(), rule.id(), rule))
        .collect();
    rules.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    let rules = rules
        .iter()
        .map(|(_, _, rule)| Yaml::Mapping(written(rule)));
    let document = Mapping::from_iter([(plain("rules"), Yaml::Sequence(rules.collect()))]);
    let mut text = String::new();
    YamlEmitter::new(&mut text)
        .dump(&Yaml::Mapping(document))
        .map_err(|saphyr::EmitError::FmtError(error)| error)?;
    // The mark of a document's beginning is for files with several.
    let mut text = text.strip_prefix("---\n").unwrap_or(&text).to_owned();
    text.push('\n');
    Ok(text)
}

fn written(rule: &Rule) -> Mapping<'static> {
    let id = ("id".to_owned(), Value::String(rule.id().to_string()));
    std::iter::once(id)
        .chain(told_fields(rule.draft()))
        .map(|(name, value)| (Yaml::Value(Scalar::String(name.into())), yaml(value)))
        .collect()
}

fn plain(text: &'static str) -> Yaml<'static> {
    Yaml::Value(Scalar::String(text.into()))
}

fn yaml(value: Value) -> Yaml<'static> {
    match value {
        Value::Bool(truth) => Yaml::Value(Scalar::Boolean(truth)),
        Value::Number(number) => match number.as_i64() {
            Some(number) => Yaml::Value(Scalar::Integer(number)),
            None => Yaml::Value(Scalar::String(number.to_string().into())),
        },
        Value::String(text) if is_plain(&text) => Yaml::Value(Scalar::String(text.into())),
        Value::String(text) => {
            Yaml::Representation(escaped(&text).into(), ScalarStyle::DoubleQuoted, None)
        }
        // No field of a rule is a list or a mapping.
        Value::Null | Value::Array(_) | Value::Object(_) => {
            Yaml::Representation("null".into(), ScalarStyle::Plain, None)
        }
    }
}

/// Whether the emitter may write a text as it thinks best. What begins like a number is quoted, for the sake of other readers to
/// whom `1_000` and `2026-11-30` are none; so is what they would take for the end of a line.
fn is_plain(text: &str) -> bool {
    !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-'))
        && !text.chars().any(|c| is_obeyed(c) || is_unassigned(c))
}

/// Noncharacters, which YAML does not let stand as they are.
fn is_unassigned(c: char) -> bool {
    u32::from(c) & 0xFFFE == 0xFFFE
}

/// The inside of a text in double quotes.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match (c, u32::from(c)) {
            ('"' | '\\', _) => escaped.extend(['\\', c]),
            ('\n', _) => escaped.push_str("\\n"),
            ('\t', _) => escaped.push_str("\\t"),
            (c, code) if (is_obeyed(c) || is_unassigned(c)) && code <= 0xFFFF => {
                escaped.push_str(&format!("\\u{code:04x}"));
            }
            (c, code) if is_unassigned(c) => escaped.push_str(&format!("\\U{code:08x}")),
            (c, _) => escaped.push(c),
        }
    }
    escaped
}
