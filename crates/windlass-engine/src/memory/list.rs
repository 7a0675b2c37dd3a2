//! Lists of threads and runs in memory.
//!
//! The lists are computed for each query.

use std::cmp::Reverse;

use windlass_machine::{RunId, Seq, ThreadId};

use super::state::State;
use crate::port::journal::{RunQuery, RunRow, ThreadCounts, ThreadQuery, ThreadRow, ThreadStatus};

impl State {
    /// See [`Journal::threads`](crate::port::journal::Journal::threads).
    pub fn list(&self, query: &ThreadQuery) -> Vec<ThreadRow> {
        let text = query.title_contains.as_ref().map(|text| text.to_lowercase());
        let wanted = |row: &ThreadRow| {
            let title = || row.view.title.as_deref().unwrap_or_default().to_lowercase();
            row.head > Seq(0)
                && query.workspace.as_ref().is_none_or(|workspace| row.view.workspace == *workspace)
                && query.owner.as_ref().is_none_or(|owner| row.view.owner == *owner)
                && text.as_ref().is_none_or(|text| row.view.title.is_some() && title().contains(text))
                && query.status.is_none_or(|status| row.view.status == status)
                && (!query.asking || row.view.interrupts > 0)
                && query.before.as_ref().is_none_or(|(at, id)| (row.view.updated_at, &row.thread) < (*at, id))
        };
        let mut rows: Vec<_> = self.threads.keys().filter_map(|id| self.row(id)).filter(wanted).collect();
        rows.sort_by(|a, b| (b.view.updated_at, &b.thread).cmp(&(a.view.updated_at, &a.thread)));
        rows.truncate(query.rows());
        for row in rows.iter_mut().filter(|_| !query.asking) {
            row.view.asks = None;
        }
        rows
    }

    /// See [`Journal::thread_counts`](crate::port::journal::Journal::thread_counts).
    pub fn thread_counts(&self) -> ThreadCounts {
        let mut counts = ThreadCounts::default();
        for thread in self.threads.values() {
            let threads = match thread.view.status {
                ThreadStatus::Idle => continue,
                ThreadStatus::Running => &mut counts.running,
                ThreadStatus::Waiting => &mut counts.waiting,
                ThreadStatus::Sleeping => &mut counts.sleeping,
            };
            *threads += 1;
            counts.interrupts += u64::from(thread.view.interrupts);
        }
        counts
    }

    /// See [`Journal::thread`](crate::port::journal::Journal::thread).
    pub fn row(&self, id: &ThreadId) -> Option<ThreadRow> {
        let thread = self.known(id)?;
        let (head, created_at) = (thread.head.seq, thread.created_at);
        Some(ThreadRow { thread: id.clone(), head, created_at, view: thread.view.clone() })
    }

    /// See [`Journal::run`](crate::port::journal::Journal::run).
    pub fn run(&self, run: &RunId) -> Option<RunRow> {
        self.run_rows().find(|row| row.view.run == *run)
    }

    /// See [`Journal::runs`](crate::port::journal::Journal::runs).
    pub fn runs(&self, query: &RunQuery) -> Vec<RunRow> {
        let last = query.thread.as_ref().zip(query.before.as_ref()).map(|(thread, (_, run))| {
            let found = self.run_rows().find(|row| row.thread == *thread && row.view.run == *run);
            found.map_or(Seq(0), |row| row.view.from)
        });
        let is_after = |row: &RunRow| match (last, &query.before) {
            (Some(last), _) => row.view.from < last,
            (None, Some((at, run))) => (row.view.started_at, &row.view.run) < (*at, run),
            (None, None) => true,
        };
        let wanted = |row: &RunRow| {
            query.workspace.as_ref().is_none_or(|workspace| row.workspace == *workspace)
                && query.owner.as_ref().is_none_or(|owner| row.owner == *owner)
                && query.thread.as_ref().is_none_or(|thread| row.thread == *thread)
                && query.active.is_none_or(|active| row.view.status.is_none() == active)
                && query.ended.is_none_or(|ended| row.view.status == Some(ended))
                && (!query.asking || row.asking)
                && query.from.is_none_or(|from| row.view.started_at >= from)
                && query.until.is_none_or(|until| row.view.started_at < until)
                && is_after(row)
        };
        let mut rows: Vec<_> =
            self.run_rows().filter(|row| row.view.queued.is_none() && wanted(row)).collect();
        match query.thread {
            Some(_) => rows.sort_by_key(|row| Reverse(row.view.from)),
            None => {
                rows.sort_by(|a, b| (b.view.started_at, &b.view.run).cmp(&(a.view.started_at, &a.view.run)))
            }
        }
        rows.truncate(query.rows());
        rows
    }

    pub(super) fn run_rows(&self) -> impl Iterator<Item = RunRow> {
        self.threads.iter().flat_map(|(id, thread)| {
            thread.runs.iter().map(|view| RunRow {
                thread: id.clone(),
                workspace: thread.view.workspace.clone(),
                owner: thread.view.owner.clone(),
                title: thread.view.title.clone(),
                asking: view.status.is_none() && view.queued.is_none() && thread.view.interrupts > 0,
                view: view.clone(),
            })
        })
    }
}
