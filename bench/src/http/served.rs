//! `windlass serve` as a child process: starts it with its own settings, measures its memory, and ends it.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::machine;

/// Settings without rate limits, because all requests come from one address and one user.
const SETTINGS: &str = "[server.limits]
requests_per_minute = 0
runs_per_user = 100000
connections = 20000
connections_per_address = 20000
";

pub(crate) struct Process {
    child: Child,
    binary: PathBuf,
    folder: PathBuf,
    /// Kept open, so that later output of the server has a reader.
    _out: BufReader<ChildStdout>,
    /// The address at which the server listens.
    pub(crate) address: String,
    /// Time from the start of the process until it listened, in milliseconds.
    pub(crate) listen_ms: f64,
    /// An API key of the server's administrator.
    pub(crate) key: String,
}

impl Process {
    /// Starts a server on the store in a folder; creates the folder if it is absent.
    pub(crate) async fn start(binary: &Path, folder: &Path, base_url: &str, model: &str) -> Result<Self> {
        // The server's working directory differs from this process's.
        let folder = std::path::absolute(folder)?;
        let settings = folder.join("config/windlass");
        let work = folder.join("work");
        std::fs::create_dir_all(&settings)?;
        std::fs::create_dir_all(&work)?;
        std::fs::write(settings.join("windlass.toml"), SETTINGS)?;
        let serve = ["serve", "--listen", "127.0.0.1:0", "--model", model, "--base-url", base_url];
        let start_ns = machine::monotonic_ns();
        let mut child = command(binary, &folder, &serve)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start `{}`", binary.display()))?;
        let mut out = BufReader::new(child.stdout.take().context("the output of the server is a pipe")?);
        let mut line = String::new();
        out.read_line(&mut line).await?;
        let listen_ms = (machine::monotonic_ns() - start_ns) as f64 / 1e6;
        let Some((_, address)) = line.trim().split_once("http://") else {
            bail!("`{} serve` printed `{}`", binary.display(), line.trim());
        };
        let (address, binary) = (address.to_owned(), binary.to_owned());
        let mut process = Self { child, binary, folder, _out: out, address, listen_ms, key: String::new() };
        process.key = process.says(&["admin", "add-key", "bench"]).await?;
        Ok(process)
    }

    /// Returns a one-time link that signs in a browser as the administrator.
    pub(crate) async fn link(&self) -> Result<String> {
        self.says(&["admin", "link", "--address", &format!("http://{}", self.address)]).await
    }

    /// Runs another command on the same store and returns its output.
    pub(super) async fn says(&self, arguments: &[&str]) -> Result<String> {
        let output = command(&self.binary, &self.folder, arguments).output().await?;
        if !output.status.success() {
            bail!("`windlass {}` ended with {}", arguments.join(" "), output.status);
        }
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    /// Returns the resident memory in KiB.
    pub(super) fn resident_kib(&self) -> Result<u64> {
        self.status_kib("VmRSS:")
    }

    /// Returns the resident memory without mapped files, in KiB.
    pub(super) fn private_kib(&self) -> Result<u64> {
        self.status_kib("RssAnon:")
    }

    /// Returns the peak resident memory in KiB since [`Process::forget_peak`].
    pub(super) fn resident_peak_kib(&self) -> Result<u64> {
        self.status_kib("VmHWM:")
    }

    /// Resets the peak. (proc_pid_clear_refs(5))
    pub(super) fn forget_peak(&self) -> Result<()> {
        Ok(std::fs::write(self.proc("clear_refs")?, "5")?)
    }

    /// Returns the CPU time in seconds, user and system, of all threads. (proc_pid_stat(5))
    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(self.proc("stat")?)?;
        // The text before the last parenthesis is the program's name, which may contain anything.
        let (_, fields) = stat.rsplit_once(')').context("the kernel's line has no name")?;
        let ticks: f64 =
            fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
        // SAFETY: the call only reads a constant of the system.
        Ok(ticks / unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64)
    }

    /// Ends the server with SIGTERM, as an operator would.
    pub(crate) async fn end(mut self) -> Result<()> {
        let pid = i32::try_from(self.child.id().context("the server has exited")?)?;
        // SAFETY: the child has not been reaped, so its id is not reused.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        self.child.wait().await?;
        Ok(())
    }

    fn status_kib(&self, key: &str) -> Result<u64> {
        let status = std::fs::read_to_string(self.proc("status")?)?;
        let line = status.lines().find(|line| line.starts_with(key));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
            .with_context(|| format!("the kernel does not report `{key}`"))
    }

    fn proc(&self, file: &str) -> Result<String> {
        Ok(format!("/proc/{}/{file}", self.child.id().context("the server has exited")?))
    }
}

fn command(binary: &Path, folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary);
    command
        .args(arguments)
        .current_dir(folder.join("work"))
        .env("XDG_CONFIG_HOME", folder.join("config"))
        .env("XDG_DATA_HOME", folder.join("data"))
        .env("OPENAI_API_KEY", "none")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true);
    command
}
