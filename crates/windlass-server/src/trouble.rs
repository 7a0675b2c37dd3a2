//! Errors for command-line users: a message, hints on separate lines, and the exit code.

use std::fmt;
use std::process::ExitCode;

use windlass::machine::Reject;
use windlass::port::journal::StoreError;
use windlass::port::model::ModelError;
use windlass::tool::FolderError;
use windlass::{EngineError, Fault, Outcome, SlowDriver, Status};

/// The exit status of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success; a run has completed.
    Done,
    /// The run failed, or a check found a problem.
    Failed,
    /// The command line or the configuration is invalid.
    Usage,
    Waiting,
    Cancelled,
    /// The store or the engine failed; a run can be resumed.
    Engine,
    /// Not all output could be written.
    Output,
    /// Interrupted with Ctrl-C; the run can be resumed.
    Interrupted,
    /// Terminated by a signal (128 + its number); the run can be resumed.
    Signal(u8),
}

/// Exit codes, for `--help`.
pub const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    the run failed, or a check found a problem
  2    wrong usage or configuration
  3    the run is waiting for an answer
  4    the run was cancelled
  5    the store or the engine failed
  6    the output could not be written
  130  interrupted; run `windlass resume` to continue";

impl Exit {
    /// Returns the exit code of the process.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Waiting => 3,
            Self::Cancelled => 4,
            Self::Engine => 5,
            Self::Output => 6,
            Self::Interrupted => 130,
            Self::Signal(code) => code,
        }
    }

    /// Returns whether the process may leave an unfinished run when it exits.
    pub fn leaves_a_run(self) -> bool {
        match self {
            Self::Done | Self::Failed | Self::Usage | Self::Waiting | Self::Cancelled | Self::Output => false,
            Self::Engine | Self::Interrupted | Self::Signal(_) => true,
        }
    }

    /// Returns the exit status of a command that lost some output, so that a script does not treat the remaining output
    /// as complete.
    pub fn with_output_lost(self) -> Self {
        match self {
            Self::Done | Self::Failed | Self::Waiting | Self::Cancelled | Self::Output => Self::Output,
            Self::Usage | Self::Engine | Self::Interrupted | Self::Signal(_) => self,
        }
    }

    /// Returns the exit status for a run's outcome.
    pub fn of(outcome: &Outcome) -> Self {
        match outcome.status {
            Status::Done => Self::Done,
            // Exit codes describe finished runs. This wait ended before the run, which must not look like a success.
            Status::Queued | Status::Running => Self::Engine,
            Status::Failed => Self::Failed,
            Status::Paused => Self::Waiting,
            Status::Cancelled => Self::Cancelled,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// An error with hints about what to do next.
#[derive(Debug)]
pub struct Trouble {
    message: String,
    hints: Vec<String>,
    exit: Exit,
    about: About,
}

/// The subject of an error, for reports that add details about the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// No particular subject.
    Anything,
    /// The store; the report names it.
    Store,
    /// The store, during a run that can be resumed.
    StoreInRun,
}

impl Trouble {
    /// Creates a user error: wrong usage or configuration.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), hints: Vec::new(), exit: Exit::Usage, about: About::Anything }
    }

    /// Creates an error of the environment or of Windlass.
    pub fn engine(message: impl Into<String>) -> Self {
        Self { exit: Exit::Engine, ..Self::usage(message) }
    }

    /// Creates an output error, such as a full disk.
    pub fn output(message: impl Into<String>) -> Self {
        Self { exit: Exit::Output, ..Self::usage(message) }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    pub fn exit(&self) -> Exit {
        self.exit
    }

    pub fn about(&self) -> About {
        self.about
    }

    /// Returns the message and the hints, for lists of problems.
    pub fn parts(&self) -> (&str, &[String]) {
        (&self.message, &self.hints)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Trouble {}

/// Converts any error to a message with hints and an exit code.
pub fn explain(error: &anyhow::Error) -> Trouble {
    if let Some(trouble) = error.downcast_ref::<Trouble>() {
        let Trouble { message, hints, exit, about } = trouble;
        return Trouble { message: message.clone(), hints: hints.clone(), exit: *exit, about: *about };
    }
    if let Some(engine) = error.downcast_ref::<EngineError>() {
        return of_engine(engine);
    }
    if let Some(store) = error.downcast_ref::<StoreError>() {
        return of_store(store);
    }
    if let Some(model) = error.downcast_ref::<ModelError>() {
        return split(&model.message, Exit::Usage);
    }
    if let Some(folder) = error.downcast_ref::<FolderError>() {
        return Trouble::usage(with_sources(folder)).hint("choose another folder with `--dir`");
    }
    Trouble::engine(format!("{error:#}"))
}

fn of_engine(error: &EngineError) -> Trouble {
    let exit = match error.judge() {
        (Fault::Caller, _) => Exit::Usage,
        (Fault::Outside | Fault::Engine, _) => Exit::Engine,
    };
    match error {
        EngineError::Store(store) => of_store(store),
        EngineError::Model(model) => split(&model.message, Exit::Usage),
        EngineError::NoRun(_) | EngineError::NoThread(_) => Trouble::usage(error.to_string()).hint(
            "run `windlass threads list` to see the threads here, or choose another folder with `--dir` or \
             `--store`",
        ),
        EngineError::Rejected(Reject::Closed { .. } | Reject::NotFound { .. } | Reject::Stale { .. }) => {
            Trouble::usage(error.to_string()).hint("run `windlass resume` to see the state of the run")
        }
        EngineError::Pending { driver, .. } => Trouble::engine(error.to_string()).hint(match driver {
            SlowDriver::ThisProcess => "run `windlass doctor` to check whether the store is slow or full",
            SlowDriver::AnotherProcess { .. } => {
                "check the terminal that drives it, or end that process and run `windlass resume`"
            }
        }),
        EngineError::Stopped { .. } => {
            Trouble { about: About::StoreInRun, ..split(&error.to_string(), exit) }
        }
        EngineError::Journal(_) => Trouble { about: About::Store, ..split(&with_sources(error), exit) },
        _ => Trouble { exit, ..split(&with_sources(error), exit) },
    }
}

fn of_store(error: &StoreError) -> Trouble {
    let exit = match error {
        StoreError::NotFound { .. } | StoreError::Refused { .. } => Exit::Usage,
        StoreError::Unreadable { .. } | StoreError::Corrupt { .. } | StoreError::Unavailable { .. } => {
            Exit::Engine
        }
    };
    let trouble = split(&with_sources(error), exit);
    let about = |about: About, trouble: Trouble| Trouble { about, ..trouble };
    match error {
        StoreError::Corrupt { .. } => {
            about(About::Store, trouble.hint("run `windlass doctor` to check the store"))
        }
        StoreError::Unavailable { .. } => about(About::StoreInRun, trouble),
        StoreError::Unreadable { .. } | StoreError::Refused { .. } => about(About::Store, trouble),
        StoreError::NotFound { .. } => trouble,
    }
}

/// Formats an error with its sources, without repetitions.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let more = source.to_string();
        if !said.contains(&more) {
            said = format!("{said}: {more}");
        }
        next = source.source();
    }
    said
}

/// Splits a message of the library, which has the form "what is wrong; what to do". The second part becomes a hint on a
/// separate line.
fn split(message: &str, exit: Exit) -> Trouble {
    let mut lines = message.lines();
    let first = lines.next().unwrap_or_default();
    let (what, way_out) = ["; ", ": set ", ": configure "]
        .iter()
        .find_map(|mark| {
            let (what, rest) = first.split_once(mark)?;
            Some((what, format!("{}{rest}", mark.trim_start_matches([';', ':', ' ']))))
        })
        .map_or((first, None), |(what, rest)| (what, Some(rest)));
    let hints = way_out.into_iter().chain(lines.map(str::to_owned)).collect();
    Trouble { message: what.to_owned(), hints, exit, about: About::Anything }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_out_stands_on_its_own_line() {
        let parts = |message: &str| {
            let trouble = split(message, Exit::Usage);
            (trouble.message, trouble.hints)
        };
        assert_eq!(
            parts("no key for provider `x`: set X_API_KEY or configure its `api_key`"),
            ("no key for provider `x`".into(), vec!["set X_API_KEY or configure its `api_key`".into()])
        );
        assert_eq!(
            parts("the disk is full; make room"),
            ("the disk is full".into(), vec!["make room".into()])
        );
        assert_eq!(parts("plain"), ("plain".into(), vec![]));
        assert_eq!(parts("a\nb"), ("a".into(), vec!["b".into()]));
    }
}
