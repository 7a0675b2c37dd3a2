//! crash
//! .
