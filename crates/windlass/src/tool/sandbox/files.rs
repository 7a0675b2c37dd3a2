//! The files that a command sees: the working folder and a scratch folder to change, the system's programs to read and
//! run, and what the configuration adds. Everything else is refused by Landlock.
//!
//! Metadata is not hidden: whether a file exists, and how large it is, the kernel tells whom it told before. Nor is it
//! kept from being changed: that is the matter of the mounts (`shell/mounts.rs`).

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, Scope,
};

use super::Sandbox;

/// The newest version of Landlock that the library knows; an older kernel leaves out what it does not have.
const NEWEST: ABI = ABI::V7;

/// What a program needs to be run: itself, libraries, certificates, names, zones. Of `/etc` only what holds no secret.
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

/// Devices that do nothing to the machine.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// What every command sees of the system.
pub(super) fn system<'a>() -> impl Iterator<Item = &'a Path> {
    SYSTEM.iter().map(Path::new)
}

/// The system's own places that a program may be run from, for what is looked for by name.
fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

/// Makes the list of what a command sees; `None` where the kernel turns out to have none.
pub(super) fn ruleset(
    sandbox: &Sandbox,
    folder: &OwnedFd,
    scratch: &Path,
) -> Result<Option<OwnedFd>, String> {
    let failed = |error: RulesetError| format!("the kernel does not take the list of files: {error}");
    // A device that a command made would be the machine's own.
    let own = AccessFs::from_all(NEWEST) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
    let looks = AccessFs::from_read(NEWEST);
    let mut created = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(NEWEST)))
        .and_then(|ruleset| match sandbox.network {
            // What the filter of calls leaves to inherited sockets, this takes.
            false => ruleset.handle_access(AccessNet::from_all(NEWEST)),
            true => Ok(ruleset),
        })
        .and_then(Ruleset::create)
        .map_err(failed)?;
    let same = folder.try_clone().map_err(|error| format!("the working folder cannot be opened: {error}"))?;
    created = created.add_rule(PathBeneath::new(same, own)).map_err(failed)?;
    created = below(created, scratch, own)?;
    for path in SYSTEM {
        created = below(created, Path::new(path), looks)?;
    }
    for path in DEVICES {
        created = below(created, Path::new(path), AccessFs::ReadFile | AccessFs::WriteFile)?;
    }
    for path in &sandbox.read {
        created = below(created, path, looks)?;
    }
    for path in &sandbox.write {
        created = below(created, path, own)?;
    }
    Ok(created.into())
}

/// Adds what may be done below a path; one that does not exist adds nothing.
fn below(ruleset: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<RulesetCreated, String> {
    let Ok(handle) = PathFd::new(path) else { return Ok(ruleset) };
    // Of a file only what can be done to a file.
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
    let failed = |error: RulesetError| format!("`{}` cannot be opened to commands: {error}", path.display());
    ruleset.add_rule(PathBeneath::new(handle, access)).map_err(failed)
}

/// The folders of a search path whose programs a command can run.
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

/// Opens `/proc` to read, whichever it is by now. Of a process outside it tells what anybody is told, and what is secret
/// the kernel keeps from whoever is held. Only calls the kernel; where it refuses, `/proc` stays closed.
pub(super) fn open_processes(ruleset: &OwnedFd) {
    #[repr(C, packed)]
    struct Beneath {
        access: u64,
        parent: libc::c_int,
    }
    const PATH_BENEATH: libc::c_int = 1;
    // SAFETY: the path ends with null; the kernel reads one structure of its own layout.
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
