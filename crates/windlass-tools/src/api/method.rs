//! The HTTP methods that a call may use.
//!
//! The settings of a service may restrict these methods further.

use http::Method;

/// All supported methods.
pub(super) const METHODS: [Method; 7] =
    [Method::GET, Method::HEAD, Method::OPTIONS, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
