//! What CloudFormation asks of a custom resource.

use serde::Deserialize;
use serde_json::Value;

use super::MigrateError;

/// What the resource is to become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum RequestType {
    Create,
    Update,
    Delete,
}

/// One request.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Request {
    pub(super) request_type: RequestType,
    /// Whoever has it may answer in our place: it is in no log.
    #[serde(rename = "ResponseURL")]
    pub(super) response_url: String,
    pub(super) stack_id: String,
    pub(super) request_id: String,
    pub(super) logical_resource_id: String,
    /// None until the resource has been created.
    pub(super) physical_resource_id: Option<String>,
    /// Read after it is known whom to tell what is wrong with them.
    #[serde(default)]
    pub(super) resource_properties: Value,
}

impl Request {
    pub(super) fn read(event: Value) -> Result<Self, serde_json::Error> {
        serde_json::from_value(event)
    }
}

/// What the template says of the resource. CloudFormation adds properties of its own, and a template may add one that changes with
/// each version.
#[derive(Debug)]
pub(super) struct Properties {
    /// `DatabaseRole`: the role that functions log in as.
    pub(super) database_role: Option<String>,
    /// `CanaryPrincipal`: the IAM role of the canary.
    pub(super) canary_principal: Option<String>,
}

impl Properties {
    pub(super) fn read(properties: &Value) -> Result<Self, MigrateError> {
        let text = |property: &'static str| match properties.get(property) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(MigrateError::Property {
                property,
                detail: "must be a text".to_owned(),
            }),
        };
        Ok(Self {
            database_role: text("DatabaseRole")?,
            canary_principal: text("CanaryPrincipal")?,
        })
    }
}
