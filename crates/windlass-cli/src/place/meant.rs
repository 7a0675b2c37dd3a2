//! Finds the run or conversation that a command refers to: by its id, by the last characters of its id, or the newest
//! one if the user gives no id.
//!
//! Only reads the store.

use windlass::EngineError;
use windlass::machine::{RunId, ThreadId};
use windlass::port::journal::{RunQuery, RunRow, ThreadQuery, ThreadRow};
use windlass_server::trouble::Trouble;

use super::Place;

/// Number of rows per page. A partial run id is searched among this many of the newest runs.
const PAGE: usize = 1_000;

impl Place {
    /// Finds a run by its id or the end of it; without an id, the newest unfinished run.
    pub async fn find_run(&self, id: Option<&str>) -> anyhow::Result<RunRow> {
        let Some(id) = id else {
            return self.newest_open().await?.ok_or_else(|| self.nothing_open().into());
        };
        match self.engine.run(&RunId::from(id)).row().await {
            Err(EngineError::NoRun(_)) => {}
            found => return Ok(found?),
        }
        let rows = self.engine.runs(&RunQuery::newest(PAGE)).await?;
        let mut found = rows.into_iter().filter(|row| names(id, row.view.run.as_str()));
        match (found.next(), found.next()) {
            (Some(row), None) => Ok(row),
            (Some(_), Some(_)) => Err(several("run", id).into()),
            (None, _) => Err(EngineError::NoRun(RunId::from(id)).into()),
        }
    }

    /// Finds a run by its id or the end of it; without an id, the newest run, finished or not.
    pub async fn find_any_run(&self, id: Option<&str>) -> anyhow::Result<RunRow> {
        if id.is_some() {
            return self.find_run(id).await;
        }
        let newest = self.engine.runs(&RunQuery::newest(1)).await?.into_iter().next();
        let none = || Trouble::usage(format!("no run in the folder `{}`", self.ground.folder.display()));
        newest.ok_or_else(|| {
            none().hint("`windlass run` starts one; `--dir` or `--store` select another place").into()
        })
    }

    /// Returns the newest unfinished run.
    async fn newest_open(&self) -> Result<Option<RunRow>, EngineError> {
        let open = RunQuery { active: Some(true), ..RunQuery::newest(1) };
        Ok(self.engine.runs(&open).await?.into_iter().next())
    }

    fn nothing_open(&self) -> Trouble {
        Trouble::usage(format!("no unfinished run in the folder `{}`", self.ground.folder.display()))
            .hint("`windlass threads list` shows the threads here; `--dir` or `--store` select another place")
    }

    /// Returns the newest thread whose working folder is this one. A store may contain threads of other folders.
    pub async fn newest_thread_here(&self) -> anyhow::Result<ThreadId> {
        let newest = self.threads_here(1).await?.into_iter().next();
        newest.map(|row| row.thread).ok_or_else(|| {
            let what = format!("no conversation in the folder `{}`", self.ground.folder.display());
            Trouble::usage(what).hint("a message without `--continue` starts one").into()
        })
    }

    /// Returns the threads whose working folder is this one, newest first.
    pub async fn threads_here(&self, limit: usize) -> anyhow::Result<Vec<ThreadRow>> {
        let mut query = ThreadQuery { limit: PAGE, ..ThreadQuery::default() };
        let mut found: Vec<ThreadRow> = Vec::new();
        while found.len() < limit {
            let threads = self.engine.threads(&query).await?;
            let Some(last) = threads.last() else { break };
            query.before = Some((last.view.updated_at, last.thread.clone()));
            let here = |row: &ThreadRow| self.homes.is_ground(row.view.folder.as_deref());
            found.extend(threads.into_iter().filter(here));
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Finds a thread by its id or the end of it; without an id, the newest thread.
    pub async fn find_thread(&self, id: Option<&str>) -> anyhow::Result<ThreadId> {
        let Some(id) = id else {
            let newest = self.engine.threads(&ThreadQuery { limit: 1, ..ThreadQuery::default() }).await?;
            let none = || Trouble::usage("no threads yet").hint("`windlass run` starts one");
            return newest.into_iter().next().map(|row| row.thread).ok_or_else(|| none().into());
        };
        match self.engine.thread(&ThreadId::from(id)).row().await {
            Err(EngineError::NoThread(_)) => {}
            found => return Ok(found?.thread),
        }
        let mut found = Vec::new();
        let mut query = ThreadQuery { limit: PAGE, ..ThreadQuery::default() };
        while found.len() < 2 {
            let threads = self.engine.threads(&query).await?;
            let Some(last) = threads.last() else { break };
            query.before = Some((last.view.updated_at, last.thread.clone()));
            found.extend(threads.into_iter().map(|row| row.thread).filter(|it| names(id, it.as_str())));
        }
        match (found.pop(), found.pop()) {
            (Some(thread), None) => Ok(thread),
            (Some(_), Some(_)) => Err(several("thread", id).into()),
            (None, _) => Err(EngineError::NoThread(ThreadId::from(id)).into()),
        }
    }
}

fn several(what: &str, id: &str) -> Trouble {
    Trouble::usage(format!("`{id}` is ambiguous: several {what} ids end with it")).hint("give more of the id")
}

/// Whether a non-empty text equals an id or the end of the id.
fn names(text: &str, id: &str) -> bool {
    !text.is_empty() && id.ends_with(text)
}
