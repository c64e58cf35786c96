//! The stories.
