//! Starts other programs, mainly cargo, in the root of the workspace.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Number of concurrent build jobs, unless `CARGO_BUILD_JOBS` is set. More than two linkers of this size
/// exhaust the memory of a small machine.
const BUILD_JOBS: &str = "2";

/// Returns the root of the workspace in which this command was started.
pub fn root() -> PathBuf {
    let manifest_dir =
        env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    let path = PathBuf::from(manifest_dir);
    path.parent().map_or(path.clone(), Path::to_path_buf)
}

/// Creates a cargo command in the root of the workspace.
pub fn cargo() -> Command {
    cargo_in(&root())
}

/// Returns the folder with links to the cargo subcommands that `cargo xtask` installed.
pub fn tools() -> PathBuf {
    root().join("target/tools/bin")
}

/// Creates a cargo command in a folder.
pub fn cargo_in(folder: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(folder);
    let path = env::var_os("PATH").unwrap_or_default();
    if let Ok(path) = env::join_paths(env::split_paths(&path).chain([tools()])) {
        command.env("PATH", path);
    }
    if env::var_os("CARGO_BUILD_JOBS").is_none() {
        command.env("CARGO_BUILD_JOBS", BUILD_JOBS);
    }
    command
}

/// Runs a command with visible output. A failure is an error that names the command.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    println!("$ {shown}");
    let status = command.status().with_context(|| format!("could not start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` ended with {status}");
    }
    Ok(())
}

/// Whether a command can be started and succeeds. Discards its output.
pub fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// Runs a command and returns its output. Returns `None` if it cannot be started or fails.
pub fn output(command: &mut Command) -> Option<String> {
    let output = command.current_dir(root()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn show(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let mut words = vec![program.to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|argument| argument.to_string_lossy().into_owned()));
    words.join(" ")
}
