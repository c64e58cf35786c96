//! What an API says of itself: OpenAPI 3.1, out of the same table as its routes.
//!
//! [`Operation`] describes what one handler takes and answers, [`Shape`] a value of JSON, [`document`] puts all of them together.
//! By functions rather than by attributes, so that bounds and words are the constants that the code itself goes by.

mod answer;
mod operation;
mod shape;

pub use answer::Answer;
pub use operation::Operation;
pub use shape::{Shape, either, reference};

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use limits::registry::LONGEST_CLIENT_ID;
pub use utoipa::openapi::OpenApi;
use utoipa::openapi::path::PathItem;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, HttpMethod, InfoBuilder, OpenApiBuilder, Paths};

/// One route: where it is, and how to describe it.
#[derive(Debug, Clone, Copy)]
pub struct Described {
    pub(crate) path: &'static str,
    pub(crate) method: Method,
    pub(crate) describe: fn() -> Operation,
}

/// The methods that routes are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Post,
    Put,
    Delete,
}

impl From<Method> for HttpMethod {
    fn from(method: Method) -> Self {
        match method {
            Method::Get => HttpMethod::Get,
            Method::Post => HttpMethod::Post,
            Method::Put => HttpMethod::Put,
            Method::Delete => HttpMethod::Delete,
        }
    }
}

/// What can stand in an id: no control character.
const PRINTED: &str = r"^[^\u0000-\u001f\u007f-\u009f]*$";

/// A text of so many characters, none of which controls anything.
pub fn printed(least: usize, most: usize) -> Shape {
    Shape::text().length(least, most).like(PRINTED)
}

/// The id of a client.
pub fn client_id() -> Shape {
    printed(1, LONGEST_CLIENT_ID)
}

/// What `GET /openapi.json` says of itself.
pub fn describe() -> Operation {
    let answer = Answer::json(StatusCode::OK, "OpenAPI 3.1.", Shape::object());
    Operation::new("showDocument", "This document").answer(answer)
}

/// The answer that is a document.
pub fn respond(document: &'static str) -> Response {
    ([(CONTENT_TYPE, "application/json")], document).into_response()
}

/// The document of an API: its routes, and the shapes that they refer to by name.
pub fn document(
    title: &str,
    description: &str,
    routes: impl IntoIterator<Item = Described>,
    shapes: impl IntoIterator<Item = (&'static str, Shape)>,
) -> OpenApi {
    let mut paths = Paths::new();
    for route in routes {
        // The rest of a path is one parameter like any other.
        let path = route.path.replace("{*", "{");
        let operation = (route.describe)().built();
        let item = PathItem::new(route.method.into(), operation);
        match paths.paths.get_mut(&path) {
            Some(known) => known.merge_operations(item),
            None => {
                paths.paths.insert(path, item);
            }
        }
    }
    let mut components = ComponentsBuilder::new().schema("Problem", answer::problem_shape());
    for (name, shape) in shapes {
        components = components.schema(name, shape);
    }
    for (name, response) in answer::problems() {
        components = components.response(name, response);
    }
    let signed = ApiKeyValue::with_description(
        "Authorization",
        "A request signed with IAM credentials: AWS Signature Version 4.",
    );
    let components =
        components.security_scheme("sigv4", SecurityScheme::ApiKey(ApiKey::Header(signed)));
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title(title)
                .description(Some(description))
                .version(env!("CARGO_PKG_VERSION"))
                .build(),
        )
        .paths(paths)
        .components(Some(components.build()))
        .security(Some([SecurityRequirement::new("sigv4", [""; 0])]))
        .build()
}
