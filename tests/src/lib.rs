//! The stories: real binaries, real Redis, real Postgres.
