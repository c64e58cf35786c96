//! What one handler takes and answers.

use axum::http::StatusCode;
use serde_json::Value;
use utoipa::openapi::path::{OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Required, Schema};

use super::answer::{Answer, problem_name};
use super::shape::Shape;

/// The description of one handler.
pub struct Operation(OperationBuilder);

impl Operation {
    /// An operation of this id, told in a few words. That the request may be wrong goes without saying.
    pub fn new(id: &str, summary: &str) -> Self {
        let operation = OperationBuilder::new()
            .operation_id(Some(id))
            .summary(Some(summary));
        Self(operation).problem(StatusCode::BAD_REQUEST)
    }

    /// The same, with more to say.
    #[must_use]
    pub fn description(self, text: &str) -> Self {
        Self(self.0.description(Some(text)))
    }

    fn parameter(self, place: ParameterIn, name: &str, shape: Shape, required: Required) -> Self {
        let (meaning, shape) = shape.told_apart();
        let parameter = ParameterBuilder::new()
            .name(name)
            .parameter_in(place)
            .required(required)
            .description(meaning)
            .schema(Some(shape));
        Self(self.0.parameter(parameter))
    }

    /// The same, with a part of the path.
    #[must_use]
    pub fn path(self, name: &str, shape: Shape) -> Self {
        self.parameter(ParameterIn::Path, name, shape, Required::True)
    }

    /// The same, with a parameter of the query, which may be left out.
    #[must_use]
    pub fn query(self, name: &str, shape: Shape) -> Self {
        self.parameter(ParameterIn::Query, name, shape, Required::False)
    }

    /// The same, with a parameter of the query, which must be there.
    #[must_use]
    pub fn required_query(self, name: &str, shape: Shape) -> Self {
        self.parameter(ParameterIn::Query, name, shape, Required::True)
    }

    /// The same, with a header, which may be left out.
    #[must_use]
    pub fn header(self, name: &str, shape: Shape) -> Self {
        self.parameter(ParameterIn::Header, name, shape, Required::False)
    }

    /// The same, with a body of JSON.
    #[must_use]
    pub fn body(self, shape: impl Into<RefOr<Schema>>, example: Value) -> Self {
        self.with_body(shape, example, Required::True)
    }

    /// The same, with a body of JSON that may be left out.
    #[must_use]
    pub fn optional_body(self, shape: impl Into<RefOr<Schema>>, example: Value) -> Self {
        self.with_body(shape, example, Required::False)
    }

    fn with_body(
        self,
        shape: impl Into<RefOr<Schema>>,
        example: Value,
        required: Required,
    ) -> Self {
        let content = ContentBuilder::new()
            .schema(Some(shape))
            .example(Some(example))
            .build();
        let body = RequestBodyBuilder::new()
            .content("application/json", content)
            .required(Some(required))
            .build();
        Self(self.0.request_body(Some(body)))
            .problem(StatusCode::PAYLOAD_TOO_LARGE)
            .problem(StatusCode::UNSUPPORTED_MEDIA_TYPE)
    }

    /// The same, with an answer.
    #[must_use]
    pub fn answer(self, answer: Answer) -> Self {
        let status = answer.status.as_str().to_owned();
        Self(self.0.response(status, answer.built()))
    }

    /// The same, with a problem that it may answer.
    #[must_use]
    pub fn problem(self, status: StatusCode) -> Self {
        let name = problem_name(status);
        let response = Ref::from_response_name(name);
        Self(self.0.response(status.as_str(), response))
    }

    pub(crate) fn built(self) -> utoipa::openapi::path::Operation {
        self.0.build()
    }
}
