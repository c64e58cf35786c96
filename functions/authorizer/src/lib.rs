//! May this call through? A REQUEST authorizer for API Gateway.

mod event;
mod lenient;

pub use event::{Door, Event};
