//! Publishes what Postgres holds into this region's Redis, and moves the epochs.
