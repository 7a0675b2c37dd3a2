//! Input of hostile or confused models, beyond the table of hostile inputs: races, and cases with special settings.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use windlass::tool::{ProtectedPaths, WorkingFolder};

use super::Desk;

/// A folder with everything that should not be accessible.
pub fn trap() -> Desk {
    let desk = Desk::with(|folder| {
        let store = folder.path().join("store");
        folder.with_store(store)
    });
    let inside = &desk.inside;
    desk.put("plain.txt", "plain\n");
    desk.put("sub/a.txt", "a\n");
    desk.put("store/journal.db", "SECRET");
    desk.put("windlass.toml", "old");
    desk.put(".git/config", "old");
    desk.put("hooks/pre-commit", "old");
    desk.put("dotfiles/bashrc", "old");
    desk.put("read-only.txt", "old");
    fs::set_permissions(inside.join("read-only.txt"), fs::Permissions::from_mode(0o444)).unwrap();
    symlink("../hooks", inside.join(".git/hooks")).unwrap();
    desk.put("sub/.git/HEAD", "");
    desk.put("sub/githooks/pre-push", "old");
    symlink("../githooks", inside.join("sub/.git/hooks")).unwrap();
    symlink("dotfiles/bashrc", inside.join(".bashrc")).unwrap();
    symlink(desk.outside.join("secret.txt"), inside.join("out.txt")).unwrap();
    symlink(&desk.outside, inside.join("out")).unwrap();
    symlink("../../outside", inside.join("sub/up")).unwrap();
    symlink("../../outside/secret.txt", inside.join("sub/out.txt")).unwrap();
    symlink(".git", inside.join("git-link")).unwrap();
    symlink("store", inside.join("store-link")).unwrap();
    symlink("missing.txt", inside.join("dangling")).unwrap();
    symlink("../outside/new.txt", inside.join("dangling-out")).unwrap();
    symlink("loop-b", inside.join("loop-a")).unwrap();
    symlink("loop-a", inside.join("loop-b")).unwrap();
    symlink("/dev/zero", inside.join("zero")).unwrap();
    symlink(inside.join("plain.txt"), inside.join("absolute-in")).unwrap();
    assert!(Command::new("mkfifo").arg(inside.join("fifo")).status().unwrap().success());
    fs::write(inside.join(OsStr::from_bytes(b"bad-\xff.txt")), "plain\n").unwrap();
    desk
}

fn read(path: &str) -> (&'static str, Value) {
    ("Read", json!({"file_path": path}))
}

fn write(path: &str) -> (&'static str, Value) {
    ("Write", json!({"file_path": path, "content": "HACKED"}))
}

fn edit(path: &str) -> (&'static str, Value) {
    ("Edit", json!({"file_path": path, "old_string": "old", "new_string": "HACKED"}))
}

fn glob(pattern: &str, path: &str) -> (&'static str, Value) {
    ("Glob", json!({"pattern": pattern, "path": path}))
}

fn grep(pattern: &str, path: &str) -> (&'static str, Value) {
    ("Grep", json!({"pattern": pattern, "path": path}))
}

#[track_caller]
fn check(rows: &[((&'static str, Value), &str)]) {
    let desk = trap();
    let before = snapshot(&desk);
    for ((tool, arguments), expected) in rows {
        let answer = desk.show(tool, arguments.clone());
        assert_eq!(answer, *expected, "{tool} {:.200}", arguments.to_string());
    }
    assert_eq!(snapshot(&desk), before, "something was changed");
}

/// What must not change: the files outside, the store, and protected files.
pub fn snapshot(desk: &Desk) -> Vec<(String, String)> {
    let mut paths: Vec<_> = fs::read_dir(&desk.outside).unwrap().map(|entry| entry.unwrap().path()).collect();
    let watched = [
        "store/journal.db",
        "windlass.toml",
        ".git/config",
        "hooks/pre-commit",
        "dotfiles/bashrc",
        "read-only.txt",
    ];
    paths.extend(watched.iter().map(|path| desk.inside.join(path)));
    paths.sort();
    let read = |path: &PathBuf| fs::read_to_string(path).unwrap();
    paths.iter().map(|path| (path.display().to_string(), read(path))).collect()
}

// rows: LM-T6
#[test]
fn names_that_are_no_text_are_found() {
    let desk = trap();
    assert_eq!(desk.show("Grep", json!({"pattern": "^plain$"})), "ok: bad-\u{fffd}.txt\nplain.txt");
}

/// Makes a call in the notation of the table of hostile inputs: `Read path`, `Grep pattern in path`.
pub fn called(desk: &Desk, row: &str) -> String {
    let (tool, rest) = row.split_once(' ').unwrap();
    let (first, second) = rest.rsplit_once(" in ").unwrap_or((rest, "."));
    let (tool, arguments) = match tool {
        "Read" => read(rest),
        "Write" => write(rest),
        "Edit" => edit(rest),
        "Glob" => glob(first, second),
        "Grep" => grep(first, second),
        other => panic!("{other}"),
    };
    desk.show(tool, arguments)
}

// rows: LM-T3, LM-T4
#[test]
fn protected_paths_are_not_written() {
    let desk = trap();
    let before = snapshot(&desk);
    let paths = [
        "windlass.toml",
        "Windlass.TOML",
        "./sub/../windlass.toml",
        "sub/windlass.toml",
        "windlass.policy.toml",
        ".git/config",
        ".GIT/config",
        ".git",
        ".git/hooks/post-commit",
        "sub/.git/hooks/pre-push",
        ".git/modules/x/hooks/pre-commit",
        "git-link/config",
        // The hooks' directory is a link to this one.
        "hooks/pre-commit",
        ".bashrc",
        "dotfiles/bashrc",
        ".profile",
        ".zshrc",
        "sub/.envrc",
        "windlass.policy.toml/x",
    ];
    for path in paths {
        let refused =
            format!("error: `{path}` is protected: file tools do not write it. Ask the user to change it");
        let refused = refused.replace("./sub/../", "");
        let (tool, arguments) = write(path);
        assert_eq!(desk.show(tool, arguments), refused);
        let (tool, arguments) = edit(path);
        assert_eq!(desk.show(tool, arguments), refused);
    }
    let (tool, arguments) = read("windlass.toml");
    assert_eq!(desk.show(tool, arguments), "ok:      1\told");
    let (tool, arguments) = write("windlass.toml.md");
    assert_eq!(desk.show(tool, arguments), "ok: Created `windlass.toml.md`: 6 bytes");
    assert_eq!(snapshot(&desk), before);
}

#[test]
fn the_protected_paths_can_be_chosen() {
    let desk = Desk::with(|folder| folder.with_protected(ProtectedPaths::new(["keep/**"]).unwrap()));
    let answer = "error: `keep/a` is protected: file tools do not write it. Ask the user to change it";
    assert_eq!(desk.show("Write", json!({"file_path": "keep/a", "content": ""})), answer);
    assert_eq!(
        desk.show("Write", json!({"file_path": ".envrc", "content": ""})),
        "ok: Created `.envrc`: 0 bytes"
    );
    let error = ProtectedPaths::new(["a{"]).unwrap_err().to_string();
    assert!(error.starts_with("`a{` is not a glob"), "{error}");
}

#[test]
fn the_users_own_policy_is_not_written_wherever_it_lies() {
    let desk = Desk::with(|folder| {
        fs::create_dir_all(folder.path().join("conf")).unwrap();
        fs::create_dir_all(folder.path().join("dotfiles")).unwrap();
        symlink("../dotfiles/rules.toml", folder.path().join("conf/policy.toml")).unwrap();
        let (kept, linked) = (folder.path().join("policy.toml"), folder.path().join("conf/policy.toml"));
        fs::write(folder.path().join("dotfiles/rules.toml"), "old").unwrap();
        folder.with_protected_file(kept).with_protected_file(linked).with_protected_file("/elsewhere/x")
    });
    let paths = [
        "policy.toml",
        "Policy.TOML",
        "sub/../policy.toml",
        "conf/policy.toml",
        "dotfiles/rules.toml",
        ".config/windlass/policy.toml",
        "windlass/Policy.toml",
    ];
    for path in paths {
        let refused = desk.show("Write", json!({"file_path": path, "content": ""}));
        assert!(
            refused.ends_with("is protected: file tools do not write it. Ask the user to change it"),
            "{refused}"
        );
    }
    let written = desk.show("Write", json!({"file_path": "other/policy.toml", "content": ""}));
    assert_eq!(written, "ok: Created `other/policy.toml`: 0 bytes");
}

// rows: LM-T2, LM-T3, LM-T4, LM-T5, LM-T6
#[test]
fn the_store_is_neither_read_nor_written() {
    let refused = |path: &str| {
        format!("error: `{path}` belongs to the engine's store, which tools neither read nor write")
    };
    check(&[
        (read("store/journal.db"), &refused("store/journal.db")),
        (read("STORE/journal.db"), &refused("STORE/journal.db")),
        (read("store-link/journal.db"), &refused("store-link/journal.db")),
        (read("sub/../store/journal.db"), &refused("sub/../store/journal.db")),
        (write("store/new"), &refused("store/new")),
        (edit("store/journal.db"), &refused("store/journal.db")),
        (glob("*", "store"), &refused("store")),
        (grep("SECRET", "store"), &refused("store")),
        (glob("**/journal*", "."), "ok: [no file matches `**/journal*`]"),
        (glob("store-link/*", "."), "ok: [no file matches `store-link/*`]"),
        (grep("SECRET", "."), "ok: [no match for `SECRET`]"),
    ]);
    let desk = Desk::with(|folder| {
        let file = folder.path().join("state.db");
        folder.with_store(file)
    });
    for name in ["state.db", "state.db-wal", "State.db-shm"] {
        desk.put(name, "SECRET");
        assert_eq!(desk.show("Read", json!({"file_path": name})), refused(name));
    }
    desk.put("state.dbx", "fine");
    assert_eq!(desk.show("Glob", json!({"pattern": "*"})), "ok: state.dbx");
}

// rows: LM-T5, LM-T6
#[test]
fn patterns_that_would_cost_too_much() {
    let desk = Desk::new();
    desk.put("a.txt", "a".repeat(100_000));
    let grep = |pattern: &str| desk.show("Grep", json!({"pattern": pattern}));
    assert_eq!(grep("(a+)+$b"), "ok: [no match for `(a+)+$b`]");
    assert_eq!(grep("(a|a)*b|(.*)*c"), "ok: [no match for `(a|a)*b|(.*)*c`]");
    for pattern in ["((a{1000}){1000}){1000}", "(?=look)", r"(a)\1", "(", &"(".repeat(500)] {
        let answer = grep(pattern);
        assert!(answer.starts_with("error: invalid pattern: "), "{answer:.300}");
    }
    assert_eq!(grep(&"a".repeat(9000)), "error: the pattern is 9000 bytes long; at most 8192 are allowed");
    let glob = |pattern: &str| desk.show("Glob", json!({"pattern": pattern}));
    assert_eq!(glob(&"*".repeat(5000)), "error: the pattern is 5000 bytes long; at most 4096 are allowed");
    assert_eq!(glob(""), "error: the pattern is empty");
    let wild = "*a".repeat(2000);
    assert_eq!(glob(&wild), format!("ok: [no file matches `{wild}`]"));
    let nested = format!("{}a{}", "{a,".repeat(500), "}".repeat(500));
    let answer = glob(&nested);
    assert!(answer.starts_with("error: "), "{answer:.300}");
    assert!(answer.len() < 500, "{} bytes", answer.len());
    assert!(glob("[a").starts_with("error: invalid pattern: unclosed character class"), "{}", glob("[a"));
}

// rows: LM-T3
#[test]
fn a_directory_that_may_not_be_written() {
    let desk = Desk::new();
    desk.put("sub/a.txt", "old");
    fs::set_permissions(desk.inside.join("sub"), fs::Permissions::from_mode(0o555)).unwrap();
    let probe = fs::write(desk.inside.join("sub/probe"), "");
    let answer = desk.show("Write", json!({"file_path": "sub/a.txt", "content": "new"}));
    if probe.is_ok() {
        // Root may write everywhere.
        assert_eq!(answer, "ok: Overwrote `sub/a.txt`: 3 bytes");
    } else {
        assert!(answer.starts_with("error: cannot write `sub/a.txt`: "), "{answer}");
        assert_eq!(desk.text("sub/a.txt"), "old");
    }
    fs::set_permissions(desk.inside.join("sub"), fs::Permissions::from_mode(0o755)).unwrap();
}

/// Works on `real/secret.txt` while a thread swaps `real` for a link to another directory.
#[track_caller]
fn check_swap(desk: &Desk, target: &Path, link: &Path) {
    desk.put("real/secret.txt", "mine");
    let (real, parked) = (desk.inside.join("real"), desk.inside.join("parked"));
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let swapper = scope.spawn(|| {
            let mut swaps = 0;
            while !ends.load(Ordering::Relaxed) || swaps == 0 {
                fs::rename(&real, &parked).unwrap();
                // A write in between may have created the directory again.
                while symlink(link, &real).is_err() {
                    let _ = fs::remove_dir_all(&real);
                }
                fs::remove_file(&real).unwrap();
                while fs::rename(&parked, &real).is_err() {
                    let _ = fs::remove_dir_all(&real);
                }
                swaps += 1;
            }
        });
        for _ in 0..1000 {
            let answer = desk.show("Read", json!({"file_path": "real/secret.txt"}));
            assert!(!answer.contains("SECRET"), "{answer}");
            desk.show("Write", json!({"file_path": "real/secret.txt", "content": "mine"}));
            let answer = desk.show("Grep", json!({"pattern": "SECRET"}));
            assert!(!answer.contains("secret.txt"), "{answer}");
        }
        ends.store(true, Ordering::Relaxed);
        swapper.join().unwrap();
    });
    assert_eq!(fs::read_to_string(target.join("secret.txt")).unwrap(), "SECRET");
    assert_eq!(fs::read_dir(target).unwrap().count(), 1);
}

// rows: LM-T2, LM-T3
#[test]
fn a_directory_swapped_for_a_link_out_of_the_folder() {
    let desk = Desk::new();
    check_swap(&desk, &desk.outside, "../outside".as_ref());
}

// rows: LM-T2, LM-T3
#[test]
fn a_directory_swapped_for_a_link_to_the_store() {
    let desk = Desk::with(|folder| {
        let store = folder.path().join("store");
        folder.with_store(store)
    });
    desk.put("store/secret.txt", "SECRET");
    check_swap(&desk, &desk.inside.join("store"), "store".as_ref());
}

#[test]
fn a_folder_known_by_two_names_takes_both() {
    let root = tempfile::tempdir().unwrap();
    let real = fs::canonicalize(root.path()).unwrap().join("real");
    fs::create_dir(&real).unwrap();
    let alias = root.path().join("alias");
    symlink(&real, &alias).unwrap();
    let folder = WorkingFolder::open(&alias).unwrap();
    for path in [alias.join("a"), real.join("a"), "a".into()] {
        assert_eq!(folder.resolve(path.to_str().unwrap()).unwrap().to_string(), "a");
    }
    let missing = WorkingFolder::open(root.path().join("none")).unwrap_err().to_string();
    assert!(missing.starts_with("cannot open the working folder `"), "{missing}");
}
