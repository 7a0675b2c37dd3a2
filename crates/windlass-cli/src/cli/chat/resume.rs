//! Continues an earlier conversation in a chat: `--continue`, `--thread`, `/continue` and `/resume`.

use windlass::machine::{Seq, ThreadId};
use windlass::port::journal::RunQuery;
use windlass_server::clock::now;
use windlass_server::text::{first_line, shown};
use windlass_server::trouble::Trouble;

use super::{Chat, Next, TURNS};
use crate::cli::follow::From;
use crate::cli::threads;
use crate::view::transcript::{self, Form};

/// Maximum number of conversations listed by `/resume`.
const LISTED: usize = 20;

/// Maximum length of a title in that list, in characters.
const TITLE_CHARS: usize = 44;

/// Maximum number of lines of a conversation that are displayed when a chat continues it.
const RECALLED: usize = 20;

impl Chat<'_> {
    /// `/resume`: lists conversations, or continues one, named by its number in that list or by its id.
    pub(super) async fn resume(&mut self, which: &str) -> anyhow::Result<Next> {
        if which.is_empty() {
            self.list_threads().await?;
            return Ok(Next::Go);
        }
        let number = which.parse::<usize>().ok().filter(|number| *number <= LISTED);
        let thread = match number {
            Some(number) => {
                if self.listed.is_empty() {
                    self.listed = self.newest_threads().await?;
                }
                let listed = number.checked_sub(1).and_then(|index| self.listed.get(index)).cloned();
                listed.ok_or_else(|| {
                    Trouble::usage(format!("no conversation {number}"))
                        .hint("/resume lists the conversations")
                })?
            }
            None => self.place.find_thread(Some(which)).await?,
        };
        self.enter(thread).await
    }

    /// `/continue`: continues this conversation's unfinished run. In a new chat, continues the newest conversation.
    pub(super) async fn continue_run(&mut self) -> anyhow::Result<Next> {
        let Some(thread) = self.thread.clone() else {
            let newest = self.place.newest_thread_here().await?;
            return self.enter(newest).await;
        };
        let next = self.follow_unfinished(&thread).await?;
        if next.is_none() {
            self.console.note("this conversation has no unfinished run");
            self.console.hint("/resume lists the conversations");
        }
        Ok(next.unwrap_or(Next::Go))
    }

    /// Continues a conversation: shows its last lines and follows its unfinished run, if any.
    pub(super) async fn enter(&mut self, thread: ThreadId) -> anyhow::Result<Next> {
        let text = transcript::write(self.console, &self.place.engine, &thread, Form::Plain).await?;
        let lines: Vec<&str> = text.trim_end().lines().collect();
        let hidden = lines.len().saturating_sub(RECALLED);
        if hidden > 0 {
            let count = format!("… {hidden} earlier lines; `windlass threads show {thread}` shows them");
            self.console.note(&self.console.paint.dim(&count));
        }
        for line in &lines[hidden..] {
            self.console.note(line);
        }
        self.thread = Some(thread.clone());
        self.forget_cost();
        if let Some(screen) = self.console.screen() {
            let runs = self.place.engine.runs(&RunQuery::of(&thread, TURNS)).await?;
            let cost = runs.iter().filter_map(|row| row.view.totals.cost).map(|cost| cost.0).sum();
            screen.update_status(|status| status.cost = cost);
        }
        Ok(self.follow_unfinished(&thread).await?.unwrap_or(Next::Go))
    }

    /// Follows the thread's unfinished run. Returns `None` if the thread has no unfinished run.
    async fn follow_unfinished(&mut self, thread: &ThreadId) -> anyhow::Result<Option<Next>> {
        let machine = self.place.engine.thread(thread).folded().await?;
        let Some(run) = machine.state().run.as_ref().map(|run| run.id.clone()) else { return Ok(None) };
        let row = self.place.engine.run(&run).row().await?;
        self.place.prepare(self.console, &row).await?;
        self.place.engine.run(&run).resume().await?;
        let line = format!("continuing run {run} ({})", row.view.model);
        self.console.note(&self.console.paint.dim(&line));
        let past = self.place.engine.thread(thread).row().await?.head;
        let from = From { after: Seq(row.view.from.0.saturating_sub(1)), past };
        let next = self.follow(thread.clone(), run, from).await;
        // The next message starts a run with this chat's settings, so restore the chat's provider configuration.
        self.place.reach_own(self.console, &self.agent.models)?;
        next.map(Some)
    }

    async fn newest_threads(&self) -> anyhow::Result<Vec<ThreadId>> {
        let rows = self.place.threads_here(LISTED).await?;
        Ok(rows.into_iter().map(|row| row.thread).collect())
    }

    async fn list_threads(&mut self) -> anyhow::Result<()> {
        let rows = self.place.threads_here(LISTED).await?;
        if rows.is_empty() {
            self.console.note("no conversations yet");
            return Ok(());
        }
        let now = now();
        for (index, row) in rows.iter().enumerate() {
            let title =
                first_line(&shown(row.view.title.as_deref().unwrap_or("(no title)")), TITLE_CHARS - 1);
            let status = threads::thread_word(row.view.status);
            let age = threads::age(now, row.view.updated_at);
            let here = if self.thread.as_ref() == Some(&row.thread) { "  (this one)" } else { "" };
            self.console
                .note(&format!("{:>3}  {title:<TITLE_CHARS$}  {status:<8}  {age:>7}{here}", index + 1));
        }
        self.console.hint("`/resume N` continues conversation N");
        self.listed = rows.into_iter().map(|row| row.thread).collect();
        Ok(())
    }
}
