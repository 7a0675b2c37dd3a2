//! What the engine knows of tools: the registry, toolsets, checks of arguments, and the working folder.
//!
//! The tools themselves are in other crates. Whether a call may run is decided by the gate, and when it runs by the driver.

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

/// Names of the tools that an engine adds to those of its registry: no other tool can have one.
pub const ENGINE_NAMES: [&str; 2] = toolset::SHELF_NAMES;
