//! CloudFormation's short tags, written out.

use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde_json::{Map, Number, Value};

use super::TemplateError;

/// The one document in `text`, each `!Tag value` as `{"Fn::Tag": value}`.
pub(super) fn written_out(text: &str) -> Result<Value, TemplateError> {
    let documents = Yaml::load_from_str(text)?;
    match documents.as_slice() {
        [document] => value(document, "template"),
        other => Err(TemplateError::content(
            "template",
            format!("must be one YAML document, not {}", other.len()),
        )),
    }
}

fn value(node: &Yaml<'_>, at: &str) -> Result<Value, TemplateError> {
    match node {
        Yaml::Value(scalar) => Ok(plain(scalar)),
        Yaml::Sequence(items) => items.iter().map(|item| value(item, at)).collect(),
        Yaml::Mapping(entries) => {
            let mut map = Map::new();
            for (name, node) in entries {
                let name = key(name).ok_or_else(|| {
                    TemplateError::content(at, "has a key that is neither text nor a number")
                })?;
                let entry = value(node, &name)?;
                map.insert(name, entry);
            }
            Ok(Value::Object(map))
        }
        Yaml::Tagged(tag, node) if tag.handle == "!" => {
            Ok(intrinsic(&tag.suffix, value(node, at)?))
        }
        Yaml::Tagged(_, node) => value(node, at),
        Yaml::Representation(..) | Yaml::Alias(_) | Yaml::BadValue => {
            Err(TemplateError::content(at, "is not a value"))
        }
    }
}

fn key(node: &Yaml<'_>) -> Option<String> {
    match node {
        Yaml::Value(Scalar::String(text)) => Some(text.to_string()),
        Yaml::Value(Scalar::Integer(number)) => Some(number.to_string()),
        _ => None,
    }
}

fn plain(scalar: &Scalar<'_>) -> Value {
    match scalar {
        Scalar::Null => Value::Null,
        Scalar::Boolean(flag) => Value::Bool(*flag),
        Scalar::Integer(number) => Value::Number((*number).into()),
        // CloudFormation has no infinities; null is the nearest thing JSON can say.
        Scalar::FloatingPoint(number) => {
            Number::from_f64(number.into_inner()).map_or(Value::Null, Value::Number)
        }
        Scalar::String(text) => Value::String(text.to_string()),
    }
}

fn intrinsic(tag: &str, argument: Value) -> Value {
    let name = match tag {
        "Ref" | "Condition" => tag.to_owned(),
        other => format!("Fn::{other}"),
    };
    let argument = match argument {
        // `!GetAtt Function.Arn` is short for two parts; an attribute may have a point of its own.
        Value::String(text) if tag == "GetAtt" => text.split_once('.').map_or_else(
            || Value::from(vec![text.clone()]),
            |(id, attribute)| Value::from(vec![id, attribute]),
        ),
        other => other,
    };
    Value::Object(Map::from_iter([(name, argument)]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn short_tags_become_what_they_are_short_for() {
        for (yaml, long) in [
            ("!Ref Topic", json!({"Ref": "Topic"})),
            (
                "!GetAtt F.Outputs.Arn",
                json!({"Fn::GetAtt": ["F", "Outputs.Arn"]}),
            ),
            ("!GetAtt [F, Arn]", json!({"Fn::GetAtt": ["F", "Arn"]})),
            ("!Sub 'a-${B}'", json!({"Fn::Sub": "a-${B}"})),
            (
                "!If [Big, !Ref A, 1]",
                json!({"Fn::If": ["Big", {"Ref": "A"}, 1]}),
            ),
            ("!Condition Big", json!({"Condition": "Big"})),
            (
                "{ Fn::Join: [',', [a, !Ref B]] }",
                json!({"Fn::Join": [",", ["a", {"Ref": "B"}]]}),
            ),
        ] {
            assert_eq!(written_out(yaml).unwrap(), long, "{yaml}");
        }
    }

    #[test]
    fn plain_values_keep_their_kind() {
        assert_eq!(
            written_out("{ a: 1, b: '1', c: true, d: ~, e: 1.5, f: [x], 2: y }").unwrap(),
            json!({"a": 1, "b": "1", "c": true, "d": null, "e": 1.5, "f": ["x"], "2": "y"})
        );
    }

    #[test]
    fn two_documents_are_refused() {
        assert!(written_out("a: 1\n---\nb: 2").is_err());
    }

    #[test]
    fn broken_yaml_says_where() {
        let error = written_out("a: [1").unwrap_err().to_string();
        assert!(error.starts_with("not YAML: "), "{error}");
    }
}
