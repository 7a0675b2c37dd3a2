//! Tools: the registry, function tools and the built-in ones. They see ports only.
//!
//! Whether a call may run is the gate's business, and when it runs is the driver's; nothing here
//! asks, waits for an answer or retries.

pub mod api;
pub mod builtin;

mod charset;
mod crash;
mod folder;
mod function;
mod hidden;
mod image;
mod reconcile;
mod registry;
#[cfg(target_os = "linux")]
pub mod sandbox;
mod schema;
#[cfg(target_os = "linux")]
mod shell;
pub(crate) mod toolset;
mod typed;
pub mod web;

#[cfg(feature = "testing")]
pub(crate) use api::is_description;
#[cfg(feature = "testing")]
pub(crate) use charset::decode;
pub(crate) use crash::{crashing_masked, panic_text};
pub(crate) use folder::Now;
pub use folder::{
    ChangeRecorder, Changing, CopyError, CopyLimits, Entry, EntryKind, FileFound, FolderContent, FolderError,
    FolderPath, FolderQuota, LeftOut, ProtectedPaths, WorkingFolder, Written, remove_tree,
};
pub use function::{FunctionTool, IntoToolOutput, Json, schema_for};
pub use hidden::{Hidden, HiddenArguments, HiddenSource};
pub(crate) use image::image_type;
pub use reconcile::{Reconcile, Source};
pub(crate) use registry::Registered;
#[cfg(feature = "mcp")]
pub(crate) use registry::check_schema;
pub use registry::{Adjustment, Registry, RegistryError, key_of};
pub(crate) use schema::{ValueCheck, check_values};
pub use toolset::{SHOWN_TOKENS, Shown, Toolset};
pub use typed::{ContentKind, Typed, TypedContent};

/// Names of the tools that an engine adds to those of its registry: no other tool can have one.
pub const ENGINE_NAMES: [&str; 2] = toolset::SHELF_NAMES;
