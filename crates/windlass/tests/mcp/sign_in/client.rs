//! Registered clients: kept while the authorization server knows them and until sign-out.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use serde_json::json;
use windlass::clock::SystemClock;
use windlass::mcp::{Http, HubConfig, McpHub, McpServer, MemoryTokens, OAuth, TokenStore as _, Transport};
use windlass::port::clock::Clock as _;

use super::{Gate, Guarded};
use crate::mcp::stage::{Asked, Said, modern, tool};
use crate::mcp::{call, find, shown};

/// The registrations of an authorization server.
#[derive(Default)]
struct Registered {
    given: u32,
    /// Clients before this one are forgotten.
    forgotten: u32,
    /// When the issued secrets expire.
    ends_s: u64,
}

impl Registered {
    fn register(&mut self) -> Said {
        self.given += 1;
        let client = format!("client-{}", self.given);
        Said::Json(
            201,
            json!({ "client_id": client, "client_secret": "SECRET-C", "client_secret_expires_at": self.ends_s,
                "redirect_uris": ["http://localhost/back"], "token_endpoint_auth_method": "client_secret_post" }),
        )
    }

    fn knows(&self, form: &str) -> bool {
        (self.forgotten + 1..=self.given)
            .any(|n| form.split('&').any(|it| it == format!("client_id=client-{n}")))
    }
}

/// A server whose sign-in registers each client under a new id.
async fn registering(ends_s: u64) -> (Guarded, Arc<Mutex<Registered>>) {
    let guarded = Guarded::start().await;
    let registered = Arc::new(Mutex::new(Registered { ends_s, ..Registered::default() }));
    let base = guarded.stage.url.trim_end_matches("/mcp").to_owned();
    let (clients, counts, refreshed) =
        (registered.clone(), guarded.counts.clone(), guarded.refreshed.clone());
    let inside =
        |asked: &Asked| modern(asked, &json!([tool("once", json!({}))])).unwrap_or_else(|| asked.text("in"));
    guarded.stage.says(move |asked| {
        let mut clients = clients.lock().unwrap();
        match asked.path.as_str() {
            "/register" => clients.register(),
            "/token" if !clients.knows(asked.body.as_str().unwrap_or_default()) => {
                Said::Json(401, json!({ "error": "invalid_client" }))
            }
            _ => Guarded::answer(asked, (&base, &inside, &Gate::default()), &counts, &refreshed),
        }
    });
    (guarded, registered)
}

/// The client id in the URL of a sign-in.
fn client(url: &str) -> &str {
    url.split("client_id=").nth(1).unwrap().split('&').next().unwrap()
}

#[tokio::test]
async fn a_forgotten_client_is_registered_again() {
    let (guarded, registered) = registering(0).await;
    let hub = guarded.hub(&Arc::new(MemoryTokens::default())).await;
    let page = hub.begin_sign_in("guarded").await.unwrap();
    assert_eq!(client(&page.url), "client-1");
    // Forgotten before the sign-in completes.
    registered.lock().unwrap().forgotten = 1;
    let refused = hub.finish_sign_in("guarded", &guarded.back(&page.url, "good")).await.unwrap_err();
    assert!(refused.to_string().contains("invalid_client"), "{refused}");
    let page = hub.begin_sign_in("guarded").await.unwrap();
    assert_eq!(client(&page.url), "client-2");
    hub.finish_sign_in("guarded", &guarded.back(&page.url, "good")).await.unwrap();
    hub.ready("guarded").await.unwrap();
    // Forgotten when its token must be refreshed.
    registered.lock().unwrap().forgotten = 2;
    *guarded.counts.lock().unwrap() = "something newer".into();
    let said = shown(&call(&find(&hub, "once"), json!({})).await);
    let url = said.strip_prefix("signs in: ").unwrap_or_else(|| panic!("{said}"));
    assert_eq!(client(url), "client-3");
    hub.finish_sign_in("guarded", &guarded.back(url, "good")).await.unwrap();
    hub.ready("guarded").await.unwrap();
    // After a sign-out, no client is left.
    hub.sign_out("guarded").await.unwrap();
    assert_eq!(client(&hub.begin_sign_in("guarded").await.unwrap().url), "client-4");
    assert_eq!(guarded.refreshed.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_client_with_an_expiring_secret_is_registered_again() {
    let now_s = SystemClock::new().now().0 / 1_000;
    for (ends_s, wanted) in [(0, "client-1"), (now_s + 100_000, "client-1"), (now_s + 60, "client-2")] {
        let (guarded, _) = registering(ends_s).await;
        let hub = guarded.hub(&Arc::new(MemoryTokens::default())).await;
        assert_eq!(client(&hub.begin_sign_in("guarded").await.unwrap().url), "client-1");
        let page = hub.begin_sign_in("guarded").await.unwrap();
        assert_eq!(client(&page.url), wanted, "{ends_s}");
        hub.finish_sign_in("guarded", &guarded.back(&page.url, "good")).await.unwrap();
    }
}

#[tokio::test]
async fn a_sign_in_ends_with_the_client_that_it_was_begun_with() {
    let now_s = SystemClock::new().now().0 / 1_000;
    // Each sign-in registers a client, because the previous secret is about to expire.
    let (guarded, _) = registering(now_s + 60).await;
    let hub = guarded.hub(&Arc::new(MemoryTokens::default())).await;
    let first = hub.begin_sign_in("guarded").await.unwrap();
    let second = hub.begin_sign_in("guarded").await.unwrap();
    assert_eq!((client(&first.url), client(&second.url)), ("client-1", "client-2"));
    hub.finish_sign_in("guarded", &guarded.back(&first.url, "good")).await.unwrap();
    let sent = guarded.stage.everything().into_iter().filter(|asked| asked.path == "/token");
    let sent: Vec<String> = sent.map(|asked| asked.body.as_str().unwrap().to_owned()).collect();
    assert!(sent.len() == 1 && sent[0].split('&').any(|it| it == "client_id=client-1"), "{sent:?}");
    hub.ready("guarded").await.unwrap();
}

#[tokio::test]
async fn sign_ins_that_begin_at_once_register_one_client() {
    let (guarded, registered) = registering(0).await;
    let hub = guarded.hub(&Arc::new(MemoryTokens::default())).await;
    let begin = || hub.begin_sign_in("guarded");
    let (one, other) = tokio::join!(begin(), begin());
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!((client(&one.url), client(&other.url)), ("client-1", "client-1"));
    assert_eq!(registered.lock().unwrap().given, 1);
    hub.finish_sign_in("guarded", &guarded.back(&other.url, "good")).await.unwrap();
    hub.ready("guarded").await.unwrap();
}

#[tokio::test]
async fn a_sign_out_forgets_clients_that_cannot_be_read() {
    let (guarded, _) = registering(0).await;
    let tokens = Arc::new(MemoryTokens::default());
    let hub = guarded.hub(&tokens).await;
    guarded.sign_in(&hub).await;
    let names = tokens.load("mcp/guarded/clients").await.unwrap().unwrap();
    let names: Vec<String> = serde_json::from_slice(&names).unwrap();
    for name in &names {
        tokens.save(name, b"of another time".to_vec()).await.unwrap();
    }
    hub.sign_out("guarded").await.unwrap();
    for name in names.iter().map(String::as_str).chain(["mcp/guarded/tokens"]) {
        assert_eq!(tokens.load(name).await.unwrap(), None, "{name}");
    }
    assert_eq!(client(&hub.begin_sign_in("guarded").await.unwrap().url), "client-2");
}

#[tokio::test]
async fn a_client_that_the_settings_name_stays() {
    let (guarded, registered) = registering(0).await;
    let tokens = Arc::new(MemoryTokens::default());
    // A client was registered before the settings named one.
    guarded.hub(&tokens).await.begin_sign_in("guarded").await.unwrap();
    registered.lock().unwrap().forgotten = 1;
    let oauth = OAuth { client_id: Some("mine".into()), ..OAuth::new("http://localhost/back") };
    let http = Http { oauth: Some(oauth), ..Http::new(&guarded.stage.url) };
    let hub = McpHub::new(HubConfig { tokens, ..HubConfig::default() });
    hub.start(vec![McpServer::new("guarded", Transport::Http(http))]).await.unwrap();
    for _ in 0..2 {
        let page = hub.begin_sign_in("guarded").await.unwrap();
        assert_eq!(client(&page.url), "mine");
        let refused = hub.finish_sign_in("guarded", &guarded.back(&page.url, "good")).await.unwrap_err();
        assert!(refused.to_string().contains("invalid_client"), "{refused}");
    }
    let sent = guarded.stage.everything().into_iter().filter(|asked| asked.path == "/token");
    assert!(sent.into_iter().all(|asked| asked.body.as_str().unwrap().contains("client_id=mine")));
}
