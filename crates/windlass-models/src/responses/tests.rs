//! The model library as the oracle of the responses wire: both encode the same calls and decode the same bytes.
//!
//! Each intended difference is listed with its reason in the test that encounters it.

mod replies;
mod requests;
