//! Resolves open requests by id, and explains why a closed one cannot be answered.

use windlass::machine::{Answer, Fact, Given, InterruptId, InterruptKind, RunId};
use windlass::port::journal::{RunRow, ThreadQuery};
use windlass::{EngineError, OpenInterrupt};
use windlass_server::servers::servers_of;
use windlass_server::text::first_line;
use windlass_server::trouble::Trouble;

use super::TITLE_CHARS;
use crate::console::Console;
use crate::place::Place;
use crate::view::card::{title, word};
use crate::view::transcript::{answered, events};

/// Number of threads per page; each is read from its journal.
const PAGE: usize = 50;

/// An open interrupt and its run.
pub struct Waiting {
    pub row: RunRow,
    pub open: OpenInterrupt,
}

impl Waiting {
    /// Builds the answer, bound to the approval digest that was displayed.
    pub fn given(&self, answer: Answer) -> Given {
        let approval = match &self.open.kind {
            InterruptKind::Approval { approval, .. } => Some(*approval),
            _ => None, // tidy: nothing else has a digest
        };
        Given { interrupt: self.open.interrupt.clone(), answer, approval }
    }
}

/// Lists the open interrupts of all threads, newest first, up to `limit`. Also returns whether there are more. Reports
/// and skips a thread that cannot be read.
pub async fn all(
    console: &Console,
    place: &Place,
    limit: usize,
) -> Result<(Vec<Waiting>, bool), EngineError> {
    let (mut all, is_cut) = read_all(console, place, limit).await?;
    let of_no_server = |waiting: &Waiting| waiting.open.server.is_none();
    if all.iter().any(of_no_server) {
        // Listing starts no server, because the store has the tools that servers offered.
        let tools = all.iter().filter_map(|waiting| waiting.open.tool.as_deref());
        let servers = servers_of(&**place.engine.records(), tools).await?;
        for Waiting { open, .. } in all.iter_mut().filter(|waiting| of_no_server(waiting)) {
            open.server = open.tool.as_deref().and_then(|tool| servers.get(tool).cloned());
        }
    }
    Ok((all, is_cut))
}

async fn read_all(
    console: &Console,
    place: &Place,
    limit: usize,
) -> Result<(Vec<Waiting>, bool), EngineError> {
    let mut all = Vec::new();
    let mut query = ThreadQuery { limit: PAGE, ..ThreadQuery::default() };
    loop {
        let page = place.engine.waiting(&query).await?;
        let Some(last) = page.last() else { return Ok((all, false)) };
        query.before = Some((last.thread.view.updated_at, last.thread.thread.clone()));
        for thread in page {
            match (thread.open, thread.run) {
                (Ok(open), Some(row)) => {
                    all.extend(open.into_iter().map(|open| Waiting { row: row.clone(), open }));
                }
                (Ok(_), None) => {}
                (Err(error), _) => console.warn(&error.to_string(), &["`windlass doctor` checks the store"]),
            }
            if all.len() > limit {
                all.truncate(limit);
                return Ok((all, true));
            }
        }
    }
}

/// Minimum number of characters of the run's id in an abbreviated request id.
const RUN_MIN_CHARS: usize = 4;

/// Maximum number of candidates listed for an ambiguous id.
const NAMED: usize = 20;

/// Resolves the requests by their ids. Without an id, returns the only open request. The result is never empty.
pub async fn named(console: &Console, place: &Place, ids: &[String]) -> anyhow::Result<Vec<Waiting>> {
    let mut found = Vec::new();
    for id in ids {
        let waiting = find(console, place, id).await?;
        if found.iter().any(|known: &Waiting| known.open.interrupt == waiting.open.interrupt) {
            return Err(Trouble::usage(format!("`{}` is given twice", waiting.open.interrupt)).into());
        }
        found.push(waiting);
    }
    if ids.is_empty() {
        found.push(only(console, place).await?);
    }
    Ok(found)
}

async fn only(console: &Console, place: &Place) -> anyhow::Result<Waiting> {
    let (mut all, more) = all(console, place, NAMED).await?;
    if let ([_], false) = (&all[..], more) {
        return Ok(all.remove(0));
    }
    if all.is_empty() {
        return Err(Trouble::usage("no open requests").into());
    }
    let count = if more { format!("more than {NAMED}") } else { all.len().to_string() };
    let trouble = Trouble::usage(format!("{count} requests are open; name one by its id"));
    let names = all.iter().map(|waiting| {
        let open = &waiting.open;
        format!("`{}`: {} {}", open.interrupt, word(&open.kind), first_line(&title(open), TITLE_CHARS))
    });
    Err(names.fold(trouble, Trouble::hint).into())
}

/// Resolves a request by its id, or by the end of its id with a part of the run's id.
async fn find(console: &Console, place: &Place, id: &str) -> anyhow::Result<Waiting> {
    if let Some((run, _)) = id.split_once('.') {
        match place.engine.run(&RunId::from(run)).row().await {
            Ok(row) => return of_run(place, row, id).await,
            Err(EngineError::NoRun(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let (all, _) = all(console, place, usize::MAX - 1).await?;
    // Without a part of the run's id, the ending could match a new request of another run before the user has typed it.
    let names_a_run = id.rsplitn(4, '.').nth(3).is_some_and(|run| run.len() >= RUN_MIN_CHARS);
    let mut found = all.into_iter().filter(|it| names_a_run && it.open.interrupt.as_str().ends_with(id));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => Err(Trouble::usage(format!("`{id}` is ambiguous: several ids end with it"))
            .hint("give more of the id")
            .into()),
        (None, _) => Err(Trouble::usage(format!("no open request `{id}`"))
            .hint("`windlass approvals list` shows the open requests")
            .into()),
    }
}

async fn of_run(place: &Place, row: RunRow, id: &str) -> anyhow::Result<Waiting> {
    let open = place.engine.thread(&row.thread).interrupts().await?;
    let known: Vec<String> = open.iter().map(|open| format!("`{}`", open.interrupt)).collect();
    if let Some(open) = open.into_iter().find(|open| open.interrupt.as_str() == id) {
        return Ok(Waiting { row, open });
    }
    let trouble = Trouble::usage(closed(place, &row, &InterruptId::from(id)).await?);
    Err(match (row.view.status, known.is_empty()) {
        (Some(_), _) => trouble,
        (None, true) => trouble.hint(format!("run `{}` has no open requests", row.view.run)),
        (None, false) => {
            trouble.hint(format!("open requests of run `{}`: {}", row.view.run, known.join(", ")))
        }
    }
    .into())
}

/// Explains why no request with this id is open.
async fn closed(place: &Place, row: &RunRow, id: &InterruptId) -> Result<String, EngineError> {
    let mut was = None;
    for recorded in events(&place.engine, &row.thread).await? {
        if let Fact::InterruptClosed { interrupt, answer, by, .. } = recorded.event.fact
            && interrupt == *id
        {
            let how = answered(&answer).unwrap_or_else(|| "withdrawn".into());
            was = Some(format!("too late: `{id}` was {how} by {by}"));
        }
    }
    let ended = row.view.status.map(super::super::threads::run_word);
    Ok(match (was, ended) {
        (Some(was), None) => was,
        (Some(was), Some(ended)) => format!("{was}, and the run has ended ({ended})"),
        (None, Some(ended)) => format!("too late: run `{}` has ended ({ended})", row.view.run),
        (None, None) => format!("run `{}` has no open request `{id}`", row.view.run),
    })
}
