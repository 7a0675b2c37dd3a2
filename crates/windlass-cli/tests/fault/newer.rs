//! A store that a newer build has written: reported with the version, and left unchanged.

use std::path::Path;

use crate::cli::{TASK, User, lines};

/// Opens a store's database directly.
pub fn database(store: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(store.join("windlass.db")).unwrap()
}

/// Executes SQL in a store's database.
pub fn execute(store: &Path, sql: &str) {
    database(store).execute_batch(sql).unwrap();
}

/// All rows with recorded data, as text.
fn rows(store: &Path) -> Vec<String> {
    const ROWS: &str = "SELECT position || ' ' || body FROM events \
        UNION ALL SELECT run || ' ' || number || ' ' || coalesce(status, '') || ' ' || totals FROM runs \
        UNION ALL SELECT number || ' ' || seq || ' ' || hex(bytes) FROM snapshots \
        UNION ALL SELECT place || ' ' || id || ' ' || coalesce(input, '') FROM inbox \
        UNION ALL SELECT hex(digest) || ' ' || hex(bytes) FROM blobs \
        UNION ALL SELECT number || ' ' || thread || ' ' || head || ' ' || batch || ' ' || status FROM threads";
    let database = database(store);
    let mut rows = database.prepare(ROWS).unwrap();
    let mut rows: Vec<String> =
        rows.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    rows.sort();
    rows
}

/// A newer build appended one event to the waiting run.
const NEWER_EVENT: &str = r#"
    INSERT INTO events (position, body)
        SELECT number << 32 | head + 1, '{"v":99,"at":1,"type":"thread.dreamt","dream":"of sheep"}'
        FROM threads WHERE number = 2;
    UPDATE threads SET head = head + 1 WHERE number = 2;"#;

#[test]
fn a_journal_of_a_newer_build_is_reported_and_not_changed() {
    let user = User::new();
    user.run(&["run", "--yes", TASK]).exits(0);
    user.run(&["run", TASK]).exits(3);
    let threads = lines(&user.run(&["threads", "list", "--json"]).exits(0).out);
    let (newest, older) = (threads[0]["thread"].as_str().unwrap(), threads[1]["thread"].as_str().unwrap());
    let store = user.store();
    execute(&store, NEWER_EVENT);
    let before = rows(&store);
    let named = format!("hint: the store is `{}`", store.display());
    for asked in
        [&["resume", "--yes"][..], &["cancel"], &["threads", "show", newest], &["threads", "export", newest]]
    {
        user.run(asked).exits(5).tells(&[
            &format!("error: thread `{newest}`, event "),
            "the event has version 99, and this build reads versions up to 1",
            "hint: upgrade windlass",
            &named,
        ]);
        assert_eq!(rows(&store), before, "{asked:?}");
    }
    // Data that this build can read stays readable, and new runs work beside it.
    assert!(user.run(&["threads", "show", older]).exits(0).out.contains("Done. `insights.md`"));
    assert!(user.run(&["threads", "list"]).exits(0).out.contains(newest));
    user.run(&["run", "--yes", TASK]).exits(0);
}

#[test]
fn a_store_of_a_newer_build_is_reported_and_not_changed() {
    let user = User::new();
    user.run(&["run", "--yes", TASK]).exits(0);
    let store = user.store();
    execute(&store, "PRAGMA user_version = 99");
    let before = rows(&store);
    for asked in [&["resume"][..], &["threads", "list"], &["run", "--yes", TASK]] {
        user.run(asked).exits(2).tells(&[
            "error: the store has version 99, and this build knows versions up to ",
            "hint: upgrade windlass",
            &format!("hint: the store is `{}`", store.display()),
        ]);
    }
    assert_eq!(rows(&store), before);
}
