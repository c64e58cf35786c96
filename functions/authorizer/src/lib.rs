//! May this call through? A REQUEST authorizer for API Gateway.
