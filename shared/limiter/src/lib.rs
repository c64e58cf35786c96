//! The request path that authorizer and check share.
