//! Windlass with its durable SQLite store, in the settings' folder.
//!
//! Not written yet: the engine's driver comes first. Until then its column of the table stays empty.

use anyhow::{Result, bail};

use super::{Driver, Settings};

/// Whether the table measures it.
pub(super) const IS_WRITTEN: bool = false;

/// Opens the engine on a new store in `settings.folder`, with the one tool of [`super::TOOL_NAME`], chat
/// completions at `settings.base_url` and the window of `settings.window`. Each run is a thread of its own;
/// what its consumer sees goes to the probe.
pub(super) async fn start(settings: &Settings) -> Result<Box<dyn Driver>> {
    bail!("Windlass cannot be measured yet, so nothing is stored in {}", settings.folder.display())
}
