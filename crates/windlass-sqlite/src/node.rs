//! A node: one opened store in one process, alive as long as its lock file is locked.
//!
//! The kernel releases the lock however the process dies. So a dead node is distinguished from a suspended one without
//! a timeout. Each node has `nodes/<id>.lock`, and `nodes/<id>.sock` for its bus.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use windlass_engine::port::clock::Clock;
use windlass_engine::port::journal::StoreError;

/// Name of a store's database file.
pub(crate) const DATABASE: &str = "windlass.db";

/// The node of this process in a store, locked until the value is dropped.
#[derive(Debug)]
pub struct Node {
    id: String,
    folder: PathBuf,
    _lock: File,
}

impl Node {
    /// Generates an id, locks its file, and removes the files of dead nodes.
    pub fn open(store: &Path, clock: &dyn Clock) -> Result<Self, StoreError> {
        let folder = store.join("nodes");
        private_folder(&folder)?;
        refuse_network_file_system(&folder)?;
        let id = format!("{:016x}", clock.random());
        let fresh = folder.join(format!("{id}.new"));
        let failed = |error| unusable(&folder, error);
        let lock = File::create(&fresh).map_err(failed)?;
        lock.try_lock().map_err(|error| no_locks(&folder, error))?;
        // Under its final name, the file is locked from the start. Otherwise, other nodes could
        // mistake this node for a dead one.
        fs::rename(&fresh, lock_path(&folder, &id)).map_err(failed)?;
        let node = Self { id, folder, _lock: lock };
        node.remove_dead();
        Ok(node)
    }

    /// Returns the node's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the store's folder.
    pub fn store(&self) -> &Path {
        // The path was made by joining a name to the store's path.
        self.folder.parent().unwrap_or(&self.folder)
    }

    /// Returns the folder with every node's files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether a node, this one or another, is alive. If its state cannot be read, returns `true`, because
    /// taking over its threads requires proof.
    pub fn is_alive(&self, id: &str) -> bool {
        id == self.id || is_locked(&lock_path(&self.folder, id))
    }

    /// Returns the ids of the other live nodes.
    pub fn others(&self) -> Vec<String> {
        let mut ids = self.ids();
        ids.retain(|id| *id != self.id && self.is_alive(id));
        ids
    }

    /// Returns the number of live nodes of a store.
    pub(crate) fn alive_in(store: &Path) -> usize {
        let folder = store.join("nodes");
        let Ok(entries) = fs::read_dir(&folder) else { return 0 };
        let locks = entries.filter_map(|entry| Some(entry.ok()?.path()));
        locks.filter(|path| path.extension().is_some_and(|end| end == "lock") && is_locked(path)).count()
    }

    fn remove_dead(&self) {
        for id in self.ids() {
            if !self.is_alive(&id) {
                // If the removal fails, the next node finds the file and retries.
                let _ = fs::remove_file(socket_path(&self.folder, &id));
                let _ = fs::remove_file(lock_path(&self.folder, &id));
            }
        }
    }

    fn ids(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let name = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
        entries.filter_map(name).filter_map(|name| Some(name.strip_suffix(".lock")?.to_owned())).collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // The lock is still held, so that no node sees the file unlocked.
        let _ = fs::remove_file(lock_path(&self.folder, &self.id));
    }
}

/// Waits until no other process is opening the store. Dropping the returned file releases the lock.
///
/// If two processes create a database at once, both enable its log, and SQLite rejects
/// one of them without the usual wait.
pub(crate) async fn opening(store: &Path) -> Result<File, StoreError> {
    const TRIES: usize = 500;
    const PAUSE: Duration = Duration::from_millis(10);
    let failed = |error| unusable(store, error);
    let lock = File::create(store.join("opening")).map_err(failed)?;
    // Other users may be able to read an existing folder. SQLite gives its log the mode of the database.
    private_file(&store.join(DATABASE)).map_err(failed)?;
    for _ in 0..TRIES {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(PAUSE).await,
            Err(error @ TryLockError::Error(_)) => return Err(no_locks(store, error)),
        }
    }
    let why = "another process has been opening the store for 5 s; try again, or end that process".to_owned();
    Err(StoreError::Unavailable { why })
}

/// Returns the path of a node's bus socket.
pub fn socket_path(nodes: &Path, id: &str) -> PathBuf {
    nodes.join(format!("{id}.sock"))
}

/// Creates a folder that only its owner may enter. An existing folder is unchanged; it is rejected if
/// other users could modify its contents.
pub(crate) fn private_folder(folder: &Path) -> Result<(), StoreError> {
    let failed = |error| unusable(folder, error);
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    let mut maker = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut maker, 0o700);
    match maker.create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => refuse_shared(folder),
        made => made.map_err(failed),
    }
}

#[cfg(unix)]
fn refuse_shared(folder: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::MetadataExt;
    const OTHERS_WRITE: u32 = 0o022;
    let found = fs::metadata(folder).map_err(|error| unusable(folder, error))?;
    if !found.is_dir() {
        return Err(unusable(folder, io::ErrorKind::NotADirectory.into()));
    }
    // SAFETY: a plain system call that cannot fail.
    let user = unsafe { libc::geteuid() };
    // Root can modify every file anyway.
    let foreign = found.uid() != user && found.uid() != 0;
    if !foreign && found.mode() & OTHERS_WRITE == 0 {
        return Ok(());
    }
    let why = format!(
        "other users can change what lies in `{}`; name a folder that does not exist yet, which is then made for \
         this user alone, or take their rights away",
        folder.display()
    );
    Err(StoreError::Refused { why })
}

#[cfg(not(unix))]
fn refuse_shared(_folder: &Path) -> Result<(), StoreError> {
    Ok(())
}

/// Creates a file that only its owner may read, unless it exists.
fn private_file(path: &Path) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn lock_path(nodes: &Path, id: &str) -> PathBuf {
    nodes.join(format!("{id}.lock"))
}

fn is_locked(path: &Path) -> bool {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => return error.kind() != io::ErrorKind::NotFound,
    };
    // A shared lock: two concurrent checks must not mistake each other for the owner.
    file.try_lock_shared().is_err()
}

fn unusable(folder: &Path, error: io::Error) -> StoreError {
    let why = format!(
        "the folder `{}` cannot be used: {error}; give this user write access or name another folder",
        folder.display()
    );
    StoreError::Unavailable { why }
}

fn no_locks(folder: &Path, error: TryLockError) -> StoreError {
    let why = format!(
        "the file system of `{}` has no file locks ({error}); put the store on a local disk",
        folder.display()
    );
    StoreError::Refused { why }
}

#[cfg(target_os = "linux")]
fn refuse_network_file_system(folder: &Path) -> Result<(), StoreError> {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = std::ffi::CString::new(folder.as_os_str().as_bytes()) else { return Ok(()) };
    let mut found = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: `path` ends with a zero byte, and `found` is read only after the call has filled it.
    let kind = unsafe {
        if libc::statfs(path.as_ptr(), found.as_mut_ptr()) != 0 {
            return Ok(());
        }
        found.assume_init().f_type as u32
    };
    refuse_network_kind(kind, folder)
}

/// Rejects the magic numbers of NFS, SMB, CIFS, SMB2, Ceph, AFS and Lustre, from linux/magic.h and Lustre's headers.
/// Their locks and shared memory do not work across machines as the node's lock and the database's log require. FUSE is
/// accepted, because local file systems use it too. 9P causes a warning: it serves the shared folder of a virtual
/// machine, but also the entire local disk of a sandbox such as gVisor.
#[cfg(target_os = "linux")]
fn refuse_network_kind(kind: u32, folder: &Path) -> Result<(), StoreError> {
    const NETWORK: [u32; 7] =
        [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x00c3_6400, 0x5346_414f, 0x0bd0_0bd0];
    const NINE_P: u32 = 0x0102_1997;
    if kind == NINE_P {
        tracing::warn!(
            folder = %folder.display(),
            "the store lies on a 9P file system; if another machine shares it, move the store to a local disk"
        );
    }
    if !NETWORK.contains(&kind) {
        return Ok(());
    }
    let why = format!("`{}` lies on a network file system; put the store on a local disk", folder.display());
    Err(StoreError::Refused { why })
}

#[cfg(not(target_os = "linux"))]
fn refuse_network_file_system(_folder: &Path) -> Result<(), StoreError> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn network_file_systems_are_refused_and_9p_is_not() {
        let refused = |kind: u32| refuse_network_kind(kind, Path::new("store")).is_err();
        const NFS: u32 = 0x6969;
        const EXT4: u32 = 0xef53;
        const NINE_P: u32 = 0x0102_1997;
        assert_eq!([NFS, EXT4, NINE_P].map(refused), [true, false, false]);
    }

    #[test]
    fn a_folder_that_was_there_keeps_its_mode_and_one_that_others_write_to_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let with = |name: &str, mode: u32| {
            let folder = base.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            folder
        };
        let fresh = base.path().join("deep/fresh");
        private_folder(&fresh).unwrap();
        assert_eq!(mode(&fresh), 0o700);
        let read = with("read", 0o755);
        private_folder(&read).unwrap();
        assert_eq!(mode(&read), 0o755);
        let shared = with("shared", 0o1777);
        let refused = private_folder(&shared).unwrap_err().to_string();
        assert!(refused.starts_with("other users can change what lies in `"), "{refused}");
        assert_eq!(mode(&shared), 0o1777);
        private_file(&read.join(DATABASE)).unwrap();
        assert_eq!(mode(&read.join(DATABASE)), 0o600);
    }
}
