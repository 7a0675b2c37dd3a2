//! Previews of file tools: their effect on the current file, without applying it.

use std::fs;

use serde_json::{Value, json};

use super::Desk;

// rows: LM-T3
#[test]
fn a_write_shows_what_it_would_change() {
    let desk = Desk::new();
    let write = |path: &str, content: &str| {
        desk.preview("Write", json!({"file_path": path, "content": content})).unwrap()
    };
    assert_eq!(write("new.md", "a\nb\n"), "--- /dev/null\n+++ b/new.md (4 bytes)\n@@ -0,0 +1,2 @@\n+a\n+b\n");
    desk.put("old.md", "one\ntwo\nthree\n");
    let shown = write("old.md", "one\n2\nthree\n");
    let digest = &blake3::hash(b"one\ntwo\nthree\n").to_hex()[..32];
    let head = format!("--- a/old.md (14 bytes, blake3 {digest})\n+++ b/old.md (12 bytes)\n");
    assert_eq!(shown, format!("{head}@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"));
    assert!(write("old.md", "one\ntwo\nthree\n").ends_with("no change\n"));
    // The file is unchanged, and a second preview is equal.
    assert_eq!(desk.text("old.md"), "one\ntwo\nthree\n");
    assert!(!desk.inside.join("new.md").exists());
    assert_eq!(write("old.md", "one\n2\nthree\n"), shown);
}

// rows: LM-T4
#[test]
fn an_edit_shows_where_it_would_change_the_file_and_that_the_file_is_another() {
    let desk = Desk::new();
    let long: String = (0..100).map(|nth| format!("line {nth}\r\n")).collect();
    desk.put("a.md", &long);
    let edit = || {
        let arguments = json!({"file_path": "a.md", "old_string": "line 50\n", "new_string": "x\n"});
        desk.preview("Edit", arguments)
    };
    let shown = edit().unwrap();
    assert!(shown.contains("@@ -48,7 +48,7 @@") && shown.contains("-line 50\r\n+x\r\n"), "{shown}");
    assert_eq!(desk.text("a.md"), long);
    // A change far away changes the preview, because the approval was for another file.
    desk.put("a.md", long.replace("line 3\r", "line x\r"));
    let other = edit().unwrap();
    assert_eq!(other.lines().skip(2).collect::<Vec<_>>(), shown.lines().skip(2).collect::<Vec<_>>());
    assert_ne!(other, shown);
    desk.put("a.md", "nothing of it");
    assert_eq!(
        edit(),
        Err("`old_string` does not occur in `a.md`; read the file and copy the text exactly".into())
    );
}

#[test]
fn what_could_not_be_changed_is_not_shown() {
    let desk = Desk::new();
    desk.put(".git/config", "[core]\nsecret\n");
    fs::create_dir(desk.inside.join("folder")).unwrap();
    let write = |path: &str| desk.preview("Write", json!({"file_path": path, "content": "x"})).unwrap_err();
    let outside = desk.outside.join("secret.txt");
    for (path, wanted) in [
        (".git/config", "protected"),
        ("folder", "folder"),
        ("../outside/secret.txt", "outside"),
        (outside.to_str().unwrap(), "outside"),
    ] {
        let why = write(path);
        assert!(why.contains(wanted) && !why.contains("SECRET"), "{path}: {why}");
    }
    let edit = json!({"file_path": ".git/config", "old_string": "secret", "new_string": "x"});
    assert!(desk.preview("Edit", edit).unwrap_err().contains("protected"));
}

#[test]
fn large_files_and_files_that_are_no_text_are_shown_by_size_and_digest() {
    let desk = Desk::new();
    let write =
        |content: Value| desk.preview("Write", json!({"file_path": "big", "content": content})).unwrap();
    for old in [vec![b'x'; 600_000], vec![0xff; 10]] {
        desk.put("big", &old);
        let shown = write("new".into());
        let digest = &blake3::hash(&old).to_hex()[..32];
        assert!(shown.contains(digest) && shown.contains("the whole file is replaced"), "{shown}");
        assert!(shown.len() < 200);
    }
}

#[test]
fn a_path_that_leads_elsewhere_says_where() {
    let desk = Desk::new();
    desk.put("real/a.md", "old\n");
    std::os::unix::fs::symlink("real", desk.inside.join("link")).unwrap();
    let told = desk.preview("Write", json!({"file_path": "link/a.md", "content": "new\n"})).unwrap();
    assert!(told.contains("+++ b/link/a.md (4 bytes, resolves to real/a.md)\n"), "{told}");
}
