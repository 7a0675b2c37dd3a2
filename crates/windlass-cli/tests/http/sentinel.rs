//! Secrets of every kind, echoed by far systems in every form. They must reach their destination, and must not occur
//! anywhere else.
//!
//! The test searches prompts, the journal, blobs and everything else in the store, streams, logs at `trace`, outcomes,
//! terminal output, and traces (`traces.rs`). `crash.rs` of the program tests panic reports. `tests/mcp/secrets.rs` of
//! the library tests secrets for single requests.

mod echo;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::StatusCode;
use serde_json::json;

use self::echo::{Echo, GIVEN};
use super::Server;
use super::mcp::far::value;
use crate::cli::User;
use crate::cli::model::{Model, Turn};

/// One secret for each source; the far server issues those of a sign-in.
const SECRETS: [&str; 5] = [
    "sentinel-api/7f+31a",
    "sentinel-env/9c+02b",
    "sentinel-hid/4d+55c",
    "sentinel-key/1e+77d",
    "sentinel-hdr/6a+99f",
];

/// A tool server that returns everything it received, in every form and in pieces, also on standard error.
const TOOLS: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
echo "started with $SECRET" >&2
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
    *'"initialize"'*) answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"tools/list"'*) answer '{"tools":[{"name":"deploy","description":"deploys","inputSchema":{"type":"object","properties":{"job":{"type":"string"},"api_url":{"type":"string"},"credentials_ref":{"type":"string"},"token":{"type":"string"}},"required":["job","api_url","credentials_ref","token"]}}]}' ;;
    *'"tools/call"'*)
      printf '%s\n' "$line" >> "$GIVEN"
      given=$(printf '%s' "$line" | sed 's/.*"arguments":\({[^}]*}\).*/\1/')
      packed=$(printf '%s' "bot:$SECRET" | base64 -w0)
      echo "called with $given" >&2
      answer "{\"content\":[{\"type\":\"text\",\"text\":\"$SECRET $packed\"},{\"type\":\"text\",\"text\":\"more\"}],\"structuredContent\":{\"given\":$given}}" ;;
  esac
done
"#;

/// An HTTP server that echoes the head of each request, in pieces of five bytes.
fn system() -> (std::net::SocketAddr, Arc<Mutex<String>>) {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let (address, heard) = (listener.local_addr().unwrap(), Arc::<Mutex<String>>::default());
    let noted = heard.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut head = vec![0; 8192];
            let size = stream.read(&mut head).unwrap_or_default();
            let head = String::from_utf8_lossy(&head[..size]).into_owned();
            noted.lock().unwrap().push_str(&head);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
            for piece in head.as_bytes().chunks(5) {
                let _ = stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes());
                let _ = stream.write_all(piece);
                let _ = stream.write_all(b"\r\n");
                let _ = stream.flush();
            }
            let _ = stream.write_all(b"0\r\n\r\n");
        }
    });
    (address, heard)
}

/// The forms in which a secret would be recognized.
fn forms(secret: &str) -> Vec<String> {
    let percent: String = secret.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let odd = secret.replace('/', "%2F").replace('+', "%2B");
    let packed = STANDARD.encode(secret);
    // The base64 form of the middle, for any preceding bytes.
    let inner = |before: &str| STANDARD.encode(format!("{before}{secret}"))[4..20].to_owned();
    vec![secret.into(), percent, odd, packed[..20].into(), inner("b"), inner("bo"), secret[..13].into()]
}

pub fn assert_none(whose: &str, bytes: &[u8]) {
    for form in SECRETS.iter().chain(&GIVEN).flat_map(|secret| forms(secret)) {
        let found = bytes.windows(form.len()).position(|window| window == form.as_bytes());
        let around = found.map(|at| {
            String::from_utf8_lossy(&bytes[at.saturating_sub(200)..(at + 80).min(bytes.len())]).into_owned()
        });
        assert_eq!(around, None, "`{form}` in {whose}");
    }
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match entry.metadata().unwrap() {
            it if it.is_dir() => files(&entry, found),
            it if it.is_file() => found.push(entry),
            // A socket in the store's folder.
            _ => {}
        }
    }
}

fn configured(user: &User, system: std::net::SocketAddr, echo: &Echo, secrets: &Path) -> PathBuf {
    std::fs::create_dir_all(secrets).unwrap();
    for (name, secret) in ["api", "env", "hidden", "key", "head"].iter().zip(SECRETS) {
        std::fs::write(secrets.join(name), secret).unwrap();
    }
    let (given, at) = (secrets.join("given"), secrets.display());
    user.configure(&format!(
        "[outbound]\ninternal_hosts = ['127.0.0.1']\n\
         [api.stock]\nbase_url = 'http://{system}/v1'\nauth = {{ type = 'bearer', token = 'file:{at}/api' }}\n\
         [mcp.ops]\ncommand = 'sh'\nargs = ['-c', '''{TOOLS}''']\n\
         env = {{ SECRET = 'file:{at}/env', GIVEN = '{}' }}\n\
         [mcp.echo]\nurl = '{}/mcp'\ntrusted = true\nsampling = true\nheaders = {{ X-Api-Key = 'file:{at}/head' }}\n\
         [integrations.jenkins]\nserver = 'ops'\n[integrations.jenkins.arguments]\n\
         api_url = 'settings.api_url'\ncredentials_ref = 'credentials_ref'\ntoken = 'credentials.api_token'\n",
        given.display(),
        echo.base,
    ));
    given
}

/// Signs in at the server that echoes everything.
async fn sign_in(user: &User) {
    use std::io::{BufRead, BufReader};
    let mut login = user.start(&["mcp", "login", "echo", "--timeout", "60"]);
    let mut lines = BufReader::new(login.stdout.take().unwrap()).lines();
    let page = lines.find_map(|line| line.ok().filter(|line| line.contains("/authorize?"))).unwrap();
    let plain = |name: &str| value(&page, name).replace("%3A", ":").replace("%2F", "/");
    let base = page.split("/authorize").next().unwrap().rsplit(' ').next().unwrap();
    let back = format!("{}?code=good&state={}&iss={base}", plain("redirect_uri"), value(&page, "state"));
    assert!(reqwest::get(back).await.unwrap().text().await.unwrap().contains("signed in"));
    assert_eq!(login.wait().unwrap().code(), Some(0));
}

/// A run whose tools echo everything that they received, through every channel.
fn leaky() -> Model {
    let echo = |way: &str| ("echo", json!({"text": way}));
    Model::start(vec![
        Turn::Call(vec![("deploy", json!({"job": "ship", "token": "made up"}))]),
        Turn::Call(vec![("ApiCall", json!({"service": "stock", "method": "GET", "path": "/w"}))]),
        Turn::Call(vec![echo("say"), echo("error")]),
        Turn::Call(vec![("deploy", json!({"job": "again"}))]),
        Turn::Call(vec![echo("picture"), echo("want back"), echo("task"), echo("complete")]),
        Turn::Call(vec![
            ("ListMcpResources", json!({"server": "echo"})),
            ("ReadMcpResource", json!({"server": "echo", "uri": "note://1"})),
        ]),
        // No user answers the questions.
        Turn::Call(vec![echo("asking task"), echo("ask")]),
    ])
}

/// The same run with additional environment variables. Returns its output, and checks that the far side received
/// everything.
#[cfg(feature = "otel")]
pub async fn run_with(variables: &[(&str, &str)]) -> crate::cli::Said {
    let root = tempfile::tempdir().unwrap();
    let ((address, _), echo, user) = (system(), Echo::start().await, User::new());
    configured(&user, address, &echo, &root.path().join("secrets"));
    sign_in(&user).await;
    let model = leaky();
    let mut command = model.command(&user, &["run", "--yes", "--stream-json", "go"]);
    command.env("WINDLASS_LOG", "trace").env("OPENAI_COMPATIBLE_API_KEY", SECRETS[3]);
    command.envs(variables.iter().copied());
    let said = crate::cli::said(command.output().unwrap());
    assert!(echo.heard().contains(GIVEN[2]), "{said:#?}");
    said
}

// rows: SK-A13, SK-P14, LM-I6
// The test blocks on commands while the far server handles their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_get_to_where_they_are_for_and_nowhere_else() {
    let root = tempfile::tempdir().unwrap();
    let ((address, heard), echo) = (system(), Echo::start().await);
    let user = User::new();
    let given = configured(&user, address, &echo, &root.path().join("secrets"));
    sign_in(&user).await;
    let server = Server::start_for(user, &[]);
    let key = server.key(&[]);
    let names = async || server.get("/api/v1/tools", &key).await.is(StatusCode::OK).body.to_string();
    assert!(!names().await.contains("deploy"), "its system is not connected yet");
    let draft = json!({
        "provider": "jenkins", "name": "CI", "metadata": {"api_url": "https://ci.example.com"},
        "credentials": {"username": "bot", "api_token": SECRETS[2]},
    });
    let made = server.post("/api/v1/integrations", &key, &draft).await.is(StatusCode::CREATED).body;
    let listed = names().await;
    assert!(listed.contains("deploy") && !listed.contains("credentials_ref"), "{listed}");

    // A run on the command line over the same store, with the most verbose log.
    let model = leaky();
    let loud = |arguments: &[&str]| {
        let mut command = model.command(&server.user, arguments);
        command.env("WINDLASS_LOG", "trace").env("OPENAI_COMPATIBLE_API_KEY", SECRETS[3]);
        crate::cli::said(command.output().unwrap())
    };
    let said = loud(&["run", "--yes", "--stream-json", "go"]).exits(3);
    let sent = std::fs::read_to_string(given).unwrap();
    assert!(sent.contains(SECRETS[2]) && sent.contains("https://ci.example.com"), "{sent}");
    assert!(sent.contains(made["credentials_ref"].as_str().unwrap()) && !sent.contains("made up"), "{sent}");
    assert!(heard.lock().unwrap().contains(SECRETS[0]));
    let (echoed, encoded) = (echo.heard(), |secret: &str| secret.replace('/', "%2F").replace('+', "%2B"));
    for wanted in [SECRETS[4], GIVEN[1], GIVEN[2], &encoded(GIVEN[0]), &encoded(GIVEN[3])] {
        assert!(echoed.contains(wanted), "{wanted} in {echoed}");
    }
    // Every channel was used.
    for way in [
        "resources/list",
        "resources/read",
        "tasks/get",
        "\"picture\"",
        "\"want back\"",
        "\"asking task\"",
        "\"ask\"",
    ] {
        assert!(echoed.contains(way), "{way} in {echoed}");
    }
    assert!(said.err.contains("starting a completion for a tool server"), "{}", said.err);
    assert!(said.out.matches("[masked]").count() > 20, "{}", said.out);
    let mut texts = vec![("the stream", said.out), ("the log", said.err)];
    for arguments in [&["threads", "export"][..], &["threads", "show"], &["mcp", "test"], &["doctor"]] {
        let said = loud(arguments);
        texts.extend([("a command", said.out), ("its log", said.err)]);
    }
    let thread = server.user.events()[0]["thread"].as_str().unwrap().to_owned();
    let own = ["messages", "events", "export"].map(|path| format!("/api/v1/threads/{thread}/{path}"));
    let servers = ["mcp/servers", "mcp/servers/echo", "mcp/servers/echo/log", "tools", "tools/echo"];
    for path in own.into_iter().chain(servers.map(|path| format!("/api/v1/{path}"))) {
        let answer = server.request(reqwest::Method::GET, &path).bearer_auth(&key).send().await.unwrap();
        texts.push(("the server", answer.text().await.unwrap()));
    }
    for (whose, text) in texts {
        assert_none(whose, text.as_bytes());
    }
    let mut stored = Vec::new();
    files(&server.user.home().join("data"), &mut stored);
    assert!(stored.len() > 2, "{stored:?}");
    for file in stored {
        assert_none(&file.display().to_string(), &std::fs::read(&file).unwrap());
    }

    // After the integration is disabled, its tools are gone, and a call by name gets an error.
    let path = format!("/api/v1/integrations/{}", made["id"].as_str().unwrap());
    let off =
        server.request(reqwest::Method::PATCH, &path).bearer_auth(&key).json(&json!({"status": "disabled"}));
    super::answer(off).await.is(StatusCode::OK);
    assert!(!names().await.contains("deploy"));
    let model = Model::start(vec![Turn::Call(vec![("deploy", json!({"job": "ship"}))])]);
    model.run(&server.user, &["run", "--yes", "go"]).exits(0);
    let told = format!("{:?}", server.user.events());
    assert!(
        told.contains(
            "Jenkins integration is not configured. Admins can create one via /api/v1/integrations."
        ),
        "{told}"
    );
}

// rows: SK-P14
// The test blocks on commands while the far server handles their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approved_call_gets_its_secrets_in_the_approving_process() {
    let root = tempfile::tempdir().unwrap();
    let ((address, _), echo, user) = (system(), Echo::start().await, User::new());
    let given = configured(&user, address, &echo, &root.path().join("secrets"));
    let server = Server::start_for(user, &[]);
    let draft = json!({
        "provider": "jenkins", "name": "CI", "metadata": {"api_url": "https://ci.example.com"},
        "credentials": {"username": "bot", "api_token": SECRETS[2]},
    });
    let key = server.key(&[]);
    server.post("/api/v1/integrations", &key, &draft).await.is(StatusCode::CREATED);
    let user = server.kill();
    let model = Model::start(vec![Turn::Call(vec![("deploy", json!({"job": "ship"}))])]);
    model.run(&user, &["run", "go"]).exits(3);
    let waiting = user.run(&["approvals", "list", "--json"]).exits(0).json();
    assert!(!given.exists(), "nothing is called before an approval");
    model.run(&user, &["approvals", "approve", waiting["interrupt"].as_str().unwrap()]).exits(0);
    let sent = std::fs::read_to_string(given).unwrap();
    assert!(sent.contains("ship") && sent.contains(SECRETS[2]), "{sent}");
}

#[test]
fn the_search_finds_what_it_searches_for() {
    for form in forms(SECRETS[0]) {
        let planted = format!("before {form} after");
        assert!(std::panic::catch_unwind(|| assert_none("a trap", planted.as_bytes())).is_err(), "{form}");
    }
    assert_none("nothing", b"sentinel-ap");
}
