//! The domain: rules, patterns, which rules apply, the algorithms. No async, no I/O, no AWS.
