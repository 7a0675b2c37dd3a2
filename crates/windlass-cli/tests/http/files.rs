//! Uploads: returned unchanged, to their owner only, and as a download.

use std::io::{Read, Write};

use reqwest::{Method, StatusCode};
use serde_json::json;

use super::raw::{connect, head};
use super::{Answer, Server, answer};
use crate::cli::mode;

async fn put(server: &Server, path: &str, key: &str, body: &[u8]) -> Answer {
    answer(server.request(Method::PUT, path).bearer_auth(key).body(body.to_vec())).await
}

#[tokio::test]
async fn an_upload_comes_back_as_it_was_and_goes() {
    let server = Server::start(&[]);
    let key = server.key(&[]);
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let path = "/api/v1/files/a%20b%C3%BC.bin";
    let made = put(&server, path, &key, &bytes).await.is(StatusCode::CREATED);
    assert_eq!((&made.body["name"], &made.body["size_bytes"]), (&json!("a bü.bin"), &json!(100_000)));
    let listed = server.get("/api/v1/files", &key).await.is(StatusCode::OK);
    assert_eq!(listed.body["data"][0]["name"], "a bü.bin");
    let back = server.request(Method::GET, path).bearer_auth(&key).send().await.unwrap();
    assert_eq!(back.headers()["content-disposition"], "attachment; filename*=UTF-8''a%20b%C3%BC.bin");
    assert_eq!(back.headers()["x-content-type-options"], "nosniff");
    assert_eq!(back.bytes().await.unwrap(), bytes);
    // rows: ZE-C15, ZE-X9
    let other = server.add_user("other@example.com", &[]);
    server.get(path, &server.key(&["--user", &other])).await.is_problem(404, "not_found");
    answer(server.request(Method::DELETE, path).bearer_auth(&key)).await.is(StatusCode::NO_CONTENT);
    server.get(path, &key).await.is_problem(404, "not_found");
}

#[tokio::test]
async fn names_sizes_and_kinds_have_limits() {
    let user = crate::cli::User::new();
    user.configure("[files]\nmax_bytes = 1000\nmax_total_bytes = 1500\nextensions = [\"txt\"]\n");
    let server = Server::start_for(user, &[]);
    let key = server.key(&[]);
    for name in ["..", "%2e%2e%2fx.txt", "a%00.txt", ".hidden.txt", "a%2Fb.txt", "%22.txt"] {
        let refused = put(&server, &format!("/api/v1/files/{name}"), &key, b"x").await;
        assert!([400, 404, 405].contains(&refused.status), "{name}: {refused:#?}");
    }
    put(&server, "/api/v1/files/a.html", &key, b"x").await.is_problem(415, "unsupported_file");
    put(&server, "/api/v1/files/a.txt", &key, &[b'x'; 1001]).await.is_problem(413, "too_large");
    put(&server, "/api/v1/files/a.txt", &key, &[b'x'; 1000]).await.is(StatusCode::CREATED);
    put(&server, "/api/v1/files/b.txt", &key, &[b'x'; 501]).await.is_problem(507, "no_room");
    // The limit permits replacing the file.
    put(&server, "/api/v1/files/a.txt", &key, &[b'y'; 999]).await.is(StatusCode::CREATED);
    // Files of conversations count as well.
    let sent = server.post("/api/v1/runs", &key, &json!({"message": "hello"})).await.is(StatusCode::CREATED);
    let path = format!("/api/v1/threads/{}/files/content?path=b.txt", sent.body["thread"].as_str().unwrap());
    put(&server, &path, &key, &[b'x'; 502]).await.is_problem(507, "no_room");
    put(&server, &path, &key, &[b'x'; 501]).await.is(StatusCode::CREATED);
    put(&server, &path, &key, &[b'y'; 500]).await.is(StatusCode::CREATED);
    put(&server, "/api/v1/files/c.txt", &key, b"xx").await.is_problem(507, "no_room");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_uploads_of_one_person_leave_room_for_others() {
    let server = Server::start(&[]);
    let begin = |key: &str, n: usize| {
        let mut stream = connect(&server);
        let line = head(&server, &format!("PUT /api/v1/files/{n}.bin"));
        let rest =
            format!("authorization: Bearer {key}\r\ncontent-length: 1000000\r\nexpect: 100-continue\r\n\r\n");
        stream.write_all(format!("{line}{rest}").as_bytes()).unwrap();
        stream
    };
    let begun = |key: &str, n: usize| {
        let mut stream = begin(key, n);
        // The server sends this status after it has admitted the upload.
        let mut said = [0; 12];
        stream.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"HTTP/1.1 100", "{n}");
        stream
    };
    // Five of the eight slots are taken, then Ann takes her two: her third upload leaves the last slot free.
    let (ann, _) = server.member("ann");
    let (bob, _) = server.member("bob");
    let others = ["cat", "dan", "eve"].map(|name| server.member(name).0.key);
    let mut slow: Vec<_> = (0..5).map(|n| begun(&others[n / 2], n)).collect();
    slow.extend([begun(&ann.key, 5), begun(&ann.key, 6)]);
    let mut third = begin(&ann.key, 7);
    // The server has received the third upload by then.
    server.get("/api/v1/files", &ann.key).await.is(StatusCode::OK);
    put(&server, "/api/v1/files/b.txt", &bob.key, b"x").await.is(StatusCode::CREATED);
    third.set_nonblocking(true).unwrap();
    let said = third.read(&mut [0; 12]);
    assert_eq!(said.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[cfg(unix)]
#[tokio::test]
async fn no_other_user_of_the_machine_reads_what_people_keep() {
    use std::os::unix::fs::PermissionsExt;
    let user = crate::cli::User::new();
    user.run(&["admin", "link"]).exits(0);
    // The permissions if the store's folder existed before, or if an earlier version created it.
    let files = user.store().join("files");
    std::fs::create_dir_all(&files).unwrap();
    for folder in [&user.store(), &files] {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let warned = |user: &crate::cli::User| {
        let said = user.run(&["doctor", "--json"]).out;
        said.contains("other users of this machine can access") && said.contains("/files`")
    };
    assert!(warned(&user));
    let server = Server::start_for(user, &[]);
    assert_eq!(mode(&files), 0o700);
    put(&server, "/api/v1/files/a.txt", &server.key(&[]), b"x").await.is(StatusCode::CREATED);
    let uploads = files.join("default/local/uploads");
    assert_eq!((mode(&uploads), mode(&uploads.join("a.txt"))), (0o700, 0o600));
    assert!(!warned(&server.user));
}

#[tokio::test]
async fn a_viewer_uploads_nothing() {
    let server = Server::start(&[]);
    let viewer = server.add_user("v@example.com", &["--role", "viewer"]);
    let key = server.key(&["--user", &viewer]);
    put(&server, "/api/v1/files/a.txt", &key, b"x").await.is_problem(403, "forbidden");
    // The server responds before the body: it buffers nothing for a caller without permission.
    let body = reqwest::Body::wrap_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let refused = server.request(Method::PUT, "/api/v1/files/a.txt").bearer_auth(&key).body(body);
    answer(refused).await.is_problem(403, "forbidden");
    server.get("/api/v1/files", &key).await.is(StatusCode::OK);
    let path = "/api/v1/files";
    answer(server.request(Method::GET, path)).await.is_problem(401, "unauthenticated");
}

#[tokio::test]
async fn a_conversations_folder_is_seen_and_never_left() {
    let server = Server::start(&[]);
    let key = server.key(&[]);
    server.user.run(&["run", "--yes", crate::cli::TASK]).exits(0);
    let thread = server.user.events()[0]["thread"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/threads/{thread}/files");
    let listed = server.get(&path, &key).await.is(StatusCode::OK);
    let names: Vec<_> = listed.body["data"].as_array().unwrap().iter().map(|file| &file["name"]).collect();
    assert_eq!(names, ["data.csv", "insights.md"]);
    let content = server.get(&format!("{path}/content?path=insights.md"), &key).await.is(StatusCode::OK);
    assert_eq!(content.body.as_str(), Some(crate::cli::INSIGHTS));
    for outside in ["../home", "/etc/passwd", "a/../../x", ""] {
        let refused = server.get(&format!("{path}/content?path={outside}"), &key).await;
        assert!((400..500).contains(&refused.status), "{outside}: {refused:#?}");
    }
    // The operator's working folder can be read but not written.
    put(&server, &format!("{path}/content?path=new.txt"), &key, b"new").await.is_problem(403, "forbidden");
    let restore = async |mode: &str| {
        server.post(&format!("{path}/restore"), &key, &serde_json::json!({ "at": 1, "mode": mode })).await
    };
    let seen = restore("preview").await.is(StatusCode::OK).body;
    assert_eq!(seen["files"][0]["fate"], "removed");
    for mode in ["spare", "overwrite"] {
        restore(mode).await.is_problem(403, "forbidden");
    }
    assert!(server.user.folder().join("insights.md").exists());
    let sent = server.post("/api/v1/runs", &key, &json!({"message": "hello"})).await.is(StatusCode::CREATED);
    let thread = sent.body["thread"].as_str().unwrap();
    let path = format!("/api/v1/threads/{thread}/files/content?path=");
    put(&server, &format!("{path}sub/new.txt"), &key, b"new").await.is(StatusCode::CREATED);
    assert_eq!(server.get(&format!("{path}sub/new.txt"), &key).await.body, "new");
    put(&server, &format!("{path}.git/hooks/x"), &key, b"x").await.is_problem(403, "forbidden");
}

#[tokio::test]
async fn a_file_goes_with_a_message_by_name_or_by_mention() {
    let server = Server::start(&[]);
    let key = server.key(&[]);
    put(&server, "/api/v1/files/notes.txt", &key, b"the sum is 42").await.is(StatusCode::CREATED);
    let png = b"\x89PNG\r\n\x1a\nrest";
    put(&server, "/api/v1/files/seen.bin", &key, png).await.is(StatusCode::CREATED);
    let sent = json!({
        "message": "what is the sum in @notes.txt, @nothing.txt?",
        "attachments": [{"upload": "seen.bin"}],
    });
    // rows: ZE-C15
    let sent = server.post("/api/v1/runs", &key, &sent).await.is(StatusCode::CREATED).body;
    let thread = sent["thread"].as_str().unwrap();
    let events = server.get(&format!("/api/v1/threads/{thread}/events"), &key).await.is(StatusCode::OK).body;
    let events = events["data"].as_array().unwrap();
    let message = events.iter().find(|event| event["type"] == "message.received").unwrap();
    let blocks = message["message"]["blocks"].as_array().unwrap();
    let kinds: Vec<_> = blocks.iter().map(|block| block["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["text", "image", "file"], "{message:#}");
    assert_eq!(blocks[2]["name"], "notes.txt");
    assert_eq!(blocks[2]["blob"]["media_type"], "text/plain");
    // A repeated message has the files from that time, each once.
    put(&server, "/api/v1/files/notes.txt", &key, b"the sum is 43").await.is(StatusCode::CREATED);
    let again = json!({
        "message": "what is the sum in @notes.txt and @seen.bin? and @notes.txt?",
        "attachments": [{"thread": thread, "message": message["seq"]}],
    });
    let again = server.post("/api/v1/runs", &key, &again).await.is(StatusCode::CREATED).body;
    let path = format!("/api/v1/threads/{}/messages", again["thread"].as_str().unwrap());
    let said = server.get(&path, &key).await.is(StatusCode::OK).body;
    assert_eq!(said["data"][0]["blocks"].as_array().unwrap()[1..], blocks[1..]);
    let twice = json!({"message": "@notes.txt, @notes.txt", "attachments": [{"upload": "notes.txt"}]});
    let twice = server.post("/api/v1/runs", &key, &twice).await.is(StatusCode::CREATED).body;
    let path = format!("/api/v1/threads/{}/messages", twice["thread"].as_str().unwrap());
    let said = server.get(&path, &key).await.is(StatusCode::OK).body;
    assert_eq!(said["data"][0]["blocks"].as_array().unwrap().len(), 2, "{said:#}");
    put(&server, "/api/v1/files/figures.csv", &key, b"a,b\n1,2\n").await.is(StatusCode::CREATED);
    let figures = json!({"message": "@figures.csv"});
    let figures = server.post("/api/v1/runs", &key, &figures).await.is(StatusCode::CREATED).body;
    let path = format!("/api/v1/threads/{}/messages", figures["thread"].as_str().unwrap());
    let said = server.get(&path, &key).await.is(StatusCode::OK).body;
    assert_eq!(said["data"][0]["blocks"][1]["blob"]["media_type"], "text/csv", "{said:#}");
    let missing = json!({"message": "x", "attachments": [{"upload": "gone.txt"}]});
    server.post("/api/v1/runs", &key, &missing).await.is_problem(404, "not_found");
    // The tools of a conversation see only its folder.
    let created = events.iter().find(|event| event["type"] == "thread.created").unwrap();
    assert_eq!(created["folder"], "home:default/local");
}

#[tokio::test]
async fn a_run_writes_no_more_than_its_user_has_room_for() {
    let user = crate::cli::User::new();
    user.configure("[files]\nmax_total_bytes = 60\n");
    let server = Server::start_for(user, &[]);
    let ann = server.admin();
    let (thread, run, interrupt) = ann.asked().await;
    let approve = json!({"answer": {"kind": "approve"}});
    ann.post(&format!("/interrupts/{interrupt}/answer"), approve).await.is(StatusCode::OK);
    assert_eq!(ann.wait(&run).await["status"], "done");
    let events = ann.all(&format!("/threads/{thread}/events"), 100).await;
    let refused = events.iter().find(|event| event["type"] == "tool.finished" && event["error"] == true);
    let refused = refused.unwrap_or_else(|| panic!("{events:#?}")).to_string();
    let wanted = "`insights.md` was not written: 26 of 60 bytes are used";
    assert!(refused.contains(wanted), "{refused}");
    let path = format!("/threads/{thread}/files/content?path=insights.md");
    ann.get(&path).await.is_problem(404, "not_found");
}
