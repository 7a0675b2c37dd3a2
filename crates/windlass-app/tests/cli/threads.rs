//! `threads`: listed, shown, exported, deleted.

use super::{TASK, User, lines};

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
