//! File access of a command. The working and scratch folders are writable, and the system's programs readable
//! and executable. The configuration adds further paths. Landlock denies all other access.
//!
//! Metadata is not hidden: Landlock does not restrict whether a file exists or how large it is. Read-only mounts
//! protect metadata from changes (`shell/mounts.rs`).

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, Scope,
};

use super::Sandbox;
use super::opening::{Opened, find};

/// The newest version of Landlock that the library supports. An older kernel
/// ignores the rights that it does not know.
const NEWEST: ABI = ABI::V7;

/// Paths that programs need to run: executables, libraries, certificates, host names, time zones. Of `/etc`,
/// only files without secrets are included.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
    "/run/current-system/sw",
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/crypto-policies",
    "/etc/fonts",
    "/etc/gai.conf",
    "/etc/gitconfig",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/locale.conf",
    "/etc/localtime",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/run/systemd/resolve/stub-resolv.conf",
    "/run/systemd/resolve/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/terminfo",
    "/etc/timezone",
    "/sys/devices/system/cpu",
];

/// Devices that cannot affect the machine.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Returns the system paths that every command can read.
pub(super) fn system<'a>() -> impl Iterator<Item = &'a Path> {
    SYSTEM.iter().map(Path::new)
}

/// Whether the path of a program belongs to the system, for lookups by name.
fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

/// Creates the Landlock ruleset with these writable and readable places.
/// Returns `None` if the kernel has no Landlock.
pub(super) fn ruleset(network: bool, places: &[Opened], read: &[Opened]) -> Result<Option<OwnedFd>, String> {
    let failed = |error: RulesetError| format!("the kernel rejected the Landlock ruleset: {error}");
    // Device files are excluded: a device node would give access to the machine's device.
    let own = AccessFs::from_all(NEWEST) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
    let looks = AccessFs::from_read(NEWEST);
    let mut created = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(NEWEST)))
        .and_then(|ruleset| match network {
            // This rule covers inherited sockets, which the seccomp filter does not restrict.
            false => ruleset.handle_access(AccessNet::from_all(NEWEST)),
            true => Ok(ruleset),
        })
        .and_then(Ruleset::create)
        .map_err(failed)?;
    let devices = AccessFs::ReadFile | AccessFs::WriteFile;
    let system = SYSTEM.iter().map(|path| (path, looks)).chain(DEVICES.iter().map(|path| (path, devices)));
    // Only links of the system are followed. A link that a command may have created is not followed.
    let is_the_systems = |link: &Path| !places.iter().any(|place| link.starts_with(&place.path));
    for (path, access) in system {
        let path = Path::new(path);
        if let Ok(found) = find(path, is_the_systems) {
            created = below(created, path, &found, access)?;
        }
    }
    for Opened { path, handle } in read {
        created = below(created, path, handle, looks)?;
    }
    for Opened { path, handle } in places {
        created = below(created, path, handle, own)?;
    }
    Ok(created.into())
}

/// Adds access rights below an opened path.
fn below(
    ruleset: RulesetCreated,
    path: &Path,
    handle: &File,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, String> {
    let failed = |error: &dyn std::fmt::Display| {
        format!("cannot give commands access to `{}`: {error}", path.display())
    };
    let is_dir = handle.metadata().map_err(|error| failed(&error))?.is_dir();
    // Files accept only the rights that apply to files.
    let access = if is_dir { access } else { access & AccessFs::from_file(NEWEST) };
    ruleset.add_rule(PathBeneath::new(handle, access)).map_err(|error| failed(&error))
}

/// Returns the folders of a search path whose programs a command can run.
pub(super) fn search_path(sandbox: &Sandbox, path: &str) -> String {
    let runs = |folder: &PathBuf| {
        folder.is_absolute()
            && (is_system(folder)
                || sandbox.read.iter().chain(&sandbox.write).any(|open| folder.starts_with(open)))
    };
    let folders = std::env::split_paths(path).filter(runs);
    let joined = std::env::join_paths(folders).ok().and_then(|path| path.into_string().ok());
    joined.filter(|path| !path.is_empty()).unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into())
}

/// Makes the current `/proc` readable. The kernel protects the secrets of processes outside the sandbox. The
/// function only makes system calls; if they fail, `/proc` stays inaccessible.
pub(super) fn open_processes(ruleset: &OwnedFd) {
    #[repr(C, packed)]
    struct Beneath {
        access: u64,
        parent: libc::c_int,
    }
    const PATH_BENEATH: libc::c_int = 1;
    // SAFETY: the path is null-terminated; the kernel reads one structure in its own layout.
    unsafe {
        let parent = libc::open(c"/proc".as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
        if parent < 0 {
            return;
        }
        let access = AccessFs::ReadFile as u64 | AccessFs::ReadDir as u64;
        let beneath = Beneath { access, parent };
        let rule = (&raw const beneath).cast::<libc::c_void>();
        libc::syscall(libc::SYS_landlock_add_rule, ruleset.as_raw_fd(), PATH_BENEATH, rule, 0);
        libc::close(parent);
    }
}
