//! Tools that appear, change and conflict.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::watch;
use windlass::machine::EffectClass;
use windlass::mcp::{HubConfig, McpHub, McpServer, Prefix};
use windlass::port::tool::ToolSource;

use super::stage::{Said, Stage, Step, legacy, modern, tool};
use super::{at, find, hub, hub_of, names, trusted};

/// A fixture server with these tools only.
async fn stage(tools: Value) -> Stage {
    Stage::start(move |asked| modern(asked, &tools).unwrap_or(Said::Status(404))).await
}

// rows: SK-C7, SK-C19
#[tokio::test]
async fn tools_are_listed_with_what_can_be_believed_of_them() {
    let reads = tool("look", json!({ "readOnlyHint": true, "openWorldHint": false }));
    let stage = stage(json!([reads, tool("write", json!({})), { "name": "k8s_get" }])).await;
    let hub = hub_of(&stage).await;
    assert_eq!(names(&hub), ["ListMcpResources", "ReadMcpResource", "k8s_get", "look", "write"]);
    let class = |name: &str| {
        let tool = find(&hub, name);
        tool.traits().effect_class(tool.spec())
    };
    assert_eq!(class("look"), EffectClass::Pure);
    assert_eq!(class("write"), EffectClass::Once);
    let look = find(&hub, "look");
    assert_eq!((look.traits().server, !look.traits().is_untrusted), (Some("stage"), true));
    let status = hub.server("stage").unwrap();
    assert_eq!(status.protocol.as_deref(), Some("2026-07-28"));
    assert_eq!(status.software.as_deref(), Some("stage 1"));
    assert_eq!(status.instructions.as_deref(), Some("be kind"));
    assert_eq!(status.tools.iter().find(|tool| tool.name == "k8s_get").unwrap().tag.as_deref(), Some("k8s"));
    // The engine accepts every tool.
    windlass::registry().add_all(hub.tools().iter().cloned()).unwrap();

    let hub = super::hub(at("stage", &stage.url)).await;
    let look = find(&hub, "look");
    assert_eq!(
        (!look.traits().is_untrusted, look.traits().effect_class(look.spec())),
        (false, EffectClass::Once),
        "the server is untrusted"
    );
    // A run that owns the server has the same tools.
    let own = hub.into_tools();
    let own = own.iter().find(|tool| tool.spec().name.as_str() == "k8s_get").unwrap();
    assert_eq!((own.traits().toolset, own.traits().server), (Some("k8s"), Some("stage")));
}

#[tokio::test]
async fn a_tool_that_makes_no_sense_costs_nothing_but_itself() {
    let remote = json!({ "name": "far", "inputSchema": { "type": "object", "properties": { "a": { "$ref": "https://x/y" } } } });
    let list = json!([tool("a", json!({})), remote, { "description": "nameless" }, tool("a", json!({})),
        { "name": "odd", "inputSchema": { "type": "array" } }]);
    let hub = hub_of(&stage(list).await).await;
    assert!(names(&hub).contains(&"a".to_owned()) && !names(&hub).contains(&"far".to_owned()));
    let left_out: Vec<(String, String)> =
        hub.server("stage").unwrap().left_out.into_iter().map(|it| (it.tool, it.why)).collect();
    let has = |tool: &str, why: &str| left_out.iter().any(|(it, said)| it == tool && said.contains(why));
    assert!(
        has("far", "https://x/y") && has("?", "no name") && has("a", "same name") && has("odd", "array"),
        "{left_out:?}"
    );
}

#[tokio::test]
async fn every_page_is_read_and_a_list_without_end_is_left() {
    let stage = Stage::start(|asked| {
        if asked.rpc() != "tools/list" {
            return modern(asked, &json!([])).unwrap_or(Said::Status(404));
        }
        let page: u32 = asked.params()["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
        let name = format!("tool{page}");
        asked.result(json!({ "resultType": "complete", "tools": [tool(&name, json!({}))],
            "nextCursor": (page + 1).to_string(), "ttlMs": 0, "cacheScope": "private" }))
    })
    .await;
    let hub = hub_of(&stage).await;
    assert_eq!(hub.server("stage").unwrap().tools.len(), 200, "pages are bounded");
}

// rows: SK-C20
#[tokio::test]
async fn a_change_is_heard_of_in_both_revisions() {
    let (old_changed, old_changes) = watch::channel(Vec::new());
    let (new_changed, changes) = watch::channel(Vec::<Value>::new());
    let old = Stage::start(move |asked| match asked.method.as_str() {
        "GET" => Said::Stream(vec![Step::Follow(old_changes.clone())]),
        _ => legacy(asked, &json!([tool("before", json!({}))])).unwrap_or(Said::Status(404)),
    })
    .await;
    let new = Stage::start(move |asked| match asked.rpc() {
        "subscriptions/listen" => {
            let id = &asked.body["id"];
            let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
            let accepted = json!({ "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                "params": { "_meta": meta, "notifications": { "toolsListChanged": true } } });
            let tagged = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": { "_meta": meta } });
            let (again, later) = watch::channel(vec![accepted]);
            let mut changes = changes.clone();
            tokio::spawn(async move {
                changes.wait_for(|changes| !changes.is_empty()).await.unwrap();
                again.send_modify(|said| said.push(tagged));
                again.closed().await;
            });
            Said::Stream(vec![Step::Follow(later)])
        }
        "server/discover" => asked.result(json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": { "tools": { "listChanged": true } }, "ttlMs": 0, "cacheScope": "private" })),
        _ => modern(asked, &json!([tool("before", json!({}))])).unwrap_or(Said::Status(404)),
    })
    .await;
    for (stage, changed) in [(&old, &old_changed), (&new, &new_changed)] {
        let hub = hub_of(stage).await;
        assert!(names(&hub).contains(&"before".to_owned()));
        let mut versions = hub.changed();
        let version = hub.version();
        let tools = json!([tool("after", json!({}))]);
        let other = |asked: &super::stage::Asked| {
            asked.result(json!({ "resultType": "complete",
            "tools": [tool("after", json!({}))], "ttlMs": 3_600_000, "cacheScope": "private" }))
        };
        let stream = if stage.asked("initialize").is_empty() { "subscriptions/listen" } else { "" };
        stage.until(stream, 1).await;
        // The open stream stays unchanged.
        stage.says(move |asked| match asked.rpc() {
            "tools/list" => other(asked),
            _ => legacy(asked, &tools).unwrap_or(Said::Status(202)),
        });
        changed.send_modify(|said| {
            said.push(json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }))
        });
        let heard = tokio::time::timeout(std::time::Duration::from_secs(20), async {
            while !names(&hub).contains(&"after".to_owned()) {
                versions.changed().await.unwrap();
            }
        });
        heard
            .await
            .unwrap_or_else(|_| panic!("the change was not heard of: {:?}", stage.asked("tools/list")));
        assert!(hub.version() > version);
        assert!(!names(&hub).contains(&"before".to_owned()));
    }
}

#[tokio::test]
async fn names_that_clash_get_their_servers_name_and_keep_it() {
    let (one, two) = (
        stage(json!([tool("find", json!({}))])).await,
        stage(json!([tool("find", json!({})), tool("ask", json!({}))])).await,
    );
    let config = HubConfig { reserved: vec!["ask".into()], ..HubConfig::default() };
    let hub = McpHub::new(config);
    hub.start(vec![at("one", &one.url)]).await.unwrap();
    hub.ready("one").await.unwrap();
    hub.put(at("two", &two.url)).unwrap();
    hub.ready("two").await.unwrap();
    let rest = |hub: &McpHub| {
        names(hub)
            .into_iter()
            .filter(|name| !name.ends_with("Resources") && !name.ends_with("Resource"))
            .collect::<Vec<_>>()
    };
    assert_eq!(rest(&hub), ["find", "two__ask", "two__find"]);
    // Another process that recalls them has the same names before any server responds, in any order of connection.
    let known = hub.known();
    let known = serde_json::from_str(&serde_json::to_string(&known).unwrap()).unwrap();
    hub.remove("one").unwrap();
    assert_eq!(rest(&hub), ["two__ask", "two__find"], "a name stays with its tool");
    let nowhere = "http://127.0.0.1:1/mcp";
    let other = McpHub::new(HubConfig { reserved: vec!["ask".into()], known, ..HubConfig::default() });
    other.start(vec![at("two", nowhere), at("one", nowhere)]).await.unwrap();
    assert_eq!(rest(&other), ["find", "two__ask", "two__find"]);
    assert_eq!(find(&other, "find").traits().server, Some("one"));
}

#[tokio::test]
async fn only_the_wanted_tools_are_taken() {
    let list = json!([tool("get_a", json!({})), tool("get_b", json!({})), tool("set_a", json!({}))]);
    let stage = stage(list).await;
    let (include, exclude) = (vec!["get_*".to_owned()], vec!["*_b".to_owned()]);
    let server = McpServer { include, exclude, prefix: Prefix::Always, ..trusted("s", &stage.url) };
    let hub = hub(server).await;
    assert_eq!(names(&hub), ["ListMcpResources", "ReadMcpResource", "s__get_a"]);
    let source: Arc<dyn ToolSource> = Arc::new(hub);
    assert_eq!(source.tools().len(), 3);
    let own: Vec<_> = source
        .tools()
        .iter()
        .map(|tool| tool.traits().remote_name.unwrap_or(tool.spec().name.as_str()).to_owned())
        .collect();
    assert!(own.contains(&"get_a".to_owned()), "{own:?}");
}

#[tokio::test]
async fn names_of_tools_that_the_engine_adds_by_itself_are_not_a_servers_to_take() {
    let tools = json!(["load_toolset", "tool_search"].map(|name| tool(name, json!({}))));
    let stage = Stage::start(move |asked| modern(asked, &tools).unwrap_or(Said::Status(404))).await;
    let hub = hub_of(&stage).await;
    let ours = ["ListMcpResources", "ReadMcpResource"];
    let theirs: Vec<String> = names(&hub).into_iter().filter(|name| !ours.contains(&&**name)).collect();
    assert_eq!(theirs, ["stage__load_toolset", "stage__tool_search"]);
}

#[tokio::test]
async fn tool_names_are_assigned_in_configuration_order() {
    let tools = json!([tool("list", json!({}))]);
    let quick = tools.clone();
    let quick = Stage::start(move |asked| modern(asked, &quick).unwrap_or(Said::Status(404))).await;
    let go = Arc::new(tokio::sync::Notify::new());
    let held = go.clone();
    // Responds when released.
    let slow = Stage::start(move |asked| match (asked.rpc(), modern(asked, &tools)) {
        ("server/discover", Some(Said::Json(_, body))) => {
            Said::Stream(vec![Step::Until(held.clone()), Step::Event(body)])
        }
        (_, said) => said.unwrap_or(Said::Status(404)),
    })
    .await;
    let hub = McpHub::new(HubConfig::default());
    hub.start(vec![trusted("slow", &slow.url), trusted("quick", &quick.url)]).await.unwrap();
    hub.ready("quick").await.unwrap();
    let is_given = |name: &String| name == "list" || name == "quick__list";
    assert!(!names(&hub).iter().any(is_given), "its names are not given away: {:?}", names(&hub));
    go.notify_one();
    hub.ready("slow").await.unwrap();
    let given = |server: &str| hub.server(server).unwrap().tools[0].name.clone();
    assert_eq!((given("slow").as_str(), given("quick").as_str()), ("list", "quick__list"));
}

#[tokio::test]
async fn a_name_stays_with_the_server_that_had_it_whichever_is_there_first() {
    let tools = json!([tool("list", json!({}))]);
    let stage = Stage::start(move |asked| modern(asked, &tools).unwrap_or(Said::Status(404))).await;
    let before = hub(trusted("second", &stage.url)).await;
    // In the next process, another server responds before this one is known at all.
    let hub = McpHub::new(HubConfig { known: before.known(), ..HubConfig::default() });
    hub.start(vec![trusted("first", &stage.url)]).await.unwrap();
    hub.ready("first").await.unwrap();
    hub.put(trusted("second", &stage.url)).unwrap();
    hub.ready("second").await.unwrap();
    let given = |server: &str| hub.server(server).unwrap().tools[0].name.clone();
    assert_eq!((given("first").as_str(), given("second").as_str()), ("first__list", "list"));
}

#[tokio::test]
async fn a_tool_that_is_put_into_another_group_is_in_that_group() {
    let tagged = |tag: &str| json!([{ "name": "get", "tags": [tag] }]);
    let before = tagged("reports");
    let stage = Stage::start(move |asked| modern(asked, &before).unwrap_or(Said::Status(404))).await;
    let hub = hub_of(&stage).await;
    let mut changed = hub.changed();
    assert_eq!(find(&hub, "get").traits().toolset, Some("reports"));
    let after = tagged("secrets");
    stage.says(move |asked| modern(asked, &after).unwrap_or(Said::Status(404)));
    changed.mark_unchanged();
    hub.restart("stage").unwrap();
    tokio::time::timeout(std::time::Duration::from_secs(20), changed.changed()).await.unwrap().unwrap();
    hub.ready("stage").await.unwrap();
    assert_eq!(find(&hub, "get").traits().toolset, Some("secrets"));
}
