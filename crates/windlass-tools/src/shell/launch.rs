//! Creates a process: clones it into namespaces if allowed, restricts it, and executes the command.
//!
//! The standard library cannot create namespaces, so this module makes the system calls itself. Between clone
//! and exec, the child only makes system calls, because another thread may hold any lock, including the
//! allocator's. All data that the child needs is prepared before.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use super::mounts::{self, Places};
use super::process_limit::ProcessLimit;
use crate::sandbox::Confinement;

/// Resource limits of each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Maximum size of a written file, in bytes.
    pub file_bytes: u64,
    /// Memory limit in bytes; 0: no limit.
    pub memory_bytes: u64,
    /// Maximum number of open files.
    pub files: u64,
}

/// A prepared command.
pub(crate) struct Launch {
    pub program: CString,
    pub arguments: Vec<CString>,
    pub environment: Vec<CString>,
    /// The working folder.
    pub folder: OwnedFd,
    /// The path of the working folder.
    pub path: CString,
    /// The writable places, if the command has separate mounts that are otherwise read-only.
    pub places: Option<Places>,
    /// Stdin, which is empty.
    pub input: OwnedFd,
    /// Stdout and stderr.
    pub output: OwnedFd,
    pub limits: Limits,
    pub confinement: Confinement,
    /// Whether the command gets a PID namespace.
    pub namespace: bool,
    /// The kernel's limit of processes in that namespace, if supported: see [`ProcessLimit`].
    pub process_limit: Option<ProcessLimit>,
}

/// A started process. The id of its process group is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pid(pub libc::pid_t);

/// The child's report of a failed step.
#[repr(C)]
#[derive(Clone, Copy)]
struct Failure {
    step: u8,
    error: i32,
}

/// The steps that can fail, by number.
const STEPS: [&str; 5] = ["namespaces", "session and folder", "resource limits", "sandbox", "exec"];

/// Whether this process can create child processes in new namespaces. This is
/// tested, because system policies may forbid it.
pub(crate) fn can_have_a_namespace() -> bool {
    tried(None)
}

/// Whether this process can create child processes with read-only mounts.
pub(crate) fn can_have_mounts() -> bool {
    tried(Some(&Places::none()))
}

fn tried(places: Option<&Places>) -> bool {
    let maps = Maps::of_user();
    // SAFETY: the child only makes system calls and exits at once.
    let pid = unsafe { clone(namespaces()) };
    match pid {
        0 => {
            // SAFETY: only the child executes this block, and it exits in the block.
            unsafe {
                let made = maps.write().is_ok() && mounts::own(places).is_ok();
                libc::_exit(i32::from(!made))
            }
        }
        pid if pid > 0 => wait(Pid(pid)).is_ok_and(|status| status == 0),
        _ => false, // tidy: no process was made
    }
}

/// Returns the flags of a command's namespaces. Without root, the other namespaces require a user namespace.
fn namespaces() -> libc::c_int {
    let flags = libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWIPC;
    if is_root() { flags } else { flags | libc::CLONE_NEWUSER }
}

fn is_root() -> bool {
    // SAFETY: the call only returns a number of this process.
    unsafe { libc::geteuid() == 0 }
}

impl Launch {
    /// Starts the command. The calling thread must live as long as the process, because the kernel kills the
    /// process when that thread ends.
    pub(crate) fn start(&self) -> Result<Pid, String> {
        let (heard, told) = pipe().map_err(|error| format!("cannot create a pipe: {error}"))?;
        let maps = Maps::of_user();
        let [arguments, environment] = [&self.arguments, &self.environment].map(|texts| pointers(texts));
        let flags = if self.namespace { namespaces() } else { 0 };
        // SAFETY: the child only makes system calls until it executes or exits.
        match unsafe { clone(flags) } {
            0 => {
                // SAFETY: only the child executes this block. The pointers are
                // null-terminated and live as long as the child.
                unsafe {
                    libc::close(heard.as_raw_fd());
                    let failure = self.become_it(&maps, (&arguments, &environment), told.as_raw_fd());
                    let bytes = (&raw const failure).cast();
                    libc::write(told.as_raw_fd(), bytes, size_of::<Failure>());
                    libc::_exit(127)
                }
            }
            pid if pid > 0 => {
                drop(told);
                match failure(&heard) {
                    None => Ok(Pid(pid)),
                    Some(Failure { step, error }) => {
                        let _ = wait(Pid(pid));
                        let step = STEPS.get(usize::from(step)).unwrap_or(&STEPS[0]);
                        let error = io::Error::from_raw_os_error(error);
                        Err(format!("cannot start the command ({step}): {error}"))
                    }
                }
            }
            _ => Err(format!("cannot create a process: {}", io::Error::last_os_error())), // tidy: not our enum
        }
    }

    /// Executes the command in the child. Returns only on failure.
    ///
    /// # Safety
    ///
    /// Call this function only in a child that was just cloned. The pointers must be null-terminated.
    unsafe fn become_it(
        &self,
        maps: &Maps,
        texts: (&[*const libc::c_char], &[*const libc::c_char]),
        told: RawFd,
    ) -> Failure {
        // SAFETY: the caller guarantees the conditions of these functions.
        let bound = unsafe {
            // If memory runs out, the kernel kills the command first.
            // Written while `/proc` is still writable.
            let _ = write_to(c"/proc/self/oom_score_adj", b"1000");
            let made = match self.namespace {
                true => maps.write().and_then(|()| mounts::own(self.places.as_ref())),
                false => Ok(()),
            };
            if let Some(limit) = &self.process_limit {
                // If the write fails, only the attendant's count limits the processes.
                let _ = write_to(c"/proc/sys/kernel/pid_max", limit.pid_max());
            }
            let steps = [made, self.settle(told), self.limit(), self.confinement.take_on()];
            steps.into_iter().zip(0..).find_map(|(step, nth)| Some((nth, step.err()?)))
        };
        let (step, error) = match bound {
            Some(failed) => failed,
            None => {
                // SAFETY: the texts and their lists are null-terminated.
                unsafe { libc::execve(self.program.as_ptr(), texts.0.as_ptr(), texts.1.as_ptr()) };
                (4, io::Error::last_os_error())
            }
        };
        Failure { step, error: error.raw_os_error().unwrap_or_default() }
    }

    /// Creates a session without a terminal, requests a kill signal for the death of
    /// the parent, and sets the standard streams.
    unsafe fn settle(&self, told: RawFd) -> io::Result<()> {
        // SAFETY: the system calls take numbers, and the descriptors of `self` are open.
        unsafe {
            checked(libc::setsid())?;
            checked(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0))?;
            die_without(told);
            for (from, to) in [(&self.input, 0), (&self.output, 1), (&self.output, 2)] {
                checked(libc::dup2(from.as_raw_fd(), to))?;
            }
            self.enter()?;
            // The command must not inherit this process's signal mask and ignored signals.
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            // Exec closes every other descriptor.
            libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
        }
        Ok(())
    }

    /// Enters the working folder by its path, because a descriptor opened earlier refers to the old mounts.
    unsafe fn enter(&self) -> io::Result<()> {
        // SAFETY: the text is null-terminated; the kernel fills in the structure, for which zeroes are valid.
        unsafe {
            checked(libc::fchdir(self.folder.as_raw_fd()))?;
            if self.places.is_some() {
                let (mut meant, mut found): (libc::stat, libc::stat) = std::mem::zeroed();
                checked(libc::fstat(self.folder.as_raw_fd(), &raw mut meant))?;
                checked(libc::chdir(self.path.as_ptr()))?;
                checked(libc::stat(c".".as_ptr(), &raw mut found))?;
                if (meant.st_dev, meant.st_ino) != (found.st_dev, found.st_ino) {
                    return Err(io::Error::from_raw_os_error(libc::ESTALE));
                }
            }
        }
        Ok(())
    }

    /// Sets the resource limits.
    unsafe fn limit(&self) -> io::Result<()> {
        let Limits { file_bytes, memory_bytes, files } = self.limits;
        let limits = [
            (libc::RLIMIT_CORE, 0),
            (libc::RLIMIT_FSIZE, file_bytes),
            (libc::RLIMIT_NOFILE, files),
            (libc::RLIMIT_DATA, memory_bytes),
        ];
        for (what, most) in limits {
            if most == 0 && what == libc::RLIMIT_DATA {
                continue;
            }
            let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: the kernel fills in and reads structures that the pointers refer to.
            unsafe {
                checked(libc::getrlimit(what, &raw mut now))?;
                let most = most.min(now.rlim_max);
                (now.rlim_cur, now.rlim_max) = (most, most);
                checked(libc::setrlimit(what, &raw const now))?;
            }
        }
        // SAFETY: as above.
        unsafe {
            drop_rights(self.places.is_some());
        }
        Ok(())
    }
}

/// Exits if the parent has already died: a parent that died before `prctl` sends no signal.
unsafe fn die_without(told: RawFd) {
    let mut end = libc::pollfd { fd: told, events: 0, revents: 0 };
    // SAFETY: the kernel fills in one entry.
    unsafe {
        if libc::poll(&raw mut end, 1, 0) > 0 && end.revents & libc::POLLERR != 0 {
            libc::_exit(127);
        }
    }
}

/// Drops root's capabilities except those over files that a command needs in another user's folder.
/// Capabilities over modes and owners are kept only if separate mounts protect the files outside. Without
/// root, the process has no capabilities.
unsafe fn drop_rights(has_mounts: bool) {
    const DAC_OVERRIDE: u32 = 1;
    const DAC_READ_SEARCH: u32 = 2;
    const CHOWN: u32 = 0;
    const FOWNER: u32 = 3;
    let kept = match has_mounts {
        true => [DAC_OVERRIDE, DAC_READ_SEARCH, CHOWN, FOWNER].as_slice(),
        false => &[DAC_OVERRIDE, DAC_READ_SEARCH],
    };
    const VERSION_3: u32 = 0x2008_0522;
    const HIGHEST: u32 = 63;
    let rights = kept.iter().fold(0_u32, |rights, right| rights | 1 << right);
    let header: [u32; 2] = [VERSION_3, 0];
    // The effective, permitted and inheritable sets, first bits 0 to 31, then bits 32 to 63.
    let rights: [u32; 6] = [rights, rights, 0, 0, 0, 0];
    // SAFETY: the kernel reads the arrays, whose layout matches the header. A failure cannot add rights.
    unsafe {
        for right in (0..=HIGHEST).filter(|right| !kept.contains(right)) {
            libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(right), 0, 0, 0);
        }
        libc::syscall(libc::SYS_capset, header.as_ptr(), rights.as_ptr());
    }
}

/// The identity map of a user namespace: the same user and group as outside.
struct Maps {
    /// The maps of user and group; `None` for root, who needs no user namespace.
    texts: Option<(CString, CString)>,
}

impl Maps {
    fn of_user() -> Self {
        if is_root() {
            return Self { texts: None };
        }
        // SAFETY: the calls only return numbers of this process.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        let text = |id: u32| CString::new(format!("{id} {id} 1")).unwrap_or_default();
        Self { texts: Some((text(user), text(group))) }
    }

    /// Writes the maps. The function only makes system calls.
    unsafe fn write(&self) -> io::Result<()> {
        let Some((user, group)) = &self.texts else { return Ok(()) };
        // SAFETY: the texts are null-terminated.
        unsafe {
            write_to(c"/proc/self/setgroups", b"deny")?;
            write_to(c"/proc/self/uid_map", user.as_bytes())?;
            write_to(c"/proc/self/gid_map", group.as_bytes())
        }
    }
}

unsafe fn write_to(path: &CStr, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: the path is null-terminated, and the length matches the bytes.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        checked(file)?;
        let written = libc::write(file, bytes.as_ptr().cast(), bytes.len());
        let outcome = if written < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
        libc::close(file);
        outcome
    }
}

fn checked(returned: libc::c_int) -> io::Result<()> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Forks this process into new namespaces.
unsafe fn clone(namespaces: libc::c_int) -> libc::pid_t {
    let flags = (namespaces | libc::SIGCHLD) as libc::c_ulong;
    // SAFETY: the child gets no separate stack, so it continues on a copy of the parent's stack.
    unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) as libc::pid_t }
}

/// Creates a null-terminated list of C strings.
fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

/// Creates a pipe that other programs do not inherit.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends: [RawFd; 2] = [-1; 2];
    // SAFETY: the kernel fills in two numbers.
    checked(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: both descriptors were just opened and have no other owner.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// Reads the child's report. If the command executes, the pipe closes without a report.
fn failure(heard: &OwnedFd) -> Option<Failure> {
    let mut failure = Failure { step: 0, error: 0 };
    loop {
        // SAFETY: the kernel writes at most the structure's size.
        let read = unsafe { libc::read(heard.as_raw_fd(), (&raw mut failure).cast(), size_of::<Failure>()) };
        if read < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted {
            continue;
        }
        return (read == size_of::<Failure>() as isize).then_some(failure);
    }
}

/// Waits until a process has ended. Returns its raw status.
pub(crate) fn wait(Pid(pid): Pid) -> io::Result<i32> {
    loop {
        let mut status = 0;
        // SAFETY: the kernel fills in a number.
        let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        match waited {
            waited if waited == pid => return Ok(status),
            _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {} // tidy: asked again
            _ => return Err(io::Error::last_os_error()),                               // tidy: not our enum
        }
    }
}

impl Pid {
    /// Whether the process has ended. The process is not reaped, so its id is not reused.
    pub(crate) fn has_ended(self) -> bool {
        // SAFETY: the kernel fills in the structure, for which zeroes are valid.
        unsafe {
            let mut found: libc::siginfo_t = std::mem::zeroed();
            let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            let asked = libc::waitid(libc::P_PID, self.0 as libc::id_t, &raw mut found, how);
            asked != 0 || found.si_pid() == self.0
        }
    }

    /// Signals the process and its group. Only valid before the process is reaped.
    pub(crate) fn signal(self, signal: libc::c_int) {
        // SAFETY: the calls take only numbers. Errors for a process that has ended are ignored.
        unsafe {
            libc::kill(-self.0, signal);
            libc::kill(self.0, signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the exit status of a child that checks whether its parent still reads the pipe.
    fn ends(is_heard: bool) -> i32 {
        let (heard, told) = pipe().unwrap();
        let heard = is_heard.then_some(heard);
        // SAFETY: the child only makes system calls and exits at once.
        let pid = unsafe {
            match clone(0) {
                0 => {
                    die_without(told.as_raw_fd());
                    libc::_exit(0)
                }
                pid => pid,
            }
        };
        drop(heard);
        libc::WEXITSTATUS(wait(Pid(pid)).unwrap())
    }

    #[test]
    fn a_child_whose_parent_is_gone_becomes_no_command() {
        assert_eq!((ends(true), ends(false)), (0, 127));
    }
}
