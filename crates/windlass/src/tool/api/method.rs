//! The methods that a call may name.
//!
//! Which of them a service takes is its settings' business.

use http::Method;

/// The methods that there are.
pub(super) const METHODS: [Method; 7] =
    [Method::GET, Method::HEAD, Method::OPTIONS, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
