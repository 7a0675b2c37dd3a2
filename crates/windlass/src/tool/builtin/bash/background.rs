//! Commands that go on beside their conversation: which there are, what they have said, and their end.
//!
//! They live in this process alone. One of an earlier process has ended with it, and whoever asks is told so.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_machine::ThreadId;

use super::SHOWN_BYTES;
use crate::port::tool::ToolOutput;
use crate::tool::shell::{Ended, Job, Stop};

/// Commands of one conversation that run at a time.
const RUNNING_MAX: usize = 8;
/// Commands of all conversations that run at a time: each has a thread, a pipe and half a megabyte of what it said.
const ALL_RUNNING_MAX: usize = 64;
/// Commands of one conversation that are remembered once they have ended.
const ENDED_MAX: usize = 8;

/// The commands, by conversation, in the order in which they began.
#[derive(Default)]
pub(super) struct Background(Mutex<HashMap<ThreadId, Commands>>);

#[derive(Default)]
struct Commands {
    begun: u32,
    kept: Vec<(String, Arc<Job>)>,
}

impl Commands {
    fn running(&self) -> usize {
        self.kept.iter().filter(|(_, job)| job.has_ended().is_none()).count()
    }
}

impl Background {
    fn all(&self) -> MutexGuard<'_, HashMap<ThreadId, Commands>> {
        // Nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses one more than may run.
    pub(super) fn has_room(&self, thread: &ThreadId) -> Result<(), String> {
        let all = self.all();
        if all.get(thread).map_or(0, Commands::running) >= RUNNING_MAX {
            return Err(format!("{RUNNING_MAX} commands run in the background; end one with KillBash"));
        }
        if all.values().map(Commands::running).sum::<usize>() >= ALL_RUNNING_MAX {
            let what = format!("{ALL_RUNNING_MAX} commands of all conversations run in the background");
            return Err(format!("{what}; try again when some have ended"));
        }
        Ok(())
    }

    /// Keeps a command; returns its name.
    pub(super) fn keep(&self, thread: &ThreadId, job: Arc<Job>) -> Result<String, String> {
        if let Err(full) = self.has_room(thread) {
            job.kill();
            return Err(full);
        }
        let mut all = self.all();
        let commands = all.entry(thread.clone()).or_default();
        commands.begun += 1;
        let id = format!("bash_{}", commands.begun);
        commands.kept.push((id.clone(), job));
        // The oldest that have ended are forgotten.
        let mut over = (commands.kept.len() - commands.running()).saturating_sub(ENDED_MAX);
        commands.kept.retain(|(_, job)| {
            let goes = over > 0 && job.has_ended().is_some();
            over -= usize::from(goes);
            !goes
        });
        Ok(id)
    }

    fn find(&self, thread: &ThreadId, id: &str) -> Result<Arc<Job>, String> {
        let all = self.all();
        let kept = all.get(thread).map_or(&[][..], |commands| &commands.kept);
        let found = kept.iter().find(|(known, _)| known == id).map(|(_, job)| job.clone());
        found.ok_or_else(|| {
            let known: Vec<&str> = kept.iter().map(|(id, _)| id.as_str()).collect();
            let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
            let id: String = id.chars().take(32).collect();
            format!(
                "there is no command `{id}` in the background ({known}); commands end with the process that runs \
                 them, and those that ended long ago are forgotten"
            )
        })
    }

    /// What a command has said from a position on, and how it stands.
    pub(super) fn told(&self, thread: &ThreadId, id: &str, from: u64) -> Result<ToolOutput, String> {
        let job = self.find(thread, id)?;
        // Looked at first: what it says just before its end is heard then.
        let ended = job.has_ended();
        let (text, next) = job.heard().from(from, SHOWN_BYTES);
        let more = job.heard().total() > next;
        let how = match ended {
            _ if more => "more was said".to_owned(),
            None => "it runs".to_owned(),
            Some(ended) => word(&ended),
        };
        Ok(ToolOutput::text(format!("{text}\n[{how}; read on from {next}]").trim_start().to_owned()))
    }

    /// Ends a command.
    pub(super) async fn end(&self, thread: &ThreadId, id: &str) -> Result<ToolOutput, String> {
        let job = self.find(thread, id)?;
        if let Some(ended) = job.has_ended() {
            return Ok(ToolOutput::text(format!("`{id}` has ended before: {}", word(&ended))));
        }
        job.stop(Stop::Unwanted);
        let ended = job.ended().await;
        Ok(ToolOutput::text(format!("`{id}` has ended: {}", word(&ended))))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        for (_, job) in self.all().values().flat_map(|commands| &commands.kept) {
            job.kill();
        }
    }
}

fn word(ended: &Ended) -> String {
    match ended {
        Ended::Code(code) => format!("exit code {code}"),
        Ended::Signal(signal) => format!("signal {signal}"),
        Ended::Stopped(Stop::Unwanted) => "stopped".into(),
        Ended::Stopped(Stop::Late) => "stopped: its time was up".into(),
        Ended::Stopped(Stop::Processes) => "stopped: it had too many processes".into(),
    }
}
