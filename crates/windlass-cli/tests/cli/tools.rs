//! `windlass tools`: available and unavailable tools, and trial calls under the folder's rules.

use super::{User, lines};

fn state(user: &User, name: &str) -> (String, String) {
    let all = lines(&user.run(&["tools", "list", "--json"]).exits(0).out);
    let found = all.iter().find(|line| line["name"] == name).unwrap_or_else(|| panic!("{name}: {all:#?}"));
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (text("state"), text("why"))
}

// rows: LM-T18, LM-T19, SK-C1
#[test]
fn tools_are_listed_with_how_they_get_to_a_model() {
    let user = User::new();
    assert_eq!(state(&user, "Read").0, "direct");
    let (loadable, why) = state(&user, "TaskCreate");
    assert_eq!(
        (loadable.as_str(), why.as_str()),
        ("loadable", "loaded on demand with the toolset `planning`")
    );
    assert_eq!(state(&user, "WebFetch").1, "loaded on demand with the toolset `web`");
    let all = lines(&user.run(&["tools", "list", "--json"]).exits(0).out);
    let direct = all.iter().filter(|line| line["state"] == "direct");
    let tokens: u64 = direct.filter_map(|line| line["tokens"].as_u64()).sum();
    assert!((500..1_200).contains(&tokens), "{tokens} tokens in every request");
    let conditional = ["ApiCall", "Bash", "FetchData"];
    for name in conditional {
        let (is, why) = state(&user, name);
        assert!(is == "unavailable" && why.contains("[a") | why.contains("[tools.bash]"), "{name}: {why}");
    }
    user.configure(
        "[tools]\ndisabled = ['Write', 'TaskCreate']\n[agent.offload]\nenabled = true\n\
         [api.house]\nbase_url = 'https://api.example.com'\n[toolsets.time]\nshown = 'all'\n",
    );
    assert_eq!(state(&user, "FetchData").0, "direct");
    assert_eq!(state(&user, "ApiCall").0, "direct");
    assert_eq!(state(&user, "Sleep").0, "direct");
    assert_eq!(state(&user, "Write"), ("disabled".into(), "disabled by `tools.disabled`".into()));
    assert_eq!(state(&user, "TaskCreate").0, "disabled");
    let text = user.run(&["tools", "list"]).exits(0).out;
    assert!(text.contains("Read                     -            pure        direct\n"), "{text}");
    let gone = user.run(&["tools", "call", "Write", "{}", "--yes"]).exits(2).err;
    assert!(gone.contains("tool `Write` is not available: disabled by `tools.disabled`"), "{gone}");
}

#[test]
fn a_tool_is_shown_with_what_the_rules_say_of_it() {
    let user = User::new();
    let shown = user.run(&["tools", "show", "Write", "--json"]).exits(0).json();
    assert_eq!((&shown["verdict"], &shown["by"]), (&"ask".into(), &"annotations".into()));
    assert_eq!(shown["modes"], serde_json::json!(["agent"]));
    let text = user.run(&["tools", "show", "Read"]).exits(0).out;
    assert!(text.contains("modes   agent, ask, plan\n"), "{text}");
    assert!(text.contains("gate    runs without asking (decided by annotations)"), "{text}");
    let none = user.run(&["tools", "show", "Nope"]).exits(2).err;
    assert!(none.contains("unknown tool `Nope`\nhint: `windlass tools list`"), "{none}");
}

#[test]
fn a_trial_call_goes_by_the_rules_and_leaves_no_conversation() {
    let user = User::new();
    std::fs::write(user.folder().join("a.txt"), "one\n").unwrap();
    let read = user.run(&["tools", "call", "Read", r#"{"file_path": "a.txt"}"#]).exits(0);
    assert!(read.out.contains("one"), "{read:?}");
    let write = r#"{"file_path": "b.txt", "content": "two"}"#;
    let asks = user.run(&["tools", "call", "Write", write]).exits(3);
    assert!(
        asks.err.contains("not run: it requires approval (decided by annotations)\nhint: `--yes`"),
        "{asks:?}"
    );
    assert_eq!(user.read("b.txt"), "");
    let ran = user.run(&["tools", "call", "Write", write, "--yes", "--json"]).exits(0).json();
    assert_eq!((user.read("b.txt").as_str(), &ran["error"]), ("two", &false.into()));
    // The tool is restricted to the folder, as for an agent.
    let out = user.run(&["tools", "call", "Read", r#"{"file_path": "../home/x"}"#]).exits(1);
    assert!(out.out.contains("outside"), "{out:?}");
    let odd = user.run(&["tools", "call", "Read", r#"{"path": "a"}"#]).exits(2).err;
    assert!(odd.contains("invalid call of `Read`: "), "{odd}");
    assert!(user.run(&["tools", "call", "Read", "[1]"]).exits(2).err.contains("not a JSON object"));
    let policy = user.home().join("config/windlass/policy.toml");
    std::fs::create_dir_all(policy.parent().unwrap()).unwrap();
    std::fs::write(&policy, "[[rule]]\nname = 'never'\ntools = ['Write']\nverdict = 'deny'\n").unwrap();
    let denied = user.run(&["tools", "call", "Write", write, "--yes"]).exits(1).err;
    assert!(denied.contains("not run: denied by `never`"), "{denied}");
    assert_eq!(user.run(&["threads", "list"]).exits(0).out, "");
}

// rows: ZE-E15, ZE-H12
#[test]
fn a_run_in_a_mode_that_changes_nothing_changes_nothing() {
    let user = User::new();
    let run = |more: &[&str]| user.run(&[&["run", super::TASK, "--yes"], more].concat());
    let planned = run(&["--mode", "plan"]).exits(0);
    assert!(planned.err.contains("✗ refused: Not run: the mode `plan` changes nothing."), "{}", planned.err);
    assert_eq!(user.read("insights.md"), "");
    let events = user.events();
    let told = events.iter().filter(|event| event["type"] == "tool.finished" && event["error"] == true);
    let told: Vec<String> = told.map(ToString::to_string).collect();
    assert!(told.iter().any(|text| text.contains("the mode `plan` changes nothing")), "{told:?}");
    user.configure("[agent]\nmode = 'ask'\n");
    run(&[]).exits(0);
    assert_eq!(user.read("insights.md"), "");
    run(&["--mode", "agent"]).exits(0);
    assert_eq!(user.read("insights.md"), super::INSIGHTS);
    let odd = run(&["--mode", "act"]).exits(2).err;
    assert!(odd.contains("`act` is no mode; the modes are `agent`, `ask` and `plan`"), "{odd}");
}
