//! Configured services, pages and searches, used by the real binary.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::User;
use super::model::{Model, Turn};

/// A server that records requests and echoes their headers.
fn system() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = asked.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut head = vec![0; 8192];
            let size = stream.read(&mut head).unwrap_or_default();
            let head = String::from_utf8_lossy(&head[..size]).into_owned();
            noted.lock().unwrap().push(head.clone());
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{head}",
                head.len()
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (address, asked)
}

// rows: LM-I4, LM-I6
#[test]
fn a_configured_service_is_called_and_its_secret_is_found_nowhere() {
    let (address, asked) = system();
    let user = User::new();
    std::fs::create_dir_all(user.home()).unwrap();
    let token = user.home().join("token");
    std::fs::write(&token, "sk-SENTINEL-0123456789\n").unwrap();
    user.configure(&format!(
        "[outbound]\ninternal_hosts = ['127.0.0.1']\n[api.stock]\nbase_url = 'http://{address}/v1'\n\
         auth = {{ type = 'bearer', token = 'file:{}' }}\nallowed_paths = ['^/widgets']\n",
        token.display()
    ));
    let call =
        |method: &str, path: &str| ("ApiCall", json!({"service": "stock", "method": method, "path": path}));
    let model = Model::start(vec![
        Turn::Call(vec![call("GET", "/widgets"), call("GET", "/admin")]),
        Turn::Call(vec![call("POST", "/widgets")]),
    ]);
    let said = model.run(&user, &["run", "go"]).exits(3);
    let heads = asked.lock().unwrap().clone();
    assert_eq!(heads.len(), 1, "the read ran, the other path was refused, and what changes something waits");
    assert!(heads[0].starts_with("GET /v1/widgets HTTP/1.1"), "{heads:?}");
    assert!(
        heads[0].to_ascii_lowercase().contains("authorization: bearer sk-sentinel-0123456789"),
        "{heads:?}"
    );
    let events = format!("{:?}", user.events());
    assert!(events.contains("[masked]"), "{events}");
    for text in [&events, &said.out, &said.err] {
        assert!(!text.contains("SENTINEL"), "{text}");
    }
    let doctor = user.run(&["doctor"]);
    assert!(doctor.out.contains("WebFetch, WebSearch, ApiCall"), "{doctor:#?}");
    std::fs::remove_file(&token).unwrap();
    let doctor = user.run(&["doctor"]).exits(1);
    assert!(doctor.out.contains("`api.stock.auth` refers to the file"), "{doctor:#?}");
}

#[test]
fn an_unreachable_service_is_reported_before_the_run_starts() {
    let user = User::new();
    for (text, expected) in [
        (
            "[api.a]\nbase_url = 'http://10.0.0.1/'\n",
            "the service `a`: `base_url`: `10.0.0.1` is not allowed",
        ),
        (
            "[api.a]\nbase_url = 'https://a.example'\nopenapi = 'none.yaml'\n",
            "config/windlass/none.yaml`: No such file",
        ),
        ("[web.search]\nprovider = 'searxng'\nbase_url = 'http://127.0.0.1:8080'\n", "is invalid"),
        ("[web.search]\nprovider = 'brave'\n", "`web.search.api_key` is missing"),
    ] {
        user.configure(text);
        let said = user.run(&["run", super::TASK]).exits(2);
        assert!(said.err.contains(expected), "{text}: {said:#?}");
    }
    user.configure("");
    assert!(user.run(&["threads", "list"]).exits(0).err.contains("no threads yet"));
}

#[test]
fn an_untrusted_folder_adds_no_host_and_no_secret() {
    let (address, asked) = system();
    let user = User::new();
    let file = format!(
        "[outbound]\ninternal_hosts = ['127.0.0.1']\nports = [{}]\n[web]\nhosts = ['127.0.0.1']\n\
         [api.a]\nbase_url = 'http://{address}/'\nauth = {{ type = 'bearer', token = 'env:HOME' }}\n",
        address.port()
    );
    std::fs::write(user.folder().join("windlass.toml"), file).unwrap();
    user.configure("[toolsets.web]\nshown = 'all'\n");
    let fetch = ("WebFetch", json!({"url": format!("http://{address}/x")}));
    let model = Model::start(vec![
        Turn::Call(vec![("ApiCall", json!({"service": "a", "method": "GET", "path": "/"}))]),
        Turn::Call(vec![fetch]),
    ]);
    // The model gets an error for an unknown tool. A page of an unknown host requires approval, and is refused when
    // it is called.
    model.run(&user, &["run", "go"]).exits(3);
    model.run(&user, &["run", "--yes", "go"]).exits(0);
    assert!(asked.lock().unwrap().is_empty());
}
