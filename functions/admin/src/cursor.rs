//! Where a page of a list begins, in a form that callers hand back and do not read.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A cursor for the end of a page.
pub(crate) fn write(end: &impl Serialize) -> String {
    // Ids and numbers: there is nothing here that could fail to become JSON.
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(end).unwrap_or_default())
}

/// What a cursor holds; `None` where it is none of ours.
pub(crate) fn read<T: DeserializeOwned>(cursor: &str) -> Option<T> {
    let json = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    serde_json::from_slice(&json).ok()
}
