//! The command line of Windlass: parses the arguments, runs one command (which may be the server), and reports its
//! errors.
//!
//! The code is a library so that cargo compiles it while it still generates code for the crate `windlass`; a binary
//! waits until its libraries are complete. The library is not an API: [`main`] is its only public item.

mod cli;
mod console;
mod crash;
mod editor;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod idle;
mod keyboard;
mod paint;
mod paths;
mod place;
mod report;
mod screen;
mod signals;
mod telemetry;
mod view;
mod wrap;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use windlass_server::trouble::{Exit, Trouble};

use crate::cli::Cli;
use crate::console::Console;

/// Maximum time for background tasks to end after the command has finished. No result depends on them.
const WIND_DOWN: Duration = Duration::from_millis(200);

/// Runs the command line of this process and returns its exit code.
pub fn main() -> ExitCode {
    windlass::reader::reader_main();
    crash::speak_carefully();
    let cli = Cli::parse_from(cli::with_command(std::env::args_os()));
    let console = Console::new(cli.color);
    telemetry::start(&console);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            report::report(&console, &anyhow::Error::from(error).context("cannot start"));
            return Exit::Engine.into();
        }
    };
    let ended = runtime.block_on(cli::run(cli, &console));
    runtime.block_on(telemetry::finish());
    let mut exit = ended.unwrap_or_else(|error| report::report(&console, &error));
    if let Some(why) = console.lost() {
        let lost = Trouble::output(format!("cannot write all of the output: {why}"));
        report::report(&console, &lost.into());
        exit = exit.with_output_lost();
    }
    if exit.leaves_a_run() {
        // Exit at once, as after a crash, which runs survive. A runtime that shuts down cancels tasks one by one. A
        // cancelled tool would return an error, which would be recorded.
        windlass::mcp::kill_servers();
        // A blocked task may still own the screen, so its destructor would not restore the terminal.
        screen::restore_terminal();
        std::process::exit(exit.code().into());
    }
    runtime.shutdown_timeout(WIND_DOWN);
    exit.into()
}
