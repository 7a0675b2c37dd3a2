//! Read-only folders: the store's folder, and the agent's working folder.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::said;
use crate::cli::{Said, TASK, User};

/// A user to whom permissions apply: the current user, or an unprivileged one if the current user is root.
struct Bound {
    user: User,
    program: PathBuf,
}

const NOBODY: u32 = 65534;

fn set(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

impl Bound {
    fn new() -> Self {
        let user = User::new();
        std::fs::create_dir_all(user.home()).unwrap();
        set(user.folder().parent().unwrap(), 0o755);
        // The unprivileged user has no access to the build folder.
        let program = user.folder().parent().unwrap().join("windlass");
        if std::fs::hard_link(env!("CARGO_BIN_EXE_windlass"), &program).is_err() {
            std::fs::copy(env!("CARGO_BIN_EXE_windlass"), &program).unwrap();
        }
        let bound = Self { user, program };
        bound.may_write(&bound.user.home());
        bound.may_write(&bound.user.folder());
        bound
    }

    fn is_root() -> bool {
        // SAFETY: a plain system call.
        unsafe { libc::geteuid() == 0 }
    }

    fn may_write(&self, path: &Path) {
        if Self::is_root() {
            std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }

    fn run(&self, arguments: &[&str]) -> Said {
        let like = self.user.command(arguments);
        let mut command = Command::new(&self.program);
        command.args(arguments).env_clear().current_dir(like.get_current_dir().unwrap());
        command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(std::process::Stdio::null());
        if Self::is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        said(command)
    }
}

#[test]
fn a_store_that_cannot_be_created_is_reported() {
    let bound = Bound::new();
    let closed = bound.user.home().join("closed");
    std::fs::create_dir(&closed).unwrap();
    set(&closed, 0o555);
    let store = closed.join("store").display().to_string();
    let named = format!("`{store}` cannot be used: Permission denied");
    let asked = ["run", "--yes", TASK, "--store", &store];
    bound.run(&asked).exits(5).tells(&[&named, "hint: give this user write access or name another folder"]);
    assert_eq!(bound.user.read("insights.md"), "");
}

#[test]
fn a_read_only_store_is_reported_and_not_changed() {
    let bound = Bound::new();
    bound.run(&["run", TASK]).exits(3);
    let store = bound.user.store();
    let database = store.join("windlass.db");
    let before = std::fs::read(&database).unwrap();
    // The store restores its folder's permissions, because its owner is this user. So the file is changed instead.
    set(&database, 0o444);
    let named = format!("hint: the store is `{}`", store.display());
    for asked in [&["resume", "--yes"][..], &["run", TASK]] {
        bound.run(asked).exits(5).tells(&[
            "the store's folder cannot be written to",
            "hint: give this user write access",
            &named,
        ]);
    }
    assert!(std::fs::read(&database).unwrap() == before);
    // SQLite gives the files beside the database the same permissions.
    for entry in std::fs::read_dir(&store).unwrap().map(Result::unwrap) {
        if entry.file_name().to_string_lossy().starts_with("windlass.db") {
            set(&entry.path(), 0o600);
        }
    }
    bound.run(&["resume", "--yes"]).exits(0);
}

#[test]
fn a_store_path_that_is_not_a_folder_is_reported() {
    let user = User::new();
    let file = user.home().join("file");
    std::fs::create_dir_all(user.home()).unwrap();
    std::fs::write(&file, "mine").unwrap();
    for store in [file.display().to_string(), "/proc/windlass".into(), "/dev/null/store".into()] {
        let named = format!("`{store}` cannot be used: ");
        let asked = ["run", "--yes", TASK, "--store", &store];
        user.run(&asked)
            .exits(5)
            .tells(&[&named, "hint: give this user write access or name another folder"]);
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), "mine");
}

#[test]
fn a_read_only_working_folder_is_reported_to_model_and_user() {
    let bound = Bound::new();
    set(&bound.user.folder(), 0o555);
    let said = bound.run(&["run", "--yes", TASK]);
    set(&bound.user.folder(), 0o755);
    let said = said.exits(0).tells(&["• Write insights.md  ✗ failed: ", "insights.md", "Permission denied"]);
    assert!(said.out.contains("was not written"), "{said:#?}");
    let doctor = {
        set(&bound.user.folder(), 0o555);
        let said = bound.run(&["doctor"]);
        set(&bound.user.folder(), 0o755);
        said
    };
    assert!(doctor.out.contains("is read-only: the agent can read files but not write them"), "{doctor:#?}");
}

#[test]
fn a_working_folder_that_is_not_a_folder_is_reported() {
    let user = User::new();
    for folder in ["data.csv", "nowhere"] {
        user.run(&["run", "--yes", TASK, "--dir", folder]).exits(2).tells(&[
            &format!("error: `{folder}` is not a folder"),
            "hint: set the working folder with `--dir`",
        ]);
    }
}
