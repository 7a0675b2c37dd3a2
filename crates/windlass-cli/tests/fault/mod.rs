//! The real binary with faults outside of it: in the disk, the folder, the store, the provider, or the process itself.
//! Each error names the cause and a remedy, and nothing recorded is lost.

mod damage;
mod disk;
mod doubt;
mod folder;
pub mod newer;
mod provider;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command};

use serde_json::Value;

use crate::cli::Said;

/// Reads a process's lines until one satisfies a condition; later lines are discarded.
fn until(child: &mut Child, wanted: impl Fn(&Value) -> bool) {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let found = lines.any(|line| wanted(&serde_json::from_str(&line.unwrap()).unwrap()));
    assert!(found, "the process ended before");
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
}

/// Whether a line is an event of this kind and step.
fn is(kind: &'static str, step: u64) -> impl Fn(&Value) -> bool {
    move |line| line["type"] == kind && line["step"] == step
}

fn end(child: Child) -> Said {
    crate::cli::said(child.wait_with_output().unwrap())
}

fn said(mut command: Command) -> Said {
    crate::cli::said(command.output().unwrap())
}

impl Said {
    /// Asserts that standard error contains these texts, and that nothing panicked.
    fn tells(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.err.contains(part), "`{part}` is not said: {self:#?}");
        }
        assert!(!self.err.contains("panicked"), "{self:#?}");
        self
    }
}
