//! Hidden arguments: which tools have them, how they are filled in, and that they appear nowhere else.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt;
use serde_json::{Value, json};
use windlass::machine::{Annotations, Seq, ToolSpec};
use windlass::port::tool::{CallContext, Deferral, Tool, ToolOutcome, ToolSource, ToolTraits};
use windlass::secret::Secret;
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::tool::{Hidden, HiddenArguments, HiddenSource};
use windlass::{Engine, Status, Task, Update};

use super::{memory, task};

const SENTINEL: &str = "sentinel/91+ab&cd e";

/// A server's tool that echoes its arguments in every encoding. A tool of another server has the same name.
struct Deploy {
    spec: ToolSpec,
    given: Arc<Mutex<Vec<Value>>>,
}

#[async_trait::async_trait]
impl Tool for Deploy {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }
    fn traits(&self) -> ToolTraits<'_> {
        ToolTraits { server: Some("ops"), remote_name: Some("deploy"), ..ToolTraits::default() }
    }

    async fn call(&self, context: CallContext, arguments: Value) -> ToolOutcome {
        self.given.lock().unwrap().push(arguments.clone());
        let token = arguments["token"].as_str().unwrap_or_default().to_owned();
        context.progress.report(format!("with {token}"));
        let encoded: String = token.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let base = STANDARD.encode(format!("bot:{token}"));
        match arguments["job"].as_str() {
            Some("asks") => ToolOutcome::defer(Deferral {
                after_ms: 1,
                state: Some(arguments.to_string()),
                rest: windlass::machine::Rest::Repeatable,
            }),
            Some("fails") => ToolOutcome::error(format!("401: {token} was refused")),
            Some("is lost") => ToolOutcome::unknown(format!("no answer to {encoded}")),
            _ => ToolOutcome::text(format!("{token} {encoded} {base} {arguments}")),
        }
    }
}

struct One(Arc<[Arc<dyn Tool>]>);

impl ToolSource for One {
    fn tools(&self) -> Arc<[Arc<dyn Tool>]> {
        self.0.clone()
    }

    fn version(&self) -> u64 {
        1
    }
}

/// Workspace `a` is connected, `half` has no token, and `b` is not.
struct Connected;

#[async_trait::async_trait]
impl HiddenArguments for Connected {
    fn is_offered(&self, workspace: &str) -> bool {
        workspace != "b"
    }

    async fn arguments(&self, workspace: &str) -> Result<BTreeMap<String, Secret>, String> {
        let url = ("api_url".to_owned(), Secret::new("https://ci.example.com"));
        match workspace {
            "a" => {
                let others = [("token", SENTINEL), ("port", "8443"), ("tls", "true"), ("pin", "0123")];
                Ok([url].into_iter().chain(others.map(|(name, it)| (name.into(), Secret::new(it)))).collect())
            }
            "half" => Ok(BTreeMap::from([url])),
            _ => Err("Jenkins integration is not configured.".to_owned()),
        }
    }
}

struct Stage {
    engine: Engine,
    given: Arc<Mutex<Vec<Value>>>,
    /// The tools and prompts sent to models.
    seen: Arc<Mutex<String>>,
}

async fn stage() -> Stage {
    let (given, seen) = (Arc::<Mutex<Vec<Value>>>::default(), Arc::<Mutex<String>>::default());
    let schema = json!({
        "type": "object",
        "properties": {"job": {"type": "string"}, "api_url": {"type": "string"}, "token": {"type": "string"},
            "port": {"type": ["integer", "null"]}, "tls": {"type": "boolean"}, "pin": {"type": "string"}},
        "required": ["job", "api_url", "token"],
        "additionalProperties": false,
    });
    let spec = ToolSpec {
        name: "ops__deploy".into(),
        description: "deploys".into(),
        input_schema: schema,
        annotations: Annotations::default(),
        withheld: Default::default(),
    };
    let tool: Arc<dyn Tool> = Arc::new(Deploy { spec, given: given.clone() });
    let rule = Hidden {
        server: "ops".into(),
        // The server's own name of the tool.
        tools: vec!["dep*".into()],
        arguments: ["api_url", "token", "port", "tls", "pin"].map(String::from).into(),
        from: Arc::new(Connected),
    };
    let source = HiddenSource::new(Arc::new(One(Arc::new([tool]))), vec![rule]);
    let told = seen.clone();
    let models = ScriptedModels::new(move |call| {
        let tools = format!("{:?}", call.tools);
        assert!(!tools.contains("api_url") && !tools.contains("token"), "{tools}");
        told.lock().unwrap().push_str(&format!("{tools} {:?}\n", call.request.messages));
        match results(call) {
            0 => {
                let job = call.request.messages.last().unwrap().shown_text();
                Line::tool("ops__deploy", &json!({"job": job}).to_string())
            }
            _ => Line::Say("done".into()),
        }
    });
    let engine = memory(&models, windlass::registry()).tool_source(Arc::new(source)).build().await.unwrap();
    Stage { engine, given, seen }
}

impl Stage {
    /// Makes one call in a workspace. Returns everything that models and people received.
    async fn run(&self, workspace: &str, job: &str) -> (Status, String) {
        let task = Task { workspace: workspace.into(), ..task(job) };
        let (started, mut updates) = self.engine.start_watched(task).await.unwrap();
        let engine = self.engine.clone();
        let mut told = String::new();
        let outcome = engine.run(&started.run).wait().await.unwrap();
        while let Some(Some(Ok(update))) = futures::FutureExt::now_or_never(updates.next()) {
            if let Update::Event(recorded) = &update {
                told.push_str(&recorded.event.encode());
            }
            told.push_str(&format!("{update:?}\n"));
        }
        let mut export = engine.thread(&started.thread).export();
        while let Some(line) = export.next().await {
            told.push_str(&line.unwrap());
        }
        (outcome.status, told + &format!("{outcome:?}"))
    }
}

fn assert_clean(text: &str) {
    let percent: String = SENTINEL.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let base = STANDARD.encode(format!("bot:{SENTINEL}"));
    for form in [SENTINEL, &percent, &base, "sentinel/91"] {
        assert!(!text.contains(form), "`{form}` in {text}");
    }
}

// rows: SK-A13, SK-P14, SK-A4
#[tokio::test]
async fn hidden_arguments_get_to_the_tool_and_nowhere_else() {
    for (job, wanted) in
        [("ship", "[masked]"), ("fails", "401: [masked] was refused"), ("is lost", "[masked]")]
    {
        let stage = stage().await;
        let (_, told) = stage.run("a", job).await;
        let given = stage.given.lock().unwrap().clone();
        // Each value has the type that its schema requires.
        let expected = json!({"job": job, "api_url": "https://ci.example.com", "token": SENTINEL, "port": 8443,
            "tls": true, "pin": "0123"});
        assert_eq!(given, [expected], "{job}");
        assert!(told.contains(wanted), "{job}: {told}");
        assert_clean(&told);
        let seen = stage.seen.lock().unwrap().clone();
        assert_clean(&seen);
        assert!(seen.contains("deploys") && !seen.contains("ci.example.com"), "{seen}");
    }
}

// rows: SK-P14
#[tokio::test]
async fn tools_are_shown_only_where_their_system_is_connected() {
    let stage = stage().await;
    let (status, told) = stage.run("b", "ship").await;
    assert_eq!(status, Status::Done);
    assert!(told.contains("Jenkins integration is not configured."), "{told}");
    assert!(!stage.seen.lock().unwrap().contains("deploys"));
    assert_eq!(stage.given.lock().unwrap().len(), 0);
    let names = |workspace| stage.engine.tools().list_in(workspace).len();
    assert_eq!((names("a"), names("b")), (1, 0));
}

// rows: SK-A4
#[tokio::test]
async fn what_is_required_and_not_filled_in_is_named() {
    let stage = stage().await;
    let (_, told) = stage.run("half", "ship").await;
    assert!(told.contains("Missing required parameters: token"), "{told}");
    assert_eq!(stage.given.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn what_a_tool_wants_back_is_not_recorded_where_it_holds_such_a_value() {
    let stage = stage().await;
    let (_, told) = stage.run("a", "asks").await;
    assert!(told.contains("may not be recorded"), "{told}");
    assert_clean(&told);
    assert_eq!(stage.engine.thread(&"none".into()).events(Seq(0), 1).await.unwrap().len(), 0);
}
