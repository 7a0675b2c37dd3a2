//! Tools: the registry, function tools and the built-in ones. They see ports only.

/// The folder that tools work in, held by a capability handle.
#[derive(Debug)]
pub struct WorkingFolder;
