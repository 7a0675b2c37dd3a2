//! A damaged page of the database is reported with a remedy, and undamaged data stays readable.

use std::path::Path;

use super::newer::execute;
use crate::cli::{TASK, User, lines};

const PAGE_BYTES: usize = 4096;

/// Overwrites the database page that contains a text.
fn damage(store: &Path, text: &str) {
    // The write-ahead log may contain a copy of the page.
    execute(store, "PRAGMA wal_checkpoint(TRUNCATE)");
    let path = store.join("windlass.db");
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(text.len()).position(|window| window == text.as_bytes()).expect("the text's page");
    let page = at / PAGE_BYTES * PAGE_BYTES;
    bytes[page..page + PAGE_BYTES].fill(0x5a);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_damaged_page_is_reported_and_other_threads_stay_readable() {
    let user = User::new();
    user.run(&["run", "--yes", TASK]).exits(0);
    // A message of several pages, so that one of them contains nothing else.
    let long = format!("{} mark-of-the-page {}", "a ".repeat(3_000), "b ".repeat(3_000));
    user.run(&["run", "--yes", &long]).exits(0);
    let threads = lines(&user.run(&["threads", "list", "--json"]).exits(0).out);
    let (newest, older) = (threads[0]["thread"].as_str().unwrap(), threads[1]["thread"].as_str().unwrap());
    let store = user.store();
    damage(&store, "mark-of-the-page");
    let named = format!("the store is `{}`", store.display());
    for asked in [["threads", "show", newest], ["threads", "export", newest]] {
        user.run(&asked).exits(5).tells(&[
            "error: the store is damaged: ",
            "hint: ",
            "backup",
            "run `windlass doctor` to check the store",
            &named,
        ]);
    }
    assert!(user.run(&["threads", "show", older]).exits(0).out.contains("Done. `insights.md`"));
    assert!(user.run(&["threads", "list"]).exits(0).out.contains(newest));
    let doctor = user.run(&["doctor"]).exits(1).out;
    assert!(
        doctor.contains("✗ broken   store") && doctor.contains("backup") && doctor.contains(&named),
        "{doctor}"
    );
    // New runs work beside the damaged thread.
    user.run(&["run", "--yes", TASK]).exits(0);
}

#[test]
fn an_invalid_database_is_reported() {
    let user = User::new();
    user.run(&["run", "--yes", TASK]).exits(0);
    let store = user.store();
    damage(&store, "SQLite format 3");
    let named = format!("hint: the store is `{}`", store.display());
    for asked in [&["threads", "list"][..], &["resume"], &["run", "--yes", TASK]] {
        user.run(asked).exits(5).tells(&["error: the store is damaged: ", "backup", &named]);
    }
}
