//! State to request: the only builder of prompts.

mod request;

pub use request::ModelRequest;
