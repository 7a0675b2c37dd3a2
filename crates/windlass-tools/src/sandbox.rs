//! The sandbox of commands: the files that a command can access, its network access, and the system calls
//! that it can make. Linux only: Landlock for files, seccomp for calls, a PID namespace.
//!
//! This module starts no process. Access is an allow list; the kernel denies everything else,
//! also to the command's descendants. The sandbox cannot protect part of a folder that a
//! command may write (such as `.git/hooks`).

mod files;
mod filter;
mod opening;
mod support;

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use seccompiler::BpfProgram;
use windlass_engine::tool::WorkingFolder;

pub(crate) use self::opening::Opened;
use self::opening::{Opening, still_leads_to};
pub use self::support::{Support, support};

/// The behavior if the kernel cannot enforce the sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Commands are refused.
    #[default]
    Required,
    /// Commands run with the restrictions that the kernel can enforce.
    Preferred,
    /// Commands run without a sandbox, like any other program of the user.
    Off,
}

/// The rights of commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Whether the kernel must enforce the sandbox.
    pub isolation: Isolation,
    /// Whether commands have network access, including other programs on this machine. Unix sockets of other
    /// programs stay inaccessible if a command could use them to escape the sandbox.
    pub network: bool,
    /// Files and folders that commands may read and execute, in addition to those of the system. A path through a
    /// symbolic link grants nothing and blocks every command, because a writer of the link could redirect it.
    pub read: Vec<PathBuf>,
    /// Files and folders that commands may change, in addition to the working folder. Their paths must not go
    /// through links, as with `read`.
    pub write: Vec<PathBuf>,
    /// Paths that no list may contain, such as the store and the users' messages.
    pub hidden: Vec<PathBuf>,
}

/// A sandbox with the files that its paths referred to when this process started.
pub(crate) struct Openings {
    sandbox: Sandbox,
    read: Vec<Opening>,
    write: Vec<Opening>,
    /// Paths that no list may contain, both resolved and as configured.
    hidden: Vec<PathBuf>,
}

/// A prepared sandbox, which a process applies to itself before it executes the command.
pub(crate) struct Confinement {
    ruleset: Option<OwnedFd>,
    filters: Vec<BpfProgram>,
    /// The files and folders that the command may change.
    pub(crate) places: Vec<Opened>,
}

impl Sandbox {
    /// Returns an error that names the setting if the kernel cannot enforce the sandbox.
    pub fn check(&self, support: Support) -> Result<(), String> {
        let missing = support.missing();
        if self.isolation == Isolation::Required && !missing.is_empty() {
            return Err(format!(
                "this kernel cannot sandbox commands: {missing}; use Linux 6.2 or newer, or set `sandbox = \
                 \"preferred\"` in `[tools.bash]` to run commands with the features that are available"
            ));
        }
        Ok(())
    }

    /// Returns the configured paths that go through a link and therefore
    /// block every command, each with the reason.
    pub fn blocked(&self) -> Vec<String> {
        let Openings { read, write, .. } = Openings::new(self.clone());
        read.iter().chain(&write).filter_map(|opening| opening.now(&[]).err()).collect()
    }

    /// Returns the folders of a search path whose programs a command can run.
    pub(crate) fn search_path(&self, path: &str) -> String {
        if self.isolation == Isolation::Off { path.to_owned() } else { files::search_path(self, path) }
    }
}

impl Openings {
    /// Resolves the configured paths at this time.
    pub(crate) fn new(sandbox: Sandbox) -> Self {
        let opened = |key, paths: &[PathBuf]| paths.iter().map(|path| Opening::new(key, path)).collect();
        let (read, write) = (opened("read", &sandbox.read), opened("write", &sandbox.write));
        // Links to a hidden path are hidden too.
        let names = sandbox.hidden.iter().filter_map(|hidden| std::path::absolute(hidden).ok());
        let hidden = sandbox.hidden.iter().map(|hidden| real(hidden)).chain(names).collect();
        Self { sandbox, read, write, hidden }
    }

    /// Returns an error if commands in a folder could reach a hidden path.
    fn keep_apart(&self, folder: &Path) -> Result<(), String> {
        // Without a sandbox, the system's folders are as accessible as all others.
        let system = files::system().filter(|_| self.sandbox.isolation != Isolation::Off);
        let own = self.read.iter().chain(&self.write).map(Opening::path);
        for open in [folder].into_iter().chain(own).chain(system) {
            let open = open.canonicalize().unwrap_or_else(|_| open.to_owned());
            if let Some(hidden) = self.hidden.iter().find(|hidden| hidden.starts_with(&open)) {
                return Err(format!(
                    "`{}` is inside `{}`, which commands can access; move the store with `--store`, or work \
                     in another folder",
                    hidden.display(),
                    open.display()
                ));
            }
        }
        Ok(())
    }

    /// Prepares the sandbox for a command with this working folder and scratch folder.
    pub(crate) fn confine(&self, folder: &WorkingFolder, scratch: Opened) -> Result<Confinement, String> {
        self.keep_apart(folder.canonical())?;
        if self.sandbox.isolation == Isolation::Off {
            return Ok(Confinement { ruleset: None, filters: Vec::new(), places: Vec::new() });
        }
        let support = support();
        self.sandbox.check(support)?;
        let handle = folder.handle().map_err(|error| format!("cannot open the working folder: {error}"))?;
        let handle = File::from(handle);
        still_leads_to(folder.canonical(), &handle)?;
        let around: Vec<&Path> =
            self.write.iter().map(Opening::path).chain([folder.canonical(), &scratch.path]).collect();
        let now = |openings: &[Opening]| -> Result<Vec<Opened>, String> {
            openings.iter().filter_map(|opening| opening.now(&around).transpose()).collect()
        };
        let (read, mut places) = (now(&self.read)?, now(&self.write)?);
        let path = folder.canonical().to_owned();
        places.extend([Opened { path, handle }, scratch]);
        let ruleset = match support.landlock {
            Some(_) => files::ruleset(self.sandbox.network, &places, &read)?,
            None => None,
        };
        let filters = if support.seccomp { filter::filters(self.sandbox.network)? } else { Vec::new() };
        Ok(Confinement { ruleset, filters, places })
    }
}

impl Confinement {
    /// Whether the sandbox restricts the command at all.
    pub(crate) fn holds(&self) -> bool {
        self.ruleset.is_some() || !self.filters.is_empty()
    }

    /// Applies the sandbox to the calling process irreversibly. The function allocates no memory and takes no
    /// lock, because it runs between fork and exec.
    ///
    /// # Safety
    ///
    /// Call this function only in a forked process that is about to execute another program.
    pub(crate) unsafe fn take_on(&self) -> io::Result<()> {
        if !self.holds() {
            return Ok(());
        }
        // SAFETY: the arguments follow the manual, and none is a pointer.
        checked(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into())?;
        if let Some(ruleset) = &self.ruleset {
            // `/proc` is added last, because a new namespace has a
            // separate `/proc` that did not exist before.
            files::open_processes(ruleset);
            // SAFETY: the descriptor is open as long as `self` lives, and no argument is a pointer.
            checked(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) })?;
        }
        for filter in &self.filters {
            let program = libc::sock_fprog {
                // A filter has at most 4,096 instructions.
                len: filter.len() as libc::c_ushort,
                filter: filter.as_ptr().cast_mut().cast(),
            };
            let mode = libc::SECCOMP_SET_MODE_FILTER;
            // SAFETY: `program` points to instructions in the kernel's layout, which the kernel copies.
            checked(unsafe { libc::syscall(libc::SYS_seccomp, mode, 0, &raw const program) })?;
        }
        Ok(())
    }
}

fn checked(returned: libc::c_long) -> io::Result<()> {
    if returned == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Resolves the links in a path. The end of the path need not exist.
fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for (nth, above) in path.ancestors().enumerate() {
        if let Ok(found) = above.canonicalize() {
            let rest: PathBuf = path.iter().skip(path.iter().count() - nth).collect();
            return found.join(rest);
        }
    }
    path
}
