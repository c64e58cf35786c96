//! Counters and the published rules in Redis, or in memory.
