//! The processes of a measurement: the model server, and one program at a time.
//!
//! Both run this binary. The server ends when its standard input closes, so it never outlives the table.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::drive::{Figures, Found, Opened};
use crate::http::{Restarted, Rested, Served};
use crate::machine;
use crate::pages::PageFigures;

/// Interval at which a running program is polled: short compared with every workload.
const POLL: Duration = Duration::from_millis(5);

/// A model server in a separate process.
pub(super) struct Server {
    child: Child,
    address: String,
    base_url: String,
}

/// The result of a program.
pub(super) struct Driven {
    pub(super) figures: Figures,
    /// Start time of the program's process, by the monotonic clock.
    pub(super) started_ns: u64,
}

impl Server {
    pub(super) fn start() -> Result<Server> {
        let mut child = this_binary()?
            .args(["serve", "--until-stdin-ends"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the model server")?;
        let output = child.stdout.take().context("the output of the server is a pipe")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let told: Value =
            serde_json::from_str(&line).with_context(|| format!("the server printed `{line}`"))?;
        let text = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
        Ok(Server { child, address: text("address"), base_url: text("base_url") })
    }

    pub(super) fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Resets the server's counters.
    pub(super) fn reset(&self) -> Result<()> {
        self.ask("POST", "/reset").map(drop)
    }

    /// Returns the server's CPU time in seconds.
    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        Ok(self.ask("GET", "/stats")?["cpu_s"].as_f64().unwrap_or_default())
    }

    /// Returns the time of the first request since the last reset, by the monotonic clock.
    pub(super) fn first_ns(&self) -> Result<Option<u64>> {
        Ok(self.ask("GET", "/first")?["first_ns"].as_u64())
    }

    fn ask(&self, method: &str, path: &str) -> Result<Value> {
        let mut connection = TcpStream::connect(&self.address)?;
        let head = "HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        write!(connection, "{method} {path} {head}")?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        let (_, body) = answer.split_once("\r\n\r\n").context("the server answered without a body")?;
        Ok(serde_json::from_str(body)?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // The server has no state to lose. Waiting for its end only avoids a zombie.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program to its end.
pub(super) fn drive(arguments: &[OsString], time_limit: Duration) -> Result<Driven> {
    let (figures, started_ns) = told(arguments, time_limit)?;
    Ok(Driven { figures, started_ns })
}

/// Opens the engine on the store in a folder, in a separate process.
pub(super) fn open(folder: &Path, time_limit: Duration) -> Result<Opened> {
    Ok(told(&["open".into(), "--folder".into(), folder.into()], time_limit)?.0)
}

/// Searches in a large catalogue of tools, in a separate process.
pub(super) fn find(arguments: &[OsString], time_limit: Duration) -> Result<Found> {
    Ok(told(arguments, time_limit)?.0)
}

/// Starts, loads and ends the server, from a separate process.
pub(super) fn serve(arguments: &[OsString], time_limit: Duration) -> Result<Served> {
    Ok(told(arguments, time_limit)?.0)
}

/// Starts the server, lets it idle, and starts commands, from a separate process.
pub(super) fn idle(arguments: &[OsString], time_limit: Duration) -> Result<Rested> {
    Ok(told(arguments, time_limit)?.0)
}

/// Starts the server on a store with waiting runs, from a separate process.
pub(super) fn restart(arguments: &[OsString], time_limit: Duration) -> Result<Restarted> {
    Ok(told(arguments, time_limit)?.0)
}

/// Starts the server and a browser, and measures the pages, from a separate process.
pub(super) fn pages(arguments: &[OsString], time_limit: Duration) -> Result<PageFigures> {
    Ok(told(arguments, time_limit)?.0)
}

/// Runs this binary in a separate process. Returns its parsed output and its start time.
fn told<T: DeserializeOwned>(arguments: &[OsString], time_limit: Duration) -> Result<(T, u64)> {
    let mut command = this_binary()?;
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
    let started_ns = machine::monotonic_ns();
    let mut child = command.spawn().context("cannot start the program")?;
    // One short line fits into the pipe, so the program never blocks on its output.
    while child.try_wait()?.is_none() {
        if u128::from(machine::monotonic_ns() - started_ns) > time_limit.as_nanos() {
            child.kill()?;
            child.wait()?;
            bail!("it did not exit within {} s", time_limit.as_secs());
        }
        std::thread::sleep(POLL);
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("it exited with {}", output.status);
    }
    let figures = serde_json::from_slice(&output.stdout).context("it reported no figures")?;
    Ok((figures, started_ns))
}

fn this_binary() -> Result<Command> {
    Ok(Command::new(std::env::current_exe().context("cannot locate this binary")?))
}
