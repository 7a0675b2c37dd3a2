//! Scratch folders: deleted with their commands; those of dead processes are deleted at the next start.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::Shell;

#[test]
fn what_dead_processes_left_is_swept_and_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let folder = |name: &str| root.path().join(name);
    for name in ["windlass-command-dead", "windlass-command-alive", "windlass-other", "command-dead"] {
        fs::create_dir_all(folder(name).join("shut/in")).unwrap();
        fs::write(folder(name).join("shut/in/file"), "left").unwrap();
        fs::set_permissions(folder(name).join("shut"), fs::Permissions::from_mode(0o000)).unwrap();
    }
    fs::write(folder("windlass-command-file"), "mine").unwrap();
    std::os::unix::fs::symlink("windlass-other", folder("windlass-command-link")).unwrap();
    let alive = fs::File::open(folder("windlass-command-alive")).unwrap();
    alive.lock().unwrap();
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tools::bash::scratch::starts"])
        .env("WINDLASS_TEST_FOLDER", root.path())
        .env("TMPDIR", root.path())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(ended.success());
    let mut left: Vec<_> = fs::read_dir(root.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    let wanted = [
        "command-dead",
        "windlass-command-alive",
        "windlass-command-file",
        "windlass-command-link",
        "windlass-other",
    ];
    assert_eq!(left, wanted);
    // Otherwise the folder of the test itself could not be deleted.
    for name in ["command-dead", "windlass-command-alive", "windlass-other"] {
        fs::set_permissions(folder(name).join("shut"), fs::Permissions::from_mode(0o700)).unwrap();
    }
}

/// The program of the other process; without a folder in the environment it does nothing.
#[test]
fn starts() {
    let Some(root) = std::env::var_os("WINDLASS_TEST_FOLDER").map(PathBuf::from) else { return };
    let shell = Shell::new();
    for command in ["mkdir $TMPDIR/a && touch $TMPDIR/a/b && chmod 000 $TMPDIR/a", "chmod 000 $TMPDIR"] {
        assert!(shell.says(command).starts_with("ok: "));
    }
    for _ in 0..100_000 {
        if !root.join("windlass-command-dead").exists() {
            return;
        }
        std::thread::yield_now();
    }
    panic!("it is still there");
}
