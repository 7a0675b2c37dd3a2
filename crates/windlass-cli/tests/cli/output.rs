//! Output that cannot be written: a script must not mistake partial output for all of it.

use std::fs::File;

use super::{Said, User, lines, said};

/// Runs a command with its output on a full disk.
fn full(user: &User, arguments: &[&str]) -> Said {
    let full = File::options().write(true).open("/dev/full").unwrap();
    said(user.command(arguments).stdout(full).output().unwrap()).exits(6)
}

#[test]
fn output_that_cannot_be_written_is_an_error_of_its_own() {
    let user = User::new();
    user.run(&["run", "hello"]).exits(0);
    user.run(&["admin", "add-key", "noted"]).exits(0);
    let commands: [&[&str]; 4] = [
        &["threads", "export"],
        &["threads", "list", "--json"],
        &["admin", "audit", "export"],
        &["run", "--json", "hello"],
    ];
    for arguments in commands {
        let lost = full(&user, arguments).err;
        let wanted = "error: cannot write all of the output: No space left on device";
        assert!(lost.contains(wanted), "{arguments:?}: {lost}");
    }
    // A reader that closes the pipe is not an error.
    let mut export = user.start(&["threads", "export"]);
    drop(export.stdout.take());
    let ended = said(export.wait_with_output().unwrap()).exits(0);
    assert_eq!(ended.err, "");
}

#[test]
fn a_key_that_could_not_be_shown_is_taken_back() {
    let user = User::new();
    let lost = full(&user, &["admin", "add-key", "unseen"]).err;
    assert!(lost.contains("error: cannot print the key, so it was revoked: "), "{lost}");
    user.run(&["admin", "add-key", "seen"]).exits(0);
    let log = lines(&user.run(&["admin", "audit", "export"]).exits(0).out);
    let keys: Vec<&str> = log.iter().filter_map(|entry| entry["action"].as_str()).collect();
    let keys: Vec<&str> = keys.into_iter().filter(|action| action.starts_with("key.")).collect();
    assert_eq!(keys, ["key.add", "key.revoke", "key.add"]);
}
