//! The model library as the oracle of the wire: it encodes the same calls and reads the same bytes.
//!
//! Where the two differ on purpose, the difference is listed with its reason in the test that meets it.

mod replies;
mod requests;
