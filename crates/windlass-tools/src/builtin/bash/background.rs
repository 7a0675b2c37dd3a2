//! Commands that go on beside their conversation: which there are, what they have said, and their end.
//!
//! They live in this process alone. One of an earlier process has ended with it, and whoever asks is told so.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_engine::port::background::BackgroundCommand;
use windlass_engine::port::tool::{CallContext, ToolOutput};
use windlass_machine::{Digest, RunId, ThreadId, Timestamp};

use super::SHOWN_BYTES;
use crate::shell::{Ended, Job, Stop};

/// Commands of one conversation that run at a time.
const RUNNING_MAX: usize = 8;
/// Commands of all conversations that run at a time: each has a thread, a pipe and half a megabyte of what it said.
const ALL_RUNNING_MAX: usize = 64;
/// Commands of one conversation that are remembered once they have ended.
const ENDED_MAX: usize = 8;
/// Commands of all conversations that are remembered: 40 MiB of what they have said, at most.
const ALL_ENDED_MAX: usize = 64;

/// Hexadecimal digits of a command's name: of 100 commands of a conversation two have the same once in 3,000 conversations.
const ID_DIGITS: usize = 6;
/// Characters of a command that people are shown.
const NAMED_CHARS: usize = 500;

/// The commands of this process.
#[derive(Default)]
pub(super) struct Jobs(Mutex<Commands>);

#[derive(Default)]
struct Commands {
    begun: u64,
    /// In the order in which they began.
    kept: Vec<Kept>,
    /// Conversations of which one is about to begin, once for each.
    beginning: Vec<ThreadId>,
}

struct Kept {
    thread: ThreadId,
    run: RunId,
    id: String,
    command: String,
    begun_at: Timestamp,
    job: Arc<Job>,
}

impl Commands {
    /// Those that run, with those that are about to.
    fn running(&self, counts: impl Fn(&ThreadId) -> bool) -> usize {
        let runs = self.kept.iter().filter(|kept| counts(&kept.thread) && kept.job.has_ended().is_none());
        runs.count() + self.beginning.iter().filter(|thread| counts(thread)).count()
    }

    /// Forgets the oldest that have ended, but for so many.
    fn forget(&mut self, most: usize, counts: impl Fn(&ThreadId) -> bool) {
        let has_ended = |kept: &Kept| counts(&kept.thread) && kept.job.has_ended().is_some();
        let mut over = self.kept.iter().filter(|kept| has_ended(kept)).count().saturating_sub(most);
        self.kept.retain(|kept| {
            let goes = over > 0 && has_ended(kept);
            over -= usize::from(goes);
            !goes
        });
    }
}

/// Room for one command, until it is kept there or given back.
pub(super) struct Room<'a> {
    jobs: &'a Jobs,
    thread: ThreadId,
}

impl Room<'_> {
    /// Keeps a command there that a call has begun; returns its name.
    pub(super) fn keep(self, job: Arc<Job>, context: &CallContext, command: &str) -> String {
        let mut all = self.jobs.all();
        all.begun += 1;
        // A conversation may speak of commands of earlier processes, and this must not be the name of one.
        let of = Digest::of(format!("{}/{}", context.effect_id, all.begun).as_bytes()).to_string();
        let id = format!("bash_{}", &of[..ID_DIGITS]);
        all.kept.push(Kept {
            thread: self.thread.clone(),
            run: context.run.clone(),
            id: id.clone(),
            command: command.chars().take(NAMED_CHARS).collect(),
            begun_at: context.now,
            job,
        });
        all.forget(ENDED_MAX, |thread| *thread == self.thread);
        all.forget(ALL_ENDED_MAX, |_| true);
        id
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        let mut all = self.jobs.all();
        if let Some(at) = all.beginning.iter().position(|thread| *thread == self.thread) {
            all.beginning.swap_remove(at);
        }
    }
}

impl Jobs {
    fn all(&self) -> MutexGuard<'_, Commands> {
        // Nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets room aside for a command; refuses one more than may run.
    pub(super) fn room(&self, thread: &ThreadId) -> Result<Room<'_>, String> {
        let mut all = self.all();
        if all.running(|other| other == thread) >= RUNNING_MAX {
            return Err(format!("{RUNNING_MAX} commands run in the background; end one with KillBash"));
        }
        if all.running(|_| true) >= ALL_RUNNING_MAX {
            let what = format!("{ALL_RUNNING_MAX} commands of all conversations run in the background");
            return Err(format!("{what}; try again when some have ended"));
        }
        all.beginning.push(thread.clone());
        Ok(Room { jobs: self, thread: thread.clone() })
    }

    /// Those that run.
    pub(super) fn at_work(&self) -> Vec<BackgroundCommand> {
        let all = self.all();
        let runs = all.kept.iter().filter(|kept| kept.job.has_ended().is_none());
        let shown = runs.map(|kept| BackgroundCommand {
            thread: kept.thread.clone(),
            run: kept.run.clone(),
            id: kept.id.clone(),
            command: kept.command.clone(),
            begun_at: kept.begun_at,
        });
        shown.collect()
    }

    fn find(&self, thread: &ThreadId, id: &str) -> Result<Arc<Job>, String> {
        let all = self.all();
        let kept = all.kept.iter().filter(|kept| kept.thread == *thread);
        let found = kept.clone().find(|kept| kept.id == id).map(|kept| kept.job.clone());
        found.ok_or_else(|| {
            let known: Vec<&str> = kept.map(|kept| kept.id.as_str()).collect();
            let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
            let id: String = id.chars().take(32).collect();
            format!(
                "there is no command `{id}` in the background here ({known}); commands end with the process that \
                 runs them, those that ended long ago are forgotten, and one that another process runs is for people \
                 to end"
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

impl Drop for Jobs {
    fn drop(&mut self) {
        self.all().kept.iter().for_each(|kept| kept.job.kill());
    }
}

fn word(ended: &Ended) -> String {
    match ended {
        Ended::Code(code) => format!("exit code {code}"),
        Ended::Signal(signal) => format!("signal {signal}"),
        Ended::Stopped(Stop::Unwanted) => "stopped".into(),
        Ended::Stopped(Stop::Late) => "stopped: its time was up".into(),
        Ended::Stopped(Stop::Processes) => "stopped: it had too many processes".into(),
        Ended::Stopped(Stop::Room) => "stopped: its files hold more than there is room for".into(),
    }
}
