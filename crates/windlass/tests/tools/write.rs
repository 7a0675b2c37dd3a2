//! `Write`: what it creates and preserves, and that no reader sees a partial file.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::Desk;

// rows: LM-T3
#[test]
fn a_file_is_created_with_its_directories_and_overwritten() {
    let desk = Desk::new();
    let write = |content: &str| desk.show("Write", json!({"file_path": "a/b/c.txt", "content": content}));
    assert_eq!(write("één"), "ok: Created `a/b/c.txt`: 5 bytes");
    assert_eq!(write("two"), "ok: Overwrote `a/b/c.txt`: 3 bytes");
    assert_eq!(desk.text("a/b/c.txt"), "two");
    let absolute = desk.inside.join("a/b/c.txt");
    assert_eq!(
        desk.show("Write", json!({"file_path": absolute, "content": ""})),
        "ok: Overwrote `a/b/c.txt`: 0 bytes"
    );
    assert_eq!(fs::read_dir(desk.inside.join("a/b")).unwrap().count(), 1, "a temporary file was left");
}

// rows: LM-T3
#[test]
fn an_existing_file_keeps_its_mode() {
    let desk = Desk::new();
    desk.put("run.sh", "old");
    for mode in [0o755, 0o600] {
        fs::set_permissions(desk.inside.join("run.sh"), fs::Permissions::from_mode(mode)).unwrap();
        desk.show("Write", json!({"file_path": "run.sh", "content": "new"}));
        assert_eq!(fs::metadata(desk.inside.join("run.sh")).unwrap().mode() & 0o7777, mode);
    }
}

// rows: LM-T3
#[test]
fn a_link_inside_the_folder_stays_a_link() {
    let desk = Desk::new();
    desk.put("real.txt", "old");
    std::os::unix::fs::symlink("real.txt", desk.inside.join("link.txt")).unwrap();
    assert_eq!(
        desk.show("Write", json!({"file_path": "link.txt", "content": "new"})),
        "ok: Overwrote `link.txt`: 3 bytes"
    );
    assert!(fs::symlink_metadata(desk.inside.join("link.txt")).unwrap().is_symlink());
    assert_eq!(desk.text("real.txt"), "new");
}

// rows: LM-T3
#[test]
fn the_old_content_is_never_changed_in_place() {
    let desk = Desk::new();
    desk.put("a.txt", "old");
    fs::hard_link(desk.inside.join("a.txt"), desk.outside.join("same.txt")).unwrap();
    desk.show("Write", json!({"file_path": "a.txt", "content": "new"}));
    desk.show("Edit", json!({"file_path": "a.txt", "old_string": "new", "new_string": "newer"}));
    assert_eq!(fs::read_to_string(desk.outside.join("same.txt")).unwrap(), "old");
    assert_eq!(desk.text("a.txt"), "newer");
}

// rows: LM-T3
#[test]
fn a_reader_sees_one_content_or_the_other() {
    let desk = Desk::new();
    let contents = ["a".repeat(300_000), "b".repeat(200_000)];
    desk.put("a.txt", &contents[0]);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !ends.load(Ordering::Relaxed) || reads == 0 {
                let seen = desk.text("a.txt");
                assert!(contents.contains(&seen), "half a file of {} bytes", seen.len());
                reads += 1;
            }
        });
        for turn in 0..50 {
            let content = &contents[turn % 2];
            let answer = desk.show("Write", json!({"file_path": "a.txt", "content": content}));
            assert!(answer.starts_with("ok: "), "{answer}");
        }
        ends.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
}
