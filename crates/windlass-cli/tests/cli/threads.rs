//! `threads`: listed, shown, exported and deleted.

use super::{TASK, User, lines, said};

#[test]
fn a_conversation_is_listed_shown_exported_and_deleted() {
    let user = User::new();
    let none = user.run(&["threads", "list"]).exits(0);
    assert!(none.err.contains("no threads yet"), "{none:#?}");
    user.run(&["run", "--yes", TASK]).exits(0);

    let listed = user.run(&["threads", "list"]).exits(0).out;
    let row = listed.lines().nth(1).unwrap();
    assert!(
        listed.starts_with("TITLE")
            && row.contains("Read data.csv in this folder and")
            && row.contains(" idle ")
    );
    let thread = row.split_whitespace().last().unwrap();
    let row = &lines(&user.run(&["threads", "list", "--json"]).exits(0).out)[0];
    assert_eq!(row["thread"], thread);

    let shown = user.run(&["threads", "show", &thread[thread.len() - 5..]]).exits(0).out;
    assert!(shown.contains(&format!("You\n{TASK}\n")), "{shown}");
    assert!(shown.contains("• Read data.csv  ✓ ") && shown.contains("Rome,3"), "{shown}");
    assert!(shown.contains("Agent\nDone. `insights.md`"), "{shown}");

    let events = lines(&user.run(&["threads", "export", thread]).exits(0).out);
    assert_eq!(events[0]["type"], "thread.created");
    assert_eq!(events.last().unwrap()["type"], "run.finished");
    user.run(&["threads", "export", thread, "--markdown", "--output", "talk.md"]).exits(0);
    let markdown = user.read("talk.md");
    assert!(markdown.starts_with("# Read data.csv") && markdown.contains("## Agent\n"), "{markdown}");

    let asked = user.run(&["threads", "delete", thread]).exits(2);
    assert!(asked.err.contains("hint: `--yes` deletes without asking"), "{asked:#?}");
    user.run(&["threads", "delete", thread, "--yes"]).exits(0);
    let gone = user.run(&["threads", "show", thread]).exits(2);
    assert!(gone.err.contains("does not exist in this store"), "{gone:#?}");
}

/// Loading the system's certificates takes longer than the rest of a list command.
#[test]
fn lists_build_no_client_and_read_no_certificate() {
    let user = User::new();
    user.configure("[providers.own]\nbase_url = 'https://models.example.com/v1'\n");
    for command in [["threads", "list"], ["approvals", "list"]] {
        let mut command = user.command(&command);
        // A client cannot be built without certificates.
        let nowhere = user.home().join("missing");
        let output = command.env("SSL_CERT_FILE", &nowhere).env("SSL_CERT_DIR", &nowhere).output().unwrap();
        said(output).exits(0);
    }
}

// rows: ZE-P9
#[test]
fn a_fork_puts_files_back_as_they_were() {
    let user = User::new();
    user.run(&["run", "--yes", TASK]).exits(0);
    let fork = |more: &[&str]| user.run(&[&["threads", "fork", "--at", "1"], more].concat());
    let seen = fork(&["--restore-files", "--preview"]).exits(0).out;
    assert_eq!(seen, "to be removed  insights.md\n");
    assert!(user.folder().join("insights.md").exists());
    fork(&["--preview"]).exits(2);
    let none = user.run(&["threads", "fork", "--at", "999"]).exits(2).err;
    assert!(none.contains("event 999 does not exist: the last one of thread"), "{none}");
    let thread = user.events()[0]["thread"].as_str().unwrap().to_owned();
    // Another folder has other files with the same names.
    let (other, store) = (tempfile::tempdir().unwrap(), user.store().display().to_string());
    std::fs::write(other.path().join("insights.md"), user.read("insights.md")).unwrap();
    let elsewhere = ["--dir", other.path().to_str().unwrap(), "--store", &store];
    for more in [&["--preview"][..], &[], &["--overwrite"]] {
        let arguments = [&["threads", "fork", &thread, "--at", "1", "--restore-files"], more, &elsewhere];
        let said = user.run(&arguments.concat()).exits(2);
        assert!(said.err.contains("are not here"), "{said:#?}");
    }
    assert!(other.path().join("insights.md").exists());
    let mine = user.read("insights.md") + "mine";
    std::fs::write(user.folder().join("insights.md"), &mine).unwrap();
    let spared = user.run(&["threads", "fork", &thread, "--at", "1", "--restore-files"]).exits(1).out;
    assert!(spared.starts_with("changed since  insights.md: somebody else"), "{spared}");
    assert_eq!(user.read("insights.md"), mine);
    let arguments = ["threads", "fork", &thread, "--at", "1", "--restore-files", "--overwrite", "--json"];
    let done = &lines(&user.run(&arguments).exits(0).out)[0];
    assert_eq!(done["files"]["files"][0]["fate"], "removed");
    assert!(
        !user.folder().join("insights.md").exists() && done["thread"].as_str().unwrap().starts_with("thr_")
    );
}

#[test]
fn a_thread_with_an_open_run_is_not_deleted() {
    let user = User::new();
    user.run(&["run", TASK]).exits(3);
    let thread = user.events()[0]["thread"].as_str().unwrap().to_owned();
    let said = user.run(&["threads", "delete", &thread, "--yes"]).exits(2);
    assert!(said.err.starts_with("error: "), "{said:#?}");
    user.run(&["cancel"]).exits(0);
    user.run(&["threads", "delete", &thread, "--yes"]).exits(0);
}
