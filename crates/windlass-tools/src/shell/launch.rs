//! A process made: cloned into namespaces of its own where that is allowed, bound, and turned into the command.
//!
//! The standard library starts programs in this process's namespaces only, so that this is done by hand. Between the
//! clone and the program the child calls the kernel and nothing else: another thread may hold any lock, the allocator's
//! too. Everything that it needs is made before.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use super::mounts::{self, Places};
use super::process_limit::ProcessLimit;
use crate::sandbox::Confinement;

/// What a process may use at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Bytes of one file that it writes.
    pub file_bytes: u64,
    /// Bytes of memory of one process, beyond which it gets no more; 0: no such limit.
    pub memory_bytes: u64,
    /// Files that one process may have open.
    pub files: u64,
}

/// What is started.
pub(crate) struct Launch {
    pub program: CString,
    pub arguments: Vec<CString>,
    pub environment: Vec<CString>,
    /// Where it works.
    pub folder: OwnedFd,
    /// The same, by its path.
    pub path: CString,
    /// What it may change, where it has mounts of its own in which all else is read only.
    pub places: Option<Places>,
    /// What it reads: nothing.
    pub input: OwnedFd,
    /// Where it writes.
    pub output: OwnedFd,
    pub limits: Limits,
    pub confinement: Confinement,
    /// Whether it gets a namespace of processes.
    pub namespace: bool,
    /// What the kernel enforces in that namespace, where it can: see [`ProcessLimit`].
    pub process_limit: Option<ProcessLimit>,
}

/// A process that was started. Its group has the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pid(pub libc::pid_t);

/// What the child tells of a step that failed.
#[repr(C)]
#[derive(Clone, Copy)]
struct Failure {
    step: u8,
    error: i32,
}

/// The steps that can fail, by their numbers.
const STEPS: [&str; 5] = ["made", "given a place", "given its limits", "held", "run"];

/// Whether a process can be given namespaces here: tried, since what forbids it is often a rule of the system.
pub(crate) fn can_have_a_namespace() -> bool {
    tried(None)
}

/// Whether a process can be given mounts here in which nothing can be changed.
pub(crate) fn can_have_mounts() -> bool {
    tried(Some(&Places::none()))
}

fn tried(places: Option<&Places>) -> bool {
    let maps = Maps::of_user();
    // SAFETY: the child only calls the kernel, and ends at once.
    let pid = unsafe { clone(namespaces()) };
    match pid {
        0 => {
            // SAFETY: this is the child; nothing of it lives on.
            unsafe {
                let made = maps.write().is_ok() && mounts::own(places).is_ok();
                libc::_exit(i32::from(!made))
            }
        }
        pid if pid > 0 => wait(Pid(pid)).is_ok_and(|status| status == 0),
        _ => false, // tidy: no process was made
    }
}

/// The flags of the namespaces that a command gets. Whoever is not root needs one of users for the others.
fn namespaces() -> libc::c_int {
    let flags = libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWIPC;
    if is_root() { flags } else { flags | libc::CLONE_NEWUSER }
}

fn is_root() -> bool {
    // SAFETY: reads a number of this process.
    unsafe { libc::geteuid() == 0 }
}

impl Launch {
    /// Starts it. The thread that calls this has to live as long as the process: with it the process dies.
    pub(crate) fn start(&self) -> Result<Pid, String> {
        let (heard, told) = pipe().map_err(|error| format!("a pipe cannot be made: {error}"))?;
        let maps = Maps::of_user();
        let [arguments, environment] = [&self.arguments, &self.environment].map(|texts| pointers(texts));
        let flags = if self.namespace { namespaces() } else { 0 };
        // SAFETY: the child calls the kernel alone until it is another program or ends.
        match unsafe { clone(flags) } {
            0 => {
                // SAFETY: this is the child, and the pointers end with null and live as long as it does.
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
                        Err(format!("the command could not be {step}: {error}"))
                    }
                }
            }
            _ => Err(format!("no process can be made: {}", io::Error::last_os_error())), // tidy: not our enum
        }
    }

    /// Turns the child into the command; returns only where that failed.
    ///
    /// # Safety
    ///
    /// Only in a child that was just cloned. The pointers end with null.
    unsafe fn become_it(
        &self,
        maps: &Maps,
        texts: (&[*const libc::c_char], &[*const libc::c_char]),
        told: RawFd,
    ) -> Failure {
        // SAFETY: as the caller promises.
        let bound = unsafe {
            // While `/proc` can still be written. Where memory runs out the command goes before all others.
            let _ = write_to(c"/proc/self/oom_score_adj", b"1000");
            let made = match self.namespace {
                true => maps.write().and_then(|()| mounts::own(self.places.as_ref())),
                false => Ok(()),
            };
            if let Some(limit) = &self.process_limit {
                // A namespace that refuses it is left with the attendant's count.
                let _ = write_to(c"/proc/sys/kernel/pid_max", limit.pid_max());
            }
            let steps = [made, self.settle(told), self.limit(), self.confinement.take_on()];
            steps.into_iter().zip(0..).find_map(|(step, nth)| Some((nth, step.err()?)))
        };
        let (step, error) = match bound {
            Some(failed) => failed,
            None => {
                // SAFETY: the texts end with null, and so do their lists.
                unsafe { libc::execve(self.program.as_ptr(), texts.0.as_ptr(), texts.1.as_ptr()) };
                (4, io::Error::last_os_error())
            }
        };
        Failure { step, error: error.raw_os_error().unwrap_or_default() }
    }

    /// A session of its own, without a terminal; death with its parent; its place, and what it reads and writes.
    unsafe fn settle(&self, told: RawFd) -> io::Result<()> {
        // SAFETY: calls of the kernel with numbers; descriptors of `self` are open.
        unsafe {
            checked(libc::setsid())?;
            checked(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0))?;
            die_without(told);
            for (from, to) in [(&self.input, 0), (&self.output, 1), (&self.output, 2)] {
                checked(libc::dup2(from.as_raw_fd(), to))?;
            }
            self.enter()?;
            // What this process ignores or holds back is not the command's business.
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            // Every other descriptor is closed by the program's start; this process opens none that is not.
            libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
        }
        Ok(())
    }

    /// Goes to where it works: by its path, because what was opened before leads to the mounts of before.
    unsafe fn enter(&self) -> io::Result<()> {
        // SAFETY: the text ends with null; the kernel fills in what is pointed to, of which zeroes are a valid value.
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

    /// What it may use.
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
            // SAFETY: the kernel fills in and reads what is pointed to.
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

/// Ends this process where nobody is left who hears it: a parent that died before the kernel was told to send its death
/// sends none.
unsafe fn die_without(told: RawFd) {
    let mut end = libc::pollfd { fd: told, events: 0, revents: 0 };
    // SAFETY: the kernel fills in one entry.
    unsafe {
        if libc::poll(&raw mut end, 1, 0) > 0 && end.revents & libc::POLLERR != 0 {
            libc::_exit(127);
        }
    }
}

/// Rights of root over files that a command in a folder of somebody else's needs: to change what is not its own. Those
/// over modes and owners only where its mounts keep them from the files outside. The others, of the machine, go. Whoever
/// is not root has none.
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
    // Effective, permitted and inheritable rights, 0 to 31 and then 32 to 63.
    let rights: [u32; 6] = [rights, rights, 0, 0, 0, 0];
    // SAFETY: the kernel reads the arrays, whose layout is that of its header; a refusal leaves fewer rights at most.
    unsafe {
        for right in (0..=HIGHEST).filter(|right| !kept.contains(right)) {
            libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(right), 0, 0, 0);
        }
        libc::syscall(libc::SYS_capset, header.as_ptr(), rights.as_ptr());
    }
}

/// Who the process is in a namespace of users: the same as outside.
struct Maps {
    /// User and group; `None` for root, who needs no such namespace.
    texts: Option<(CString, CString)>,
}

impl Maps {
    fn of_user() -> Self {
        if is_root() {
            return Self { texts: None };
        }
        // SAFETY: reads numbers of this process.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        let text = |id: u32| CString::new(format!("{id} {id} 1")).unwrap_or_default();
        Self { texts: Some((text(user), text(group))) }
    }

    /// Only calls the kernel.
    unsafe fn write(&self) -> io::Result<()> {
        let Some((user, group)) = &self.texts else { return Ok(()) };
        // SAFETY: the texts end with null.
        unsafe {
            write_to(c"/proc/self/setgroups", b"deny")?;
            write_to(c"/proc/self/uid_map", user.as_bytes())?;
            write_to(c"/proc/self/gid_map", group.as_bytes())
        }
    }
}

unsafe fn write_to(path: &CStr, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: the path ends with null, and the bytes are as many as is said.
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

/// Copies this process, as `fork` does, into namespaces of its own.
unsafe fn clone(namespaces: libc::c_int) -> libc::pid_t {
    let flags = (namespaces | libc::SIGCHLD) as libc::c_ulong;
    // SAFETY: without a stack of its own the child goes on with a copy of this one.
    unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) as libc::pid_t }
}

/// A list of texts as C has it.
fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

/// A pipe whose ends no other program inherits.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends: [RawFd; 2] = [-1; 2];
    // SAFETY: the kernel fills in two numbers.
    checked(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: both were opened just now, and nobody else has them.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// What the child tells; the pipe ends without a word once it is the command.
fn failure(heard: &OwnedFd) -> Option<Failure> {
    let mut failure = Failure { step: 0, error: 0 };
    loop {
        // SAFETY: the kernel writes as many bytes as there are.
        let read = unsafe { libc::read(heard.as_raw_fd(), (&raw mut failure).cast(), size_of::<Failure>()) };
        if read < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted {
            continue;
        }
        return (read == size_of::<Failure>() as isize).then_some(failure);
    }
}

/// Waits until a process has ended; its status as the kernel tells it.
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
    /// Whether it has ended; it stays to be waited for, and its number is nobody else's until then.
    pub(crate) fn has_ended(self) -> bool {
        // SAFETY: the kernel fills in what is pointed to; all zeroes are a valid value of it.
        unsafe {
            let mut found: libc::siginfo_t = std::mem::zeroed();
            let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            let asked = libc::waitid(libc::P_PID, self.0 as libc::id_t, &raw mut found, how);
            asked != 0 || found.si_pid() == self.0
        }
    }

    /// Sends a signal to it and to its whole group. Only as long as it was not waited for.
    pub(crate) fn signal(self, signal: libc::c_int) {
        // SAFETY: numbers only; a process that is gone is no harm.
        unsafe {
            libc::kill(-self.0, signal);
            libc::kill(self.0, signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How a child ends that looks whether it is heard.
    fn ends(is_heard: bool) -> i32 {
        let (heard, told) = pipe().unwrap();
        let heard = is_heard.then_some(heard);
        // SAFETY: the child calls the kernel alone, and ends at once.
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
