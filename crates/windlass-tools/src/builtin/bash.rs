//! `Bash`, `BashOutput` and `KillBash`: commands in the working folder. A program must
//! enable these tools explicitly. (LM-T1, SK-T5)
//!
//! A command is a sandboxed process with a clean environment. When the process ends, its descendants are
//! ended too. A background command runs beside the run and ends with this engine process, because the list of
//! commands is kept in memory. The driver decides which background commands are no longer needed.

mod background;

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use windlass_engine::port::background::{Background, BackgroundCommand};
use windlass_engine::port::clock::Clock;
use windlass_engine::port::tool::{CallContext, Tool, ToolOutput};
use windlass_engine::tool::WorkingFolder;
use windlass_machine::{Annotations, Area, EffectClass, ThreadId};
use windlass_schema::FunctionTool;

use self::background::Jobs;
use super::read_only;
use crate::sandbox::{Openings, Sandbox, support};
use crate::shell::{
    Ended, Job, Launch, Leash, Limits, Order, Places, ProcessLimit, Room, Scratch, Stop, sweep,
};

/// Settings of commands.
#[derive(Clone, Debug)]
pub struct BashSettings {
    /// The shell, called with `-c`.
    pub shell: PathBuf,
    /// The sandbox that every command runs in.
    pub sandbox: Sandbox,
    /// Environment variables of this process that commands inherit, in addition to a few standard ones.
    pub variables: Vec<String>,
    /// Time limit of a command, in milliseconds.
    pub timeout_ms: u64,
    /// Time limit of a background command, in milliseconds.
    pub background_timeout_ms: u64,
    /// Maximum number of concurrent processes of one command, including threads.
    pub processes: usize,
    /// Maximum size of a file that a command may write, in bytes.
    pub file_bytes: u64,
    /// Memory limit of each process, in bytes; 0: no limit.
    pub memory_bytes: u64,
}

impl Default for BashSettings {
    fn default() -> Self {
        Self {
            shell: "/bin/sh".into(),
            sandbox: Sandbox::default(),
            variables: Vec::new(),
            // Ten minutes suffice for a build or a test run. Longer commands run in the background.
            timeout_ms: 10 * 60_000,
            background_timeout_ms: 3_600_000,
            // A parallel build has several dozen processes, and a virtual machine about a hundred threads.
            processes: 1_024,
            file_bytes: 1024 * 1024 * 1024,
            memory_bytes: 0,
        }
    }
}

/// Creates the tools. Returns an error if the kernel cannot enforce the settings.
pub fn bash_tools(settings: BashSettings, clock: Arc<dyn Clock>) -> Result<Vec<Arc<dyn Tool>>, String> {
    settings.sandbox.check(support())?;
    sweep();
    let openings = Arc::new(Openings::new(settings.sandbox.clone()));
    let shared = Arc::new(Shell { settings, openings, clock, jobs: Jobs::default() });
    let (runs, reads, kills) = (shared.clone(), shared.clone(), shared.clone());
    let bash = FunctionTool::new("Bash", BASH, move |context: CallContext, arguments: BashArguments| {
        let shell = runs.clone();
        async move { shell.run(context, arguments).await.unwrap_or_else(ToolOutput::error) }
    });
    let network = runs_with_network(&reads);
    let output =
        FunctionTool::new("BashOutput", OUTPUT, move |context: CallContext, asked: OutputArguments| {
            let shell = reads.clone();
            async move {
                let told = shell.jobs.told(&context.thread, &asked.id, asked.from);
                told.unwrap_or_else(ToolOutput::error)
            }
        });
    let kill = FunctionTool::new("KillBash", KILL, move |context: CallContext, asked: KillArguments| {
        let shell = kills.clone();
        async move {
            let ended = shell.jobs.end(&context.thread, &asked.id).await;
            ended.unwrap_or_else(ToolOutput::error)
        }
    });
    let destructive =
        Annotations { destructive_hint: true, open_world_hint: network, ..Annotations::default() };
    let own = Annotations { idempotent_hint: true, ..read_only() };
    Ok(vec![
        Arc::new(
            bash.background(shared)
                .annotations(destructive)
                .effect_class(EffectClass::Once)
                .area(Area::Machine)
                .outlives(|arguments| arguments["run_in_background"] == true),
        ),
        Arc::new(output.annotations(read_only()).effect_class(EffectClass::Pure).area(Area::Machine)),
        // `KillBash` ends only commands that the agent has started, so it needs no approval.
        Arc::new(kill.annotations(own).effect_class(EffectClass::Idempotent).area(Area::Machine)),
    ])
}

fn runs_with_network(shell: &Shell) -> bool {
    shell.settings.sandbox.network
}

const BASH: &str = "Run a shell command in the working folder. It has no terminal and no stdin; stdout and \
stderr are returned together. All processes that it starts end with it. Files outside the working folder and \
the network may be unavailable. Run long commands in the background: read their output with BashOutput, stop \
them with KillBash.";

const OUTPUT: &str =
    "Read the output of a background command from a position on, and whether the command is still running.";

const KILL: &str = "Stop a background command and all processes that it started.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BashArguments {
    /// The shell command to run.
    #[schemars(length(min = 1, max = 100_000))]
    command: String,
    /// What the command does, in a few words, for the person who approves it.
    #[serde(default)]
    #[schemars(length(max = 200))]
    #[expect(dead_code, reason = "people read it with the call")]
    description: Option<String>,
    /// Time limit in seconds (default: the configured maximum).
    #[serde(default)]
    timeout_s: Option<u32>,
    /// Run the command in the background and return at once.
    #[serde(default)]
    run_in_background: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OutputArguments {
    /// The id that Bash returned for the command.
    id: String,
    /// The position to read from: where the previous read ended (default: 0, the beginning).
    #[serde(default)]
    from: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct KillArguments {
    /// The id that Bash returned for the command.
    id: String,
}

/// Maximum size of the output in a result, in bytes.
const SHOWN_BYTES: usize = 64 * 1024;
/// Interval between two publications of new output, in milliseconds.
const TOLD_EVERY_MS: u64 = 250;
/// Interval between two progress reports of a silent command, in milliseconds. Without them, a watchdog that
/// limits the time without progress would end the command early.
const QUIET_MS: u64 = 30_000;
/// Maximum number of bytes published at once.
const TOLD_BYTES: usize = 4 * 1024;

/// State that the tools share.
struct Shell {
    settings: BashSettings,
    openings: Arc<Openings>,
    clock: Arc<dyn Clock>,
    jobs: Jobs,
}

#[async_trait]
impl Background for Shell {
    fn at_work(&self) -> Vec<BackgroundCommand> {
        self.jobs.at_work()
    }

    async fn end(&self, thread: &ThreadId, id: &str) {
        // If the list does not contain the command, the command has already ended.
        let _ = self.jobs.end(thread, id).await;
    }
}

impl Shell {
    async fn run(&self, context: CallContext, arguments: BashArguments) -> Result<ToolOutput, String> {
        let BashArguments { command, timeout_s, run_in_background, .. } = arguments;
        let folder = context.folder.clone().ok_or("this thread has no working folder")?;
        let at_most = match run_in_background {
            true => self.settings.background_timeout_ms,
            false => self.settings.timeout_ms,
        };
        let timeout_ms =
            timeout_s.map_or(at_most, |seconds| (u64::from(seconds) * 1_000).max(1_000).min(at_most));
        // The slot is reserved before the start, so that a rejected command does not start.
        let room = match run_in_background {
            true => Some(self.jobs.room(&context.thread)?),
            false => None,
        };
        let (settings, openings) = (self.settings.clone(), self.openings.clone());
        let typed = command.clone();
        let order = move |says| order(&settings, &openings, &folder, &typed, says);
        let leash: Leash = Job::start(order, self.clock.clone()).await?;
        if let Some(room) = room {
            let job = leash.let_go();
            let id = room.keep(job.clone(), &context, &command);
            let clock = self.clock.clone();
            tokio::spawn(async move {
                tokio::select! {
                    biased;
                    _ = job.ended() => {}
                    () = clock.sleep_ms(timeout_ms) => job.stop(Stop::Late),
                }
            });
            return Ok(ToolOutput::text(format!(
                "Running in the background as `{id}`, for at most {} s. It stops when this process exits; \
                 read its output with BashOutput",
                seconds(timeout_ms)
            )));
        }
        let ended = self.attend(leash.job(), &context, timeout_ms).await;
        Ok(told(leash.job(), &ended, timeout_ms))
    }

    /// Waits for a command and publishes its output. Ends the command at its time limit or on cancellation.
    async fn attend(&self, job: &Job, context: &CallContext, timeout_ms: u64) -> Ended {
        let mut late = self.clock.sleep_ms(timeout_ms);
        let (mut told, mut told_ms) = (0, self.clock.monotonic_ms());
        let mut is_asked = false;
        loop {
            tokio::select! {
                biased;
                ended = job.ended() => return ended,
                () = context.cancel.cancelled(), if !is_asked => {
                    is_asked = true;
                    job.stop(Stop::Unwanted);
                }
                () = &mut late, if !is_asked => {
                    is_asked = true;
                    job.stop(Stop::Late);
                }
                () = self.clock.sleep_ms(TOLD_EVERY_MS) => {
                    let (text, next) = job.heard().from(told, TOLD_BYTES);
                    let now = self.clock.monotonic_ms();
                    if next > told {
                        context.progress.report(text);
                        told_ms = now;
                    } else if now.saturating_sub(told_ms) >= QUIET_MS {
                        context.progress.report(format!("[no output for {} s]\n", seconds(QUIET_MS)));
                        told_ms = now;
                    }
                    told = next;
                }
            }
        }
    }
}

/// Prepares a command. Reads from the disk.
fn order(
    settings: &BashSettings,
    openings: &Openings,
    folder: &WorkingFolder,
    command: &str,
    output: OwnedFd,
) -> Result<Order, String> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: std::io::Error| format!("{what}: {error}")
    };
    let text = |text: &str| CString::new(text).map_err(|_| "the command contains a NUL character".to_owned());
    let scratch = Scratch::create().map_err(failed("cannot create a scratch folder"))?;
    let own = scratch.opened().map_err(failed("cannot open the scratch folder"))?;
    let mut confinement = openings.confine(folder, own)?;
    // The shell stays the first process of the namespace. The kernel delivers only the signals that the first process
    // handles, so the shell traps SIGTERM and waits for the others.
    let script = r#"trap 'exit 143' TERM; eval "$1"; exit $?"#;
    let shell = settings.shell.to_string_lossy();
    let arguments: Result<Vec<CString>, String> =
        [&*shell, "-c", script, "sh", command].map(text).into_iter().collect();
    let variables = environment(settings, scratch.path(), folder.path());
    let variables: Result<Vec<CString>, String> =
        variables.iter().map(|(name, value)| text(&format!("{name}={value}"))).collect();
    let handle = folder.handle().map_err(failed("cannot open the working folder"))?;
    let path = folder.canonical();
    let has_mounts = confinement.holds() && support().mounts;
    let places = std::mem::take(&mut confinement.places);
    let places = has_mounts.then(|| Places::of(places)).transpose()?;
    let room = Room::of(folder);
    let file_bytes = room.as_ref().map_or(settings.file_bytes, |room| settings.file_bytes.min(room.left()));
    let launch = Launch {
        program: text(&shell)?,
        arguments: arguments?,
        environment: variables?,
        folder: handle,
        path: CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())?,
        places,
        input: File::open("/dev/null").map_err(failed("cannot open `/dev/null`"))?.into(),
        output,
        limits: Limits { file_bytes, memory_bytes: settings.memory_bytes, files: 4_096 },
        confinement,
        namespace: support().processes,
        process_limit: support().processes.then(|| ProcessLimit::at_least(settings.processes)).flatten(),
    };
    Ok(Order { launch, processes: settings.processes, room, scratch })
}

/// Returns the standard variables, and those that the settings name. A command inherits a provider's key only
/// if the settings name its variable.
fn environment(settings: &BashSettings, scratch: &Path, folder: &Path) -> BTreeMap<String, String> {
    const PASSED: [&str; 8] =
        ["LANG", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LOGNAME", "SSL_CERT_FILE", "SSL_CERT_DIR"];
    let own = |name: &str| std::env::var(name).ok().map(|value| (name.to_owned(), value));
    let mut variables: BTreeMap<String, String> = PASSED.into_iter().filter_map(own).collect();
    let path = std::env::var("PATH").unwrap_or_default();
    let scratch = scratch.display().to_string();
    let set = [
        ("PATH", settings.sandbox.search_path(&path)),
        // The user's home directory is not accessible. Files in this directory are deleted with it.
        ("HOME", scratch.clone()),
        ("TMPDIR", scratch),
        ("PWD", folder.display().to_string()),
        ("SHELL", settings.shell.display().to_string()),
        ("TERM", "dumb".into()),
        // Commands cannot prompt or open a pager.
        ("PAGER", "cat".into()),
        ("GIT_PAGER", "cat".into()),
        ("GIT_TERMINAL_PROMPT", "0".into()),
    ];
    variables.extend(set.map(|(name, value)| (name.to_owned(), value)));
    variables.extend(settings.variables.iter().filter_map(|name| own(name)));
    variables
}

/// Builds the result of a command that has ended.
fn told(job: &Job, ended: &Ended, timeout_ms: u64) -> ToolOutput {
    let said = shown(job);
    let said = said.trim_end();
    let how = match ended {
        Ended::Code(0) if said.is_empty() => return ToolOutput::text(SILENT),
        Ended::Code(0) => return ToolOutput::text(said),
        Ended::Code(code) => format!("exit code {code}"),
        Ended::Signal(signal) => format!("killed by signal {signal}"),
        Ended::Stopped(Stop::Late) => {
            format!(
                "stopped: it exceeded the time limit of {} s; run it in the background",
                seconds(timeout_ms)
            )
        }
        Ended::Stopped(Stop::Unwanted) => "stopped".into(),
        Ended::Stopped(Stop::Processes) => "stopped: it exceeded the process limit".into(),
        Ended::Stopped(Stop::Room) => "stopped: its files exceeded the space limit".into(),
    };
    let apart = if said.is_empty() { "" } else { "\n\n" };
    ToolOutput::error(format!("{said}{apart}({how})"))
}

/// Formats a duration in whole seconds, or as a fraction if it is not a multiple of a second.
fn seconds(ms: u64) -> String {
    if ms.is_multiple_of(1_000) { (ms / 1_000).to_string() } else { (ms as f64 / 1_000.0).to_string() }
}

/// The result of a command without output. (SK-T5)
const SILENT: &str = "The command was executed successfully, but no output was returned.";

/// Returns the beginning and the end of the output, up to the size limit of a result.
fn shown(job: &Job) -> String {
    let heard = job.heard();
    let total = heard.total();
    if total <= SHOWN_BYTES as u64 {
        return heard.from(0, SHOWN_BYTES).0;
    }
    let (first, next) = heard.from(0, SHOWN_BYTES / 4);
    let newest = total - (SHOWN_BYTES as u64 - next);
    let (last, _) = heard.from(newest, SHOWN_BYTES);
    format!("{first}\n[… {} bytes omitted …]\n{last}", newest - next)
}
