//! The operations on clients and their keys.

pub(crate) mod create;
pub(crate) mod create_key;
pub(crate) mod delete;
pub(crate) mod delete_key;
pub(crate) mod list;
pub(crate) mod list_keys;
pub(crate) mod replace;
pub(crate) mod show;

use http_events::Problem;
use limits::registry::check_client_id;

/// The id in a path. What cannot be one is nobody's.
fn known(id: &str) -> Result<(), Problem> {
    check_client_id(id).map_err(|_| no_such_client())
}

fn no_such_client() -> Problem {
    Problem::not_found("there is no such client")
}
