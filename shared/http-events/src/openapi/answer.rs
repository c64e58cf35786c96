//! What an operation answers.

use axum::http::StatusCode;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::{ContentBuilder, RefOr, Response, ResponseBuilder, Schema};

use super::shape::{Shape, reference};
use crate::problem::NO_SERVICE;

/// One answer: a status, what is in it, and its headers.
pub struct Answer {
    pub(crate) status: StatusCode,
    response: ResponseBuilder,
}

impl Answer {
    /// An answer with a body of JSON.
    pub fn json(status: StatusCode, meaning: &str, body: impl Into<RefOr<Schema>>) -> Self {
        let content = ContentBuilder::new().schema(Some(body)).build();
        Self {
            status,
            response: ResponseBuilder::new()
                .description(meaning)
                .content("application/json", content),
        }
    }

    /// An answer without a body.
    pub fn empty(status: StatusCode, meaning: &str) -> Self {
        Self {
            status,
            response: ResponseBuilder::new().description(meaning),
        }
    }

    /// The same, with a header.
    #[must_use]
    pub fn header(mut self, name: &str, shape: Shape) -> Self {
        let (meaning, shape) = shape.told_apart();
        let header = HeaderBuilder::new()
            .schema(Some(shape))
            .description(meaning)
            .build();
        self.response = self.response.header(name, header);
        self
    }

    pub(crate) fn built(self) -> Response {
        self.response.build()
    }
}

/// The body of every problem: RFC 9457.
pub(super) fn problem_shape() -> Shape {
    let fault = Shape::object()
        .required(
            "field",
            Shape::text().meaning("As it was sent; empty for the request as a whole."),
        )
        .required("detail", Shape::text().meaning("What would be right."));
    Shape::object()
        .required(
            "type",
            Shape::text().meaning("`about:blank`: the status says it all."),
        )
        .required("title", Shape::text())
        .required("status", Shape::integer(400, 599))
        .required("detail", Shape::text().meaning("For people."))
        .field(
            "errors",
            Shape::list(fault).meaning("Every field that is wrong."),
        )
        .field(
            "error",
            Shape::words(&[NO_SERVICE]).meaning("Where a service that takes part is not known."),
        )
        .field(
            "name",
            Shape::text().meaning("The service that is not known."),
        )
}

/// The name of a problem's answer among those of the document.
pub(super) fn problem_name(status: StatusCode) -> String {
    status
        .canonical_reason()
        .unwrap_or("Error")
        .replace(' ', "")
}

/// Every problem that operations answer with.
pub(super) fn problems() -> impl Iterator<Item = (String, Response)> {
    let plain = |status: StatusCode, meaning: &str| {
        let content = ContentBuilder::new()
            .schema(Some(reference("Problem")))
            .build();
        Answer {
            status,
            response: ResponseBuilder::new()
                .description(meaning)
                .content("application/problem+json", content),
        }
    };
    let all = [
        plain(
            StatusCode::BAD_REQUEST,
            "Something is wrong with the request: every field that is.",
        ),
        plain(StatusCode::FORBIDDEN, "The caller may not do this."),
        plain(StatusCode::NOT_FOUND, "There is no such thing."),
        plain(
            StatusCode::METHOD_NOT_ALLOWED,
            "What is there does not take this method.",
        )
        .header("Allow", Shape::text().meaning("The methods that it takes.")),
        plain(StatusCode::CONFLICT, "Something else is in the way."),
        plain(
            StatusCode::PRECONDITION_FAILED,
            "It is not what `If-Match` takes it for.",
        )
        .header(
            "ETag",
            Shape::text().meaning("What it is instead, if it is there."),
        ),
        plain(StatusCode::PAYLOAD_TOO_LARGE, "The body is too long."),
        plain(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "The body is no JSON by its own word.",
        ),
        plain(
            StatusCode::NOT_IMPLEMENTED,
            "This function was not told what it needs for that.",
        ),
        plain(
            StatusCode::SERVICE_UNAVAILABLE,
            "A store is out; `detail` says whether something may have been done.",
        )
        .header("Retry-After", Shape::count().meaning("Seconds to wait.")),
    ];
    all.into_iter()
        .map(|answer| (problem_name(answer.status), answer.built()))
}
