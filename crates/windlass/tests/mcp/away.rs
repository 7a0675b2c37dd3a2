//! Unreachable servers: at startup, later, and permanently.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::net::TcpListener;
use windlass::Status;
use windlass::clock::ManualClock;
use windlass::machine::Timestamp;
use windlass::mcp::{Health, Http, HubConfig, McpError, McpHub, McpServer, OAuth, Timeouts, Transport};
use windlass::port::tool::{CallContext, ToolOutcome, ToolSource as _};
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::tool::FunctionTool;

use super::stage::{Said, Stage, Step, listens, modern, tool};
use super::{at, call, find, hub, hub_of, names, shown, trusted};
use crate::drive::{Text, memory, task};

async fn stage_on(address: &str) -> Stage {
    let tools = json!([tool("look", json!({ "readOnlyHint": true }))]);
    Stage::start_on(address, move |asked| modern(asked, &tools).unwrap_or_else(|| asked.text("here"))).await
}

/// An address without a listener.
async fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().to_string()
}

/// Advances the clock while everything else waits, until a future completes.
pub async fn while_time_passes<T>(clock: &ManualClock, until: impl Future<Output = T>) -> T {
    while_passes(clock, 100, until).await
}

pub async fn while_passes<T>(clock: &ManualClock, step_ms: u64, until: impl Future<Output = T>) -> T {
    let mut until = Box::pin(until);
    for _ in 0..100_000 {
        tokio::select! {
            biased;
            done = &mut until => return done,
            () = tokio::time::sleep(std::time::Duration::from_millis(1)) => clock.advance_ms(step_ms), // tidy: sleep the sockets are real, and only the clock is manual
        }
    }
    panic!("it never came to an end");
}

pub fn on(clock: &Arc<ManualClock>) -> HubConfig {
    HubConfig { clock: clock.clone(), ..HubConfig::default() }
}

// rows: SK-A12
#[tokio::test]
async fn a_start_is_refused_without_a_required_server_and_with_nothing_else() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000_000), 7));
    let nowhere = format!("http://{}/mcp", nowhere().await);
    let hub = McpHub::new(on(&clock));
    // Startup does not wait for a server that is not required.
    hub.start(vec![at("spare", &nowhere)]).await.unwrap();
    let required = McpServer { required: true, ..at("needed", &nowhere) };
    let refused = while_time_passes(&clock, hub.start(vec![required])).await.unwrap_err();
    let McpError::Required { server, attempts, why } = &refused else { panic!("{refused:?}") };
    assert_eq!((server.as_str(), *attempts), ("needed", 5));
    assert!(!why.is_empty());
    assert!(refused.to_string().starts_with("the required server `needed` did not connect in 5 attempts: "));
    let waited_ms = clock.now().0 - 1_000_000;
    assert!((12_000..14_000).contains(&waited_ms), "four pauses of 3 s: {waited_ms}");
}

use windlass::port::clock::Clock as _;

// rows: SK-A12
#[tokio::test]
async fn a_required_server_may_come_up_while_it_is_waited_for() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000_000), 7));
    let address = nowhere().await;
    let url = format!("http://{address}/mcp");
    let hub = McpHub::new(on(&clock));
    let starting = hub.start(vec![McpServer { required: true, ..at("needed", &url) }]);
    let late = async {
        clock.sleep_ms(4_000).await;
        stage_on(&address).await
    };
    let (started, _stage) = while_time_passes(&clock, async { tokio::join!(starting, late) }).await;
    started.unwrap();
    assert!(names(&hub).contains(&"look".to_owned()));
}

// rows: SK-A12
#[tokio::test]
async fn a_required_server_that_takes_long_to_fail_is_given_up_as_well() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000_000), 7));
    let stage = Stage::start(|_| Said::Stream(vec![Step::Until(Arc::default())])).await;
    let hub = McpHub::new(on(&clock));
    let timeouts = Timeouts { connect_ms: 90_000, ..Timeouts::default() };
    let starting = hub.start(vec![McpServer { required: true, timeouts, ..at("needed", &stage.url) }]);
    let refused = tokio::time::timeout(Duration::from_secs(20), while_passes(&clock, 1_000, starting)).await;
    let refused = refused.expect("it is tried for ever").unwrap_err();
    assert!(matches!(refused, McpError::Required { attempts: 5, .. }), "{refused:?}");
}

// rows: SK-A12
#[tokio::test]
async fn a_required_server_that_rejects_credentials_fails_the_start() {
    let stage = Stage::start(|_| Said::Status(401)).await;
    let required = |http| {
        let hub = McpHub::new(HubConfig::default());
        let server = McpServer { required: true, ..McpServer::new("needed", Transport::Http(http)) };
        async move { hub.start(vec![server]).await.unwrap_err() }
    };
    let headers = vec![("authorization".to_owned(), "Bearer x".to_owned())];
    let refused = required(Http { headers, ..Http::new(&stage.url) }).await;
    let wanted = "the required server `needed` did not connect in 1 attempt: it rejects the configured \
                  credentials";
    assert_eq!(refused.to_string(), wanted);
    // Where sign-in is configured, a person must sign in, and none has.
    let oauth = Some(OAuth::new("http://localhost/back"));
    let refused = required(Http { oauth, ..Http::new(&stage.url) }).await;
    assert_eq!(refused, McpError::SignIn { server: "needed".into() });
}

/// An unreachable server in a process that recalls its tools, and its address.
async fn known_and_away() -> (McpHub, String) {
    let stage = stage_on("127.0.0.1:0").await;
    let known = hub(trusted("stage", &stage.url)).await.known();
    let url = stage.url.clone();
    drop(stage);
    while listens(&url).await {
        tokio::task::yield_now().await;
    }
    // Another process, which recalls the tools.
    let hub = McpHub::new(HubConfig { known, ..HubConfig::default() });
    hub.start(vec![trusted("stage", &url)]).await.unwrap();
    (hub, url)
}

// rows: LM-B3
#[tokio::test]
async fn tools_of_a_server_that_is_away_say_how_it_comes_back() {
    let (hub, url) = known_and_away().await;
    let look = find(&hub, "look");
    let said = shown(&call(&look, json!({})).await);
    assert!(said.starts_with("error: The server `stage` has been unavailable for"), "{said}");
    assert!(said.contains("Nothing was done. Windlass retries in"), "{said}");
    // A list of tools shows the state as well.
    assert_eq!(look.unavailable().as_deref(), Some("its server `stage` is unavailable"));
    let Health::Unavailable { why, since, retry_at } = hub.server("stage").unwrap().health else { panic!() };
    assert!(!why.is_empty() && retry_at > since, "{why}");
    assert!(!said.contains(&why), "the reason is for those who run the server: {said}");
    // The server is back, and a caller does not wait for the next attempt.
    let _stage = stage_on(url.trim_start_matches("http://").trim_end_matches("/mcp")).await;
    hub.restart("stage").unwrap();
    hub.ready("stage").await.unwrap();
    assert_eq!(shown(&call(&look, json!({})).await), "ok: here", "a tool that was there before serves again");
    assert_eq!(look.unavailable(), None);
    // Another server with the name of a removed one has none of its tools.
    hub.remove("stage").unwrap();
    hub.put(trusted("stage", "http://127.0.0.1:1/mcp")).unwrap();
    assert_eq!(hub.server("stage").unwrap().tools, []);
}

// rows: LM-B4
#[tokio::test]
async fn a_run_whose_tools_are_away_ends_and_says_which() {
    let (hub, _) = known_and_away().await;
    let here =
        FunctionTool::new("here", "is here", |_: CallContext, _: Text| async { ToolOutcome::error("no") });
    let tools =
        windlass::registry().add_all(hub.tools().iter().cloned()).unwrap().add(Arc::new(here)).unwrap();
    let models = ScriptedModels::new(|call| match results(call) {
        0 => Line::Call(
            String::new(),
            vec![("look".into(), "{}".into()), ("here".into(), r#"{"text":"a"}"#.into())],
        ),
        _ => Line::Say("without it, then".into()),
    });
    let engine = memory(&models, tools).build().await.unwrap();
    let outcome = engine.run_task(task("go")).await.unwrap();
    assert_eq!((outcome.status, outcome.text.as_deref()), (Status::Done, Some("without it, then")));
    assert_eq!(outcome.missing_tools, ["look"], "what failed otherwise is not missing");
}

#[tokio::test]
async fn a_server_that_is_tried_again_and_again_is_tried_less_and_less() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000_000), 7));
    let stage = Stage::start(|_| Said::Status(500)).await;
    let hub = McpHub::new(on(&clock));
    hub.start(vec![at("stage", &stage.url)]).await.unwrap();
    while_time_passes(&clock, stage.until("server/discover", 7)).await;
    let minutes_ms = clock.now().0 - 1_000_000;
    // Half to all of 1, 2, 4, 8, 16 and 32 seconds.
    assert!((31_000..80_000).contains(&minutes_ms), "{minutes_ms}");
}

#[tokio::test]
async fn a_server_can_be_switched_off_replaced_and_taken_out() {
    let (one, two) = (stage_on("127.0.0.1:0").await, stage_on("127.0.0.1:0").await);
    let hub = hub(trusted("stage", &one.url)).await;
    assert_eq!(
        hub.put(at("a__b", &one.url)).unwrap_err().to_string().split(':').next().unwrap(),
        "invalid configuration of the server `a__b`"
    );
    let twice = vec![at("x", &one.url), at("x", &one.url)];
    assert_eq!(hub.start(twice).await.unwrap_err(), McpError::Duplicate("x".into()));
    hub.put(trusted("stage", &two.url)).unwrap();
    hub.ready("stage").await.unwrap();
    assert_eq!(shown(&call(&find(&hub, "look"), json!({})).await), "ok: here");
    assert_eq!((one.asked("tools/call").len(), two.asked("tools/call").len()), (0, 1));
    let look = find(&hub, "look");
    hub.put(McpServer { enabled: false, ..trusted("stage", &two.url) }).unwrap();
    assert_eq!(hub.server("stage").unwrap().health, Health::Disabled);
    assert!(names(&hub).is_empty());
    hub.remove("stage").unwrap();
    assert_eq!(hub.remove("stage").unwrap_err(), McpError::Unknown("stage".into()));
    // A run that still has the tool gets an error, and nothing hangs.
    hub.stop().await;
    let said = shown(&call(&look, json!({})).await);
    let wanted = "The server `stage` is disabled or was removed. Nothing was done. A person can enable it";
    assert_eq!(said, format!("error: {wanted}"));
}

#[tokio::test]
async fn what_is_known_of_a_server_is_kept_in_parts_and_recalled() {
    let tools = json!((0..20).map(|n| tool(&format!("t{n}"), json!({}))).collect::<Vec<_>>());
    let stage = Stage::start(move |asked| modern(asked, &tools).unwrap_or(Said::Status(404))).await;
    let first = hub_of(&stage).await;
    let known = first.known().remove(0);
    let whole = serde_json::to_string(&known).unwrap().len();
    assert_eq!(known.clone().parts(whole + 1_000).len(), 1);
    let parts = known.clone().parts(1_024);
    assert!(parts.len() > 2, "{}", parts.len());
    assert!(parts.iter().all(|part| serde_json::to_string(part).unwrap().len() <= 1_024));
    // A tool that fits into no part is left out; the rest is kept.
    assert_eq!(known.parts(300).len(), 0);
    drop(stage);
    let later = McpHub::new(HubConfig::default());
    later.recall(parts);
    later.start(vec![trusted("stage", "http://127.0.0.1:9/mcp")]).await.unwrap();
    later.settled(20_000).await;
    // Only the server itself reports whether it has resources.
    assert_eq!(names(&later), names(&first)[2..]);
}

#[tokio::test]
async fn an_unlisted_internal_address_is_rejected() {
    let stage = Stage::start(|asked| modern(asked, &json!([])).unwrap_or(Said::Status(404))).await;
    let http = Http { named: false, ..Http::new(&stage.url) };
    let hub = McpHub::new(HubConfig::default());
    let refused = hub.start(vec![McpServer::new("far", Transport::Http(http.clone()))]).await.unwrap_err();
    assert!(matches!(refused, McpError::Config { .. }), "{refused}");
    // A name that resolves to an internal address is detected when it is called.
    let named = stage.url.replace("127.0.0.1", "localhost");
    let ports = windlass::outbound::Ports::Any;
    let reach = windlass::outbound::Reach { ports, ..Default::default() };
    let hub = McpHub::new(HubConfig { reach, ..HubConfig::default() });
    let http = Http { url: named, ..http };
    if hub.start(vec![McpServer::new("far", Transport::Http(http))]).await.is_ok() {
        hub.settled(20_000).await;
        assert!(!hub.server("far").unwrap().health.is_ready());
    }
    assert!(stage.everything().is_empty());
}

#[tokio::test]
async fn credentials_are_sent_unencrypted_only_to_internal_hosts() {
    let stage = Stage::start(|asked| modern(asked, &json!([])).unwrap_or(Said::Status(404))).await;
    let reach = |inside: &[&str]| windlass::outbound::Reach {
        ports: windlass::outbound::Ports::Any,
        internal_hosts: inside.iter().map(|host| host.parse().unwrap()).collect(),
        ..Default::default()
    };
    let start = async |http: Http, inside: &[&str]| {
        let hub = McpHub::new(HubConfig { reach: reach(inside), ..HubConfig::default() });
        let started = hub.start(vec![McpServer::new("far", Transport::Http(http))]).await;
        started.map(|()| hub)
    };
    let headers = vec![("x-tenant".to_owned(), "7".to_owned())];
    let far = Http { headers: headers.clone(), named: false, ..Http::new("http://far.example.com/mcp") };
    let refused = start(far, &[]).await.err().unwrap().to_string();
    assert!(refused.contains("credentials are not sent to `far.example.com` unencrypted"), "{refused}");
    // A key in the URL is redacted as well.
    let far = Http { named: false, ..Http::new("http://far.example.com/mcp?api_key=K") };
    let refused = start(far, &[]).await.err().unwrap().to_string();
    assert!(refused.contains("credentials are not sent to `far.example.com` unencrypted"), "{refused}");
    let near = Http { headers, named: false, ..Http::new(&stage.url) };
    start(near, &["127.0.0.1"]).await.unwrap().ready("far").await.unwrap();
}
