//! Runs one command on its own thread. The kernel kills the command if that thread or the process ends.
//!
//! When the command ends, all its descendants end, including background processes.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::{oneshot, watch};
use windlass_engine::port::clock::Clock;
use windlass_engine::tool::{FolderQuota, WorkingFolder};

use super::launch::{Launch, Pid, pipe, wait};
use super::output::Heard;
use super::scratch::Scratch;
use super::watch as processes;

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The command exited with a code.
    Code(i32),
    /// A signal killed the command.
    Signal(i32),
    /// The engine stopped the command, for this reason.
    Stopped(Stop),
}

/// Why a command was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The command was cancelled.
    Unwanted,
    /// The command exceeded its time limit.
    Late,
    /// The command exceeded its limit of processes.
    Processes,
    /// The command exceeded the quota of its files.
    Room,
}

/// A command to start, with its limits.
pub(crate) struct Order {
    pub launch: Launch,
    /// Maximum number of concurrent processes, including threads.
    pub processes: usize,
    /// The quota of the command's files.
    pub room: Option<Room>,
    /// The command's scratch folder, which is deleted when the command ends.
    pub scratch: Scratch,
}

/// The quota of a command's files.
pub(crate) struct Room {
    quota: Arc<dyn FolderQuota>,
    /// Maximum total size of the files, in bytes: the limit, or the earlier usage if that is higher. A
    /// command that only deletes files is not stopped.
    most: u64,
    /// Number of bytes left when the command started.
    left: u64,
    /// Whether the files could be counted when the command started.
    was_counted: bool,
}

impl Room {
    /// Returns the quota of a folder; `None` if the folder has no limit. Blocks.
    pub(crate) fn of(folder: &WorkingFolder) -> Option<Self> {
        let quota = folder.quota()?.clone();
        // If files cannot be counted, a command may delete files and write none.
        let counted = quota.taken();
        let (was_counted, taken) = (counted.is_ok(), counted.unwrap_or(u64::MAX));
        let limit = quota.limit();
        Some(Self { quota, most: limit.max(taken), left: limit.saturating_sub(taken), was_counted })
    }

    /// Returns the maximum size of another file, in bytes.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Whether the quota is exceeded. A command that makes the files uncountable exceeds it too. Blocks.
    fn is_passed(&self) -> bool {
        self.quota.taken().map_or(self.was_counted, |taken| taken > self.most)
    }
}

/// A running or ended command.
pub(crate) struct Job {
    heard: Mutex<Heard>,
    ended: watch::Receiver<Option<Ended>>,
    wish: AtomicU8,
    /// Wakes the attendant, which owns the descriptor. An ended job therefore keeps no descriptor open.
    bell: Weak<OwnedFd>,
}

/// The requested action; 0: none.
const STOP: u8 = 1;
const LATE: u8 = 2;
const KILL: u8 = 3;

/// Maximum time that a command may take to end after SIGTERM, in milliseconds.
const GRACE_MS: u64 = 2_000;
/// Maximum number of searches for daemons. A search may find a killed process again until the kernel has removed it.
const HUNTS: usize = 50;
/// Interval between two counts of the command's processes, in milliseconds. While others keep its output
/// open, it is also the interval between two checks of its end.
const LOOK_MS: i32 = 100;
/// Maximum time between two scans of all processes, in milliseconds. Each scan takes some milliseconds.
const LOOK_THROUGH_MS: u64 = 5_000;
/// Interval between two checks of the quota, in milliseconds.
const ROOM_MS: u64 = 1_000;

impl Job {
    /// Starts a command.
    pub(crate) async fn start(
        order: impl FnOnce(OwnedFd) -> Result<Order, String> + Send + 'static,
        clock: Arc<dyn Clock>,
    ) -> Result<Leash, String> {
        let broken = |error: io::Error| format!("cannot read the command's output: {error}");
        let bell = Arc::new(bell().map_err(broken)?);
        let (said, says) = pipe().map_err(broken)?;
        let (end, ended) = watch::channel(None);
        let rings = Arc::downgrade(&bell);
        let job = Arc::new(Self { heard: Mutex::default(), ended, wish: AtomicU8::new(0), bell: rings });
        let (started, start) = oneshot::channel();
        let shared = job.clone();
        let attend = move || {
            let order = match order(says) {
                Ok(order) => order,
                Err(why) => return drop(started.send(Err(why))),
            };
            let Order { launch, processes, room, scratch } = order;
            let pid = match launch.start() {
                Ok(pid) => pid,
                Err(why) => return drop(started.send(Err(why))),
            };
            let hunts = (!launch.namespace).then(|| scratch.path().to_owned());
            // The command has the write end of the pipe. The output would
            // never end if this process held that end too.
            drop(launch);
            let _ = started.send(Ok(()));
            let how = Attendant { job: &shared, bell, pid, said, processes, room, clock, hunts }.attend();
            drop(scratch);
            let _ = end.send(Some(how));
        };
        let spawned = std::thread::Builder::new().name("windlass-command".into()).spawn(attend);
        spawned.map_err(|error| format!("cannot start a thread: {error}"))?;
        // If the caller stops waiting, the command ends as well.
        let leash = Leash { job, is_held: true };
        start.await.unwrap_or_else(|_| Err("the command's thread panicked".into()))?;
        Ok(leash)
    }

    /// Returns the output so far.
    pub(crate) fn heard(&self) -> MutexGuard<'_, Heard> {
        // No code panics while it holds the lock.
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how the command ended; `None` while it runs.
    pub(crate) fn has_ended(&self) -> Option<Ended> {
        self.ended.borrow().clone()
    }

    /// Waits until the command has ended.
    pub(crate) async fn ended(&self) -> Ended {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(ended) => ended.clone().unwrap_or(Ended::Stopped(Stop::Unwanted)),
            // The attendant's thread has ended, and the command with it.
            Err(_) => Ended::Stopped(Stop::Unwanted),
        }
    }

    /// Ends the command with its descendants: SIGTERM first, then SIGKILL.
    pub(crate) fn stop(&self, why: Stop) {
        self.wish(match why {
            Stop::Late => LATE,
            Stop::Unwanted | Stop::Processes | Stop::Room => STOP,
        });
    }

    /// Kills the command at once.
    pub(crate) fn kill(&self) {
        self.wish(KILL);
    }

    fn wish(&self, wish: u8) {
        self.wish.fetch_max(wish, Ordering::SeqCst);
        // If the attendant has ended, the command has ended too.
        let Some(bell) = self.bell.upgrade() else { return };
        // SAFETY: the kernel reads one number. If the counter is full, it is already signalled.
        unsafe { libc::write(bell.as_raw_fd(), (&raw const RING).cast(), size_of::<u64>()) };
    }
}

/// A handle that ends the command when dropped.
pub(crate) struct Leash {
    job: Arc<Job>,
    is_held: bool,
}

impl Leash {
    pub(crate) fn job(&self) -> &Job {
        &self.job
    }

    /// Lets the command continue in the background.
    pub(crate) fn let_go(mut self) -> Arc<Job> {
        self.is_held = false;
        self.job.clone()
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        if self.is_held {
            self.job.kill();
        }
    }
}

/// The value written to the eventfd.
static RING: u64 = 1;

/// Creates an eventfd that wakes the attendant.
fn bell() -> io::Result<OwnedFd> {
    // SAFETY: the call takes only numbers.
    let counter = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if counter < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(counter) })
}

/// Supervises a command on its thread.
struct Attendant<'a> {
    job: &'a Job,
    bell: Arc<OwnedFd>,
    pid: Pid,
    said: OwnedFd,
    processes: usize,
    room: Option<Room>,
    clock: Arc<dyn Clock>,
    /// The scratch folder that identifies daemons. `None` if a namespace ends them.
    hunts: Option<PathBuf>,
}

impl Attendant<'_> {
    fn attend(self) -> Ended {
        let mut others = processes::on_the_machine();
        let mut asked: Option<(u64, Stop)> = None;
        let (mut is_open, mut counted_ms, mut looked_ms) = (true, 0, self.clock.monotonic_ms());
        let mut room_ms = looked_ms;
        while !self.pid.has_ended() {
            is_open = self.listen(is_open, LOOK_MS);
            let now = self.clock.monotonic_ms();
            match self.job.wish.load(Ordering::SeqCst) {
                0 => {}
                KILL => return self.end(Some(asked.map_or(Stop::Unwanted, |(_, why)| why))),
                wish => {
                    let why = if wish == LATE { Stop::Late } else { Stop::Unwanted };
                    let (since, why) = *asked.get_or_insert_with(|| {
                        self.pid.signal(libc::SIGTERM);
                        (now, why)
                    });
                    if now.saturating_sub(since) >= GRACE_MS {
                        return self.end(Some(why));
                    }
                }
            }
            if now.saturating_sub(room_ms) >= ROOM_MS {
                room_ms = now;
                if self.room.as_ref().is_some_and(Room::is_passed) {
                    return self.end(Some(Stop::Room));
                }
            }
            if now.saturating_sub(counted_ms) < LOOK_MS as u64 {
                continue;
            }
            counted_ms = now;
            // Scans all processes only if their total has grown by more than the limit, and periodically, because other
            // processes may have ended in the meantime.
            let all = processes::on_the_machine();
            let most = others.map(|others| others + self.processes as u64);
            let many = most.zip(all).is_none_or(|(most, all)| all > most);
            if many || now.saturating_sub(looked_ms) >= LOOK_THROUGH_MS {
                looked_ms = now;
                let own = processes::of(self.pid);
                if own > self.processes {
                    return self.end(Some(Stop::Processes));
                }
                others = all.map(|all| all.saturating_sub(own as u64));
            }
        }
        self.end(asked.map(|(_, why)| why))
    }

    /// Reads output, or waits for output. Returns whether more output may follow.
    fn listen(&self, is_open: bool, within_ms: i32) -> bool {
        let watched = |fd: &OwnedFd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let mut ends = [watched(&self.bell), watched(&self.said)];
        if !is_open {
            // `poll` would report a closed pipe on every call.
            ends[1].fd = -1;
        }
        // SAFETY: the kernel fills in as many entries as there are.
        unsafe { libc::poll(ends.as_mut_ptr(), 2, within_ms) };
        let mut bytes = [0_u8; 16 * 1024];
        // SAFETY: the kernel writes at most the buffer's length.
        let mut read =
            |fd: &OwnedFd| unsafe { libc::read(fd.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
        if ends[0].revents != 0 {
            read(&self.bell);
        }
        if ends[1].revents == 0 {
            return is_open;
        }
        match read(&self.said) {
            count if count > 0 => {
                self.job.heard().take(&bytes[..count as usize]);
                true
            }
            0 => false,
            _ => io::Error::last_os_error().kind() == io::ErrorKind::Interrupted, // tidy: an error of the kernel's
        }
    }

    /// Kills the daemons of a command without a namespace. A process that is being created is found in the next search.
    fn hunt(&self) {
        for _ in 0..HUNTS {
            let heirs: Vec<Pid> = self.hunts.iter().flat_map(|scratch| processes::heirs(scratch)).collect();
            if heirs.is_empty() {
                return;
            }
            heirs.into_iter().for_each(|daemon| daemon.signal(libc::SIGKILL));
        }
    }

    /// Kills the remaining processes of the command, and reads the remaining output.
    fn end(&self, why: Option<Stop>) -> Ended {
        // The kernel does not reuse the group id before the process is reaped.
        self.pid.signal(libc::SIGKILL);
        let status = wait(self.pid);
        self.hunt();
        let until_ms = self.clock.monotonic_ms() + GRACE_MS;
        // A namespace has no processes at this point. Without a namespace, a daemon may keep the output open.
        let mut is_open = true;
        while is_open && self.clock.monotonic_ms() < until_ms {
            let before = self.job.heard().total();
            is_open = self.listen(is_open, LOOK_MS);
            is_open &= self.job.heard().total() > before;
        }
        match (why, status) {
            (Some(why), _) => Ended::Stopped(why),
            (None, Ok(status)) if libc::WIFSIGNALED(status) => Ended::Signal(libc::WTERMSIG(status)),
            (None, Ok(status)) => Ended::Code(libc::WEXITSTATUS(status)),
            (None, Err(_)) => Ended::Stopped(Stop::Unwanted),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    /// A quota of 50 bytes with this usage.
    struct Files(AtomicU64);

    impl FolderQuota for Files {
        fn take(&self, _: u64) -> Result<(), String> {
            Ok(())
        }

        fn taken(&self) -> Result<u64, String> {
            match self.0.load(Ordering::SeqCst) {
                u64::MAX => Err("there are too many files to be counted".to_owned()),
                taken => Ok(taken),
            }
        }

        fn limit(&self) -> u64 {
            50
        }
    }

    #[test]
    fn only_a_command_that_writes_more_has_no_room() {
        let root = tempfile::tempdir().unwrap();
        let folder = || WorkingFolder::open(root.path()).unwrap();
        assert!(Room::of(&folder()).is_none());
        // If the files already exceed the quota, a command may write nothing, but is not stopped.
        for (before, left, most) in [(30, 20, 50), (50, 0, 50), (80, 0, 80), (u64::MAX, 0, u64::MAX - 1)] {
            let files = Arc::new(Files(AtomicU64::new(before)));
            let room = Room::of(&folder().with_quota(files.clone())).unwrap();
            assert_eq!(room.left(), left);
            for (taken, is_passed) in [
                (0, false),
                (most, false),
                (most.saturating_add(1), before != u64::MAX),
                (u64::MAX, before != u64::MAX),
            ] {
                files.0.store(taken, Ordering::SeqCst);
                assert_eq!(room.is_passed(), is_passed, "{before}: {taken}");
            }
        }
    }
}
