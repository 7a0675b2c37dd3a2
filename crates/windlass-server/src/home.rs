//! Folders of the server's users: each user has an uploads folder, and each thread has a folder that only its tools
//! can access. (ZE-C15, ZE-X9)
//!
//! The folders are in the store's folder, as `files/<workspace>/<user>/uploads` and
//! `files/<workspace>/<user>/workspace/<thread>`, and only the server's system user can access them. If the settings
//! say so, new threads of a user share `files/<workspace>/<user>/shared`. A thread of the command line works in the
//! folder where the user started it.

mod room;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use thiserror::Error;
use windlass::machine::{Principal, ThreadId};
use windlass::tool::{FolderError, WorkingFolder};
use windlass::{Engine, EngineError};

pub use self::room::Room;
use crate::config::FolderWord;

/// Prefix of the recorded folder of a thread with its own folder.
const HOME: &str = "home:";
/// Prefix of the recorded folder of a thread that uses its user's shared folder.
const SHARED: &str = "shared:";

/// Maximum number of folders that one sweep checks.
const SWEPT_MAX: usize = 10_000;
/// Interval of sweeps.
const SWEEP_EVERY: Duration = Duration::from_secs(3_600);
/// Minimum age of a folder, in milliseconds, before a sweep may treat it as abandoned.
const SETTLED_MS: u64 = 3_600_000;

/// The folders of the server's users.
#[derive(Clone)]
pub struct Homes {
    root: PathBuf,
    /// Working folder of this process, used by threads of the command line.
    ground: Arc<WorkingFolder>,
    /// Open shared folders, so that concurrent threads serialize their changes.
    shared: Arc<Mutex<HashMap<PathBuf, Weak<WorkingFolder>>>>,
    /// Quotas of users with open folders, by their first folder.
    rooms: Arc<Mutex<HashMap<PathBuf, Weak<Room>>>>,
    /// Quota of a user, in bytes.
    limit: u64,
}

/// The owner of folders: names of the workspace and the user, escaped as path components.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    workspace: String,
    user: String,
}

impl Home {
    pub fn of(workspace: &str, user: &Principal) -> Self {
        Self { workspace: plain(workspace), user: plain(user.as_str()) }
    }

    /// Builds the home from the names in a thread's record.
    fn in_record((workspace, user): (&str, &str)) -> Self {
        let safe = |name: &str| if is_plain(name) { name.to_owned() } else { plain(name) };
        Self { workspace: safe(workspace), user: safe(user) }
    }

    /// Returns the folder to record for a new thread, according to the settings.
    pub fn folder(&self, word: FolderWord) -> String {
        match word {
            FolderWord::Conversation => self.recorded(),
            FolderWord::User => format!("{SHARED}{}/{}", self.workspace, self.user),
        }
    }

    /// Returns the folder to record for a thread with its own folder.
    pub fn recorded(&self) -> String {
        format!("{HOME}{}/{}", self.workspace, self.user)
    }
}

/// The reason why a thread has no folder in this process.
#[derive(Debug, Error)]
pub enum HomeError {
    /// The thread works in another folder of the command line, where the same paths are other files.
    #[error("the thread works in `{0}`, but this process works in `{1}`; continue it there")]
    Elsewhere(String, String),
    #[error(transparent)]
    Folder(#[from] FolderError),
}

impl Homes {
    pub fn new(store: &std::path::Path, ground: Arc<WorkingFolder>) -> Self {
        Self {
            root: store.join("files"),
            ground,
            shared: Arc::default(),
            rooms: Arc::default(),
            limit: u64::MAX,
        }
    }

    /// Sets the quota of a user, in bytes.
    pub fn with_limit(self, limit: u64) -> Self {
        Self { limit, ..self }
    }

    /// Returns the working folder of this process, used by threads of the command line.
    pub fn ground(&self) -> &Arc<WorkingFolder> {
        &self.ground
    }

    /// Returns a user's uploads folder, and creates it if necessary. Blocks the thread.
    pub fn uploads(&self, home: &Home) -> Result<Arc<WorkingFolder>, FolderError> {
        Ok(Arc::new(self.open(home, &[&home.workspace, &home.user, "uploads"])?))
    }

    /// Returns the folder of a thread according to the thread's record, or `None` if the record has no folder. Blocks
    /// the thread.
    pub fn thread(
        &self,
        thread: &ThreadId,
        recorded: Option<&str>,
    ) -> Result<Option<Arc<WorkingFolder>>, HomeError> {
        let Some(recorded) = recorded else { return Ok(None) };
        let named = recorded.strip_prefix(HOME).and_then(|home| home.split_once('/'));
        if let Some((workspace, user)) = named {
            let parts = [&plain(workspace), &plain(user), "workspace", &plain(thread.as_str())];
            return Ok(Some(Arc::new(self.open(&Home::in_record((workspace, user)), &parts)?)));
        }
        let shared = recorded.strip_prefix(SHARED).and_then(|home| home.split_once('/'));
        if let Some((workspace, user)) = shared {
            let parts = [&plain(workspace), &plain(user), "shared"];
            return Ok(Some(self.shared(&Home::in_record((workspace, user)), parts)?));
        }
        if !self.has_files_of(Some(recorded)) {
            let here = self.ground.path().display().to_string();
            return Err(HomeError::Elsewhere(recorded.to_owned(), here));
        }
        Ok(Some(self.ground.clone()))
    }

    /// Returns a shared folder. If the folder is already open, returns the same object.
    fn shared(&self, home: &Home, parts: [&str; 3]) -> Result<Arc<WorkingFolder>, FolderError> {
        let path = self.path(&parts);
        // Invariant: each change leaves a whole map. A concurrent thread waits for the lock until the folder is open.
        let mut open = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = open.get(&path).and_then(Weak::upgrade) {
            return Ok(folder);
        }
        let folder = Arc::new(self.open(home, &parts)?);
        open.retain(|_, folder| folder.strong_count() > 0);
        open.insert(path, Arc::downgrade(&folder));
        Ok(folder)
    }

    /// Returns whether this process can access a thread's files, according to the thread's record. In other folders of
    /// the command line, the same paths are other files.
    pub fn has_files_of(&self, recorded: Option<&str>) -> bool {
        Self::is_own(recorded) || self.is_ground(recorded)
    }

    /// Returns whether the recorded folder is the working folder of this process.
    pub fn is_ground(&self, recorded: Option<&str>) -> bool {
        recorded.is_some_and(|recorded| Path::new(recorded) == self.ground.path())
    }

    /// Returns whether the recorded folder belongs to the server, and not to the command line.
    pub fn is_own(recorded: Option<&str>) -> bool {
        recorded.is_some_and(|recorded| recorded.starts_with(HOME) || recorded.starts_with(SHARED))
    }

    /// Returns whether the recorded folder belongs to this thread alone.
    pub fn is_own_of_thread(recorded: Option<&str>) -> bool {
        recorded.is_some_and(|recorded| recorded.starts_with(HOME))
    }

    /// Returns the quota of a user.
    pub fn room(&self, home: &Home) -> Arc<Room> {
        let (workspace, user) = (&home.workspace, &home.user);
        // Names from a record are already escaped, so the folders of those threads have names that are escaped twice.
        let mut folders = vec![self.path(&[workspace, user]), self.path(&[&plain(workspace), &plain(user)])];
        folders.dedup();
        // Invariant: each change leaves a whole map.
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(room) = rooms.get(&folders[0]).and_then(Weak::upgrade) {
            return room;
        }
        let room = Arc::new(Room::new(folders.clone(), self.limit, crate::clock::clock()));
        rooms.retain(|_, room| room.strong_count() > 0);
        rooms.insert(folders.swap_remove(0), Arc::downgrade(&room));
        room
    }

    /// Deletes the folder of a deleted thread. Keeps folders of the command line and shared folders. Blocks the thread.
    pub fn forget(&self, thread: &ThreadId, recorded: Option<&str>) -> io::Result<()> {
        let named = recorded.and_then(|it| it.strip_prefix(HOME)).and_then(|home| home.split_once('/'));
        let Some((workspace, user)) = named else { return Ok(()) };
        let path = self.path(&[&plain(workspace), &plain(user), "workspace", &plain(thread.as_str())]);
        gone(windlass::tool::remove_tree(&path))
    }

    /// Sweeps now and every hour. After a crash, an incomplete copy uses its user's quota until a sweep deletes it.
    pub async fn sweep_hourly(self, engine: Engine) {
        loop {
            self.sweep(&engine).await;
            tokio::time::sleep(SWEEP_EVERY).await;
        }
    }

    /// Deletes folders of threads that do not exist: a crash interrupted their deletion, or the copy for a fork.
    pub async fn sweep(&self, engine: &Engine) {
        let homes = self.clone();
        let found = tokio::task::spawn_blocking(move || homes.folders()).await.unwrap_or_default();
        for (thread, path) in found {
            if !matches!(engine.thread(&thread).row().await, Err(EngineError::NoThread(_))) {
                continue;
            }
            let removed = tokio::task::spawn_blocking(move || gone(windlass::tool::remove_tree(&path))).await;
            if let Err(error) = removed.map_err(io::Error::other).flatten() {
                tracing::warn!(%thread, %error, "the folder of a deleted conversation could not be removed");
            }
        }
    }

    /// Returns the folders of threads that did not change recently. A process that has just created a folder may be
    /// about to create its thread. Blocks the thread.
    fn folders(&self) -> Vec<(ThreadId, PathBuf)> {
        let below = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten();
        let workspaces = below(self.root.clone());
        let users = workspaces.flat_map(|workspace| below(workspace.path()));
        let all = users.flat_map(|user| below(user.path().join("workspace")));
        let before = crate::clock::now().0.saturating_sub(SETTLED_MS);
        let settled = all.filter(|entry| {
            let modified = entry.metadata().and_then(|metadata| metadata.modified()).ok();
            let since = modified.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
            since.is_some_and(|since| since.as_millis() < u128::from(before))
        });
        // Skip names with escaped characters: ids of the engine and UUIDs contain no such characters.
        let named = settled.filter_map(|entry| {
            let name = entry.file_name().into_string().ok().filter(|name| !name.contains('%'))?;
            Some((ThreadId::from(name), entry.path()))
        });
        named.take(SWEPT_MAX).collect()
    }

    fn path(&self, parts: &[&str]) -> PathBuf {
        parts.iter().fold(self.root.clone(), |path, part| path.join(part))
    }

    fn open(&self, home: &Home, parts: &[&str]) -> Result<WorkingFolder, FolderError> {
        let mut path = self.root.clone();
        // If a folder cannot be created, opening it fails with the reason.
        let _ = private(&path);
        for part in parts {
            path.push(part);
            let _ = private(&path);
        }
        Ok(WorkingFolder::open(&path)?.with_quota(self.room(home)))
    }

    /// Removes other users' permissions on the root folder. An earlier version created it with the default
    /// permissions.
    pub fn make_private(&self) -> io::Result<()> {
        if self.root.exists() { private(&self.root) } else { Ok(()) }
    }
}

/// Creates a folder that only the server's user can access. Restricts the permissions of an existing folder.
fn private(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let found = std::fs::symlink_metadata(path)?;
        if found.is_dir() && found.permissions().mode() & 0o077 != 0 {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))?;
        }
    }
    Ok(())
}

/// Converts the error for a missing folder to success.
fn gone(deleted: io::Result<()>) -> io::Result<()> {
    match deleted {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        deleted => deleted,
    }
}

/// Returns whether a name is a path component that [`plain`] can produce.
fn is_plain(name: &str) -> bool {
    let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.%".contains(&byte);
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(is_kept)
}

/// Escapes a name to a path component. Letters, digits and `-_.` are kept; other bytes become hexadecimal digits. So
/// different names stay different.
fn plain(name: &str) -> String {
    let mut plain = String::with_capacity(name.len());
    for (at, byte) in name.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => plain.push(byte.into()),
            b'.' if at > 0 => plain.push('.'),
            _ => plain.push_str(&format!("%{byte:02x}")),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use windlass::tool::FolderQuota;

    use super::*;

    #[test]
    fn no_name_leads_out_of_the_files() {
        let root = tempfile::tempdir().unwrap();
        let ground = tempfile::tempdir().unwrap();
        let ground = Arc::new(WorkingFolder::open(ground.path()).unwrap());
        let homes = Homes::new(root.path(), ground.clone());
        for name in ["..", ".", "/etc", "a/../../b", "x\0y", ""] {
            let recorded = Home::of(name, &Principal::from(name)).recorded();
            let found = homes.thread(&ThreadId::from(name), Some(&recorded));
            if let Ok(Some(found)) = found {
                let inside = root.path().canonicalize().unwrap().join("files");
                assert!(found.path().starts_with(&inside), "{name}: {}", found.path().display());
            }
        }
        let plain_names = ["a.b", "%2e", "A_b-9"].map(plain);
        assert_eq!(plain_names, ["a.b", "%252e", "A_b-9"]);
    }

    #[test]
    fn a_conversation_of_the_command_line_stays_where_it_was() {
        let root = tempfile::tempdir().unwrap();
        let ground = Arc::new(WorkingFolder::open(root.path()).unwrap());
        let homes = Homes::new(root.path(), ground.clone());
        let here = ground.path().display().to_string();
        let found = homes.thread(&ThreadId::from("thr_1"), Some(&here)).unwrap();
        assert!(Arc::ptr_eq(&found.unwrap(), &ground));
        assert!(homes.thread(&ThreadId::from("thr_1"), None).unwrap().is_none());
        // A thread of another folder has no folder in this process: its calls would change other files.
        let other = homes.thread(&ThreadId::from("thr_1"), Some("/some/folder")).err().unwrap().to_string();
        assert_eq!(
            other,
            format!(
                "the thread works in `/some/folder`, but this process works in `{here}`; continue it there"
            )
        );
        let own = Home::of("default", &Principal::from("usr_1")).recorded();
        let known = [Some("/some/folder"), Some(&*here), Some(&*own), None];
        assert_eq!(known.map(|recorded| homes.has_files_of(recorded)), [false, true, true, false]);
    }

    #[test]
    fn each_conversation_has_its_own() {
        let root = tempfile::tempdir().unwrap();
        let ground = tempfile::tempdir().unwrap();
        let homes = Homes::new(root.path(), Arc::new(WorkingFolder::open(ground.path()).unwrap()));
        let recorded = Home::of("default", &Principal::from("usr_1")).recorded();
        let one = homes.thread(&ThreadId::from("thr_1"), Some(&recorded)).unwrap().unwrap();
        let other = homes.thread(&ThreadId::from("thr_2"), Some(&recorded)).unwrap().unwrap();
        assert_ne!(one.path(), other.path());
        assert!(one.path().ends_with("files/default/usr_1/workspace/thr_1"));
    }

    // rows: ZE-C15
    #[test]
    fn conversations_of_a_user_share_a_folder_where_the_settings_say_so() {
        let root = tempfile::tempdir().unwrap();
        let ground = tempfile::tempdir().unwrap();
        let homes = Homes::new(root.path(), Arc::new(WorkingFolder::open(ground.path()).unwrap()));
        let home = Home::of("default", &Principal::from("usr_1"));
        assert_eq!(home.folder(FolderWord::Conversation), home.recorded());
        let recorded = home.folder(FolderWord::User);
        let folder = |thread: &str, recorded: &str| {
            homes.thread(&ThreadId::from(thread), Some(recorded)).unwrap().unwrap()
        };
        let (one, other) = (folder("thr_1", &recorded), folder("thr_2", &recorded));
        // Threads of one user share one object, so that tools serialize their changes. Another user has another object.
        assert!(Arc::ptr_eq(&one, &other) && one.path().ends_with("files/default/usr_1/shared"));
        let second = Home::of("default", &Principal::from("usr_2")).folder(FolderWord::User);
        assert_ne!(folder("thr_3", &second).path(), one.path());
        std::fs::write(one.path().join("a.txt"), "abc").unwrap();
        assert_eq!(homes.room(&home).taken(), Ok(3));
        homes.forget(&ThreadId::from("thr_1"), Some(&recorded)).unwrap();
        assert!(other.path().join("a.txt").exists() && Homes::is_own(Some(&recorded)));
        assert!(homes.folders().is_empty());
    }

    #[test]
    fn all_folders_of_a_user_share_their_room() {
        let root = tempfile::tempdir().unwrap();
        let ground = tempfile::tempdir().unwrap();
        let ground = Arc::new(WorkingFolder::open(ground.path()).unwrap());
        let homes = Homes::new(root.path(), ground).with_limit(10);
        // Names with a slash or a full stop are escaped in paths.
        let home = Home::of(".a/b", &Principal::from("us/er"));
        let thread = homes.thread(&ThreadId::from("thr_1"), Some(&home.recorded())).unwrap().unwrap();
        let shared = home.folder(FolderWord::User);
        let shared = homes.thread(&ThreadId::from("thr_2"), Some(&shared)).unwrap().unwrap();
        let uploads = homes.uploads(&home).unwrap();
        let write = |folder: &WorkingFolder, name: &str, text: &str| {
            let path = folder.resolve(name).unwrap();
            folder.write(&path, text.as_bytes()).map(drop).map_err(|error| error.to_string())
        };
        write(&thread, "a.txt", "1234").unwrap();
        write(&uploads, "b.txt", "1234").unwrap();
        let refused = write(&shared, "c.txt", "123").unwrap_err();
        assert_eq!(refused, "`c.txt` was not written: 8 of 10 bytes are used; 3 more do not fit");
        assert!(!shared.path().join("c.txt").exists());
        // The replacement of a file frees the space of the old file.
        write(&thread, "a.txt", "123456").unwrap();
        write(&thread, "a.txt", "1").unwrap();
        write(&shared, "c.txt", "123").unwrap();
        // Another user has a separate quota, and the command line's folder has no limit.
        let other = Home::of(".a/b", &Principal::from("other"));
        write(&homes.uploads(&other).unwrap(), "d.txt", "1234567890").unwrap();
        write(homes.ground(), "e.txt", "12345678901").unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn other_users_of_the_machine_enter_no_folder() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let ground = tempfile::tempdir().unwrap();
        let homes = Homes::new(root.path(), Arc::new(WorkingFolder::open(ground.path()).unwrap()));
        // Folders as an earlier version created them, in a store that other users can access.
        let open =
            |path: &Path| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let old = root.path().join("files/default/usr_1/uploads");
        std::fs::create_dir_all(&old).unwrap();
        old.ancestors().take(5).for_each(open);
        let home = Home::of("default", &Principal::from("usr_1"));
        let mut made = vec![homes.uploads(&home).unwrap().path().to_path_buf()];
        let thread = homes.thread(&ThreadId::from("thr_1"), Some(&home.recorded())).unwrap().unwrap();
        made.push(thread.path().to_path_buf());
        let files = root.path().canonicalize().unwrap().join("files");
        let levels = made.iter().flat_map(|path| path.ancestors().take_while(|it| it.starts_with(&files)));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let modes: Vec<_> = levels.map(|path| (path.display().to_string(), mode(path))).collect();
        assert_eq!(modes.len(), 9);
        assert!(modes.iter().all(|(_, mode)| *mode == 0o700), "{modes:?}");
        open(&files);
        homes.make_private().unwrap();
        assert_eq!(mode(&files), 0o700);
    }

    #[tokio::test]
    async fn only_what_was_left_behind_is_swept() {
        let root = tempfile::tempdir().unwrap();
        let ground = tempfile::tempdir().unwrap();
        let homes = Homes::new(root.path(), Arc::new(WorkingFolder::open(ground.path()).unwrap()));
        let home = Home::of("default", &Principal::from("usr_1"));
        let folder = |thread: &str| {
            let found = homes.thread(&ThreadId::from(thread), Some(&home.recorded())).unwrap().unwrap();
            std::fs::write(found.path().join("a.txt"), "a").unwrap();
            found.path().to_path_buf()
        };
        let (old, fresh) = (folder("thr_old"), folder("thr_fresh"));
        let past = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
        std::fs::File::open(&old).unwrap().set_modified(past).unwrap();
        let engine = windlass::builder().build().await.unwrap();
        homes.sweep(&engine).await;
        assert_eq!((old.exists(), fresh.exists()), (false, true));
        assert_eq!(homes.room(&home).taken(), Ok(1));
        homes.forget(&ThreadId::from("thr_fresh"), Some("/some/folder")).unwrap();
        assert!(fresh.exists());
        homes.forget(&ThreadId::from("thr_fresh"), Some(&home.recorded())).unwrap();
        assert!(!fresh.exists());
    }
}
