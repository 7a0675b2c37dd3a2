//! Background commands: their list, output and end.
//!
//! The commands are kept in memory. A command of an earlier process has ended with
//! that process, and the tools report this.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_engine::port::background::BackgroundCommand;
use windlass_engine::port::tool::{CallContext, ToolOutput};
use windlass_machine::{Digest, RunId, ThreadId, Timestamp};

use super::SHOWN_BYTES;
use crate::shell::{Ended, Job, Stop};

/// Maximum number of running commands of one thread.
const RUNNING_MAX: usize = 8;
/// Maximum number of running commands of all threads. Each command has a
/// thread, a pipe and half a megabyte of output.
const ALL_RUNNING_MAX: usize = 64;
/// Maximum number of ended commands kept per thread.
const ENDED_MAX: usize = 8;
/// Maximum number of ended commands kept for all threads. Their output takes at most 40 MiB.
const ALL_ENDED_MAX: usize = 64;

/// Number of hexadecimal digits in a command's id. With 100 commands in a thread, a
/// collision occurs in one of 3,000 threads.
const ID_DIGITS: usize = 6;
/// Maximum number of characters of a command line displayed to users.
const NAMED_CHARS: usize = 500;

/// The commands of this process.
#[derive(Default)]
pub(super) struct Jobs(Mutex<Commands>);

#[derive(Default)]
struct Commands {
    begun: u64,
    /// The commands, in the order of their start.
    kept: Vec<Kept>,
    /// The threads of commands that are about to start, one entry per command.
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
    /// Returns the number of running and starting commands.
    fn running(&self, counts: impl Fn(&ThreadId) -> bool) -> usize {
        let runs = self.kept.iter().filter(|kept| counts(&kept.thread) && kept.job.has_ended().is_none());
        runs.count() + self.beginning.iter().filter(|thread| counts(thread)).count()
    }

    /// Removes the oldest ended commands if there are more than `most`.
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

/// A reserved slot for one command. Dropping it releases the slot.
pub(super) struct Room<'a> {
    jobs: &'a Jobs,
    thread: ThreadId,
}

impl Room<'_> {
    /// Registers a started command in the slot. Returns its id.
    pub(super) fn keep(self, job: Arc<Job>, context: &CallContext, command: &str) -> String {
        let mut all = self.jobs.all();
        all.begun += 1;
        // The thread may refer to commands of earlier processes, so ids must not repeat.
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
        // No code panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves a slot. Returns an error at the limit.
    pub(super) fn room(&self, thread: &ThreadId) -> Result<Room<'_>, String> {
        let mut all = self.all();
        if all.running(|other| other == thread) >= RUNNING_MAX {
            return Err(format!(
                "{RUNNING_MAX} background commands are already running; stop one with KillBash"
            ));
        }
        if all.running(|_| true) >= ALL_RUNNING_MAX {
            let what =
                format!("all conversations together already run {ALL_RUNNING_MAX} background commands");
            return Err(format!("{what}; retry when some have ended"));
        }
        all.beginning.push(thread.clone());
        Ok(Room { jobs: self, thread: thread.clone() })
    }

    /// Returns the running commands.
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
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let id: String = id.chars().take(32).collect();
            format!(
                "unknown background command `{id}` (known: {known}); commands end with the process that runs \
                 them, old results are discarded, and only a person can stop a command of another process"
            )
        })
    }

    /// Returns a command's output from a position on, with the state of the command.
    pub(super) fn told(&self, thread: &ThreadId, id: &str, from: u64) -> Result<ToolOutput, String> {
        let job = self.find(thread, id)?;
        // The state is read before the output, so that the result
        // includes output written just before the end.
        let ended = job.has_ended();
        let (text, next) = job.heard().from(from, SHOWN_BYTES);
        let more = job.heard().total() > next;
        let how = match ended {
            _ if more => "more output follows".to_owned(),
            None => "running".to_owned(),
            Some(ended) => word(&ended),
        };
        Ok(ToolOutput::text(format!("{text}\n[{how}; continue from {next}]").trim_start().to_owned()))
    }

    /// Ends a command.
    pub(super) async fn end(&self, thread: &ThreadId, id: &str) -> Result<ToolOutput, String> {
        let job = self.find(thread, id)?;
        if let Some(ended) = job.has_ended() {
            return Ok(ToolOutput::text(format!("`{id}` had already ended: {}", word(&ended))));
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
        Ended::Stopped(Stop::Late) => "stopped: it exceeded the time limit".into(),
        Ended::Stopped(Stop::Processes) => "stopped: it exceeded the process limit".into(),
        Ended::Stopped(Stop::Room) => "stopped: its files exceeded the space limit".into(),
    }
}
