//! What the running kernel can do to hold a command: asked, not guessed from its version.
//!
//! It is asked once for each process.

use std::sync::OnceLock;

use crate::shell::{can_have_a_namespace, can_have_mounts};

/// What the running kernel has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Support {
    /// The version of Landlock, where it is on. From 3 on (Linux 6.2) a file outside cannot be cut short either; from
    /// 6 on (Linux 6.12) processes outside cannot be signalled.
    pub landlock: Option<u32>,
    /// Whether calls of the kernel can be filtered.
    pub seccomp: bool,
    /// Whether a command can have a namespace of processes, which ends as a whole: no daemon outlives it.
    pub processes: bool,
    /// Whether a command can have mounts of its own, in which modes, owners and times of files outside stay as they are.
    pub mounts: bool,
}

/// The oldest Landlock that keeps what is in files outside from being changed.
const LANDLOCK_MIN: u32 = 3;

impl Support {
    /// What is missing to hold a command's files and calls; empty where nothing is.
    pub fn missing(&self) -> String {
        let landlock = match self.landlock {
            None => Some("Landlock is not on".to_owned()),
            Some(version) if version < LANDLOCK_MIN => {
                Some(format!("its Landlock is of version {version}, and {LANDLOCK_MIN} is needed"))
            }
            Some(_) => None,
        };
        let seccomp = (!self.seccomp).then(|| "it filters no calls (seccomp)".to_owned());
        landlock.into_iter().chain(seccomp).collect::<Vec<_>>().join("; ")
    }

    /// What a command could still do with all of it, in words for people; empty where nothing is known.
    pub fn gaps(&self) -> Vec<&'static str> {
        let mut gaps = Vec::new();
        if !self.processes {
            gaps.push("without a namespace of processes a daemon that hides outlives its command, and any outlives this process");
        }
        if self.landlock.is_none_or(|version| version < 6) {
            gaps.push("a command can signal the user's other processes: Linux 6.12 keeps it from that");
        }
        if !self.mounts {
            gaps.push("without mounts of its own a command can change modes, owners and times of files outside that the user owns");
        }
        gaps
    }
}

/// Asks the running kernel.
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
    // SAFETY: with this flag the kernel reads no memory and makes nothing; it answers with its version.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0_usize, VERSION) };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

fn has_seccomp() -> bool {
    let known = super::filter::is_known_machine();
    let action: u32 = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the kernel reads one number behind the pointer.
    let available =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action) };
    known && available == 0
}
