//! The sandbox features that the running kernel supports. They are
//! tested, not derived from the kernel's version.
//!
//! The test runs once per process.

use std::sync::OnceLock;

use crate::shell::{can_have_a_namespace, can_have_mounts};

/// The features of the running kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Support {
    /// The Landlock version, if Landlock is enabled. Since version 3 (Linux 6.2), commands cannot truncate
    /// files outside; since version 6 (Linux 6.12), they cannot signal processes outside.
    pub landlock: Option<u32>,
    /// Whether system calls can be filtered.
    pub seccomp: bool,
    /// Whether a command can have a PID namespace. All processes of the
    /// namespace end with it, so no daemon survives.
    pub processes: bool,
    /// Whether a command can have separate mounts, which protect modes, owners and times of files outside.
    pub mounts: bool,
}

/// The oldest Landlock version that protects the contents of files outside.
const LANDLOCK_MIN: u32 = 3;

impl Support {
    /// Describes the kernel features that are missing to restrict a command's file accesses and system calls; empty if
    /// none is missing.
    pub fn missing(&self) -> String {
        let landlock = match self.landlock {
            None => Some("Landlock is not enabled".to_owned()),
            Some(version) if version < LANDLOCK_MIN => {
                Some(format!("it has Landlock ABI {version}, and {LANDLOCK_MIN} is required"))
            }
            Some(_) => None,
        };
        let seccomp = (!self.seccomp).then(|| "it does not support seccomp filters".to_owned());
        landlock.into_iter().chain(seccomp).collect::<Vec<_>>().join("; ")
    }

    /// Describes, for the user, the actions that the sandbox cannot prevent on this kernel; empty if none is known.
    pub fn gaps(&self) -> Vec<&'static str> {
        let mut gaps = Vec::new();
        if !self.processes {
            gaps.push(
                "without a PID namespace, a daemonized process can outlive its command, and any process can \
                 outlive Windlass",
            );
        }
        if self.landlock.is_none_or(|version| version < 6) {
            gaps.push("a command can signal the user's other processes: Linux 6.12 or newer prevents it");
        }
        if !self.mounts {
            gaps.push(
                "without a mount namespace, a command can change modes, owners and times of the user's files \
                 outside the sandbox",
            );
        }
        gaps
    }
}

/// Tests the running kernel, once per process.
pub fn support() -> Support {
    static SUPPORT: OnceLock<Support> = OnceLock::new();
    *SUPPORT.get_or_init(|| Support {
        landlock: landlock(),
        seccomp: has_seccomp(),
        processes: can_have_a_namespace(),
        mounts: can_have_mounts(),
    })
}

fn landlock() -> Option<u32> {
    const VERSION: libc::c_uint = 1;
    let nothing = std::ptr::null::<libc::c_void>();
    // SAFETY: with this flag, the kernel reads no memory and returns its version.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0_usize, VERSION) };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

fn has_seccomp() -> bool {
    let known = super::filter::is_known_machine();
    let action: u32 = libc::SECCOMP_RET_ERRNO;
    // SAFETY: `action` is a valid `u32`; the kernel reads only it.
    let available =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action) };
    known && available == 0
}
