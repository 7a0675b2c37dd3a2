//! The policy over HTTP: shown, checked and tested without a change.

use reqwest::StatusCode;
use serde_json::json;

use super::Server;
use super::client::each;
use crate::cli::User;

const RULES: &str = "[[rule]]\nname = 'no secrets'\ntools = ['Read']\nverdict = 'deny'\nwhen = [{ argument = '/file_path', matches = '[.]env$' }]\n";
const LOOSE: &str = "[[rule]]\nname = 'free'\nverdict = 'allow'\n";

fn ruled() -> Server {
    let user = User::new();
    let directory = user.home().join("config/windlass");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("policy.toml"), RULES).unwrap();
    std::fs::write(user.folder().join("windlass.policy.toml"), LOOSE).unwrap();
    Server::start_for(user, &[])
}

#[tokio::test]
async fn the_policy_is_shown_as_it_counts() {
    let server = ruled();
    let policy = server.admin().get("/policy").await.is(StatusCode::OK).body;
    let [own, folder] = &policy["files"].as_array().unwrap()[..] else { panic!("{policy:#}") };
    assert_eq!((&own["text"], &own["whole"]), (&json!(RULES), &json!(true)));
    assert_eq!(each(own["rules"].as_array().unwrap(), "name"), ["no secrets"]);
    assert!(own["path"].as_str().unwrap().ends_with("windlass/policy.toml"));
    // The folder is not trusted, so its loosening rules are not in force.
    assert_eq!(
        (&folder["text"], &folder["whole"], &folder["rules"]),
        (&json!(LOOSE), &json!(false), &json!([]))
    );
    let (ann, _) = server.member("ann");
    ann.get("/policy").await.is_problem(403, "forbidden");
}

#[tokio::test]
async fn a_text_is_checked_without_being_used() {
    let server = ruled();
    let (ann, _) = server.member("ann");
    let check =
        async |text: &str| ann.post("/policy/check", json!({"text": text})).await.is(StatusCode::OK).body;
    assert_eq!(check(RULES).await, json!({"usable": true, "rules": 1, "problems": []}));
    let wrong = check("[[rule]]\nverdict = 'deny'\ntool = 'Write'\n").await;
    assert_eq!(wrong["usable"], false);
    let problem = &wrong["problems"][0];
    assert_eq!((&problem["severity"], &problem["line"]), (&json!("error"), &json!(3)), "{wrong:#}");
    assert_eq!(problem["hint"], "did you mean `tools`?");
    let late = check("[[rule]]\nverdict = 'deny'\nuntil = 2020-01-01\n").await;
    assert_eq!((&late["usable"], &late["problems"][0]["severity"]), (&json!(true), &json!("warning")));
}

#[tokio::test]
async fn the_gate_says_what_it_would_say_and_nothing_is_called() {
    let server = ruled();
    let (ann, ann_id) = server.member("ann");
    let test = async |body: serde_json::Value| {
        let said = ann.post("/policy/test", body).await.is(StatusCode::OK).body;
        let text = |name: &str| said[name].as_str().unwrap().to_owned();
        (text("verdict"), text("by"), said["yours"].as_bool().unwrap())
    };
    let said = |verdict: &str, by: &str, yours: bool| (verdict.to_owned(), by.to_owned(), yours);
    let read = |path: &str| json!({"tool": "Read", "arguments": {"file_path": path}});
    assert_eq!(test(read("a.md")).await, said("allow", "annotations", true));
    assert_eq!(test(read("x.env")).await, said("deny", "no secrets", true));
    let write = json!({"tool": "Write", "arguments": {"file_path": "a.md", "content": "x"}});
    assert_eq!(test(write.clone()).await, said("ask", "annotations", true));
    let with = |rules: &str| json!({"tool": "Write", "arguments": {}, "policy": rules});
    assert_eq!(test(with(LOOSE)).await, said("allow", "free", true));
    // The verdict names the required approvers.
    let two = "[[rule]]\nname = 'ops'\nverdict = 'ask'\napprovers = ['role:admin']\n";
    assert_eq!(test(with(two)).await, said("ask", "ops", false));
    // Grants apply as well.
    ann.post("/grants", json!({"tool": "Write"})).await.is(StatusCode::CREATED);
    let granted = test(write.clone()).await;
    assert!(granted.0 == "allow" && granted.1.starts_with("grant "), "{granted:?}");
    assert_eq!(each(&ann.all("/grants", 10).await, "tool"), ["Write"]);

    let wrong = with("[[rule]]\nverdict = 'maybe'\n");
    ann.post("/policy/test", wrong).await.is_problem(422, "invalid");
    ann.post("/policy/test", json!({"tool": "none"})).await.is_problem(404, "not_found");
    let other = json!({"tool": "Write", "user": "local"});
    ann.post("/policy/test", other).await.is_problem(404, "not_found");
    let hers = json!({"tool": "Write", "user": ann_id});
    let said = server.admin().post("/policy/test", hers).await.is(StatusCode::OK).body;
    assert_eq!(said["verdict"], "allow", "{said:#}");
    // Nothing was written, and no conversation was created.
    assert_eq!(ann.all("/threads", 10).await, Vec::<serde_json::Value>::new());
    let files = ann.get("/files").await.is(StatusCode::OK).body;
    assert!(!files.to_string().contains("a.md"), "{files:#}");
}
