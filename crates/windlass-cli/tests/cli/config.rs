//! Settings: precedence, errors, trust, unsuitable models, and where the store may be.

use super::{TASK, User, mode};

/// Runs a command that fails. Returns its complete message, with temporary paths replaced by names.
fn check(user: &User, arguments: &[&str]) -> String {
    let said = user.run(arguments).exits(2);
    assert_eq!(said.out, "");
    said.err
        .replace(&user.folder().display().to_string(), "FOLDER")
        .replace(&user.home().display().to_string(), "HOME")
}

// rows: LM-G9
#[test]
fn an_unknown_key_is_named_with_its_line_and_the_likely_one() {
    let user = User::new();
    user.configure("relaxed = true\n\n[agent]\nmodel = ['a/b']\n");
    assert_eq!(
        check(&user, &["run", TASK]),
        "error: HOME/config/windlass/windlass.toml:4: unknown key `model`\nhint: did you mean `models`?\n"
    );
}

#[test]
fn the_layers_win_in_their_order() {
    let user = User::new();
    user.configure("[agent]\nmodels = ['nobody/a']\n");
    let error = check(&user, &["run", TASK]);
    assert!(error.starts_with("error: unknown provider `nobody`\nhint: "), "{error}");
    let by_variable =
        user.command(&["run", "--yes", TASK]).env("WINDLASS_MODEL", "demo/script").output().unwrap();
    super::said(by_variable).exits(0);
    let by_flag = user
        .command(&["run", "-y", "-m", "demo/script", TASK])
        .env("WINDLASS_MODEL", "no/x")
        .output()
        .unwrap();
    super::said(by_flag).exits(0);
}

#[test]
fn file_tools_do_not_change_what_trusted_settings_start() {
    let user = User::new();
    user.configure(
        "[mcp.x]\nenabled = false\ncommand = 'node'\nargs = ['tools/server.js', 'tools/later.js']\n",
    );
    std::fs::create_dir(user.folder().join("tools")).unwrap();
    for name in ["server.js", "other.js"] {
        std::fs::write(user.folder().join("tools").join(name), "good").unwrap();
    }
    let write = |name: &str| {
        let arguments = format!(r#"{{"file_path": "tools/{name}", "content": "evil"}}"#);
        let said = user.run(&["tools", "call", "Write", &arguments, "--yes"]);
        format!("{}{}", said.out, said.err).contains("is protected: file tools do not write it")
    };
    // A missing file is protected as well, because it would be executed once it exists.
    assert_eq!([write("server.js"), write("later.js"), write("other.js")], [true, true, false]);
}

#[test]
fn a_folders_file_counts_only_once_a_person_has_trusted_it() {
    let user = User::new();
    std::fs::write(user.folder().join("windlass.toml"), "[agent]\nmodels = ['evil/model']\n").unwrap();
    let said = user.run(&["run", "--yes", TASK]).exits(0);
    assert!(
        said.err.contains(
            "windlass.toml` is not trusted yet and is ignored\nhint: review it, then run `windlass trust"
        ),
        "{said:#?}"
    );
    assert!(said.err.contains("with demo/script"), "{said:#?}");
    // Without a terminal, trust cannot be given.
    let error = check(&user, &["trust"]);
    assert!(error.starts_with("error: trusting a folder requires confirmation in a terminal"), "{error}");
    assert!(user.run(&["trust", "--list"]).exits(0).err.contains("no folder is trusted"));
}

// rows: SK-L13
#[test]
fn a_model_that_cannot_call_tools_is_refused_and_an_unknown_one_only_warns() {
    let user = User::new();
    user.configure(
        "[providers.own]\nbase_url = 'http://127.0.0.1:9/v1'\n[providers.own.models.mute]\ntool_calls = false\n",
    );
    let error = check(&user, &["run", "-m", "own/mute", TASK]);
    assert!(
        error.starts_with("error: model `own/mute` cannot call tools, which an agent needs\nhint: "),
        "{error}"
    );
    assert!(user.run(&["threads", "list"]).exits(0).err.contains("no threads yet"), "no run was started");
    let said = user.run(&["chat", "-m", "own/other"]).exits(0);
    let warnings: Vec<&str> = said.err.lines().filter(|line| line.contains("own/other")).collect();
    let wanted = "warning: unknown model `own/other`: assuming that it supports tool calls; describe it under \
                  `[providers.own.models.\"other\"]`";
    assert_eq!(warnings, [wanted], "one line: {said:#?}");
    assert!(!said.err.contains("hint: "), "{said:#?}");
}

// rows: SK-L13
#[test]
fn doctor_says_what_a_model_can() {
    let user = User::new();
    user.configure(
        "[providers.own]\nbase_url = 'http://127.0.0.1:9/v1'\n\
        [providers.own.models.mute]\ntool_calls = false\n\
        [providers.own.models.able]\ntool_calls = true\nstructured_output = true\n\
        [providers.own.models.plain]\ntool_calls = true\nstructured_output = false\n",
    );
    let said = |model: &str, code: i32| user.run(&["doctor", "-m", model]).exits(code).out;
    assert!(said("own/mute", 1).contains("model `own/mute` cannot call tools, which an agent needs"));
    assert!(said("own/able", 0).contains(": tool calls, structured output, price unknown"));
    assert!(said("own/plain", 0).contains(": tool calls, no structured output, price unknown"));
    let unknown = said("own/other", 0);
    assert!(unknown.contains("! warning  model"), "{unknown}");
    assert!(unknown.contains("tool calls unknown, structured output unknown"), "{unknown}");
}

#[test]
fn a_missing_key_says_which_variable() {
    let user = User::new();
    let error = check(&user, &["run", "-m", "anthropic/claude-sonnet-4-5", TASK]);
    assert_eq!(
        error,
        "error: no key for provider `anthropic`\nhint: set ANTHROPIC_API_KEY or configure its `api_key`\n"
    );
    let error = check(&user, &["run", "-m", "anthropic/x", "--api-key-env", "NO_SUCH", TASK]);
    assert!(error.starts_with("error: `--api-key-env NO_SUCH`: the variable is not set\nhint: "), "{error}");
}

#[test]
fn the_store_is_private_and_never_inside_the_folder() {
    let user = User::new();
    let error = check(&user, &["run", "--store", "kept", TASK]);
    assert!(error.contains("lies inside the working folder"), "{error}");
    assert!(error.contains("hint: choose a place outside"), "{error}");
    user.run(&["run", "--yes", TASK]).exits(0);
    let data = user.home().join("data/windlass");
    let stores: Vec<_> = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(stores.len(), 1);
    assert_eq!(stores[0].file_name().unwrap().len(), 16);
    #[cfg(unix)]
    assert_eq!(mode(&stores[0]), 0o700);
}

#[test]
fn the_home_directory_is_a_working_folder_like_any_other() {
    let user = User::new();
    std::fs::create_dir(user.home()).unwrap();
    std::fs::write(user.home().join("data.csv"), "city,people\nRome,3\nOslo,1\n").unwrap();
    let home = user.home().display().to_string();
    user.run(&["run", "--yes", "--dir", &home, TASK]).exits(0);
    assert!(user.home().join("insights.md").exists());
    assert!(user.run(&["threads", "list", "--dir", &home]).exits(0).out.contains("Read data.csv"));
    // Elsewhere below the folder, file tools could access the store.
    let error = check(&user, &["run", "--dir", &home, "--store", &format!("{home}/kept"), TASK]);
    assert!(error.contains("lies inside the working folder"), "{error}");
}

#[test]
fn doctor_says_what_is_wrong_and_never_shows_a_key() {
    let user = User::new();
    let said = user.run(&["doctor"]).exits(0);
    assert!(said.out.contains("! warning  keys           no provider key found"), "{said:#?}");
    assert!(said.out.contains("✓ ok       store"), "{said:#?}");
    let output =
        user.command(&["doctor", "--json"]).env("ANTHROPIC_API_KEY", "sk-sentinel-0815").output().unwrap();
    let said = super::said(output).exits(0);
    let report = said.json();
    assert_eq!(report["ok"], true);
    let checks = report["checks"].as_array().unwrap();
    let message =
        |name: &str| checks.iter().find(|check| check["name"] == name).unwrap()["message"].to_string();
    assert!(message("keys").contains("anthropic"), "{said:#?}");
    assert!(message("model").contains("anthropic/claude-sonnet-4-5"), "{said:#?}");
    assert!(!format!("{said:?}").contains("sentinel"));
    let said = user.run(&["doctor", "-m", "openai/gpt-5.1"]).exits(1);
    assert!(said.out.contains("✗ broken   model          no key for provider `openai`"), "{said:#?}");
    let said = user.run(&["doctor", "--online"]).exits(0);
    assert!(said.out.contains("✓ ok       online         `demo/script` answered"), "{said:#?}");
}

#[test]
fn a_damaged_store_says_so() {
    let user = User::new();
    user.run(&["run", "--yes", TASK]).exits(0);
    let data = user.home().join("data/windlass");
    let store = std::fs::read_dir(&data).unwrap().next().unwrap().unwrap().path();
    std::fs::write(store.join("windlass.db"), "this is no database, and it is long enough to be looked at")
        .unwrap();
    for log in ["windlass.db-wal", "windlass.db-shm"] {
        let _ = std::fs::remove_file(store.join(log));
    }
    let said = user.run(&["threads", "list"]).exits(5);
    assert!(said.err.starts_with("error: the store is damaged: "), "{said:#?}");
    assert!(said.err.contains("hint: stop every process, keep a copy of the folder"), "{said:#?}");
    let said = user.run(&["doctor"]).exits(1);
    assert!(said.out.contains("✗ broken   store"), "{said:#?}");
}
