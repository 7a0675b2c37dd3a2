//! The files that a command sees: the working folder and a scratch folder to change, the system's programs to read and
//! run, and what the configuration adds. Everything else is refused by Landlock.
//!
//! Metadata is not hidden: whether a file exists, and how large it is, the kernel tells whom it told before. Nor is it
//! kept from being changed: that is the matter of the mounts (`shell/mounts.rs`).

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, Scope,
};

use super::Sandbox;
use super::opening::{Opened, find};

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

/// Makes the list of what a command sees: places to change, and others to read; `None` where the kernel turns out to
/// have none.
pub(super) fn ruleset(network: bool, places: &[Opened], read: &[Opened]) -> Result<Option<OwnedFd>, String> {
    let failed = |error: RulesetError| format!("the kernel does not take the list of files: {error}");
    // A device that a command made would be the machine's own.
    let own = AccessFs::from_all(NEWEST) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
    let looks = AccessFs::from_read(NEWEST);
    let mut created = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(NEWEST)))
        .and_then(|ruleset| match network {
            // What the filter of calls leaves to inherited sockets, this takes.
            false => ruleset.handle_access(AccessNet::from_all(NEWEST)),
            true => Ok(ruleset),
        })
        .and_then(Ruleset::create)
        .map_err(failed)?;
    let devices = AccessFs::ReadFile | AccessFs::WriteFile;
    let system = SYSTEM.iter().map(|path| (path, looks)).chain(DEVICES.iter().map(|path| (path, devices)));
    // The system's own links are followed, and none that a command may have put there.
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

/// Adds what may be done below a path that was opened.
fn below(
    ruleset: RulesetCreated,
    path: &Path,
    handle: &File,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, String> {
    let failed =
        |error: &dyn std::fmt::Display| format!("`{}` cannot be opened to commands: {error}", path.display());
    let is_dir = handle.metadata().map_err(|error| failed(&error))?.is_dir();
    // Of a file only what can be done to a file.
    let access = if is_dir { access } else { access & AccessFs::from_file(NEWEST) };
    ruleset.add_rule(PathBeneath::new(handle, access)).map_err(|error| failed(&error))
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
