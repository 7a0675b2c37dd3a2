//! The kernel's own limit of a command's processes, by the highest id in its namespace.
//!
//! The limit is a coarse bound against a fork bomb. `watch` counts the exact number,
//! and `job` enforces the configured limit.

/// The highest process id of a namespace. The attendant counts a command's processes ten times a second. A fork loop
/// would starve the machine between two counts, so the kernel must refuse further processes.
pub(crate) struct ProcessLimit(Vec<u8>);

impl ProcessLimit {
    /// Returns a limit of at least `processes`, including threads. Returns `None` before Linux 6.14, where
    /// `pid_max` is machine-wide and must not be written.
    pub(crate) fn at_least(processes: usize) -> Option<Self> {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
        has_pid_max_per_namespace(&release).then(|| Self::of(processes))
    }

    /// Returns the value for `/proc/sys/kernel/pid_max`.
    pub(super) fn pid_max(&self) -> &[u8] {
        &self.0
    }

    fn of(processes: usize) -> Self {
        // `PID_MAX_LIMIT` of the kernel's `include/linux/threads.h`.
        const PID_MAX_LIMIT: usize = 4 * 1024 * 1024;
        // Ids below 300 are not reused (`RESERVED_PIDS` of the kernel's
        // `kernel/pid.c`), and the first id is the shell's.
        let pid_max = processes.saturating_add(301).min(PID_MAX_LIMIT);
        Self(pid_max.to_string().into_bytes())
    }
}

/// Whether each PID namespace has a separate `pid_max`, as since Linux 6.14.
fn has_pid_max_per_namespace(release: &str) -> bool {
    let mut numbers = release.split(|character: char| !character.is_ascii_digit());
    let mut number = || numbers.next().and_then(|digits| digits.parse::<u32>().ok()).unwrap_or(0);
    (number(), number()) >= (6, 14)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pid_max_is_written_only_if_the_namespace_has_its_own() {
        for release in ["6.14.0-rc1", "6.18.44-generic", "7.0", "10.2.3"] {
            assert!(has_pid_max_per_namespace(release), "{release}");
        }
        for release in ["6.13.9", "6.1.0-13-amd64", "5.15", "4.19.0", "", "none"] {
            assert!(!has_pid_max_per_namespace(release), "{release}");
        }
    }

    #[test]
    fn pid_max_exceeds_the_limit_of_processes_by_the_reserved_ids() {
        assert_eq!(ProcessLimit::of(64).0, b"365");
        assert_eq!(ProcessLimit::of(usize::MAX).0, b"4194304");
    }
}
