//! The command line as people and programs use it, without API keys and in temporary folders.

mod access;
mod approvals;
mod ask;
#[cfg(target_os = "linux")]
mod commands;
mod config;
mod crash;
mod gate;
mod hostile;
mod mcp;
pub mod model;
#[cfg(target_os = "linux")]
mod output;
mod outside;
mod piped;
mod policy;
mod run;
#[cfg(unix)]
mod screen;
#[cfg(unix)]
pub mod terminal;
mod threads;
mod tools;
mod wait;
#[cfg(unix)]
mod width;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// The task of the demo model.
pub const TASK: &str = "Read data.csv in this folder and write three insights to insights.md";

/// The file that the demo model writes.
pub const INSIGHTS: &str = "# Insights from data.csv\n\n\
    - `data.csv` has 2 rows and 2 columns: city, people\n\
    - `people` goes from 1 to 3, with a mean of 2\n\
    - the largest `people` is in the row `Rome`\n";

/// A user with a temporary home directory and working folder.
pub struct User {
    root: tempfile::TempDir,
}

/// The exit code and output of a command.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl User {
    pub fn new() -> Self {
        let user = Self { root: tempfile::tempdir().unwrap() };
        std::fs::create_dir(user.folder()).unwrap();
        std::fs::write(user.folder().join("data.csv"), "city,people\nRome,3\nOslo,1\n").unwrap();
        user
    }

    pub fn folder(&self) -> PathBuf {
        self.root.path().join("folder")
    }

    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// Writes the user's configuration file.
    pub fn configure(&self, text: &str) {
        let directory = self.home().join("config/windlass");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("windlass.toml"), text).unwrap();
    }

    /// A command in the folder, with an empty environment.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command
            .args(arguments)
            .current_dir(self.folder())
            .env_clear()
            .env("HOME", self.home())
            .env("XDG_CONFIG_HOME", self.home().join("config"))
            .env("XDG_DATA_HOME", self.home().join("data"))
            // A title request would consume a line of the script.
            .env("WINDLASS_TITLE_MODEL", "none")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Said {
        said(self.command(arguments).output().unwrap())
    }

    pub fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments).spawn().unwrap()
    }

    /// All events of the newest thread.
    pub fn events(&self) -> Vec<Value> {
        lines(&self.run(&["threads", "export"]).exits(0).out)
    }

    /// The default store of the folder.
    pub fn store(&self) -> PathBuf {
        let stores = std::fs::read_dir(self.home().join("data/windlass")).unwrap();
        let mut stores =
            stores.map(|entry| entry.unwrap().path()).filter(|path| path.join("windlass.db").exists());
        let store = stores.next().expect("a store");
        assert_eq!(stores.next(), None, "one folder has one store");
        store
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder().join(name)).unwrap_or_default()
    }
}

pub fn said(output: Output) -> Said {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

impl Said {
    /// Asserts the exit code. A failure prints the whole output.
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

/// Parses lines of JSON.
pub fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// Number of events of a type.
pub fn count(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|event| event["type"] == kind).count()
}

/// The permission bits of a path.
#[cfg(unix)]
pub fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}
