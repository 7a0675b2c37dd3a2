//! Paths of file tools: a rule judges the file that a path leads to, and an approval covers that file. The tool opens
//! exactly that file, even if links change meanwhile.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tempfile::TempDir;
use windlass::machine::{
    Annotations, Answer, Block, CallKey, Condition, EffectClass, Fact, Predicate, Reject, Rule, ThreadId,
    Verdict,
};
use windlass::port::tool::{CallContext, ToolOutput};
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::tool::builtin::file_tools;
use windlass::tool::{FunctionTool, WorkingFolder};
use windlass::{Consent, Engine, EngineError, Outcome, Status, Trial, Tried};

use super::{asking, facts, open, store, task_in};
use crate::drive::{Text, party};
use crate::tools::reader;

/// A folder with the directories `yes`, `no` and `mid`; each file contains its own path.
pub(super) struct Desk {
    pub root: TempDir,
}

impl Desk {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for directory in ["yes/sub", "no/sub", "mid/sub"] {
            fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        for file in ["a", "yes/a", "no/a", "mid/a", "yes/sub/a", "no/sub/a", "mid/sub/a"] {
            fs::write(root.path().join(file), format!("here: {file}\n")).unwrap();
        }
        Self { root }
    }

    /// Creates a link, replacing an existing file.
    fn link(&self, at: &str, to: impl AsRef<Path>) {
        let at = self.root.path().join(at);
        let _ = fs::remove_file(&at);
        symlink(to, at).unwrap();
    }

    pub fn folder(&self) -> Arc<WorkingFolder> {
        Arc::new(WorkingFolder::open(self.root.path()).unwrap())
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root.path().join(path)).unwrap_or_else(|_| "none".into())
    }

    /// Files without links, by their paths.
    fn files(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let mut pending = vec![self.root.path().to_owned()];
        while let Some(directory) = pending.pop() {
            for entry in fs::read_dir(directory).unwrap().filter_map(Result::ok) {
                let (path, kind) = (entry.path(), entry.file_type());
                match kind {
                    Ok(kind) if kind.is_dir() => pending.push(path),
                    Ok(kind) if kind.is_file() => {
                        let text = fs::read_to_string(&path).unwrap_or_default();
                        found.insert(path.strip_prefix(self.root.path()).unwrap().to_owned(), text);
                    }
                    Ok(_) | Err(_) => {}
                }
            }
        }
        found
    }
}

/// A rule about the files below a directory.
fn rule(verdict: Verdict, tools: &[&str], under: &str) -> Rule {
    let when = vec![Condition { argument: "/file_path".into(), is: Predicate::Under(under.into()) }];
    let tools = tools.iter().map(|tool| (*tool).into()).collect();
    Rule { name: Some(under.into()), tools, when, ..Rule::new(verdict) }
}

/// Denies everything below `no`, and allows writing below `yes`.
fn rules() -> Vec<Rule> {
    vec![
        rule(Verdict::Deny, &["Read", "Write", "Edit"], "no"),
        rule(Verdict::Allow, &["Write", "Edit"], "yes"),
    ]
}

fn write(path: &str, content: &str) -> (String, String) {
    ("Write".into(), json!({ "file_path": path, "content": content }).to_string())
}

/// A model that makes these calls in one step.
fn calls(calls: Vec<(String, String)>) -> ScriptedModels {
    ScriptedModels::new(move |call| match results(call) {
        0 => Line::Call(String::new(), calls.clone()),
        _ => Line::Say("done".into()),
    })
}

/// An engine whose model makes these calls in one step, in a folder.
async fn engine(desk: &Desk, made: Vec<(String, String)>, more: Vec<FunctionTool>) -> Engine {
    let tools = windlass::registry().add_all(file_tools(&reader())).unwrap();
    let tools = more.into_iter().fold(tools, |tools, tool| tools.add(Arc::new(tool)).unwrap());
    asking(&store(), &calls(made), tools).rules(rules()).folder(desk.folder()).build().await.unwrap()
}

/// The first decision about each call, and the text of its result.
async fn told(engine: &Engine, thread: &ThreadId) -> BTreeMap<CallKey, (Verdict, String, String)> {
    let mut told = BTreeMap::new();
    for fact in facts(engine, thread).await {
        match fact {
            Fact::CallJudged { call, verdict, rule, .. } => {
                told.insert(call, (verdict, rule, String::new()));
            }
            Fact::ToolFinished { call, content, .. } => {
                let texts = content.iter().filter_map(|block| match block {
                    Block::Text { text, .. } => text.inline(),
                    _ => None, // tidy: file tools answer in text here
                });
                if let Some((_, _, result)) = told.get_mut(&call) {
                    *result = texts.collect();
                }
            }
            _ => {} // tidy: no other events hold verdicts or results
        }
    }
    told
}

async fn run(engine: &Engine) -> Outcome {
    engine.run_task(task_in("t", "go")).await.unwrap()
}

#[tokio::test]
async fn a_rule_judges_the_file_that_a_link_leads_to() {
    let desk = Desk::new();
    for (link, to) in
        [("yes/denied", "../no"), ("yes/asked", "../mid"), ("mid/out", "../yes"), ("mid/l", "sub")]
    {
        desk.link(link, to);
    }
    let cases = [
        ("yes/new", "Allow by yes"),
        ("yes/denied/new", "Deny by no"),
        ("yes/asked/new", "Ask by annotations"),
        ("mid/out/new", "Ask by annotations"),
        // By its text it is `yes/new`; the tool opens `mid/new`.
        ("yes/asked/sub/../new", "Ask by annotations"),
        ("mid/l/../../no/a", "Deny by no"),
        ("~x/../no/a", "Deny by no"),
    ];
    for (path, wanted) in cases {
        let engine = engine(&desk, vec![write(path, "x")], vec![]).await;
        let outcome = run(&engine).await;
        let judged = told(&engine, &"t".into()).await.into_values().next().unwrap();
        assert_eq!(format!("{:?} by {}", judged.0, judged.1), wanted, "{path}: {outcome:?}");
        let written = desk.files().into_iter().filter(|(_, text)| text == "x").map(|(path, _)| path);
        let free: &[&str] = if judged.0 == Verdict::Allow { &["yes/new"] } else { &[] };
        assert_eq!(written.collect::<Vec<_>>(), free.iter().map(PathBuf::from).collect::<Vec<_>>());
        let _ = fs::remove_file(desk.root.path().join("yes/new"));
    }
    // An absolute path is judged like the relative one.
    let root = desk.root.path().to_str().unwrap().to_owned();
    for (path, wanted) in [("yes/b", Verdict::Allow), ("no/a", Verdict::Deny), ("mid/a", Verdict::Ask)] {
        let engine = engine(&desk, vec![write(&format!("{root}/{path}"), "x")], vec![]).await;
        run(&engine).await;
        assert_eq!(told(&engine, &"t".into()).await.into_values().next().unwrap().0, wanted, "{path}");
    }
}

#[tokio::test]
async fn a_trial_call_writes_where_the_gate_looked() {
    let desk = Desk::new();
    desk.link("yes/denied", "../no");
    desk.link("yes/asked", "../mid");
    let engine = engine(&desk, vec![], vec![]).await;
    for (path, wanted) in [("yes/new", "ran"), ("yes/denied/new", "denied"), ("yes/asked/new", "asks")] {
        let trial = Trial {
            tool: "Write".into(),
            arguments: json!({ "file_path": path, "content": "x" }),
            by: party("ann"),
            folder: Some(desk.folder()),
            consent: Consent::NotYet,
            timeout_ms: 2_000,
            at_most_ms: None,
            stop: Default::default(),
            counts_as_approver: true,
        };
        let became = match engine.tools().try_tool(trial).await.unwrap() {
            Tried::Ran(result) if !result.error => "ran",
            Tried::Denied { .. } => "denied",
            Tried::Asks { .. } => "asks",
            other => panic!("{other:?}"),
        };
        assert_eq!(became, wanted, "{path}");
    }
    assert_eq!(["yes/new", "no/new", "mid/new"].map(|path| desk.text(path)), ["x", "none", "none"]);
}

#[tokio::test]
async fn an_approval_is_for_the_file_that_people_were_asked_about() {
    let desk = Desk::new();
    desk.link("mid/l", "sub");
    let engine = engine(&desk, vec![write("mid/l/a", "x")], vec![]).await;
    let paused = run(&engine).await;
    let asked = open(&paused).remove(0);
    desk.link("mid/l", "../yes");
    let answered = engine.thread(&"t".into()).answer(&asked, Answer::Approve, party("ann")).await;
    assert!(
        matches!(answered, Err(EngineError::Rejected(Reject::Closed { .. } | Reject::Stale { .. }))),
        "{answered:?}"
    );
    assert_eq!(["mid/sub/a", "yes/a"].map(|path| desk.text(path)), ["here: mid/sub/a\n", "here: yes/a\n"]);
    let recorded = facts(&engine, &"t".into()).await;
    assert!(!recorded.iter().any(|fact| matches!(fact, Fact::ToolStarted { .. })), "{recorded:?}");
    let again = open(&engine.run(&paused.run).wait().await.unwrap()).remove(0);
    assert_ne!(again, asked);
    engine.thread(&"t".into()).answer(&again, Answer::Approve, party("ann")).await.unwrap();
    assert_eq!(engine.run(&paused.run).wait().await.unwrap().status, Status::Done);
    assert_eq!(["mid/sub/a", "yes/a"].map(|path| desk.text(path)), ["here: mid/sub/a\n", "x"]);
}

/// A tool that changes a link and runs without approval.
fn turns(desk: &Desk, at: &'static str, to: &'static str) -> FunctionTool {
    let root = desk.root.path().to_owned();
    let turn = move |_: CallContext, _: Text| {
        let at = root.join(at);
        let _ = fs::remove_file(&at);
        symlink(to, at).unwrap();
        async { ToolOutput::text("turned") }
    };
    FunctionTool::new("turn", "turns a link", turn)
        .annotations(Annotations { read_only_hint: true, ..Annotations::default() })
        .effect_class(EffectClass::Once)
}

#[tokio::test]
async fn a_link_that_an_earlier_call_of_the_step_has_changed_is_judged_again() {
    for (to, wanted) in [("../no", "Deny by no"), ("../mid", "Ask by annotations"), ("sub", "Allow by yes")] {
        let desk = Desk::new();
        desk.link("yes/l", ".");
        let turn = ("turn".to_owned(), r#"{"text":""}"#.to_owned());
        let engine = engine(&desk, vec![turn, write("yes/l/a", "x")], vec![turns(&desk, "yes/l", to)]).await;
        run(&engine).await;
        let (verdict, by, _) = told(&engine, &"t".into()).await.into_values().last().unwrap();
        assert_eq!(format!("{verdict:?} by {by}"), wanted);
        // Before its start, not only by the last check before dispatch.
        let facts = facts(&engine, &"t".into()).await;
        assert!(!facts.iter().any(|fact| matches!(fact, Fact::ToolUndispatched { .. })), "{facts:#?}");
        let written: Vec<_> = desk.files().into_iter().filter(|(_, text)| text == "x").collect();
        let free =
            if verdict == Verdict::Allow { vec![("yes/sub/a".into(), "x".to_owned())] } else { vec![] };
        assert_eq!(written, free, "{to}");
    }
}

/// A link changes after the call has begun: its folder opens nothing else.
#[tokio::test]
async fn a_call_opens_what_it_was_judged_for() {
    let desk = Desk::new();
    desk.link("yes/l", "sub");
    let root = desk.root.path().to_owned();
    let late = move |context: CallContext, text: Text| {
        let (root, folder) = (root.clone(), context.folder.unwrap());
        async move {
            let before = folder.resolve(&text.text).map(|path| path.as_path().to_owned());
            fs::remove_file(root.join("yes/l")).unwrap();
            symlink("../no", root.join("yes/l")).unwrap();
            let after = folder.resolve(&text.text).map(|path| path.as_path().to_owned());
            ToolOutput::text(format!("{before:?} {}", after.unwrap_err()))
        }
    };
    let late = FunctionTool::new("late", "resolves its path twice", late)
        .path_argument("/text")
        .annotations(Annotations { read_only_hint: true, ..Annotations::default() });
    let engine = engine(&desk, vec![("late".into(), r#"{"text":"yes/l/a"}"#.into())], vec![late]).await;
    assert_eq!(run(&engine).await.status, Status::Done);
    let (_, _, said) = told(&engine, &"t".into()).await.into_values().next().unwrap();
    let wanted = "Ok(\"yes/sub/a\") `yes/l/a` resolves to another file than when the call was approved; nothing was changed; call the tool again";
    assert_eq!(said, wanted);
}

/// Random choices (SplitMix64).
pub(super) struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % count as u64) as usize
    }

    pub fn one<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

/// Names of links, and their possible targets.
const LINKS: [&str; 4] = ["yes/l", "no/l", "mid/l", "l"];
const TARGETS: [&str; 9] = ["..", ".", "sub", "../no", "../yes", "../mid", "no", "yes/sub", "ROOT/no"];

pub(super) fn turn(root: &Path, dice: &mut Dice) {
    let (at, to) = (root.join(dice.one(&LINKS)), dice.one(&TARGETS));
    let to = to.replace("ROOT", root.to_str().unwrap());
    let _ = fs::remove_file(&at);
    let _ = symlink(to, at);
}

/// A path that attempts to reach a forbidden place.
pub(super) fn any_path(root: &Path, dice: &mut Dice) -> String {
    let names = ["yes", "no", "mid", "sub", "l", "l", "..", ".", "", "No", "\u{e9}", "e\u{301}", "~"];
    let mut parts: Vec<String> = (0..1 + dice.below(5)).map(|_| dice.one(&names).to_owned()).collect();
    if dice.below(12) == 0 {
        parts.insert(dice.below(parts.len()), "x".repeat(260));
    }
    parts.push(dice.one(&["a", "a", "b", "no", ""]).to_owned());
    match dice.below(8) {
        0 => format!("{}/{}", root.display(), parts.join("/")),
        1 => format!("./{}", parts.join("//")),
        2 => format!("~/../{}", parts.join("/")),
        _ => parts.join("/"),
    }
}

/// A call of a file tool that writes `token`.
fn any_call(root: &Path, dice: &mut Dice, token: &str) -> (String, String, String) {
    let path = any_path(root, dice);
    let token =
        if dice.below(40) == 0 { format!("{token}{}", " ".repeat(1_100_000)) } else { token.to_owned() };
    let (tool, mut arguments) = match dice.below(5) {
        0 | 1 => ("Read", json!({ "file_path": path })),
        2 => ("Edit", json!({ "file_path": path, "old_string": "here", "new_string": token })),
        _ => ("Write", json!({ "file_path": path, "content": token })),
    };
    if dice.below(16) == 0 {
        arguments["path"] = json!("yes/a");
    }
    let mut text = arguments.to_string();
    if dice.below(16) == 0 {
        // The name twice: both sides must read the same one.
        text = text.replacen('{', r#"{"file_path":"yes/b","#, 1);
    }
    (tool.to_owned(), path, text)
}

/// A path by its text alone, relative to the folder; `None` if it leaves it.
pub(super) fn lexical(root: &Path, path: &str) -> Option<PathBuf> {
    let path = Path::new(path);
    let path = if path.is_absolute() { path.strip_prefix(root).ok()? } else { path };
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if !parts.pop() => return None,
            Component::Normal(name) => parts.push(name),
            Component::ParentDir | Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts)
}

/// Where the system resolves a path, relative to the folder, by its longest existing part.
pub(super) fn real(root: &Path, path: &str) -> Option<PathBuf> {
    let given = Path::new(path);
    let given = if given.is_absolute() { given.strip_prefix(root).ok()? } else { given };
    let mut at = root.to_owned();
    for part in given.components() {
        at.push(part);
        at = match at.canonicalize() {
            Ok(known) => known,
            Err(_) if part == Component::ParentDir => at.parent()?.parent()?.to_owned(),
            Err(_) => at,
        };
    }
    at.strip_prefix(root).ok().map(Path::to_owned)
}

/// The expected verdict on a call that the tool can carry out.
fn wanted(root: &Path, tool: &str, path: &str) -> Option<Verdict> {
    let (lexical, real) = (lexical(root, path)?, real(root, path)?);
    let both = |folder: &str| (lexical.starts_with(folder), real.starts_with(folder));
    Some(match (both("no"), both("yes")) {
        ((true, _) | (_, true), _) => Verdict::Deny,
        _ if tool == "Read" => Verdict::Allow,
        (_, (true, true)) => Verdict::Allow,
        _ => Verdict::Ask,
    })
}

/// Makes random calls, with links that change at random moments if `turning`, and compares.
async fn compare(seed: u64, turning: bool) -> BTreeMap<&'static str, u32> {
    let desk = Desk::new();
    let root = desk.root.path().canonicalize().unwrap();
    let mut dice = Dice(seed);
    (0..6).for_each(|_| turn(&root, &mut dice));
    let made: Vec<_> = (0..6).map(|nth| any_call(&root, &mut dice, &format!("token {nth}."))).collect();
    let folder = desk.folder();
    // A path that the folder rejects cannot touch a file.
    let can_touch = |path: &str| folder.resolve(path).is_ok();
    let verdicts: Vec<_> =
        made.iter().map(|(tool, path, _)| wanted(&root, tool, path).filter(|_| can_touch(path))).collect();
    let asked = made.iter().map(|(tool, _, text)| (tool.clone(), text.clone())).collect();
    let engine = engine(&desk, asked, vec![]).await;
    let stop = Arc::new(AtomicBool::new(!turning));
    let (ends, at, mut other) = (stop.clone(), root.clone(), Dice(!seed));
    let turner = std::thread::spawn(move || {
        while !ends.load(Ordering::Relaxed) {
            turn(&at, &mut other);
        }
    });
    let mut outcome = run(&engine).await;
    stop.store(true, Ordering::Relaxed);
    turner.join().unwrap();
    while outcome.status == Status::Paused {
        for asked in open(&outcome) {
            // A changed link may have closed this interrupt and opened another.
            let _ =
                engine.thread(&"t".into()).answer(&asked, Answer::Deny { reason: None }, party("ann")).await;
        }
        outcome = engine.run(&outcome.run).wait().await.unwrap();
    }
    let told = told(&engine, &"t".into()).await;
    let files = desk.files();
    let mut seen = BTreeMap::new();
    let mut count = |what| *seen.entry(what).or_insert(0) += 1;
    for (path, text) in files.iter().filter(|(path, _)| path.starts_with("no")) {
        assert_eq!(*text, format!("here: {}\n", path.display()), "seed {seed}: {made:?}");
    }
    for (nth, (tool, path, text)) in made.iter().enumerate() {
        let key = CallKey { step: 1, index: nth as u32 };
        let Some((verdict, by, result)) = told.get(&key) else {
            count("refused");
            continue;
        };
        let context = format!("seed {seed}: {tool} {path:?} was {verdict:?} by {by}: {result:.200}");
        assert!(!result.contains("here: no/"), "{context}");
        let token = format!("token {nth}.");
        let written: Vec<_> = files.iter().filter(|(_, text)| text.contains(&token)).collect();
        assert!(written.iter().all(|(path, _)| path.starts_with("yes")), "{context}: {written:?}");
        let is_plain = !text.contains(r#""file_path":"yes/b""#);
        if let (false, true, Some(wanted)) = (turning, is_plain, verdicts[nth]) {
            // An earlier call may have created a directory; links stay.
            assert_eq!(*verdict, wanted, "{context}");
        }
        count(match (verdict, written.is_empty()) {
            (Verdict::Allow, true) => "allowed",
            (Verdict::Allow, false) => "written",
            (Verdict::Ask, _) => "asked",
            (Verdict::Deny, _) => "denied",
        });
    }
    seen
}

#[tokio::test]
async fn the_verdict_is_about_the_file_that_is_touched() {
    let mut all: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in 0..200 {
        for (what, count) in compare(seed, seed % 4 == 3).await {
            *all.entry(what).or_default() += count;
        }
    }
    let kinds: Vec<&str> = all.keys().copied().collect();
    assert_eq!(kinds, ["allowed", "asked", "denied", "refused", "written"], "{all:?}");
    assert!(all.values().all(|count| *count >= 10), "{all:?}");
}
