//! store
//! .
