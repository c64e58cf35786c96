//! `template.yaml`, read as CloudFormation reads it.

mod intrinsics;

use serde_json::{Map, Value};
use thiserror::Error;

/// A CloudFormation template, its short tags (`!Ref`) written out (`{"Ref": …}`).
#[derive(Debug, Clone)]
pub struct Template(Value);

/// Why a template could not be read.
#[derive(Debug, Error)]
pub enum TemplateError {
    /// It is not YAML.
    #[error("not YAML: {0}")]
    Yaml(#[from] saphyr::ScanError),
    /// It is YAML, but not what CloudFormation or this stand-in for API Gateway understands.
    #[error("{at}: {detail}")]
    Content {
        /// The path of keys to what is wrong, such as `Resources.ProtectedApi.Properties.StageName`.
        at: String,
        /// What is wrong, and what would be right.
        detail: String,
    },
}

impl TemplateError {
    pub(crate) fn content(at: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Content {
            at: at.into(),
            detail: detail.into(),
        }
    }
}

impl Template {
    /// The template in `text`.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        Ok(Self(intrinsics::written_out(text)?))
    }

    /// Every resource of type `kind`, with its logical id.
    pub(crate) fn resources<'a>(
        &'a self,
        kind: &'a str,
    ) -> impl Iterator<Item = (&'a str, Section<'a>)> {
        self.root()
            .entries("Resources")
            .into_iter()
            .filter(move |(_, resource)| resource.get("Type").text() == Some(kind))
    }

    /// The resource `id`, which must be there and of type `kind`.
    pub(crate) fn resource<'a>(
        &'a self,
        id: &'a str,
        kind: &str,
    ) -> Result<Section<'a>, TemplateError> {
        let resource = self.root().get("Resources").get(id);
        match resource.get("Type").text() {
            Some(found) if found == kind => Ok(resource),
            _ => Err(resource.wrong(format!("must be a resource of type {kind}"))),
        }
    }

    fn root(&self) -> Section<'_> {
        Section {
            at: String::new(),
            value: &self.0,
        }
    }
}

/// A part of a template that knows where it stands, so that an error can say so. What is absent is null.
#[derive(Debug, Clone)]
pub(crate) struct Section<'a> {
    at: String,
    value: &'a Value,
}

impl<'a> Section<'a> {
    pub(crate) fn get(&self, key: &str) -> Self {
        Self {
            at: if self.at.is_empty() {
                key.to_owned()
            } else {
                format!("{}.{key}", self.at)
            },
            value: self.value.get(key).unwrap_or(&Value::Null),
        }
    }

    /// The entries of the mapping under `key`; none if it is absent.
    pub(crate) fn entries(&self, key: &str) -> Vec<(&'a str, Self)> {
        let section = self.get(key);
        section
            .value
            .as_object()
            .into_iter()
            .flat_map(Map::keys)
            .map(|name| (name.as_str(), section.get(name)))
            .collect()
    }

    pub(crate) fn is_absent(&self) -> bool {
        self.value.is_null()
    }

    pub(crate) fn text(&self) -> Option<&'a str> {
        self.value.as_str()
    }

    pub(crate) fn required_text(&self) -> Result<&'a str, TemplateError> {
        self.text().ok_or_else(|| self.wrong("must be text"))
    }

    /// A number, or absent. CloudFormation takes a number in quotes too.
    pub(crate) fn integer(&self) -> Result<Option<u64>, TemplateError> {
        let number = match self.value {
            Value::Null => return Ok(None),
            Value::Number(number) => number.as_u64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        match number {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong("must be a whole number")),
        }
    }

    pub(crate) fn flag(&self) -> Result<Option<bool>, TemplateError> {
        match self.value {
            Value::Null => Ok(None),
            Value::Bool(flag) => Ok(Some(*flag)),
            _ => Err(self.wrong("must be true or false")),
        }
    }

    /// The logical id that `!Ref` or `!GetAtt` names here.
    pub(crate) fn reference(&self) -> Option<&'a str> {
        match self.value.get("Ref") {
            Some(id) => id.as_str(),
            None => self.value.get("Fn::GetAtt")?.get(0)?.as_str(),
        }
    }

    pub(crate) fn wrong(&self, detail: impl Into<String>) -> TemplateError {
        TemplateError::content(self.at.clone(), detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_says_where_it_stands() {
        let template =
            Template::parse("Resources:\n  Api: { Type: X, Properties: { Stage: [1] } }").unwrap();
        let error = template
            .resource("Api", "X")
            .unwrap()
            .get("Properties")
            .get("Stage")
            .required_text()
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "Resources.Api.Properties.Stage: must be text"
        );
    }

    #[test]
    fn a_reference_is_followed_through_ref_and_get_att() {
        let template = Template::parse(
            "Resources:\n  A: { Type: X, R: !Ref F, G: !GetAtt F.Arn, L: { 'Fn::GetAtt': [F, Arn] }, S: F }",
        )
        .unwrap();
        let resource = template.resource("A", "X").unwrap();
        for key in ["R", "G", "L"] {
            assert_eq!(resource.get(key).reference(), Some("F"), "{key}");
        }
        assert_eq!(resource.get("S").reference(), None);
    }

    #[test]
    fn a_number_may_stand_in_quotes() {
        let template = Template::parse("Resources: { A: { Type: X, N: '429', W: wide } }").unwrap();
        let resource = template.resource("A", "X").unwrap();
        assert_eq!(resource.get("N").integer().unwrap(), Some(429));
        assert_eq!(resource.get("absent").integer().unwrap(), None);
        assert!(resource.get("W").integer().is_err());
    }
}
