//! Opens the engine on a store as a server does, in a process of its own, and tells what that takes.
//!
//! It drives nothing: what waits in the store has to wait there.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};
use windlass::models::{ProviderCatalog, ProviderConfig, Secret};
use windlass::sqlite::SqliteFolder;
use windlass::{Attend, Engine};

use crate::machine;

/// How long it looks after the store before its memory is read: it sweeps once a second.
const ATTEND_FOR: Duration = Duration::from_millis(3_500);

/// Which store.
#[derive(Debug, Args)]
pub struct Open {
    /// The folder that a program has stored in
    #[arg(long)]
    pub folder: PathBuf,
}

/// What opening took.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Opened {
    /// Milliseconds until the engine was there.
    pub open_ms: f64,
    /// KiB resident after it has looked after the store for a while.
    pub resident_kib: u64,
}

impl Open {
    /// Opens, looks after the store for a while, and tells what that took.
    pub(super) async fn measure(&self) -> Result<Opened> {
        let start_ns = machine::monotonic_ns();
        let engine = open(&self.folder).await?;
        let open_ms = (machine::monotonic_ns() - start_ns) as f64 / 1e6;
        tokio::time::sleep(ATTEND_FOR).await;
        let resident_kib = machine::resident_kib();
        drop(engine);
        Ok(Opened { open_ms, resident_kib })
    }
}

async fn open(folder: &Path) -> Result<Engine> {
    let provider = ProviderConfig { api_key: Some(Secret::new("none")), ..ProviderConfig::default() };
    let models = ProviderCatalog::builder().provider("openai-chat", provider).build()?;
    let engine = windlass::builder()
        .models(Arc::new(models))
        .store(SqliteFolder::new(folder.join("store")))
        .attend(Attend::All);
    Ok(engine.build().await?)
}
