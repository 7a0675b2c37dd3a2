//! A run is resumed in the folder that it works in, from wherever its id is typed.
//!
//! A folder named with `--dir` and a store named with `--store` count as they are. The files of another folder count
//! only if that folder is trusted.

use std::path::PathBuf;

use windlass::machine::RunId;
use windlass::port::journal::RunRow;
use windlass_server::text::shown_line;

use super::PlaceFlags;
use super::{Ask, Ground, Place};
use crate::console::Console;

/// What ids of runs begin with. Only a whole id is looked for in other folders' stores.
const RUN: &str = "run_";

impl Ground {
    /// Finds a run by its id or the end of it, the newest unfinished one without an id; and where it works. The place is
    /// only for looking.
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

    /// Looks for a run in the stores that the user's other folders have by default.
    async fn in_other_stores(&self, id: Option<&str>) -> Option<(Place, RunRow)> {
        let is_placed = self.place.dir.is_some() || self.settings.store.is_some();
        let run = RunId::from(id.filter(|id| id.starts_with(RUN) && !is_placed)?);
        for store in self.user.stores() {
            let mut other = self.clone();
            other.settings.store = Some(store);
            // A store that cannot be read hides no other.
            let Ok(place) = Box::pin(other.open_store()).await else { continue };
            if let Ok(row) = place.engine.run(&run).row().await {
                return Some((place, row));
            }
        }
        None
    }
}
