//! A backup of a store in use, and its restoration.

use std::path::Path;

use reqwest::StatusCode;

use super::Server;
use super::auth::administrator;
use super::browser::Browser;
use super::operate::{abandoned, command, dress, models, until};
use super::raw::logged;
use crate::cli::{User, count, lines, mode};

const MODEL: &str = "openai-chat/files-20-ttft20ms";

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_backup_under_load_resumes_in_another_store() {
    let models = models();
    let user = abandoned(&models, MODEL);
    let server = logged(user, &[], |command| dress(command, &models, MODEL));
    let user = &server.user;
    until("it has got on", || count(&user.events(), "step.replied") >= 5);
    let copy = user.home().join("copies/1");
    let said = user.run(&["admin", "backup", text(&copy)]).exits(0);
    assert!(said.out.starts_with("copied 1 threads, "), "{said:#?}");
    assert!(count(&user.events(), "run.finished") == 0, "the server was at work meanwhile");
    assert_eq!((mode(&copy), mode(&copy.join("windlass.db"))), (0o700, 0o600));
    // An existing backup is not overwritten.
    let again = user.run(&["admin", "backup", text(&copy)]).exits(2);
    assert!(again.err.contains("is not empty"), "{again:#?}");
    until("it has ended", || count(&user.events(), "run.finished") == 1);
    let whole = user.events();

    // A store in use is not overwritten either.
    let live = user.run(&["admin", "restore", text(&copy)]).exits(2);
    assert!(live.err.contains("is a store that 1 live processes use"), "{live:#?}");

    let other = User::new();
    for file in std::fs::read_dir(user.folder()).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), other.folder().join(file.file_name())).unwrap();
    }
    let restored = other.run(&["admin", "restore", text(&copy)]).exits(0);
    assert!(restored.err.contains("every page checked"), "{restored:#?}");
    let before = other.events();
    assert!((5..whole.len()).contains(&before.len()) && whole.starts_with(&before), "{before:#?}");
    let full = other.run(&["admin", "restore", text(&copy)]).exits(2);
    assert!(full.err.contains("is not empty"), "{full:#?}");
    let resumed = command(&other, &models, MODEL, &["resume", "--yes"]).output().unwrap();
    // A call that was running at the time of the backup is in doubt, as after a crash.
    assert!([Some(0), Some(3)].contains(&resumed.status.code()), "{resumed:?}");
    let after = other.events();
    assert!(after.starts_with(&before) && after.len() > before.len(), "{after:#?}");
}

#[tokio::test]
async fn a_restored_store_knows_no_session_of_the_copy_unless_told_so() {
    let server = Server::start(&[]);
    let browser = administrator(&server).await;
    let copy = server.user.home().join("copy");
    let said = server.user.run(&["admin", "backup", text(&copy)]).exits(0);
    assert!(said.err.contains("not copied: `files/`") && said.err.contains("`vault.key`"), "{said:#?}");
    assert!(!copy.join("vault.key").exists() && !copy.join("files").exists());
    for (flag, status) in [(None, 401), (Some("--keep-sessions"), 200)] {
        let user = User::new();
        let restored = user.run(&[&["admin", "restore", text(&copy)], flag.as_slice()].concat()).exits(0);
        assert_eq!(restored.err.contains("ended 1 sessions and all one-time links"), flag.is_none());
        let second = Server::start_for(user, &[]);
        let mut again = Browser::new(&second);
        again.cookies = browser.cookies.clone();
        // The access token was signed with the key of another vault.
        again.get("/api/v1/auth/me").await.is_problem(401, "unauthenticated");
        let refreshed = again.post("/api/v1/auth/refresh", serde_json::json!({})).await;
        assert_eq!(refreshed.status, status, "{flag:?}: {refreshed:#?}");
    }
}

/// The store exists by then, so no later step would end them.
#[tokio::test]
async fn sessions_of_a_copy_end_also_if_the_copy_is_damaged() {
    let server = Server::start(&[]);
    let browser = administrator(&server).await;
    // Long enough to be stored outside of the events. A restore checks the events before it creates the store.
    let long = format!("hello {} needle", "y".repeat(20_000));
    let admin = server.admin();
    let sent = admin.post("/runs", serde_json::json!({ "message": long })).await.is(StatusCode::CREATED);
    admin.wait(sent.body["run"].as_str().unwrap()).await;
    let copy = server.user.home().join("copy");
    server.user.run(&["admin", "backup", text(&copy)]).exits(0);
    let database = copy.join("windlass.db");
    let mut bytes = std::fs::read(&database).unwrap();
    let at = bytes.windows(6).position(|window| window == b"needle").unwrap();
    bytes[at] ^= 1;
    std::fs::write(&database, bytes).unwrap();
    let user = User::new();
    let key = server.user.store().join("vault.key");
    let refused = user.run(&["admin", "restore", text(&copy), "--vault-key", text(&key)]).exits(5);
    assert!(refused.err.contains("damaged"), "{refused:#?}");
    let second = Server::start_for(user, &[]);
    let mut again = Browser::new(&second);
    again.cookies = browser.cookies.clone();
    let refreshed = again.post("/api/v1/auth/refresh", serde_json::json!({})).await;
    assert_eq!(refreshed.status, 401, "{refreshed:#?}");
}

#[test]
fn a_restored_store_has_the_key_that_it_is_given_or_none() {
    let user = User::new();
    user.run(&["admin", "link"]).exits(0);
    let (copy, key) = (user.home().join("copy"), user.store().join("vault.key"));
    user.run(&["admin", "backup", text(&copy)]).exits(0);
    let restore =
        |other: &User, flags: &[&str]| other.run(&[&["admin", "restore", text(&copy)], flags].concat());
    let other = User::new();
    let said = restore(&other, &[]).exits(0);
    assert!(said.err.contains("is missing: copy it from the original store"), "{said:#?}");
    assert!(!other.store().join("vault.key").exists());
    let other = User::new();
    let short = user.home().join("short");
    std::fs::write(&short, "short").unwrap();
    let refused = restore(&other, &["--vault-key", text(&short)]);
    assert!(refused.err.contains("has 5 bytes instead of 32"), "{refused:#?}");
    // The failed restore created nothing, so a second one succeeds.
    let said = restore(&other, &["--vault-key", text(&key)]).exits(0);
    assert!(!said.err.contains("is missing"), "{said:#?}");
    let placed = other.store().join("vault.key");
    assert_eq!(std::fs::read(&placed).unwrap(), std::fs::read(&key).unwrap());
    assert_eq!(mode(&placed), 0o600);
}

#[tokio::test]
async fn a_signing_key_is_rotated_while_the_server_runs() {
    let server = Server::start(&[]);
    let mut browser = administrator(&server).await;
    browser.get("/api/v1/auth/me").await.is(StatusCode::OK);
    server.user.run(&["admin", "rotate-keys"]).exits(0);
    browser.get("/api/v1/auth/me").await.is_problem(401, "unauthenticated");
    browser.post("/api/v1/auth/refresh", serde_json::json!({})).await.is(StatusCode::OK);
    browser.get("/api/v1/auth/me").await.is(StatusCode::OK);
    let ended = server.user.run(&["admin", "rotate-keys", "--end-sessions"]).exits(0);
    assert_eq!(ended.out, "replaced the signing key and ended 1 sessions\n");
    browser.post("/api/v1/auth/refresh", serde_json::json!({})).await.is_problem(401, "unauthenticated");
}

#[test]
fn a_copy_has_large_blobs_and_a_damaged_one_is_refused() {
    let user = User::new();
    // Larger than any value in the database.
    let large = "all work and no play\n".repeat(80_000);
    user.configure(&format!("[agent]\ninstructions = '''{large}'''\n"));
    user.run(&["run", "--yes", crate::cli::TASK]).exits(0);
    let copy = user.home().join("copy");
    let said = user.run(&["admin", "backup", text(&copy)]).exits(0);
    assert!(said.out.contains(" and 1 large blobs"), "{said:#?}");

    let other = User::new();
    other.run(&["admin", "restore", text(&copy)]).exits(0);
    let exported = |user: &User| lines(&user.run(&["threads", "export"]).exits(0).out);
    assert_eq!(exported(&other), exported(&user));

    let folder = std::fs::read_dir(copy.join("blobs")).unwrap().next().unwrap().unwrap().path();
    let blob = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&blob, "something else").unwrap();
    let third = User::new();
    let refused = third.run(&["admin", "restore", text(&copy)]).exits(5);
    assert!(refused.err.contains("holds other bytes"), "{refused:#?}");
    std::fs::remove_file(&blob).unwrap();
    third.run(&["admin", "restore", text(&copy)]).exits(5);
    std::fs::write(copy.join("unfinished"), "").unwrap();
    let refused = third.run(&["admin", "restore", text(&copy)]).exits(2);
    assert!(refused.err.contains("is no finished backup"), "{refused:#?}");
    // A failed restore leaves nothing behind.
    third.run(&["admin", "restore", text(&user.home().join("nothing"))]).exits(2);
    assert_eq!(third.run(&["threads", "list", "--json"]).exits(0).out, "");
}
