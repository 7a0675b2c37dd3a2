//! Grants, modes, the allow list, and explanations of decisions.

use serde_json::json;

use super::model::{Model, Turn};
use super::{INSIGHTS, TASK, User, count};
use crate::fault::newer::execute;

// rows: ZE-H1, ZE-H9
#[test]
fn modes_and_the_list_say_which_calls_run_without_asking() {
    let user = User::new();
    assert_eq!(user.run(&["auto-run"]).exits(0).out, "ask\n");
    user.run(&["run", TASK]).exits(3);
    let thread = user.events()[0]["thread"].as_str().unwrap().to_owned();
    assert_eq!(user.run(&["auto-run", "allowlist"]).exits(0).out, "allowlist\n");
    user.run(&["run", TASK]).exits(3);
    assert_eq!(user.run(&["allow", "Write", "Edit", "Write"]).exits(0).out, "Edit\nWrite\n");
    user.run(&["run", TASK]).exits(0);
    assert_eq!(user.read("insights.md"), INSIGHTS);
    assert_eq!(user.run(&["allow", "--remove", "Write"]).exits(0).out, "Edit\n");
    assert_eq!(user.run(&["allow", "--list", "--json"]).exits(0).json(), json!(["Edit"]));
    user.run(&["run", TASK]).exits(3);
    // A thread's setting takes precedence over the user's.
    let mode =
        |arguments: &[&str]| user.run(&[&["auto-run", "--thread", &thread], arguments].concat()).exits(0).out;
    assert_eq!((mode(&[]), mode(&["everything"])), ("allowlist\n".into(), "everything\n".into()));
    let run = user.run(&["threads", "export", &thread]).exits(0).out;
    let run = super::lines(&run).into_iter().find(|event| event["type"] == "run.started").unwrap();
    let run = run["run"].as_str().unwrap().to_owned();
    user.run(&["resume", &run]).exits(0);
    assert_eq!(mode(&["default"]), "allowlist\n");
    assert_eq!(user.run(&["auto-run", "default"]).exits(0).out, "ask\n");
    let nothing = user.run(&["allow"]).exits(2);
    assert!(nothing.err.contains("no tool given\nhint: `windlass allow --list`"), "{nothing:#?}");
}

// rows: ZE-H9
#[test]
fn grants_are_given_listed_and_taken_back() {
    let user = User::new();
    assert_eq!(user.run(&["grants", "list"]).exits(0).err, "no grants\n");
    let add = ["grants", "add", "Write", "--when", "/file_path=insights.md", "--count", "3", "--for", "2d"];
    user.run(&add).exits(0);
    user.run(&["run", TASK]).exits(0);
    assert_eq!(user.read("insights.md"), INSIGHTS);
    let row = user.run(&["grants", "list", "--json"]).exits(0).json();
    assert_eq!((&row["user"], &row["grant"]["remaining"]), (&json!("local"), &json!(2)));
    let id = row["grant"]["id"].as_str().unwrap();
    let listed = user.run(&["grants", "list"]).exits(0).out;
    assert_eq!(
        listed.replace(id, "grt_1"),
        "grt_1  Write         2 left        for 2 d     /file_path = \"insights.md\"\n"
    );
    user.run(&["grants", "revoke", &id[id.len() - 5..]]).exits(0);
    user.run(&["run", TASK]).exits(3);
    let gone = user.run(&["grants", "revoke", id]).exits(2);
    assert!(gone.err.contains("no grant `"), "{gone:#?}");
    let odd = user.run(&["grants", "add", "Write", "--when", "file_path=x"]).exits(2);
    assert!(odd.err.contains("a JSON pointer begins with `/`: write `/file_path`"), "{odd:#?}");
}

#[test]
fn yes_is_one_approval_and_no_more() {
    let user = User::new();
    user.configure("");
    let policy = user.home().join("config/windlass/policy.toml");
    let careful = "[[rule]]\nname = 'careful'\nverdict = 'ask'\ntools = ['Write']\n";
    std::fs::write(&policy, format!("{careful}quorum = 2\n")).unwrap();
    user.run(&["run", "--yes", TASK]).exits(3);
    std::fs::write(&policy, careful).unwrap();
    user.run(&["run", TASK]).exits(3);
    user.run(&["run", "--yes", TASK]).exits(0);
    assert_eq!(user.read("insights.md"), INSIGHTS);
    std::fs::remove_file(user.folder().join("insights.md")).unwrap();
    std::fs::write(&policy, "[[rule]]\nname = 'never'\nverdict = 'deny'\ntools = ['Write']\n").unwrap();
    let said = user.run(&["run", "--yes", TASK]).exits(0);
    assert!(said.out.contains("was not written"), "{said:#?}");
    assert_eq!(user.read("insights.md"), "");
}

#[test]
fn what_decided_about_each_call_is_explained() {
    let user = User::new();
    let write = |path: &str| ("Write", json!({ "file_path": path, "content": "x" }));
    user.run(&["grants", "add", "Edit"]).exits(0);
    let edit = ("Edit", json!({ "file_path": "a", "old_string": "x", "new_string": "y" }));
    let model = Model::start(vec![
        Turn::Call(vec![("Glob", json!({ "pattern": "*" })), write("a")]),
        Turn::Call(vec![edit]),
    ]);
    model.run(&user, &["run", "go"]).exits(3);
    let listed = user.run(&["approvals", "list", "--json"]).exits(0).json();
    let (id, run) = (listed["interrupt"].as_str().unwrap(), listed["run"].as_str().unwrap());
    model
        .run(&user, &["approvals", "edit", id, "--arguments", r#"{"file_path":"a","content":"xx"}"#])
        .exits(3);
    let listed = user.run(&["approvals", "list", "--json"]).exits(0).json();
    model.run(&user, &["approvals", "approve", listed["interrupt"].as_str().unwrap()]).exits(0);
    let explained = user.run(&["policy", "explain", run]).exits(0).out;
    let grant = user.run(&["grants", "list", "--json"]).exits(0).json();
    let grant = grant["grant"]["id"].as_str().unwrap();
    let plain = |text: &str| {
        let lines = text.lines().map(|line| match line.split_once(" UTC (") {
            // The date of the test varies.
            Some((before, after)) => format!("{}DAY ({after}", &before[..before.len() - 16]),
            None => line.to_owned(),
        });
        let text = lines.collect::<Vec<_>>().join("\n");
        text.replace(run, "run_1").replace(grant, "grt_1").replace("after 1 s", "after 0 s")
    };
    insta::assert_snapshot!(plain(&explained), @r"
    1.1   Glob *
          allow   by annotations (the tool's own hints; no rule, setting or grant matched)
          end     ✓ 0.1 s
    1.2   Write a
          ask     by annotations (the tool's own hints; no rule, setting or grant matched)
          asked   approve, DAY (run_1.1.1.0)
          edited  by local
          answer  edited and approved by local, after 0 s
          asked   approve, DAY (run_1.1.1.1)
          answer  approved by local, after 0 s
          end     ✓ 0.1 s
    2.1   Edit a
          allow   by grant grt_1
          grant   one use of grt_1
          end     ✗ failed, 0.1 s
    ");
    let one = user.run(&["policy", "explain", run, "1.2", "--json"]).exits(0).json();
    let what: Vec<_> =
        one["calls"][0]["happened"].as_array().unwrap().iter().map(|it| it["what"].clone()).collect();
    assert_eq!(
        json!(what),
        json!(["judged", "asked", "edited", "answered", "asked", "answered", "started", "finished"])
    );
    let none = user.run(&["policy", "explain", run, "9.1"]).exits(2);
    assert!(none.err.contains("has no call `9.1`"), "{none:#?}");
}

#[test]
fn tools_budgets_and_limits_are_set_in_the_configuration() {
    let user = User::new();
    let write = |path: &str| ("Write", json!({ "file_path": path, "content": "x" }));
    let turns = || vec![Turn::Call(vec![write("a"), write("b")]), Turn::Call(vec![write("c")])];
    user.configure("[tools.Write]\neffect = 'idempotent'\n");
    Model::start(turns()).run(&user, &["run", "--yes", "go"]).exits(0);
    let events = user.events();
    let judged = events.iter().find(|event| event["type"] == "call.judged").unwrap();
    assert_eq!(judged["class"], "idempotent");
    user.configure("[agent.limits]\nmax_calls = { Write = 1 }\n");
    let said = Model::start(turns()).run(&user, &["run", "--yes", "go"]).exits(1);
    assert!(said.err.contains("max_calls.Write"), "{said:#?}");
    user.configure("[agent.limits]\nmax_tokens = 10\n");
    let said = Model::start(turns()).run(&user, &["run", "--yes", "go"]).exits(1);
    assert!(said.err.contains("`ERR_LIMIT`"), "{said:#?}");
    user.configure("[[budget]]\nper = 'user'\nwindow = 'day'\nunit = 'steps'\ncap = 2\n");
    let said = Model::start(turns()).run(&user, &["run", "--yes", "go"]).exits(1);
    assert!(said.err.contains("`ERR_LIMIT`"), "{said:#?}");
    // A budget in money rejects a model without a known price.
    user.configure("[[budget]]\nper = 'run'\nunit = 'usd'\ncap = 0.05\n");
    let said = Model::start(turns()).run(&user, &["run", "--yes", "go"]).exits(1);
    assert!(said.err.contains("`ERR_CONFIG`"), "{said:#?}");
    user.configure("[[budget]]\nper = 'run'\nunit = 'steps'\ncap = 0.5\n");
    let said = user.run(&["run", "go"]).exits(2);
    assert!(said.err.contains("a budget in steps must be a whole number"), "{said:#?}");
}

/// Copies the only thread of a store, which waits, ten thousand times. As in the store, a thread is inserted idle.
const COPIES: &str = "
    WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 10098)
    INSERT INTO threads (number, thread, epoch, head, batch, created_at, updated_at, minute,
        workspace, owner, folder, title, title_lower)
    SELECT i, 'thr_' || i, epoch, head, batch, created_at, updated_at + i, minute,
        workspace, owner, folder, title, title_lower FROM threads, n;
    UPDATE threads SET (status, interrupts) = (SELECT status, interrupts FROM threads WHERE number < 100)
    WHERE number >= 100;
    WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 10098)
    INSERT INTO runs SELECT 'run_' || i, i, workspace, owner, agent, model, status, from_seq, started_at, finished_at, totals,
        queued, counted FROM runs, n;
    WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 10098)
    INSERT INTO events SELECT (i << 32) | (position & 4294967295), body, NULL FROM events, n;";

#[test]
fn ten_thousand_waiting_runs_are_only_rows() {
    let user = User::new();
    user.run(&["run", TASK]).exits(3);
    execute(&user.store(), COPIES);
    let said = user.run(&["doctor", "--json"]);
    let checks = said.json();
    let checks = checks["checks"].as_array().unwrap();
    let waiting = checks.iter().find(|check| check["name"] == "waiting").unwrap();
    assert_eq!(waiting["message"], "10000 threads wait for an answer");
    assert_eq!(count(&user.events(), "run.started"), 1);
}

#[test]
fn without_a_run_the_newest_one_is_explained_whether_it_has_ended_or_not() {
    let user = User::new();
    let none = user.run(&["policy", "explain"]).exits(2);
    assert!(none.err.contains("error: no run in the folder"), "{none:#?}");
    user.run(&["run", "--yes", TASK]).exits(0);
    let run = user.events().iter().find_map(|event| Some(event["run"].as_str()?.to_owned())).unwrap();
    let explained = user.run(&["policy", "explain"]).exits(0);
    assert_eq!(explained.err, format!("run {run}\n"));
    assert_eq!(explained.out, user.run(&["policy", "explain", &run]).exits(0).out);
    user.run(&["run", TASK]).exits(3);
    assert_ne!(user.run(&["policy", "explain"]).exits(0).err, format!("run {run}\n"));
}
