//! What talks to AWS itself; by feature, so that a function takes only what it needs.
