//! Every answer that is yes.

use axum::Json;
use axum::http::header::ETAG;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use limits_postgres::{Page, Written};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::announcement::Propagation;
use crate::cursor;
use crate::state::State;

/// The revision of a write.
const REVISION: HeaderName = HeaderName::from_static("weir-revision");
/// How far its news got.
const PROPAGATION: HeaderName = HeaderName::from_static("weir-propagation");

/// The tag of what is at a revision: it changes with each write and with nothing else.
pub(crate) fn etag(revision: u64) -> HeaderValue {
    // A number in quotes is a header's value whatever the number.
    HeaderValue::try_from(format!("\"{revision}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// A thing as it stands.
pub(crate) fn shown(thing: &impl Serialize, revision: u64) -> Response {
    ([(ETAG, etag(revision))], Json(thing)).into_response()
}

/// A thing as a write left it, with the write's revision and how far its news got.
#[derive(Serialize)]
struct Put<'a, T> {
    #[serde(flatten)]
    thing: &'a T,
    propagation: Propagation,
}

/// Answers a write that left a thing, which tells its revision itself. The change is announced first.
pub(crate) async fn put<T: Serialize>(
    state: &State,
    status: StatusCode,
    written: &Written<T>,
) -> Response {
    let propagation = state.announcer.announce(written.revision).await;
    let put = Put {
        thing: &written.value,
        propagation,
    };
    let mut headers = heads(written.revision, propagation);
    headers.insert(ETAG, etag(written.revision));
    (status, headers, Json(put)).into_response()
}

/// Answers a write that left nothing to show.
pub(crate) async fn gone(state: &State, written: &Written<()>) -> Response {
    let propagation = state.announcer.announce(written.revision).await;
    (StatusCode::NO_CONTENT, heads(written.revision, propagation)).into_response()
}

/// Answers with a body of its own, to which the revision and how far its news got are added.
pub(crate) async fn told(
    state: &State,
    status: StatusCode,
    revision: u64,
    mut body: Map<String, Value>,
) -> Response {
    let propagation = state.announcer.announce(revision).await;
    body.insert("revision".to_owned(), json!(revision));
    body.insert("propagation".to_owned(), json!(propagation));
    (status, heads(revision, propagation), Json(body)).into_response()
}

fn heads(revision: u64, propagation: Propagation) -> HeaderMap {
    HeaderMap::from_iter([
        (REVISION, HeaderValue::from(revision)),
        (PROPAGATION, HeaderValue::from_static(propagation.as_str())),
    ])
}

/// A page of a list, under the name of what it lists.
pub(crate) fn page<T: Serialize, C: Serialize>(name: &'static str, page: &Page<T, C>) -> Response {
    let next = page.next.as_ref().map(cursor::write);
    let items = &page.items;
    Json(Listed { name, items, next }).into_response()
}

struct Listed<'a, T> {
    name: &'static str,
    items: &'a [T],
    next: Option<String>,
}

impl<T: Serialize> Serialize for Listed<'_, T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut object = to.serialize_map(Some(2))?;
        object.serialize_entry(self.name, self.items)?;
        object.serialize_entry("next", &self.next)?;
        object.end()
    }
}
