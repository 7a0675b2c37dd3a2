//! Integrations: one per provider, managed by administrators, with credentials that are never returned.

use reqwest::{Method, StatusCode};
use serde_json::json;

use super::{Server, answer};

const PATH: &str = "/api/v1/integrations";
const SENTINEL: &str = "sentinel-5c0a7d";

#[tokio::test]
async fn an_integration_is_made_changed_and_forgotten() {
    let server = Server::start(&[]);
    let key = server.key(&[]);
    let draft = json!({
        "provider": "jenkins", "name": "CI", "metadata": {"api_url": "https://ci.example.com"},
        "credentials": {"username": "bot", "api_token": SENTINEL},
    });
    // rows: SK-R9, SK-P13
    let made = server.post(PATH, &key, &draft).await.is(StatusCode::CREATED).body;
    assert_eq!((&made["provider"], &made["status"]), (&json!("jenkins"), &json!("active")));
    let first_ref = made["credentials_ref"].as_str().unwrap().to_owned();
    assert!(first_ref.starts_with("jenkins-cred-") && first_ref.len() == "jenkins-cred-".len() + 20);
    server.post(PATH, &key, &draft).await.is_problem(409, "duplicate");
    let path = format!("{PATH}/{}", made["id"].as_str().unwrap());
    let patch = |body| server.request(Method::PATCH, &path).bearer_auth(&key).json(&body);
    let changed = answer(patch(json!({"status": "disabled", "credentials": {"api_token": "other"}}))).await;
    let changed = changed.is(StatusCode::OK).body;
    assert_eq!((&changed["status"], &changed["name"]), (&json!("disabled"), &json!("CI")));
    assert_ne!(changed["credentials_ref"], json!(first_ref));
    let listed = server.get(&format!("{PATH}?provider=jenkins"), &key).await.is(StatusCode::OK);
    assert_eq!(listed.body["data"], json!([changed]));
    assert!(!listed.body.to_string().contains(SENTINEL));
    answer(server.request(Method::DELETE, &path).bearer_auth(&key)).await.is(StatusCode::NO_CONTENT);
    assert_eq!(server.get(PATH, &key).await.body, json!({"data": []}));
    // No plain text of a credential was written to disk.
    let store = server.user.store();
    for file in
        std::fs::read_dir(store).unwrap().map(|file| file.unwrap().path()).filter(|path| path.is_file())
    {
        let bytes = std::fs::read(&file).unwrap();
        let found = bytes.windows(SENTINEL.len()).any(|window| window == SENTINEL.as_bytes());
        assert!(!found, "{}", file.display());
    }
}

#[tokio::test]
async fn only_known_systems_and_administrators() {
    let server = Server::start(&[]);
    let key = server.key(&[]);
    let draft = |provider: &str, metadata| json!({"provider": provider, "name": "x", "metadata": metadata});
    let unknown = draft("fax", json!({}));
    server.post(PATH, &key, &unknown).await.is_problem(400, "unsupported");
    server.post(PATH, &key, &draft("jenkins", json!({}))).await.is_problem(422, "invalid");
    let member = server.add_user("m@example.com", &[]);
    let member = server.key(&["--user", &member]);
    let good = draft("jenkins", json!({"api_url": "https://ci.example.com"}));
    server.post(PATH, &member, &good).await.is_problem(403, "forbidden");
    server.get(PATH, &member).await.is(StatusCode::OK);
    server.post(PATH, &key, &good).await.is(StatusCode::CREATED);
    // Another workspace sees none of it.
    let elsewhere = server.add_user("b@example.com", &["--role", "admin", "--workspace", "b"]);
    assert_eq!(server.get(PATH, &server.key(&["--user", &elsewhere])).await.body, json!({"data": []}));
}

#[tokio::test]
async fn a_system_is_asked_whether_it_takes_its_credentials() {
    let system = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = system.local_addr().unwrap();
    let asked = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (mut stream, _) = system.accept().await.unwrap();
        let mut head = vec![0; 4096];
        let size = stream.read(&mut head).await.unwrap();
        let head = String::from_utf8_lossy(&head[..size]).to_ascii_lowercase();
        // `bot:right` in base64.
        let line =
            if head.contains("authorization: basic ym90onjpz2h0") { "200 OK" } else { "401 Unauthorized" };
        let answer = format!("HTTP/1.1 {line}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
        stream.write_all(answer.as_bytes()).await.unwrap();
    });
    let user = crate::cli::User::new();
    user.configure("[server]\ninternal_hosts = [\"127.0.0.1\"]\n");
    let server = Server::start_for(user, &[]);
    let key = server.key(&[]);
    let draft = json!({
        "provider": "jenkins", "name": "CI", "metadata": {"api_url": format!("http://{address}/")},
        "credentials": {"username": "bot", "api_token": "right"},
    });
    let made = server.post(PATH, &key, &draft).await.is(StatusCode::CREATED).body;
    let path = format!("{PATH}/{}/check", made["id"].as_str().unwrap());
    let checked = server.post(&path, &key, &json!({})).await.is(StatusCode::OK).body;
    assert_eq!((&checked["ok"], &checked["said"]), (&json!(true), &json!("ok")));
    asked.await.unwrap();
    let checked = server.post(&path, &key, &json!({})).await.is(StatusCode::OK).body;
    assert_eq!((&checked["ok"], &checked["said"]), (&json!(false), &json!("unreachable")));
}

#[tokio::test]
async fn credentials_go_nowhere_but_to_the_system_that_they_were_given_for() {
    let server = Server::start(&[]);
    let key = server.key(&[]);
    let draft = |url: &str| {
        json!({
            "provider": "jenkins", "name": "CI", "metadata": {"api_url": url},
            "credentials": {"username": "bot", "api_token": SENTINEL},
        })
    };
    for url in
        ["http://ci.example.com", "https://u:p@ci.example.com", "https://ci.example.com/?x", "file:///x"]
    {
        server.post(PATH, &key, &draft(url)).await.is_problem(422, "invalid");
    }
    let made = server.post(PATH, &key, &draft("https://127.0.0.1:1/")).await.is(StatusCode::CREATED).body;
    let path = format!("{PATH}/{}", made["id"].as_str().unwrap());
    // An internal address is not called, and the response of a check is not disclosed.
    let checked = server.post(&format!("{path}/check"), &key, &json!({})).await.is(StatusCode::OK).body;
    assert_eq!((&checked["said"], checked.as_object().unwrap().len()), (&json!("unreachable"), 3));
    let patch = |body| answer(server.request(Method::PATCH, &path).bearer_auth(&key).json(&body));
    let moved = json!({"metadata": {"api_url": "https://attacker.example.com"}});
    patch(moved.clone()).await.is_problem(422, "invalid");
    patch(json!({"metadata": {"api_url": "https://127.0.0.1:1/ci"}})).await.is(StatusCode::OK);
    let mut replaced = moved;
    replaced["credentials"] = json!({"api_token": "another"});
    patch(replaced).await.is(StatusCode::OK);
    let entries = server.get("/api/v1/audit", &key).await.is(StatusCode::OK).body["data"].clone();
    let actions = |entry: &serde_json::Value| entry["action"].as_str().unwrap().to_owned();
    let mut actions: Vec<_> = entries.as_array().unwrap().iter().map(actions).collect();
    actions.retain(|action| action.starts_with("integration."));
    let told =
        ["credentials_changed", "changed", "checked", "made"].map(|word| format!("integration.{word}"));
    assert_eq!(actions, told);
}
