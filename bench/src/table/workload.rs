//! The workloads: script, number of runs, concurrency, and number of repetitions.
//!
//! The sizes are those of the budgets. A quick table has fewer runs and repetitions, not smaller scripts.

use std::ffi::OsString;
use std::path::Path;

use clap::ValueEnum;

use crate::drive::Program;

/// Number of runs in the workload with waiting runs.
const WAITING_RUNS: usize = 10_000;
/// Number of streams in the workload with slow streams.
pub(super) const SLOW_RUNS: usize = 1000;
/// Delay before each token of a slow stream, in milliseconds.
pub(super) const SLOW_TOKEN_MS: f64 = 20.0;
/// Ideal duration of a slow stream in seconds.
pub(super) const SLOW_IDEAL_S: f64 = 200.0 * SLOW_TOKEN_MS / 1e3;

/// The core of a pinned program: not the first core, which usually handles interrupts.
const CORE: &str = "1";

/// A way to load a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Workload {
    /// Runs of 20 steps, one after another
    Steps,
    /// Runs of 200 steps, with the program's own window
    Long,
    /// Runs of 200 steps whose requests contain everything
    LongUnwindowed,
    /// Streams of 2,000 chunks without delay, on one core
    Chunks,
    /// 200 runs of 20 steps at once
    AtOnce,
    /// 1,000 concurrent streams of 200 tokens, 20 ms apart
    Slow,
    /// 10,000 runs that wait for a person; then an engine and a server are opened on their store
    Waiting,
    /// From the start of the process to its first request
    Cold,
    /// `windlass serve` and its clients: 200 and 1,000 streams, 1,000 readers of one run, repeated requests for one
    /// resource
    Serve,
    /// `windlass serve` that idles after 100 runs, and read-only commands
    Idle,
    /// Searches for tools among 5,000
    Find,
    /// The web UI in a browser: a long conversation, and a fast reply
    Pages,
}

/// A load as command-line options.
struct Shape {
    model: &'static str,
    runs: usize,
    concurrency: usize,
    warmup: usize,
}

impl Workload {
    pub(super) const ALL: [Workload; 12] = [
        Workload::Steps,
        Workload::Long,
        Workload::LongUnwindowed,
        Workload::Chunks,
        Workload::AtOnce,
        Workload::Slow,
        Workload::Waiting,
        Workload::Cold,
        Workload::Serve,
        Workload::Idle,
        Workload::Find,
        Workload::Pages,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Workload::Steps => "steps",
            Workload::Long => "long",
            Workload::LongUnwindowed => "long-unwindowed",
            Workload::Chunks => "chunks",
            Workload::AtOnce => "at-once",
            Workload::Slow => "slow",
            Workload::Waiting => "waiting",
            Workload::Cold => "cold",
            Workload::Serve => "serve",
            Workload::Idle => "idle",
            Workload::Find => "find",
            Workload::Pages => "pages",
        }
    }

    pub(super) fn repetitions(self, is_quick: bool) -> usize {
        match (self, is_quick) {
            (Workload::Cold, true) => 3,
            (_, true) => 1,
            (Workload::Cold, false) => 15,
            (
                Workload::Slow | Workload::Waiting | Workload::Serve | Workload::Idle | Workload::Pages,
                false,
            ) => 3,
            (_, false) => 7,
        }
    }

    /// Whether a workload applies to a program. The bare client and rig have no window, so they play the long run once,
    /// under the other name. They also have no waiting runs, server or catalogue.
    pub(super) fn concerns(self, program: Program) -> bool {
        let alone = matches!(
            self,
            Workload::Long
                | Workload::Waiting
                | Workload::Serve
                | Workload::Idle
                | Workload::Find
                | Workload::Pages
        );
        !alone || program == Program::Windlass
    }

    /// Returns the load that one program plays in its process; the server's load is in another module.
    fn shape(self, is_quick: bool) -> Option<Shape> {
        let few = |many: usize| if is_quick { many.div_ceil(4) } else { many };
        let (model, runs, concurrency, warmup) = match self {
            Workload::Steps => ("loop-20", few(100), 1, 3),
            Workload::Long | Workload::LongUnwindowed => ("loop-200", few(2), 1, 1),
            Workload::Chunks => ("stream-2000", few(20), 1, 2),
            Workload::AtOnce => ("loop-20", 200, 200, 1),
            Workload::Slow => ("delay20ms-200", SLOW_RUNS, SLOW_RUNS, 1),
            Workload::Waiting => ("loop-20", few(WAITING_RUNS), 8, 1),
            Workload::Cold => ("stream-1", 1, 1, 0),
            Workload::Serve | Workload::Idle | Workload::Find | Workload::Pages => return None,
        };
        Some(Shape { model, runs, concurrency, warmup })
    }

    /// Returns the command line with which this program plays this workload.
    pub(super) fn arguments(
        self,
        program: Program,
        base_url: &str,
        folder: &Path,
        is_quick: bool,
    ) -> Vec<OsString> {
        if self == Workload::Find {
            return vec!["find".into()];
        }
        let Some(shape) = self.shape(is_quick) else {
            return serve_arguments(self, base_url, folder, is_quick);
        };
        let mut arguments: Vec<OsString> = vec!["drive".into(), program.name().into(), "--folder".into()];
        arguments.push(folder.into());
        let mut add = |name: &str, value: &str| arguments.extend([name.into(), value.into()]);
        add("--base-url", base_url);
        add("--model", shape.model);
        add("--runs", &shape.runs.to_string());
        add("--concurrency", &shape.concurrency.to_string());
        add("--warmup", &shape.warmup.to_string());
        match self {
            Workload::LongUnwindowed => add("--window", "off"),
            Workload::Chunks => add("--core", CORE),
            Workload::Waiting => arguments.push("--waits".into()),
            Workload::Steps | Workload::Long | Workload::AtOnce | Workload::Slow | Workload::Cold => {}
            Workload::Serve | Workload::Idle | Workload::Find | Workload::Pages => {}
        }
        arguments
    }
}

/// Returns the command line that loads the adjacent program `windlass` with its clients or its pages.
fn serve_arguments(workload: Workload, base_url: &str, folder: &Path, is_quick: bool) -> Vec<OsString> {
    let command = match workload {
        Workload::Pages => "pages",
        Workload::Idle => "idle",
        _ => "http", // tidy: the others load no server
    };
    let mut arguments = with_binary(command, base_url, folder);
    if is_quick && workload != Workload::Pages {
        arguments.push("--quick".into());
    }
    arguments
}

/// Returns the command line that starts the adjacent program `windlass` on the store
/// that [`Workload::Waiting`] has left.
pub(super) fn restart_arguments(base_url: &str, folder: &Path) -> Vec<OsString> {
    with_binary("restart", base_url, folder)
}

fn with_binary(command: &str, base_url: &str, folder: &Path) -> Vec<OsString> {
    let binary = std::env::current_exe().unwrap_or_default().with_file_name("windlass");
    let mut arguments: Vec<OsString> = vec![command.into(), "--binary".into(), binary.into()];
    arguments.extend(["--folder".into(), folder.into(), "--base-url".into(), base_url.into()]);
    arguments
}
