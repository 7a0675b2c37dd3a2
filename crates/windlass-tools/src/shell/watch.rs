//! How many processes and threads a command has. The kernel's own limit counts all of a user's, and root's not at all.
//!
//! It only counts; who is ended for it is `job`'s matter.

use std::collections::HashMap;
use std::path::Path;

use super::launch::Pid;

/// Processes and threads on the whole machine: one small file, read often.
pub(super) fn on_the_machine() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_ascii_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

/// Processes that have inherited a command's scratch folder: its daemons, where no namespace holds them. One that has
/// thrown its environment away is not found.
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

/// The processes of a command and their threads: its group, and whatever descends from it.
pub(super) fn of(command: Pid) -> usize {
    let Ok(listed) = std::fs::read_dir("/proc") else { return 0 };
    let mut parents = HashMap::new();
    for entry in listed.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<libc::pid_t>().ok()) else {
            continue;
        };
        // One that has ended meanwhile counts no more.
        let Ok(text) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name stands in brackets and may hold anything.
        let mut words = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace().skip(1);
        let mut number =
            || words.next().and_then(|word| word.parse::<libc::pid_t>().ok()).unwrap_or_default();
        let (parent, group) = (number(), number());
        // The twentieth field, where the name is the second; one that is about to end may have none.
        let threads = (0..15).map(|_| number()).last().unwrap_or_default().max(1);
        parents.insert(pid, (parent, group, threads as usize));
    }
    let belongs = |mut pid: libc::pid_t| {
        // No line of descent is longer than there are processes.
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
