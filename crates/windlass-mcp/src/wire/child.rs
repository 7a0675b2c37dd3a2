//! A server as a child process: with its own process group, a clean environment and a bounded log. When the
//! server ends, the whole group is killed.
//!
//! An unreadable response fails its call at once instead of letting the call time
//! out. This module never restarts a server.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncReadExt, Empty};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use windlass_engine::port::clock::Clock;

use crate::config;
use crate::health::{LOG_MAX_LINE_BYTES, LOG_MAX_LINES, Log};
use crate::wire::lines::Lines;
use crate::wire::pending::PendingRequests;

/// Environment variables that a server inherits: variables that programs need to run, but no secrets.
const HANDED_DOWN: [&str; 11] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TERM"];

/// Maximum time that a server may take to end after its input is closed, and again after SIGTERM, in
/// milliseconds. (MCP, "Shutdown")
const GRACE_MS: u64 = 2_000;

/// A running server and its pipes.
pub(crate) struct ChildTransport {
    /// The stdin of the server. `Output` reads its stdout.
    input: AsyncRwTransport<RoleClient, Empty, ChildStdin>,
    output: Output,
    group: Group,
    end: Arc<End>,
    has_come_to_its_end: bool,
    clock: Arc<dyn Clock>,
}

/// How a server ended.
pub(crate) struct End {
    status: Mutex<Option<ExitStatus>>,
    /// Whether the server's stderr was read to the end.
    is_silent: watch::Sender<bool>,
}

impl Default for End {
    fn default() -> Self {
        Self { status: Mutex::new(None), is_silent: watch::Sender::new(false) }
    }
}

impl End {
    /// Returns the end in plain text, for example `it ended with exit status: 1`.
    pub fn told(&self) -> Option<String> {
        let status = *self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.map(|status| format!("it ended with {status}"))
    }

    /// Completes when the server's stderr was read to the end.
    pub async fn silence(&self) {
        // An error means that the sender was dropped.
        let _ = self.is_silent.subscribe().wait_for(|is_silent| *is_silent).await;
    }

    fn came(&self, status: Option<ExitStatus>) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}

/// The process groups that this process has started and that have not ended.
static GROUPS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

fn groups() -> MutexGuard<'static, BTreeSet<i32>> {
    // A panic cannot leave the set invalid: each change is one insertion or removal.
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills every server with its descendants, for a process that exits at once. Such a process runs no
/// destructors, so a server's children would survive.
pub fn kill_servers() {
    for id in groups().iter() {
        // SAFETY: `kill` takes two numbers. A group leaves the list before its id can be reused.
        unsafe { libc::kill(-id, libc::SIGKILL) };
    }
}

/// A process group: the server and its descendants.
struct Group {
    leader: Child,
    id: Option<i32>,
}

impl ChildTransport {
    /// Starts a server. Its stderr is written to `log`, and its end to `end`.
    pub async fn start(
        stdio: &config::Stdio,
        log: Arc<Log>,
        end: Arc<End>,
        clock: Arc<dyn Clock>,
    ) -> io::Result<Self> {
        let leader = spawned(command(stdio)).await?;
        let id = leader.id().and_then(|id| i32::try_from(id).ok());
        groups().extend(id);
        let mut group = Group { leader, id };
        let missing = || io::Error::other("the process has no pipes");
        let input = group.leader.stdin.take().ok_or_else(missing)?;
        let output = group.leader.stdout.take().ok_or_else(missing)?;
        let errors = group.leader.stderr.take().ok_or_else(missing)?;
        tokio::spawn(keep_last_words(errors, log.clone(), end.clone()));
        let output = Output { lines: Lines::new(output), pending: PendingRequests::new(log) };
        let input = AsyncRwTransport::new(tokio::io::empty(), input);
        Ok(Self { input, output, group, end, has_come_to_its_end: false, clock })
    }

    async fn has_ended(&mut self) -> bool {
        tokio::select! {
            biased;
            status = self.group.leader.wait() => {
                self.end.came(status.ok());
                true
            }
            () = self.clock.sleep_ms(GRACE_MS) => false,
        }
    }
}

impl Transport<RoleClient> for ChildTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.output.pending.record_request(&item);
        self.input.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        if !self.has_come_to_its_end {
            tokio::select! {
                biased;
                message = self.output.receive() => return message,
                status = self.group.leader.wait() => self.end.came(status.ok()),
            }
            // A surviving child may hold the output open forever.
            self.has_come_to_its_end = true;
            self.group.signal(libc::SIGKILL);
        }
        // Output written before the end is still delivered.
        self.output.receive().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.input.close().await?;
        if !self.has_ended().await {
            self.group.signal(libc::SIGTERM);
            self.has_ended().await;
        }
        self.group.signal(libc::SIGKILL);
        Ok(())
    }
}

/// The stdout of a server, with its open requests.
struct Output {
    lines: Lines<ChildStdout>,
    pending: PendingRequests,
}

impl Output {
    /// Returns the next message. May be cancelled without losing data.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(error) = self.pending.next_error() {
                return Some(error);
            }
            let line = self.lines.next().await?;
            if let Some(message) = self.pending.receive(line) {
                return Some(message);
            }
        }
    }
}

impl Group {
    /// Signals every process of the group. A process that has ended is ignored.
    fn signal(&self, signal: i32) {
        if let Some(id) = self.id {
            // SAFETY: `kill` takes two numbers. The group's id is not reused while the group has a process.
            unsafe { libc::kill(-id, signal) };
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        if let Some(id) = self.id {
            groups().remove(&id);
        }
    }
}

fn command(stdio: &config::Stdio) -> Command {
    let mut command = Command::new(&stdio.command);
    command.args(&stdio.args).env_clear();
    for name in HANDED_DOWN {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.envs(stdio.env.iter().map(|(name, value)| (name, value)));
    if let Some(folder) = &stdio.cwd {
        command.current_dir(folder);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    #[cfg(target_os = "linux")]
    {
        let parent = std::process::id();
        // SAFETY: between fork and exec, the closure makes only
        // async-signal-safe calls and allocates nothing.
        unsafe {
            command.pre_exec(move || {
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                    return Err(io::Error::last_os_error());
                }
                // The parent may have died before `prctl` took effect.
                if libc::getppid() as u32 != parent {
                    libc::_exit(1);
                }
                Ok(())
            });
        }
    }
    command
}

type Job = Box<dyn FnOnce() + Send>;

/// Starts a process on a thread that lives as long as this process. Linux sends the parent-death signal when
/// the *thread* that forked ends, and a runtime's threads may end at any time.
async fn spawned(mut command: Command) -> io::Result<Child> {
    static THREAD: OnceLock<Option<Sender<Job>>> = OnceLock::new();
    let thread = THREAD.get_or_init(|| {
        let (jobs, job) = channel::<Job>();
        let spawner = std::thread::Builder::new().name("mcp-spawn".into());
        spawner.spawn(move || job.into_iter().for_each(|job| job())).ok().map(|_| jobs)
    });
    let (told, child) = oneshot::channel();
    let runtime = Handle::current();
    let job = Box::new(move || {
        let _entered = runtime.enter();
        // If the receiver was dropped, the child is dropped too, which kills it.
        let _ = told.send(command.spawn());
    });
    let ended = || io::Error::other("the thread that starts processes has ended");
    thread.as_ref().ok_or_else(ended)?.send(job).map_err(|_| ended())?;
    child.await.map_err(|_| ended())?
}

/// Maximum number of bytes of stderr per read: the size of a pipe.
const CHUNK_BYTES: usize = 64 * 1024;

/// Copies a server's stderr to its log until the end. An endless line is truncated, so that memory stays bounded.
async fn keep_last_words(mut errors: ChildStderr, log: Arc<Log>, end: Arc<End>) {
    let (mut chunk, mut line) = (vec![0_u8; CHUNK_BYTES], Vec::new());
    loop {
        let read = match errors.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(read) => read,
        };
        // If the server writes very many lines, only the lines that are kept are processed further.
        let mut newest = VecDeque::new();
        for byte in &chunk[..read] {
            if *byte == b'\n' {
                if newest.len() == LOG_MAX_LINES {
                    newest.pop_front();
                }
                newest.push_back(std::mem::take(&mut line));
            } else if line.len() < LOG_MAX_LINE_BYTES {
                line.push(*byte);
            }
        }
        newest.iter().for_each(|line| log.push(&String::from_utf8_lossy(line)));
    }
    if !line.is_empty() {
        log.push(&String::from_utf8_lossy(&line));
    }
    end.is_silent.send_replace(true);
}
