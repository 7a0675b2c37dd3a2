//! The system calls that a command cannot make. They inspect other processes, change the machine, create a
//! namespace with full rights, or open a socket.
//!
//! The filter is a deny list, because programs need hundreds of calls and new ones appear every year.
//! Landlock restricts files (`files.rs`).

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

/// System calls that fail with `EPERM`.
const REFUSED: &[libc::c_long] = &[
    // Access to other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    // Opening a file by handle bypasses the checks of its parent folders.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // Changes of the kernel, the machine and its clock.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    // Session keys.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
];

/// System calls that are reported as missing (`ENOSYS`), so that programs fall back to calls that
/// can be filtered. `clone3` and `openat2` pass their flags behind a pointer, and `io_uring` opens
/// files and sockets without further calls.
const UNKNOWN: &[libc::c_long] = &[
    libc::SYS_clone3,
    libc::SYS_openat2,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// Calls that set a file's mode, with the index of that argument.
const MODES: &[(libc::c_long, u8)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (libc::SYS_fchmodat2, 2),
    (libc::SYS_mknodat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
];

/// Calls that create a file with a mode, with the indices of flags and mode.
const OPENS: &[(libc::c_long, u8, u8)] = &[
    (libc::SYS_openat, 2, 3),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, 2),
];

/// Mode bits that run a program as the file's owner or group. They would take effect outside the sandbox too.
const BORROWS: [libc::mode_t; 2] = [libc::S_ISUID, libc::S_ISGID];

/// Flags that create a file. `O_TMPFILE` includes the bit of `O_DIRECTORY`, which this constant omits.
const MAKES: [libc::c_int; 2] = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY];

/// Flags of `clone` that create a namespace.
const NAMESPACES: &[libc::c_int] = &[
    libc::CLONE_NEWNS,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// First call number of the x32 ABI of x86-64.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// Whether filters can be built for this processor architecture.
pub(super) fn is_known_machine() -> bool {
    TargetArch::try_from(std::env::consts::ARCH).is_ok()
}

/// Builds the filters of a command.
pub(super) fn filters(network: bool) -> Result<Vec<BpfProgram>, String> {
    let mut refused: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    #[cfg(target_arch = "x86_64")]
    for call in [libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_kexec_file_load] {
        refused.insert(call, Vec::new());
    }
    let namespaces: Result<Vec<_>, String> = NAMESPACES
        .iter()
        .map(|flag| rule(&[(0, SeccompCmpOp::MaskedEq(*flag as u64), *flag as u64)]))
        .collect();
    refused.insert(libc::SYS_clone, namespaces?);
    // A process may change only its own limits.
    refused.insert(libc::SYS_prlimit64, vec![rule(&[(0, SeccompCmpOp::Ne, 0)])?]);
    for (call, mode) in MODES {
        refused.insert(*call, BORROWS.iter().map(|bit| rule(&[has(*mode, *bit)])).collect::<Result<_, _>>()?);
    }
    for (call, flags, mode) in OPENS {
        let both = MAKES.iter().flat_map(|flag| BORROWS.iter().map(move |bit| (*flag, *bit)));
        let rules = both.map(|(flag, bit)| rule(&[has(*flags, flag as u32), has(*mode, bit)]));
        refused.insert(*call, rules.collect::<Result<_, _>>()?);
    }
    let unknown = UNKNOWN.iter().map(|call| (*call, Vec::new())).collect();
    let sockets = BTreeMap::from([(libc::SYS_socket, sockets(network)?), (libc::SYS_socketpair, pairs()?)]);
    [(refused, libc::EPERM), (unknown, libc::ENOSYS), (sockets, libc::EACCES)]
        .into_iter()
        .map(|(rules, error)| program(rules, error))
        .collect()
}

/// Rules for the denied sockets. With network access, they deny raw sockets and all other families. The empty list denies
/// every call, because a rule without a condition does not exist.
fn sockets(network: bool) -> Result<Vec<SeccompRule>, String> {
    if !network {
        return Ok(Vec::new());
    }
    let (is, is_not) = (SeccompCmpOp::Eq, SeccompCmpOp::Ne);
    let [v4, v6, routes] = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK].map(|family| family as u64);
    // The type is in the lowest four bits; flags are above them.
    let raw =
        |family| rule(&[(0, is.clone(), family), (1, SeccompCmpOp::MaskedEq(0xf), libc::SOCK_RAW as u64)]);
    Ok(vec![
        rule(&[(0, is_not.clone(), v4), (0, is_not.clone(), v6), (0, is_not.clone(), routes)])?,
        raw(v4)?,
        raw(v6)?,
        // The only allowed netlink sockets are those for routes and addresses.
        rule(&[(0, is.clone(), routes), (2, is_not, libc::NETLINK_ROUTE as u64)])?,
    ])
}

/// Rules for the denied socket pairs: datagram types, whose messages can be sent to any Unix socket. The
/// kernel treats raw pairs as datagrams. Other pairs connect only to each other.
fn pairs() -> Result<Vec<SeccompRule>, String> {
    let kinds = [libc::SOCK_DGRAM, libc::SOCK_RAW];
    kinds.iter().map(|kind| rule(&[(1, SeccompCmpOp::MaskedEq(0xf), *kind as u64)])).collect()
}

/// Creates a condition: the argument has this bit.
fn has(argument: u8, bit: u32) -> (u8, SeccompCmpOp, u64) {
    (argument, SeccompCmpOp::MaskedEq(bit.into()), bit.into())
}

/// Creates a rule whose conditions must all hold.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, String> {
    let conditions: Result<Vec<_>, _> = conditions
        .iter()
        .map(|(argument, operator, value)| {
            SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), *value)
        })
        .collect();
    conditions.and_then(SeccompRule::new).map_err(|error| format!("cannot build the seccomp filter: {error}"))
}

fn program(rules: BTreeMap<i64, Vec<SeccompRule>>, error: libc::c_int) -> Result<BpfProgram, String> {
    let failed = |error: seccompiler::BackendError| format!("cannot build the seccomp filter: {error}");
    let machine = TargetArch::try_from(std::env::consts::ARCH).map_err(failed)?;
    let action = SeccompAction::Errno(error as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, machine).map_err(failed)?;
    let mut program: BpfProgram = filter.try_into().map_err(failed)?;
    #[cfg(target_arch = "x86_64")]
    program.splice(0..0, without_x32());
    Ok(program)
}

/// Denies calls of the x32 ABI, which would bypass a filter of call numbers.
#[cfg(target_arch = "x86_64")]
fn without_x32() -> [sock_filter; 3] {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    let instruction = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let refused = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    [
        // The call number is at offset 0.
        instruction(LOAD_WORD, 0, 0, 0),
        instruction(JUMP_IF_AT_LEAST, 0, 1, X32),
        instruction(RETURN, 0, 0, refused),
    ]
}
