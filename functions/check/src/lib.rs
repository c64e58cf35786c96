//! The same question over HTTP, for services without a gateway.
