//! The commands, one file each: what was asked for, what is done, how it ends.

mod apply;
mod check;
mod explain;
mod export;
mod plan;

pub use apply::Apply;
pub use check::Check;
pub use explain::Explain;
pub use export::Export;
pub use plan::Plan;
