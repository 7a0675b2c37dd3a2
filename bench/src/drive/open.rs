//! Measures opening the engine on a store as a server does, in a separate process.
//!
//! Drives no thread: all runs in the store must be waiting.

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

/// Time during which the engine sweeps the store, once a second, before its memory is measured.
const ATTEND_FOR: Duration = Duration::from_millis(3_500);

/// The store to open.
#[derive(Debug, Args)]
pub struct Open {
    /// The folder of a program's data
    #[arg(long)]
    pub folder: PathBuf,
}

/// The cost of opening.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Opened {
    /// Time until the engine was ready, in milliseconds.
    pub open_ms: f64,
    /// Resident memory after several sweeps of the store, in KiB.
    pub resident_kib: u64,
}

impl Open {
    /// Opens the engine, lets it sweep the store for a while, and measures the time and the memory.
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
