//! The folders of a server's people: each has uploads of their own, and each conversation a folder that its tools see
//! and nothing else. (ZE-C15, ZE-X9)
//!
//! `files/<workspace>/<user>/uploads` and `files/<workspace>/<user>/workspace/<thread>` in the store's folder. A
//! conversation that was begun on the command line works in the folder that it was begun in.

use std::path::PathBuf;
use std::sync::Arc;

use windlass::machine::{Principal, ThreadId};
use windlass::tool::{FolderError, WorkingFolder};

/// What a conversation's record says of a folder that is found here.
const HOME: &str = "home:";

/// The folders of a server's people.
#[derive(Clone)]
pub struct Homes {
    root: PathBuf,
    /// The folder of conversations that were begun on the command line.
    ground: Arc<WorkingFolder>,
}

/// Whose folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    workspace: String,
    user: String,
}

impl Home {
    /// The home of a user.
    pub fn of(workspace: &str, user: &Principal) -> Self {
        Self { workspace: workspace.to_owned(), user: user.to_string() }
    }

    /// What is recorded of a conversation of theirs.
    pub fn recorded(&self) -> String {
        format!("{HOME}{}/{}", plain(&self.workspace), plain(&self.user))
    }
}

impl Homes {
    /// Homes below a store's folder.
    pub fn new(store: &std::path::Path, ground: Arc<WorkingFolder>) -> Self {
        Self { root: store.join("files"), ground }
    }

    /// The folder of conversations that were begun on the command line.
    pub fn ground(&self) -> &Arc<WorkingFolder> {
        &self.ground
    }

    /// A user's uploads; the folder is made where it is missing. Blocks.
    pub fn uploads(&self, home: &Home) -> Result<Arc<WorkingFolder>, FolderError> {
        self.open(&[&plain(&home.workspace), &plain(&home.user), "uploads"])
    }

    /// The folder of a conversation, by what its record says. Blocks.
    pub fn thread(
        &self,
        thread: &ThreadId,
        recorded: Option<&str>,
    ) -> Result<Arc<WorkingFolder>, FolderError> {
        let named = recorded.and_then(|recorded| recorded.strip_prefix(HOME)?.split_once('/'));
        let Some((workspace, user)) = named else { return Ok(self.ground.clone()) };
        let parts = [&plain(workspace), &plain(user), "workspace", &plain(thread.as_str())];
        self.open(&parts)
    }

    fn open(&self, parts: &[&str]) -> Result<Arc<WorkingFolder>, FolderError> {
        let path = parts.iter().fold(self.root.clone(), |path, part| path.join(part));
        // What cannot be made cannot be opened either, and that error says why.
        let _ = std::fs::create_dir_all(&path);
        WorkingFolder::open(&path).map(Arc::new)
    }
}

/// A name that is one part of a path, whatever it was: letters, digits and `-_.` stay, and the rest is written in
/// hexadecimal digits, so that two names are never one.
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
            if let Ok(found) = found {
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
        let found = homes.thread(&ThreadId::from("thr_1"), Some("/some/folder")).unwrap();
        assert!(Arc::ptr_eq(&found, &ground));
    }

    #[test]
    fn each_conversation_has_its_own() {
        let root = tempfile::tempdir().unwrap();
        let ground = tempfile::tempdir().unwrap();
        let homes = Homes::new(root.path(), Arc::new(WorkingFolder::open(ground.path()).unwrap()));
        let recorded = Home::of("default", &Principal::from("usr_1")).recorded();
        let one = homes.thread(&ThreadId::from("thr_1"), Some(&recorded)).unwrap();
        let other = homes.thread(&ThreadId::from("thr_2"), Some(&recorded)).unwrap();
        assert_ne!(one.path(), other.path());
        assert!(one.path().ends_with("files/default/usr_1/workspace/thr_1"));
    }
}
