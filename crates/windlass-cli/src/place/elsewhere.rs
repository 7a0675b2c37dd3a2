//! Resumes a run in its own working folder, from any current directory.
//!
//! A folder named with `--dir` or a store named with `--store` is used without a search. The files of another folder
//! apply only if the user trusts that folder.

use std::path::PathBuf;

use windlass::machine::RunId;
use windlass::port::journal::RunRow;
use windlass_server::text::shown_line;

use super::PlaceFlags;
use super::{Ask, Ground, Place};
use crate::console::Console;

/// Prefix of run ids. Only a complete id is searched in the stores of other folders.
const RUN: &str = "run_";

impl Ground {
    /// Finds a run and its working folder by the run's id or the end of it; without an id, the newest unfinished run.
    /// The returned place is open for reading only.
    pub async fn with_run(
        self,
        console: &Console,
        id: Option<&str>,
        ask: Ask,
    ) -> anyhow::Result<(Self, Place, RunRow)> {
        let looked = Box::pin(self.clone().open_store()).await?;
        let (looked, row) = match looked.find_run(id).await {
            Ok(row) => (looked, row),
            Err(error) => match Box::pin(self.in_other_stores(id)).await {
                Some(found) => found,
                None => return Err(error),
            },
        };
        let recorded = looked.engine.thread(&row.thread).row().await?.view.folder;
        let is_here = looked.homes.has_files_of(recorded.as_deref());
        let Some(folder) = recorded.filter(|_| !is_here && self.place.dir.is_none()) else {
            return Ok((self, looked, row));
        };
        let line = format!("run {} works in {}", row.view.run, shown_line(&folder));
        console.note(&console.paint.dim(&line));
        let store = looked.ground.store();
        let mut place = PlaceFlags { dir: Some(PathBuf::from(folder)), store: None };
        let ground = Self::find(console, &place, &self.model, ask)?;
        if ground.store() == store {
            return Ok((ground, looked, row));
        }
        place.store = Some(store);
        Ok((Self::find(&console.clone().muted(), &place, &self.model, Ask::Never)?, looked, row))
    }

    /// Searches the default stores of the user's other folders for a run.
    async fn in_other_stores(&self, id: Option<&str>) -> Option<(Place, RunRow)> {
        let is_placed = self.place.dir.is_some() || self.settings.store.is_some();
        let run = RunId::from(id.filter(|id| id.starts_with(RUN) && !is_placed)?);
        for store in self.user.stores() {
            let mut other = self.clone();
            other.settings.store = Some(store);
            // Skip a store that cannot be read.
            let Ok(place) = Box::pin(other.open_store()).await else { continue };
            if let Ok(row) = place.engine.run(&run).row().await {
                return Some((place, row));
            }
        }
        None
    }
}
