//! Counts the processes and threads of a command. The kernel's own limit counts all processes of a user, and does not
//! apply to root.
//!
//! This module only counts; `job` enforces the limit.

use std::collections::HashMap;
use std::path::Path;

use super::launch::Pid;

/// Returns the number of processes and threads on the whole machine, from one small file.
pub(super) fn on_the_machine() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_ascii_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

/// Returns the processes that inherited a command's scratch folder: its daemons, if no namespace contains
/// them. A daemon that cleared its environment is not found.
pub(super) fn heirs(scratch: &Path) -> Vec<Pid> {
    let variable = format!("TMPDIR={}", scratch.display());
    let Ok(listed) = std::fs::read_dir("/proc") else { return Vec::new() };
    let inherits = |entry: std::fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let variables = std::fs::read(entry.path().join("environ")).ok()?;
        variables.split(|byte| *byte == 0).any(|known| known == variable.as_bytes()).then_some(Pid(pid))
    };
    listed.flatten().filter_map(inherits).collect()
}

/// Returns the number of processes and threads of a command: its group and its descendants.
pub(super) fn of(command: Pid) -> usize {
    let Ok(listed) = std::fs::read_dir("/proc") else { return 0 };
    let mut parents = HashMap::new();
    for entry in listed.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<libc::pid_t>().ok()) else {
            continue;
        };
        // A process that has ended is not counted.
        let Ok(text) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name is in brackets and may contain any character.
        let mut words = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace().skip(1);
        let mut number =
            || words.next().and_then(|word| word.parse::<libc::pid_t>().ok()).unwrap_or_default();
        let (parent, group) = (number(), number());
        // Field 20, where the name is field 2. A process that is about to end may report 0.
        let threads = (0..15).map(|_| number()).last().unwrap_or_default().max(1);
        parents.insert(pid, (parent, group, threads as usize));
    }
    let belongs = |mut pid: libc::pid_t| {
        // No chain of parents is longer than the number of processes.
        for _ in 0..parents.len() {
            let Some((parent, group, _)) = parents.get(&pid) else { return false };
            if pid == command.0 || *group == command.0 {
                return true;
            }
            pid = *parent;
        }
        false
    };
    parents.iter().filter(|(pid, _)| belongs(**pid)).map(|(_, (_, _, threads))| threads).sum()
}
