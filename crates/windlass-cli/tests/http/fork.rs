//! Forks over the route that the pages use to retry, edit and roll back: which files a fork contains, and which
//! requests are rejected.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, UNIX_EPOCH};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::client::{Client, each};
use super::{Server, answer};
use crate::cli::model::{Model, Turn};
use crate::cli::{TASK, User};

/// Names of the files in a conversation's folder.
async fn files(client: &Client<'_>, thread: &str) -> Vec<String> {
    let listed = client.get(&format!("/threads/{thread}/files")).await.is(StatusCode::OK).body;
    each(listed["data"].as_array().unwrap(), "name").into_iter().map(str::to_owned).collect()
}

/// The position at which the first run of a conversation ended.
async fn first_end(client: &Client<'_>, thread: &str) -> Value {
    let events = client.get(&format!("/threads/{thread}/events?limit=500")).await.is(StatusCode::OK).body;
    let end = |event: &&Value| event["type"] == "run.finished";
    events["data"].as_array().unwrap().iter().find(end).unwrap()["seq"].clone()
}

async fn approve(client: &Client<'_>, interrupt: &str, run: &str) {
    let approve = json!({"answer": {"kind": "approve"}});
    client.post(&format!("/interrupts/{interrupt}/answer"), approve).await.is(StatusCode::OK);
    assert_eq!(client.wait(run).await["status"], "done");
}

// rows: ZE-P9
#[tokio::test]
async fn a_fork_has_the_files_of_then_and_the_other_folder_stays() {
    let server = Server::start(&[]);
    let (ann, _) = server.member("ann");
    let (thread, run, interrupt) = ann.asked().await;
    approve(&ann, &interrupt, &run).await;
    let fork = format!("/threads/{thread}/fork");
    let at = first_end(&ann, &thread).await;
    let all = ["data.csv", "insights.md"];
    let preview = ann.post(&fork, json!({"at": at, "preview": true})).await.is(StatusCode::OK).body;
    let count = async || ann.all("/threads", 100).await.len();
    assert_eq!(count().await, 1, "a preview makes nothing");
    let back = ann.post(&fork, json!({"at": at})).await.is(StatusCode::CREATED).body;
    assert_eq!(preview["files"], back["files"]);
    assert_eq!(back["files"]["folder"], "copied");
    assert_eq!(back["files"]["restored"], json!([{"path": "insights.md", "fate": "removed"}]));
    // The file was uploaded after the event, and stays.
    let named = &back["files"]["not_restored"];
    assert_eq!((&named[0]["path"], &named[0]["reason"]), (&json!("data.csv"), &json!("changed_unrecorded")));
    let back = back["id"].as_str().unwrap().to_owned();
    assert_eq!(
        (files(&ann, &back).await, files(&ann, &thread).await),
        (vec!["data.csv".into()], all.map(String::from).to_vec())
    );

    // A fork at the end of the conversation has all files, with nothing to report.
    let end = ann.post(&fork, json!({})).await.is(StatusCode::CREATED).body;
    assert_eq!((&end["files"]["restored"], &end["files"]["not_restored_total"]), (&json!([]), &json!(0)));
    assert_eq!(files(&ann, end["id"].as_str().unwrap()).await, all);

    // Changes in the fork affect only the fork. It repeats the task with its own files.
    let paused = ann.task(&back).await;
    let open = paused["meta"]["interrupts"][0]["interrupt"].as_str().unwrap();
    approve(&ann, open, paused["runId"].as_str().unwrap()).await;
    assert_eq!(files(&ann, &back).await, all);
    let path = format!("/threads/{back}/files/content?path=insights.md");
    answer(ann.request(Method::PUT, &path).body("mine")).await.is(StatusCode::CREATED);
    assert_eq!(ann.file(&thread, "insights.md").await, crate::cli::INSIGHTS);
    ann.delete(&format!("/threads/{back}")).await.is(StatusCode::NO_CONTENT);
    assert_eq!(files(&ann, &thread).await, all);
}

// rows: ZE-P9
#[tokio::test]
async fn a_conversation_that_asks_is_forked_and_one_at_work_is_not() {
    let server = Server::start(&[]);
    let (ann, _) = server.member("ann");
    let (thread, run, interrupt) = ann.asked().await;
    let at = first_end(&ann, &thread).await;
    let made = ann.post(&format!("/threads/{thread}/fork"), json!({"at": at})).await.is(StatusCode::CREATED);
    assert_eq!(files(&ann, made.body["id"].as_str().unwrap()).await, ["data.csv"]);
    approve(&ann, &interrupt, &run).await;

    let end = Arc::new(OnceLock::new());
    let deltas = vec![json!({"content": "It begins."}), json!({"content": " It ends."})];
    let model = Model::start(vec![Turn::Say("First answer."), Turn::Held(end.clone(), deltas)]);
    let user = User::new();
    let command = model.command(&user, &["serve", "--listen", "127.0.0.1:0"]);
    let server = Server::spawn(user, command);
    let bob = server.admin();
    let thread = bob.small_talk().await;
    let sent = bob.post(&format!("/threads/{thread}/messages"), json!({"message": "more"})).await;
    let run = sent.is(StatusCode::CREATED).body["run"].as_str().unwrap().to_owned();
    let at = first_end(&bob, &thread).await;
    let fork = format!("/threads/{thread}/fork");
    for preview in [true, false] {
        let refused = bob.post(&fork, json!({"at": at, "preview": preview})).await;
        refused.is_problem(409, "run_active");
    }
    end.set(()).unwrap();
    assert_eq!(bob.wait(&run).await["status"], "done");
    bob.post(&fork, json!({"at": at})).await.is(StatusCode::CREATED);
}

#[tokio::test]
async fn a_copy_without_room_is_refused_before_anything_is_made() {
    let user = User::new();
    user.configure("[files]\nmax_total_bytes = 100\n");
    let server = Server::start_for(user, &[]);
    let ann = server.admin();
    let thread = ann.small_talk().await;
    let path = format!("/threads/{thread}/files/content?path=a.txt");
    answer(ann.request(Method::PUT, &path).body("x".repeat(60))).await.is(StatusCode::CREATED);
    let fork = format!("/threads/{thread}/fork");
    let refused = ann.post(&fork, json!({})).await;
    assert!(refused.body["detail"].as_str().unwrap().contains("60 of 100 bytes"), "{refused:#?}");
    refused.is_problem(507, "no_room");
    assert_eq!(ann.all("/threads", 100).await.len(), 1);
    let workspace = server.user.store().join("files/default/local/workspace");
    assert_eq!(std::fs::read_dir(workspace).unwrap().count(), 1);
    answer(ann.request(Method::PUT, &path).body("x".repeat(50))).await.is(StatusCode::CREATED);
    ann.post(&fork, json!({})).await.is(StatusCode::CREATED);
}

#[tokio::test]
async fn the_operators_folder_is_shared_and_never_copied() {
    let server = Server::start(&[]);
    let local = server.admin();
    server.user.run(&["run", "--yes", TASK]).exits(0);
    let thread = server.user.events()[0]["thread"].as_str().unwrap().to_owned();
    let fork = format!("/threads/{thread}/fork");
    let made = local.post(&fork, json!({"at": 1})).await.is(StatusCode::CREATED).body;
    assert_eq!((&made["files"]["folder"], &made["files"]["restored"]), (&json!("shared"), &json!([])));
    assert_eq!(files(&local, made["id"].as_str().unwrap()).await, ["data.csv", "insights.md"]);
    let eve = server.add_user("eve@example.com", &["--role", "admin"]);
    let eve = Client { server: &server, key: server.key(&["--user", &eve]) };
    let made = eve.post(&fork, json!({"at": 1})).await.is(StatusCode::CREATED).body;
    assert_eq!(made["files"]["folder"], "empty");
    assert_eq!(files(&eve, made["id"].as_str().unwrap()).await, [""; 0]);
}

#[tokio::test]
async fn an_administrator_gets_a_copy_in_a_folder_of_their_own() {
    let server = Server::start(&[]);
    let (ann, id) = server.member("ann");
    let thread = ann.prepared().await;
    let local = server.admin();
    let made = local.post(&format!("/threads/{thread}/fork"), json!({})).await.is(StatusCode::CREATED).body;
    assert_eq!((&made["owner"], &made["files"]["folder"]), (&json!("local"), &json!("copied")));
    assert_eq!(files(&local, made["id"].as_str().unwrap()).await, ["data.csv"]);
    let below = |owner: &str| server.user.store().join("files/default").join(owner).join("workspace");
    assert!(below("local").join(made["id"].as_str().unwrap()).join("data.csv").exists());
    assert!(below(&id).join(&thread).join("data.csv").exists());
}

#[tokio::test]
async fn the_command_line_copies_the_folder_of_a_servers_conversation() {
    let server = Server::start(&[]);
    let local = server.admin();
    let (thread, run, interrupt) = local.asked().await;
    approve(&local, &interrupt, &run).await;
    let at = first_end(&local, &thread).await.to_string();
    let fork = |more: &[&str]| {
        let arguments = [&["threads", "fork", &thread, "--at", &at], more].concat();
        server.user.run(&arguments).exits(0).out
    };
    let seen = fork(&["--restore-files", "--preview"]);
    let other =
        "not restored   data.csv: a command, an upload or another program changed it after this event\n";
    assert_eq!(seen, format!("to be removed  insights.md\n{other}"));
    let made = fork(&[]);
    let id = made.strip_prefix(&format!("removed        insights.md\n{other}")).unwrap().trim();
    assert_eq!(files(&local, id).await, ["data.csv"]);
    assert_eq!(files(&local, &thread).await, ["data.csv", "insights.md"]);
}

// rows: ZE-C15
#[tokio::test]
async fn a_folder_that_conversations_share_stays_shared() {
    let user = User::new();
    user.configure("[files]\nfolder = \"user\"\n");
    let server = Server::start_for(user, &[]);
    let (ann, _) = server.member("ann");
    let thread = ann.prepared().await;
    let fork = format!("/threads/{thread}/fork");
    let made = ann.post(&fork, json!({})).await.is(StatusCode::CREATED).body;
    assert_eq!(made["files"]["folder"], "shared");
    assert_eq!(files(&ann, made["id"].as_str().unwrap()).await, ["data.csv"]);
    // Another user gets none of the files.
    let local = server.admin();
    let made = local.post(&fork, json!({})).await.is(StatusCode::CREATED).body;
    assert_eq!(made["files"]["folder"], "empty");
    assert_eq!(files(&local, made["id"].as_str().unwrap()).await, [""; 0]);
    // Deleting the original does not delete the shared files.
    ann.delete(&format!("/threads/{thread}")).await.is(StatusCode::NO_CONTENT);
    let second = ann.small_talk().await;
    assert_eq!(files(&ann, &second).await, ["data.csv"]);
}

/// Number of files in the folder whose copy is interrupted: enough for a copy to take a moment.
const FILES: usize = 3_000;

/// The folders of the administrator's conversations, except one.
fn others(workspace: &Path, thread: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(workspace).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap() != thread).collect()
}

fn count(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, Iterator::count)
}

/// Starts a fork, and kills the server when the copy has its first files. Returns the user and the new folder.
async fn cut_short(server: Server, thread: &str) -> (User, PathBuf) {
    let workspace = server.user.store().join("files/default/local/workspace");
    let fork = server.admin().request(Method::POST, &format!("/threads/{thread}/fork")).json(&json!({}));
    let fork = tokio::spawn(fork.send());
    let copy = loop {
        if let Some(copy) = others(&workspace, thread).into_iter().find(|copy| count(copy) > 0) {
            break copy;
        }
        assert!(!fork.is_finished(), "the fork ended before its copy was seen");
        tokio::task::yield_now().await;
    };
    let user = server.kill();
    assert!(fork.await.unwrap().is_err());
    (user, copy)
}

// rows: ZE-P9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_in_the_middle_of_a_copy_leaves_no_half_of_a_conversation() {
    let server = Server::start(&[]);
    let thread = server.admin().small_talk().await;
    let workspace = server.user.store().join("files/default/local/workspace");
    fs::create_dir_all(workspace.join(&thread)).unwrap();
    for number in 0..FILES {
        fs::write(workspace.join(&thread).join(format!("{number}.txt")), format!("file {number}")).unwrap();
    }
    let (user, copy) = cut_short(server, &thread).await;
    let copied = count(&copy);
    assert!((1..FILES).contains(&copied), "{copied} files were copied when the server was killed");

    // The conversation and its folder are unchanged, and the copy belongs to no conversation.
    let server = Server::start_for(user, &[]);
    let ann = server.admin();
    assert_eq!(each(&ann.all("/threads", 100).await, "id"), [&thread]);
    assert_eq!(count(&workspace.join(&thread)), FILES);
    let made = ann.post(&format!("/threads/{thread}/fork"), json!({})).await.is(StatusCode::CREATED).body;
    let whole = workspace.join(made["id"].as_str().unwrap());
    assert_eq!(count(&whole), FILES);
    assert!((0..FILES).all(|number| {
        fs::read_to_string(whole.join(format!("{number}.txt"))).unwrap() == format!("file {number}")
    }));

    // After the copy is too old to be in progress, the next start deletes it.
    let past = UNIX_EPOCH + Duration::from_secs(1);
    fs::File::open(&copy).unwrap().set_modified(past).unwrap();
    let server = Server::start_for(server.kill(), &[]);
    while copy.exists() {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.admin().all("/threads", 100).await.len(), 2);
    assert_eq!((count(&workspace.join(&thread)), count(&whole)), (FILES, FILES));
}
