//! limits
//! .
