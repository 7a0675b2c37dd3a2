//! Tools in the engine: registry, toolsets, argument validation, and the working folder.
//!
//! The implementations of tools are in other crates. The gate decides whether a call may run, and the driver runs it.

mod crash;
mod folder;
mod hidden;
mod image;
mod reconcile;
mod registry;
mod schema;
pub(crate) mod toolset;

pub use crash::{crashing_masked, panic_text};
pub(crate) use folder::Now;
pub use folder::{
    ChangeRecorder, Changing, CopyError, CopyLimits, Entry, EntryKind, FileFound, FolderContent, FolderError,
    FolderPath, FolderQuota, LeftOut, ProtectedPaths, WorkingFolder, Written, remove_tree,
};
pub use hidden::{Hidden, HiddenArguments, HiddenSource};
pub use image::image_type;
pub use reconcile::{Reconcile, Source};
pub(crate) use registry::Registered;
pub use registry::{Adjustment, Registry, RegistryError, check_schema, key_of};
pub use schema::ValueCheck;
pub use toolset::{SHOWN_TOKENS, Shown, Toolset};

/// Names of the tools that the engine adds to a registry. No other tool may use them.
pub const ENGINE_NAMES: [&str; 2] = toolset::SHELF_NAMES;
