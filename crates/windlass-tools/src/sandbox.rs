//! What a command may do to the machine: which files it sees, whether it reaches the network, and which calls of the
//! kernel it may make. Linux only: Landlock for files, seccomp for calls, a namespace of processes.
//!
//! It starts nothing. What is allowed is a list; whatever is not on it is refused by the kernel, also to programs that
//! the command starts. What one cannot take from a folder that a command may write (its `.git/hooks`, say), it cannot.

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

/// Whether commands run where the kernel cannot hold them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// They do not run.
    #[default]
    Required,
    /// They run with whatever the kernel has.
    Preferred,
    /// They run as any program of the user.
    Off,
}

/// What commands may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Whether the kernel has to hold them.
    pub isolation: Isolation,
    /// Whether they reach the network, other programs on this machine included. Sockets of this machine's programs that
    /// are files stay out of reach, where one could ask a program outside to do what the command may not.
    pub network: bool,
    /// Files and folders that they may read and run, beside those of the system. A path that goes through a symbolic
    /// link opens nothing, and refuses every command: whoever may write beside the link says where it leads.
    pub read: Vec<PathBuf>,
    /// Files and folders that they may change, beside the working folder; without links, as those to read.
    pub write: Vec<PathBuf>,
    /// What no list may contain: the store, and what people have said.
    pub hidden: Vec<PathBuf>,
}

/// A sandbox with what its paths led to when this process started.
pub(crate) struct Openings {
    sandbox: Sandbox,
    read: Vec<Opening>,
    write: Vec<Opening>,
    /// What no list may contain, where it lies and by the names that lead there.
    hidden: Vec<PathBuf>,
}

/// A sandbox made ready: what a process takes upon itself before it becomes the command.
pub(crate) struct Confinement {
    ruleset: Option<OwnedFd>,
    filters: Vec<BpfProgram>,
    /// What the command may change.
    pub(crate) places: Vec<Opened>,
}

impl Sandbox {
    /// Refuses what the kernel cannot hold, in words that name the setting.
    pub fn check(&self, support: Support) -> Result<(), String> {
        let missing = support.missing();
        if self.isolation == Isolation::Required && !missing.is_empty() {
            return Err(format!(
                "this kernel cannot hold commands: {missing}; run on Linux 6.2 or newer, or say \
                 `sandbox = \"preferred\"` in `[tools.bash]` to run them with what there is"
            ));
        }
        Ok(())
    }

    /// Says of each path that goes through a link why no command runs because of it.
    pub fn blocked(&self) -> Vec<String> {
        let Openings { read, write, .. } = Openings::new(self.clone());
        read.iter().chain(&write).filter_map(|opening| opening.now(&[]).err()).collect()
    }

    /// The folders of a search path whose programs a command can run.
    pub(crate) fn search_path(&self, path: &str) -> String {
        if self.isolation == Isolation::Off { path.to_owned() } else { files::search_path(self, path) }
    }
}

impl Openings {
    /// Looks at what its paths lead to now.
    pub(crate) fn new(sandbox: Sandbox) -> Self {
        let opened = |key, paths: &[PathBuf]| paths.iter().map(|path| Opening::new(key, path)).collect();
        let (read, write) = (opened("read", &sandbox.read), opened("write", &sandbox.write));
        // A link that leads to it says what it is as well.
        let names = sandbox.hidden.iter().filter_map(|hidden| std::path::absolute(hidden).ok());
        let hidden = sandbox.hidden.iter().map(|hidden| real(hidden)).chain(names).collect();
        Self { sandbox, read, write, hidden }
    }

    /// Refuses a folder whose commands could reach what is hidden.
    fn keep_apart(&self, folder: &Path) -> Result<(), String> {
        // Where nothing is held, what the system has is as open as all else.
        let system = files::system().filter(|_| self.sandbox.isolation != Isolation::Off);
        let own = self.read.iter().chain(&self.write).map(Opening::path);
        for open in [folder].into_iter().chain(own).chain(system) {
            let open = open.canonicalize().unwrap_or_else(|_| open.to_owned());
            if let Some(hidden) = self.hidden.iter().find(|hidden| hidden.starts_with(&open)) {
                return Err(format!(
                    "`{}` lies in `{}`, which commands see; keep the store elsewhere with `--store`, or work in \
                     another folder",
                    hidden.display(),
                    open.display()
                ));
            }
        }
        Ok(())
    }

    /// Makes it ready for a command that works in a folder and has a scratch folder of its own.
    pub(crate) fn confine(&self, folder: &WorkingFolder, scratch: Opened) -> Result<Confinement, String> {
        self.keep_apart(folder.canonical())?;
        if self.sandbox.isolation == Isolation::Off {
            return Ok(Confinement { ruleset: None, filters: Vec::new(), places: Vec::new() });
        }
        let support = support();
        self.sandbox.check(support)?;
        let handle =
            folder.handle().map_err(|error| format!("the working folder cannot be opened: {error}"))?;
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
    /// Whether it holds anything.
    pub(crate) fn holds(&self) -> bool {
        self.ruleset.is_some() || !self.filters.is_empty()
    }

    /// Takes it upon the calling process, for good. Allocates nothing and takes no lock: it runs between fork and exec.
    ///
    /// # Safety
    ///
    /// Only in a process that was just forked, and that is about to become another program.
    pub(crate) unsafe fn take_on(&self) -> io::Result<()> {
        if !self.holds() {
            return Ok(());
        }
        // SAFETY: the arguments are those that the manual names; no memory is passed.
        checked(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into())?;
        if let Some(ruleset) = &self.ruleset {
            // Only now it is there: the command's own, where it has a namespace.
            files::open_processes(ruleset);
            // SAFETY: the descriptor is open for as long as `self` lives; no memory is passed.
            checked(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) })?;
        }
        for filter in &self.filters {
            let program = libc::sock_fprog {
                // A filter has at most 4,096 instructions.
                len: filter.len() as libc::c_ushort,
                filter: filter.as_ptr().cast_mut().cast(),
            };
            let mode = libc::SECCOMP_SET_MODE_FILTER;
            // SAFETY: `program` points to instructions of the kernel's own layout, which it copies and does not change.
            checked(unsafe { libc::syscall(libc::SYS_seccomp, mode, 0, &raw const program) })?;
        }
        Ok(())
    }
}

fn checked(returned: libc::c_long) -> io::Result<()> {
    if returned == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A path without links, also where its end does not exist yet.
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
