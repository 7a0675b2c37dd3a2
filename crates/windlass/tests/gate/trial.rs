//! Trial calls: they pass the same gate as runs, but belong to no run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use windlass::machine::{
    Annotations, Approver, AutoRun, EffectClass, HookVerdict, InterruptKind, Party, Question, Quorum, Rest,
    Rule, Terms, ToolSpec, Verdict,
};
use windlass::port::hook::{Hook, HookCall};
use windlass::port::tool::{
    Ask, CallContext, Deferral, OutputPart, Tool, ToolOutcome, ToolOutput, ToolTraits,
};
use windlass::testing::scripted::{Line, ScriptedModels};
use windlass::tool::builtin::request_human_approval;
use windlass::tool::{FunctionTool, Registry};
use windlass::{Builder, Consent, GrantDraft, Supposed, Trial, Tried};

use crate::drive::{Counter, Text, party, registry};

fn models() -> ScriptedModels {
    ScriptedModels::new(|_| Line::Say("unused".into()))
}

fn builder(registry: Registry) -> Builder {
    windlass::builder().models(Arc::new(models())).tools(registry)
}

fn trial(tool: &str, text: &str, consent: Consent) -> Trial {
    let arguments = json!({ "text": text });
    let by = party("ann");
    Trial {
        tool: tool.into(),
        arguments,
        by,
        folder: None,
        consent,
        timeout_ms: 2_000,
        at_most_ms: Some(9_000),
        stop: Default::default(),
        counts_as_approver: true,
    }
}

fn rule(verdict: Verdict, terms: Terms) -> Rule {
    Rule { name: Some("said".into()), tools: vec!["pay".into()], terms, ..Rule::new(verdict) }
}

/// The outcome as a keyword, with the deciding rule.
fn told(tried: &Tried) -> String {
    match tried {
        Tried::Unknown => "unknown".into(),
        Tried::Unfit { reason } => format!("unfit: {reason}"),
        Tried::Denied { by, .. } => format!("denied by {by}"),
        Tried::Asks { by, yours, .. } => format!("asks by {by}, {}", if *yours { "mine" } else { "theirs" }),
        Tried::Ran(result) => {
            let texts = result.parts.iter().map(|part| match part {
                OutputPart::Text(text) => text.chars().take(80).collect(),
                other => format!("{other:?}"),
            });
            let how = if result.error { "failed" } else { "ran" };
            format!("{how} by {}: {}", result.by, texts.collect::<Vec<_>>().join(" "))
        }
    }
}

// rows: SK-A1
#[tokio::test]
async fn a_trial_call_passes_the_gate_of_a_run() {
    let others = quorum_of("user:eve");
    for (rules, auto_run, consent, wanted, runs) in [
        (vec![], AutoRun::Ask, Consent::NotYet, "asks by annotations, mine", 0),
        (vec![], AutoRun::Ask, Consent::Given, "ran by annotations, approved: said a", 1),
        (vec![], AutoRun::Everything, Consent::NotYet, "ran by auto-run: said a", 1),
        (
            vec![rule(Verdict::Allow, Terms::default())],
            AutoRun::Ask,
            Consent::NotYet,
            "ran by said: said a",
            1,
        ),
        (
            vec![rule(Verdict::Deny, Terms::default())],
            AutoRun::Everything,
            Consent::Given,
            "denied by said",
            0,
        ),
        (vec![rule(Verdict::Ask, others)], AutoRun::Everything, Consent::Given, "asks by said, theirs", 0),
    ] {
        let counter = Counter::default();
        let tools = registry([counter.tool("pay", EffectClass::Once)]);
        let engine = builder(tools).rules(rules).auto_run(auto_run).build().await.unwrap();
        let tried = engine.tools().try_tool(trial("pay", "a", consent)).await.unwrap();
        assert_eq!((told(&tried).as_str(), counter.count()), (wanted, runs));
    }
}

/// A tool with a changing preview.
struct Weather(AtomicU64, ToolSpec);

#[async_trait::async_trait]
impl Tool for Weather {
    fn spec(&self) -> &ToolSpec {
        &self.1
    }
    fn traits(&self) -> ToolTraits<'_> {
        ToolTraits { class: Some(EffectClass::Once), previews: true, ..ToolTraits::default() }
    }
    /// The arguments name the server.
    fn server_for(&self, arguments: &Value) -> Option<String> {
        arguments["text"].as_str().map(str::to_owned)
    }
    async fn preview(&self, context: CallContext, arguments: Value) -> Result<String, String> {
        let class = context.class.ok_or("the class of the call is missing")?;
        let before = if arguments["text"] == "long" { "x".repeat(100_000) } else { format!("{class:?} ") };
        Ok(format!("{before}weather {}", self.0.load(Ordering::SeqCst)))
    }
    async fn call(&self, _: CallContext, _: Value) -> ToolOutcome {
        ToolOutcome::text("done")
    }
}

fn weather() -> Arc<Weather> {
    let spec =
        ToolSpec { name: "weather".into(), ..Counter::default().tool("x", EffectClass::Once).spec().clone() };
    Arc::new(Weather(AtomicU64::new(0), spec))
}

#[tokio::test]
async fn what_was_approved_is_what_runs_in_a_trial() {
    let weather = weather();
    let engine = builder(windlass::registry().add(weather.clone()).unwrap()).build().await.unwrap();
    let call =
        async |consent: Consent| engine.tools().try_tool(trial("weather", "a", consent)).await.unwrap();
    let Tried::Asks { preview: Some(preview), .. } = call(Consent::NotYet).await else { panic!() };
    weather.0.fetch_add(1, Ordering::SeqCst);
    let Tried::Asks { preview: Some(now), yours: true, .. } = call(Consent::AsShown(preview)).await else {
        panic!()
    };
    assert_eq!(now, "Once weather 1");
    assert_eq!(told(&call(Consent::AsShown(now)).await), "ran by annotations, approved: done");
}

#[tokio::test]
async fn what_was_approved_is_what_runs_in_a_trial_also_beyond_what_is_shown_of_it() {
    let weather = weather();
    let engine = builder(windlass::registry().add(weather.clone()).unwrap()).build().await.unwrap();
    let call =
        async |consent: Consent| engine.tools().try_tool(trial("weather", "long", consent)).await.unwrap();
    let Tried::Asks { preview: Some(preview), .. } = call(Consent::NotYet).await else { panic!() };
    let (shown, mark) = preview.split_once('\n').unwrap();
    assert_eq!(shown, "x".repeat(64 * 1024));
    assert!(mark.starts_with("[… 34473 bytes more; the digest of the whole is "), "{mark}");
    weather.0.fetch_add(1, Ordering::SeqCst);
    let Tried::Asks { preview: Some(now), yours: true, .. } = call(Consent::AsShown(preview)).await else {
        panic!()
    };
    assert_eq!(told(&call(Consent::AsShown(now)).await), "ran by annotations, approved: done");
}

#[tokio::test]
async fn a_trial_is_judged_by_the_server_that_its_arguments_name() {
    let rules = vec![Rule { servers: vec!["shut".into()], ..Rule::new(Verdict::Deny) }];
    let tools = windlass::registry().add(weather()).unwrap();
    let engine = builder(tools).rules(rules).auto_run(AutoRun::Everything).build().await.unwrap();
    for (server, wanted) in [("shut", "denied by "), ("open", "ran by auto-run: done")] {
        let tried = engine.tools().try_tool(trial("weather", server, Consent::NotYet)).await.unwrap();
        assert!(told(&tried).starts_with(wanted), "{server}: {tried:?}");
        let supposed = Supposed {
            tool: "weather".into(),
            arguments: Some(json!({"text": server})),
            by: trial("weather", server, Consent::NotYet).by,
            rules: None,
        };
        let standing = engine.policy().standing(&supposed).await.unwrap().unwrap();
        assert_eq!(standing.verdict == Verdict::Deny, server == "shut");
    }
}

pub fn quorum_of(who: &str) -> Terms {
    let of = [windlass::machine::Approver::try_from(who.to_owned()).unwrap()].into();
    let quorum = windlass::machine::Quorum { count: 1, of };
    Terms { quorums: [quorum].into(), ..Terms::default() }
}

struct Never;

#[async_trait::async_trait]
impl Hook for Never {
    async fn before_tool(&self, _: HookCall<'_>) -> HookVerdict {
        HookVerdict::Deny { reason: "not here".into() }
    }
}

#[tokio::test]
async fn the_programs_own_check_counts_as_well() {
    let counter = Counter::default();
    let tools = registry([counter.tool("look", EffectClass::Pure)]);
    let engine = builder(tools).hook(Arc::new(Never)).build().await.unwrap();
    let tried = engine.tools().try_tool(trial("look", "a", Consent::Given)).await.unwrap();
    assert_eq!(tried, Tried::Denied { by: "hook".into(), reason: Some("not here".into()) });
    assert_eq!(counter.count(), 0);
}

#[tokio::test]
async fn a_counted_grant_is_used_up_by_trials() {
    let counter = Counter::default();
    let engine = builder(registry([counter.tool("pay", EffectClass::Once)])).build().await.unwrap();
    let draft = GrantDraft {
        user: "ann".into(),
        tool: "pay".into(),
        arguments: Vec::new(),
        count: Some(1),
        expires_at: None,
        by: "ann".into(),
    };
    engine.policy().grant(draft).await.unwrap();
    let first = engine.tools().try_tool(trial("pay", "a", Consent::NotYet)).await.unwrap();
    assert!(told(&first).starts_with("ran by grant "), "{first:?}");
    let second = engine.tools().try_tool(trial("pay", "a", Consent::NotYet)).await.unwrap();
    assert_eq!(told(&second), "asks by annotations, mine");
    // Another user's grant does not apply.
    let by = Party { principal: "bob".into(), ..party("bob") };
    let other = engine.tools().try_tool(Trial { by, ..trial("pay", "a", Consent::NotYet) }).await.unwrap();
    assert_eq!((told(&other).as_str(), counter.count()), ("asks by annotations, mine", 1));
}

#[tokio::test(start_paused = true)]
async fn whatever_a_tool_does_the_call_comes_to_an_end() {
    let read = || windlass::machine::Annotations { read_only_hint: true, ..Default::default() };
    let tools =
        registry(
            [
                FunctionTool::new("hang", "", |_: CallContext, _: Text| std::future::pending::<ToolOutput>()),
                FunctionTool::new("crash", "", |_: CallContext, text: Text| async move {
                    if text.text.is_empty() { ToolOutput::text("") } else { panic!("boom") }
                }),
                FunctionTool::new("later", "", |_: CallContext, _: Text| async move {
                    let rest = windlass::machine::Rest::AsTheCall;
                    ToolOutcome::defer(Deferral { after_ms: 5, state: None, rest })
                }),
                FunctionTool::new("long", "", |_: CallContext, _: Text| async move {
                    ToolOutput::text("x".repeat(1_000_000))
                }),
                FunctionTool::new("talk", "", |context: CallContext, _: Text| async move {
                    for _ in 0..1_000 {
                        context.progress.report("still at it");
                        tokio::time::sleep(std::time::Duration::from_millis(100)).await; // tidy: sleep the engine's clock is manual
                    }
                    ToolOutput::text("done")
                }),
                FunctionTool::new("goes_on", "", |_: CallContext, _: Text| async move {
                    ToolOutput::text("begun")
                })
                .outlives(|arguments| arguments["text"] == "a"),
            ]
            .map(|tool| tool.annotations(read())),
        );
    let tools = tools.add(Arc::new(request_human_approval(None))).unwrap();
    let engine = builder(tools).build().await.unwrap();
    let call = async |tool: &str| engine.tools().try_tool(trial(tool, "a", Consent::NotYet)).await.unwrap();
    let unknown = "failed by annotations: The outcome of the call is unknown: ";
    assert_eq!(told(&call("hang").await), format!("{unknown}it took longer than 2000 ms"));
    assert_eq!(told(&call("crash").await), format!("{unknown}it crashed: boom"));
    assert_eq!(told(&call("talk").await), format!("{unknown}it took longer than 9000 ms in all"));
    assert!(told(&call("later").await).contains("takes a conversation"));
    assert_eq!(
        told(&call("goes_on").await),
        "unfit: it would continue in the background, which requires a conversation"
    );
    let stays = engine.tools().try_tool(trial("goes_on", "b", Consent::NotYet)).await.unwrap();
    assert_eq!(told(&stays), "ran by annotations: begun");
    let Tried::Ran(long) = call("long").await else { panic!() };
    let OutputPart::Text(text) = &long.parts[0] else { panic!() };
    assert!(text.chars().count() <= 100_000, "{}", text.len());
    assert_eq!(told(&call("none").await), "unknown");
    let odd = Trial { arguments: json!({"text": 1}), ..trial("long", "", Consent::Given) };
    assert!(told(&engine.tools().try_tool(odd).await.unwrap()).starts_with("unfit: `/text`"));
    let asks = Trial {
        arguments: json!({"checkpoint": "go", "summary": "Go?"}),
        ..trial("request_human_approval", "", Consent::Given)
    };
    assert_eq!(
        told(&engine.tools().try_tool(asks).await.unwrap()),
        "unfit: the tool asks people, which takes a conversation"
    );
}

/// A tool that waits, and records how the call ended.
struct Waits {
    spec: ToolSpec,
    gone: Arc<Mutex<Vec<String>>>,
}

#[async_trait::async_trait]
impl Tool for Waits {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, _: CallContext, arguments: Value) -> ToolOutcome {
        let state = Some("state".to_owned());
        let ask = |kind| ToolOutcome::ask(Ask { kind, terms: Terms::default(), state: state.clone() });
        let sign_in = |message: Option<&str>| InterruptKind::SignIn {
            server: "far".into(),
            url: "https://far.example/in".into(),
            message: message.map(str::to_owned),
        };
        match arguments["text"].as_str().unwrap() {
            "task" => ToolOutcome::defer(Deferral { after_ms: 5, state, rest: Rest::Repeatable }),
            "sign in" => ask(sign_in(None)),
            "page" => ask(sign_in(Some("Pay here"))),
            _ => ask(InterruptKind::Question(Box::new(Question {
                summary: "Which branch?".into(),
                ..Question::default()
            }))),
        }
    }

    async fn let_go(&self, state: &str) {
        self.gone.lock().unwrap().push(state.to_owned());
    }
}

#[tokio::test]
async fn a_call_that_waits_is_given_up_and_says_for_what_it_waited() {
    let gone = Arc::<Mutex<Vec<String>>>::default();
    let spec = ToolSpec {
        name: "wait".into(),
        description: String::new(),
        input_schema: json!({ "type": "object" }),
        annotations: Annotations { read_only_hint: true, ..Annotations::default() },
        withheld: Vec::new(),
    };
    let tools = windlass::registry().add(Arc::new(Waits { spec, gone: gone.clone() })).unwrap();
    let engine = builder(tools).build().await.unwrap();
    for (nth, (what, wanted)) in [
        ("task", "continues later"),
        ("question", "Which branch?"),
        ("page", "wants a page to be opened first, https://far.example/in: Pay here"),
        ("sign in", "Sign in at the server `far` first, at https://far.example/in"),
    ]
    .into_iter()
    .enumerate()
    {
        let tried = engine.tools().try_tool(trial("wait", what, Consent::NotYet)).await.unwrap();
        let Tried::Ran(result) = tried else { panic!("{tried:?}") };
        let [OutputPart::Text(text)] = &result.parts[..] else { panic!("{result:?}") };
        assert!(result.given_up && result.error && text.contains(wanted), "{text}");
        assert_eq!(*gone.lock().unwrap(), vec!["state"; nth + 1], "the far side is notified");
    }
}

/// Otherwise the call would continue unseen.
#[tokio::test]
async fn a_call_whose_caller_stops_it_is_stopped() {
    let (begun, ended) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let told = (begun.clone(), ended.clone());
    let held = FunctionTool::new("held", "", move |context: CallContext, _: Text| {
        let (begun, ended) = told.clone();
        async move {
            begun.notify_one();
            context.cancel.cancelled().await;
            ended.notify_one();
            ToolOutput::text("half of it")
        }
    });
    let engine =
        builder(registry([held.annotations(Annotations { read_only_hint: true, ..Annotations::default() })]))
            .build()
            .await
            .unwrap();
    let call = Trial { timeout_ms: 600_000, at_most_ms: None, ..trial("held", "a", Consent::Given) };
    let stop = call.stop.clone();
    let (tried, ()) = tokio::join!(engine.tools().try_tool(call), async {
        begun.notified().await;
        stop.cancel();
    });
    ended.notified().await;
    let Tried::Ran(result) = tried.unwrap() else { panic!("it did not run") };
    assert_eq!(result.parts, [OutputPart::Text("half of it".into())]);
}

/// An administrator may have taken over the account to approve in its name.
#[tokio::test]
async fn an_account_that_may_have_been_taken_is_no_named_approver_of_its_own_trial() {
    let of = |count| Terms {
        quorums: [Quorum { count, of: [Approver::Role("ops".into())].into() }].into(),
        ..Terms::default()
    };
    let pay = FunctionTool::new("pay", "", |_: CallContext, _: Text| async { ToolOutput::text("paid") });
    let engine = builder(registry([pay])).rules(vec![rule(Verdict::Ask, of(1))]).build().await.unwrap();
    let by = Party { roles: vec!["ops".into()], ..party("ann") };
    let call = Trial { by, ..trial("pay", "a", Consent::Given) };
    let taken = Trial { counts_as_approver: false, ..call.clone() };
    let tried = engine.tools().try_tool(taken).await.unwrap();
    assert!(matches!(&tried, Tried::Asks { yours: false, .. }), "{tried:?}");
    assert!(matches!(engine.tools().try_tool(call).await.unwrap(), Tried::Ran(_)));
}
