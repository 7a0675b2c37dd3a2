//! Sign-in: required by a call, begun and completed by different processes, refreshed once for all waiting calls.

mod client;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use windlass::machine::Answer;
use windlass::mcp::{
    Health, Http, HubConfig, McpError, McpHub, McpServer, MemoryTokens, OAuth, SignInReturn, TokenLock,
    TokenStore, Transport,
};

use super::stage::{Asked, Said, Stage, Step, legacy, modern, tool};
use super::{call, find, resumed, shown, values};

/// A server with its authorization server on one address.
struct Guarded {
    stage: Stage,
    /// The currently valid token.
    counts: Arc<Mutex<String>>,
    refreshed: Arc<AtomicU32>,
    /// The next refusal waits for this gate.
    refuses_after: Gate,
}

/// The server's responses after sign-in.
type Inside = dyn Fn(&Asked) -> Said + Send + Sync;

type Gate = Arc<Mutex<Option<std::sync::mpsc::Receiver<()>>>>;

impl Guarded {
    async fn start() -> Self {
        Self::start_with(|asked| {
            modern(asked, &json!([tool("once", json!({}))])).unwrap_or_else(|| asked.text("in"))
        })
        .await
    }

    /// A server with these responses after sign-in.
    async fn start_with(inside: impl Fn(&Asked) -> Said + Send + Sync + 'static) -> Self {
        let counts = Arc::new(Mutex::new("t1".to_owned()));
        let (refreshed, base) = (Arc::new(AtomicU32::new(0)), Arc::new(Mutex::new(String::new())));
        let (valid, times, own) = (counts.clone(), refreshed.clone(), base.clone());
        let refuses_after = Gate::default();
        let gate = refuses_after.clone();
        let stage = Stage::start(move |asked| {
            let base = own.lock().unwrap().clone();
            Self::answer(asked, (&base, &inside, &gate), &valid, &times)
        })
        .await;
        *base.lock().unwrap() = stage.url.trim_end_matches("/mcp").to_owned();
        Self { stage, counts, refreshed, refuses_after }
    }

    fn answer(
        asked: &Asked,
        (base, inside, gate): (&str, &Inside, &Gate),
        valid: &Mutex<String>,
        refreshed: &AtomicU32,
    ) -> Said {
        let path = asked.path.split('?').next().unwrap();
        match path {
            "/.well-known/oauth-protected-resource/mcp" | "/.well-known/oauth-protected-resource" => {
                Said::Json(200, json!({ "resource": format!("{base}/mcp"), "authorization_servers": [base] }))
            }
            "/.well-known/oauth-authorization-server" => Said::Json(
                200,
                json!({
                    "issuer": base, "authorization_endpoint": format!("{base}/authorize"),
                    "token_endpoint": format!("{base}/token"), "registration_endpoint": format!("{base}/register"),
                    "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
                    "token_endpoint_auth_methods_supported": ["client_secret_post", "none"],
                    "authorization_response_iss_parameter_supported": true,
                }),
            ),
            "/register" => Said::Json(
                201,
                json!({ "client_id": "c1", "client_secret": "SECRET-C",
                "redirect_uris": ["http://localhost/back"], "token_endpoint_auth_method": "client_secret_post" }),
            ),
            "/token" => {
                let form = asked.body.as_str().unwrap_or_default().to_owned();
                let token = if form.contains("grant_type=refresh_token") {
                    let n = refreshed.fetch_add(1, Ordering::SeqCst) + 2;
                    format!("t{n}")
                } else if form.contains("code=good") && form.contains("code_verifier=") {
                    "t1".to_owned()
                } else {
                    return Said::Json(400, json!({ "error": "invalid_grant" }));
                };
                *valid.lock().unwrap() = token.clone();
                Said::Json(
                    200,
                    json!({ "access_token": token, "token_type": "Bearer", "expires_in": 3600, "refresh_token": "r" }),
                )
            }
            "/mcp" => {
                let wanted = format!("Bearer {}", valid.lock().unwrap());
                if asked.header("authorization") == Some(&wanted) {
                    return inside(asked);
                }
                let gate = gate.lock().unwrap().take();
                if let Some(gate) = gate {
                    // This worker's remaining work moves to another one.
                    let waited = || gate.recv_timeout(std::time::Duration::from_secs(20));
                    tokio::task::block_in_place(waited).unwrap();
                }
                let metadata = format!("{base}/.well-known/oauth-protected-resource/mcp");
                let challenge = format!("Bearer resource_metadata=\"{metadata}\", scope=\"read\"");
                Said::With(401, vec![("www-authenticate", challenge)], json!({ "error": "invalid_token" }))
            }
            _ => Said::Status(404),
        }
    }

    fn server(&self) -> McpServer {
        let oauth = Some(OAuth::new("http://localhost/back"));
        McpServer::new("guarded", Transport::Http(Http { oauth, ..Http::new(&self.stage.url) }))
    }

    async fn hub(&self, tokens: &Arc<MemoryTokens>) -> McpHub {
        self.hub_over(tokens.clone()).await
    }

    async fn hub_over(&self, tokens: Arc<dyn TokenStore>) -> McpHub {
        let hub = McpHub::new(HubConfig { tokens, ..HubConfig::default() });
        hub.start(vec![self.server()]).await.unwrap();
        hub.settled(20_000).await;
        hub
    }

    /// A person signs in.
    async fn sign_in(&self, hub: &McpHub) {
        let page = hub.begin_sign_in("guarded").await.unwrap();
        hub.finish_sign_in("guarded", &self.back(&page.url, "good")).await.unwrap();
    }

    /// Revokes everything that was granted.
    async fn forget(&self, tokens: &MemoryTokens) {
        *self.counts.lock().unwrap() = "no token".into();
        let stored = tokens.load("mcp/guarded/tokens").await.unwrap().unwrap();
        let mut stored: Value = serde_json::from_slice(&stored).unwrap();
        stored["token_response"].as_object_mut().unwrap().remove("refresh_token");
        tokens.save("mcp/guarded/tokens", stored.to_string().into_bytes()).await.unwrap();
    }

    /// The parameters of the browser's redirect.
    fn back(&self, url: &str, code: &str) -> SignInReturn {
        let value =
            |name: &str| url.split(&format!("{name}=")).nth(1).unwrap().split('&').next().unwrap().to_owned();
        let iss = Some(self.stage.url.trim_end_matches("/mcp").to_owned());
        SignInReturn { code: code.into(), state: value("state"), iss }
    }
}

#[tokio::test]
async fn a_sign_in_may_begin_in_one_process_and_end_in_another() {
    let guarded = Guarded::start().await;
    let tokens = Arc::new(MemoryTokens::default());
    let first = guarded.hub(&tokens).await;
    assert!(matches!(first.server("guarded").unwrap().health, Health::NeedsSignIn { .. }));
    let page = first.begin_sign_in("guarded").await.unwrap();
    assert!(
        page.url.contains("code_challenge_method=S256") && page.url.contains("scope=read"),
        "{}",
        page.url
    );
    drop(first);
    let second = guarded.hub(&tokens).await;
    let mut wrong = guarded.back(&page.url, "good");
    wrong.iss = Some("https://somebody.else".into());
    let refused = second.finish_sign_in("guarded", &wrong).await.unwrap_err();
    assert!(matches!(&refused, McpError::SignInFailed { why, .. } if why.contains("mismatch")), "{refused}");
    let unknown = SignInReturn { state: "made-up".into(), ..wrong };
    assert!(second.finish_sign_in("guarded", &unknown).await.is_err());
    second.finish_sign_in("guarded", &guarded.back(&page.url, "good")).await.unwrap();
    second.ready("guarded").await.unwrap();
    let once = find(&second, "once");
    assert_eq!(shown(&call(&once, json!({})).await), "ok: in");
    // The redirect can be used only once.
    assert!(second.finish_sign_in("guarded", &guarded.back(&page.url, "good")).await.is_err());
    // A third process needs no sign-in, and no second client is registered.
    let third = guarded.hub(&tokens).await;
    third.ready("guarded").await.unwrap();
    third.begin_sign_in("guarded").await.unwrap();
    let registered = guarded.stage.everything().iter().filter(|asked| asked.path == "/register").count();
    assert_eq!(registered, 1);
    third.sign_out("guarded").await.unwrap();
    assert_eq!(third.ready("guarded").await.unwrap_err(), McpError::SignIn { server: "guarded".into() });
    let told = format!("{:?} {:?} {:?}", third.status(), third.logs("guarded"), guarded.server());
    for secret in ["SECRET-C", "\"t1\"", "verifier"] {
        assert!(!told.contains(secret), "{told}");
    }
}

#[tokio::test]
async fn a_call_asks_for_the_sign_in_and_is_made_afterwards() {
    let guarded = Guarded::start().await;
    let tokens = Arc::new(MemoryTokens::default());
    let hub = guarded.hub(&tokens).await;
    guarded.sign_in(&hub).await;
    hub.ready("guarded").await.unwrap();
    let once = find(&hub, "once");
    guarded.forget(&tokens).await;
    let asks = call(&once, json!({})).await;
    let said = shown(&asks);
    let url = said.strip_prefix("signs in: ").unwrap_or_else(|| panic!("{said}"));
    let declined = resumed(&once, &asks, Answer::Deny { reason: None }).await;
    assert_eq!(shown(&declined), "error: Tool error: the sign-in at the server `guarded` was declined");
    hub.finish_sign_in("guarded", &guarded.back(url, "good")).await.unwrap();
    let done = resumed(&once, &asks, Answer::Reply(Box::default())).await;
    assert_eq!(shown(&done), "ok: in");
}

#[tokio::test]
async fn a_held_call_is_not_made_again_by_a_sign_in_that_came_in_between() {
    let guarded = Guarded::start_with(|asked| {
        let question = json!({ "jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {
            "message": "Sure?", "requestedSchema": { "type": "object", "properties": {} } } });
        legacy(asked, &json!([tool("once", json!({}))])).unwrap_or_else(|| match asked.rpc() {
            "tools/call" => Said::Stream(vec![Step::Event(question), Step::Until(Arc::default())]),
            _ => Said::Status(202),
        })
    })
    .await;
    let tokens = Arc::new(MemoryTokens::default());
    let hub = guarded.hub(&tokens).await;
    guarded.sign_in(&hub).await;
    hub.ready("guarded").await.unwrap();
    let once = find(&hub, "once");
    let asks = call(&once, json!({})).await;
    assert_eq!(shown(&asks), "asks: The server `guarded` asks: Sure?");
    guarded.forget(&tokens).await;
    hub.restart("guarded").unwrap();
    hub.settled(20_000).await;
    assert!(matches!(hub.server("guarded").unwrap().health, Health::NeedsSignIn { .. }));
    let said = shown(&resumed(&once, &asks, values(json!({}))).await);
    assert!(said.starts_with("lost: ") && said.contains("the call that asked is no longer open"), "{said}");
    assert_eq!(guarded.stage.asked("tools/call").len(), 1);
}

#[tokio::test]
async fn a_token_that_counts_no_more_is_refreshed_once_for_all_who_wait() {
    let guarded = Guarded::start().await;
    let tokens = Arc::new(MemoryTokens::default());
    let hub = guarded.hub(&tokens).await;
    guarded.sign_in(&hub).await;
    hub.ready("guarded").await.unwrap();
    *guarded.counts.lock().unwrap() = "something newer".into();
    let once = find(&hub, "once");
    let calls = (0..20).map(|_| {
        let once = once.clone();
        tokio::spawn(async move { shown(&call(&once, json!({})).await) })
    });
    for said in futures::future::join_all(calls).await {
        assert_eq!(said.unwrap(), "ok: in");
    }
    assert_eq!(guarded.refreshed.load(Ordering::SeqCst), 1);
}

/// Tokens that several processes share, with a lock among them.
#[derive(Clone, Default)]
struct SharedTokens {
    kept: Arc<MemoryTokens>,
    lock: Arc<tokio::sync::Mutex<()>>,
}

#[async_trait::async_trait]
impl TokenStore for SharedTokens {
    async fn load(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        self.kept.load(name).await
    }

    async fn save(&self, name: &str, value: Vec<u8>) -> Result<(), String> {
        // Values that every process modifies are changed under the lock.
        assert!(!name.ends_with("/clients") || self.lock.try_lock().is_err(), "{name}");
        self.kept.save(name, value).await
    }

    async fn remove(&self, name: &str) -> Result<(), String> {
        self.kept.remove(name).await
    }

    async fn lock(&self, _name: &str) -> Result<Option<TokenLock>, String> {
        Ok(Some(TokenLock::holding(self.lock.clone().lock_owned().await)))
    }
}

#[tokio::test]
async fn processes_on_one_store_refresh_a_token_once_and_see_it() {
    let guarded = Guarded::start().await;
    let tokens = Arc::new(SharedTokens::default());
    let first = guarded.hub_over(tokens.clone()).await;
    guarded.sign_in(&first).await;
    first.ready("guarded").await.unwrap();
    let second = guarded.hub_over(tokens.clone()).await;
    second.ready("guarded").await.unwrap();
    *guarded.counts.lock().unwrap() = "something newer".into();
    let calls = [&first, &second, &first, &second].map(|hub| {
        let once = find(hub, "once");
        tokio::spawn(async move { shown(&call(&once, json!({})).await) })
    });
    for said in futures::future::join_all(calls).await {
        assert_eq!(said.unwrap(), "ok: in");
    }
    assert_eq!(guarded.refreshed.load(Ordering::SeqCst), 1);
    // A token that is about to expire is refreshed before its use, also only once.
    let stored = tokens.load("mcp/guarded/tokens").await.unwrap().unwrap();
    let mut stored: Value = serde_json::from_slice(&stored).unwrap();
    stored["token_received_at"] = json!(1);
    tokens.save("mcp/guarded/tokens", stored.to_string().into_bytes()).await.unwrap();
    let calls = [&first, &second].map(|hub| {
        let once = find(hub, "once");
        tokio::spawn(async move { shown(&call(&once, json!({})).await) })
    });
    for said in futures::future::join_all(calls).await {
        assert_eq!(said.unwrap(), "ok: in");
    }
    assert_eq!(guarded.refreshed.load(Ordering::SeqCst), 2);
    first.sign_out("guarded").await.unwrap();
    assert_eq!(tokens.load("mcp/guarded/clients").await.unwrap().as_deref(), Some(b"[]".as_slice()));
}

#[tokio::test]
async fn a_wish_to_reconnect_that_came_to_nothing_ends_no_later_connection() {
    let go = Arc::new(tokio::sync::Notify::new());
    let held = go.clone();
    let guarded = Guarded::start_with(move |asked| {
        modern(asked, &json!([tool("once", json!({}))])).unwrap_or_else(|| {
            match asked.params()["arguments"]["text"].as_str() {
                Some("fails") => Said::Status(500),
                _ => Said::Stream(vec![Step::Until(held.clone()), asked.event("in")]),
            }
        })
    })
    .await;
    let hub = guarded.hub(&Arc::new(MemoryTokens::default())).await;
    assert!(matches!(hub.server("guarded").unwrap().health, Health::NeedsSignIn { .. }));
    // A retry is requested, but no sign-in has happened yet.
    let before = guarded.stage.asked("server/discover").len();
    hub.restart("guarded").unwrap();
    guarded.stage.until("server/discover", before + 1).await;
    hub.settled(20_000).await;
    assert!(matches!(hub.server("guarded").unwrap().health, Health::NeedsSignIn { .. }));
    guarded.sign_in(&hub).await;
    hub.ready("guarded").await.unwrap();
    let once = find(&hub, "once");
    let calls = once.clone();
    let at_work = tokio::spawn(async move { shown(&call(&calls, json!({})).await) });
    guarded.stage.until("tools/call", 1).await;
    // A failed call triggers a check of the server.
    let listed = guarded.stage.asked("tools/list").len();
    assert!(shown(&call(&once, json!({ "text": "fails" })).await).starts_with("lost: "));
    guarded.stage.until("tools/list", listed + 1).await;
    go.notify_one();
    assert_eq!(at_work.await.unwrap(), "ok: in");
}

#[tokio::test]
async fn a_sign_in_by_another_process_brings_the_server_back() {
    let guarded = Guarded::start().await;
    let tokens = Arc::new(MemoryTokens::default());
    let waits = guarded.hub(&tokens).await;
    assert!(matches!(waits.server("guarded").unwrap().health, Health::NeedsSignIn { .. }));
    let mut changed = waits.changed();
    changed.mark_unchanged();
    // Another redirect URI needs a separate client.
    let other = McpHub::new(HubConfig { tokens: tokens.clone(), ..HubConfig::default() });
    let oauth = Some(OAuth::new("http://127.0.0.1:7719/back"));
    let http = Http { oauth, ..Http::new(&guarded.stage.url) };
    other.start(vec![McpServer::new("guarded", Transport::Http(http))]).await.unwrap();
    guarded.sign_in(&other).await;
    let came = tokio::time::timeout(std::time::Duration::from_secs(30), changed.changed()).await;
    came.expect("the change was not noticed").unwrap();
    assert_eq!(shown(&call(&find(&waits, "once"), json!({})).await), "ok: in");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_sign_in_that_ends_while_the_server_still_refuses_is_not_missed() {
    let guarded = Guarded::start().await;
    let hub = guarded.hub(&Arc::new(MemoryTokens::default())).await;
    let page = hub.begin_sign_in("guarded").await.unwrap();
    let (refuse, waits) = std::sync::mpsc::channel();
    *guarded.refuses_after.lock().unwrap() = Some(waits);
    let before = guarded.stage.asked("server/discover").len();
    hub.restart("guarded").unwrap();
    guarded.stage.until("server/discover", before + 1).await;
    hub.finish_sign_in("guarded", &guarded.back(&page.url, "good")).await.unwrap();
    refuse.send(()).unwrap();
    hub.ready("guarded").await.unwrap();
}
