//! Drops the rights of this process: memory, time, files, network, other processes.
//!
//! On Linux: resource limits, Landlock without any path, and a seccomp filter that allows only the system calls that a
//! parser needs. A kernel without Landlock or seccomp, or another system, enforces the resource limits only.

use std::io;

#[cfg(unix)]
use rustix::process::{Resource, Rlimit, setrlimit};

/// Limits this process irreversibly.
pub(super) fn confine() -> io::Result<()> {
    #[cfg(unix)]
    limit_resources()?;
    #[cfg(target_os = "linux")]
    linux::confine()?;
    Ok(())
}

#[cfg(unix)]
fn limit_resources() -> io::Result<()> {
    let limits = [
        (Resource::As, super::MAX_MEMORY_BYTES),
        (Resource::Cpu, super::TIME_LIMIT.as_secs()),
        (Resource::Fsize, 0),
        (Resource::Core, 0),
    ];
    for (resource, limit) in limits {
        setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) })?;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;
    use std::io;

    use landlock::{ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetError, Scope};
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule, TargetArch, apply_filter,
    };

    /// The newest Landlock version that the library supports. An older kernel
    /// ignores the rights that it does not know.
    const NEWEST: ABI = ABI::V7;

    /// System calls for memory, threads, time, and open files.
    const ALLOWED: &[libc::c_long] = &[
        libc::SYS_read,
        libc::SYS_readv,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_close,
        libc::SYS_fstat,
        libc::SYS_brk,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_madvise,
        libc::SYS_futex,
        libc::SYS_sched_yield,
        libc::SYS_sched_getaffinity,
        libc::SYS_set_robust_list,
        libc::SYS_rseq,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sigaltstack,
        libc::SYS_getpid,
        libc::SYS_gettid,
        libc::SYS_getrandom,
        libc::SYS_clock_gettime,
        libc::SYS_clock_nanosleep,
        libc::SYS_nanosleep,
        libc::SYS_restart_syscall,
        libc::SYS_exit,
        libc::SYS_exit_group,
    ];

    pub(super) fn confine() -> io::Result<()> {
        // If memory runs out, the kernel kills this process first. If the write fails, the
        // kernel treats it like any other process.
        let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
        close_files().map_err(io::Error::other)?;
        if TargetArch::try_from(std::env::consts::ARCH).is_err() {
            return Ok(());
        }
        match apply_filter(&filter().map_err(io::Error::other)?) {
            // The kernel has no seccomp filters.
            Err(seccompiler::Error::Seccomp(error)) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            other => other.map_err(io::Error::other),
        }
    }

    /// Denies every file, folder, port and signal.
    fn close_files() -> Result<(), RulesetError> {
        let ruleset = Ruleset::default()
            .handle_access(AccessFs::from_all(NEWEST))?
            .handle_access(AccessNet::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?;
        ruleset.create()?.restrict_self().map(drop)
    }

    /// Builds the filter. All other system calls fail with `ENOSYS`, so
    /// that libraries fall back to other calls.
    fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
        let masked = |argument, mask: libc::c_int, value: libc::c_int| {
            let operator = SeccompCmpOp::MaskedEq(mask as u64);
            SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value as u64)
                .and_then(|condition| SeccompRule::new(vec![condition]))
        };
        let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
            ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
        // Allows threads, but no processes.
        rules.insert(libc::SYS_clone, vec![masked(0, libc::CLONE_THREAD, libc::CLONE_THREAD)?]);
        // Allows memory that is not executable.
        rules.insert(libc::SYS_mmap, vec![masked(2, libc::PROT_EXEC, 0)?]);
        rules.insert(libc::SYS_mprotect, vec![masked(2, libc::PROT_EXEC, 0)?]);
        let refused = SeccompAction::Errno(libc::ENOSYS as u32);
        let machine = TargetArch::try_from(std::env::consts::ARCH)?;
        SeccompFilter::new(rules, refused, SeccompAction::Allow, machine)?.try_into()
    }
}

/// Attempts forbidden operations. Returns the names of those that succeeded.
#[cfg(feature = "testing")]
pub(super) fn rights() -> String {
    let attempts: [(&str, bool); 6] = [
        (
            "reads a file",
            std::fs::read("/proc/self/status").is_ok() || std::fs::read("/etc/hostname").is_ok(),
        ),
        ("writes a file", std::fs::write(std::env::temp_dir().join("windlass-reader"), "x").is_ok()),
        ("lists a folder", std::fs::read_dir("/").is_ok()),
        ("opens a socket", std::net::UdpSocket::bind("127.0.0.1:0").is_ok()),
        ("starts a process", std::process::Command::new("/bin/true").status().is_ok()),
        ("allocates 2 GiB", Vec::<u8>::new().try_reserve_exact(2 << 30).is_ok()),
    ];
    let granted: Vec<_> =
        attempts.iter().filter(|(_, succeeded)| *succeeded).map(|(what, _)| *what).collect();
    format!("granted: {granted:?}")
}
