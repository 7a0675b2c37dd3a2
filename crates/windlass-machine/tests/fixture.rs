//! Fixtures of the tests: an agent, messages, calls, views, and seeded random numbers.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_machine::*;

/// Pseudo-random numbers from a seed. (SplitMix64, S. Vigna)
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.roll() % n
    }
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Seeds the generator with several numbers.
pub fn dice(words: &[u64]) -> Dice {
    let mut dice = Dice(0x5eed);
    for word in words {
        dice.0 ^= *word;
        dice.roll();
    }
    dice
}

pub fn agent() -> Agent {
    Agent {
        name: "tester".into(),
        models: vec!["test/a".into()],
        instructions: vec!["Be brief.".into()],
        tools: None,
        settings: ModelSettings::default(),
        limits: Limits::default(),
        mode: None,
    }
}

pub fn new_message(id: &str, text: &str, run: &str, agent: Arc<Agent>) -> NewMessage {
    NewMessage {
        id: id.into(),
        message: Arc::new(Message::text(Role::User, text)),
        by: "ann".into(),
        workspace: "w".into(),
        folder: None,
        run: run.into(),
        agent,
        options: RunOptions::default(),
        when_busy: WhenBusy::Queue,
        note: None,
    }
}

pub fn call(id: &str, tool: &str, arguments: &str) -> Block {
    Block::ToolCall(ToolCall { id: id.into(), name: tool.into(), asked: arguments.into(), native: None })
}

/// The view of a call. An allowed call has hints that it changes nothing.
pub fn known_call(class: EffectClass, allowed: bool, arguments: Arguments) -> KnownCall {
    KnownCall {
        class,
        annotations: Annotations { read_only_hint: allowed, ..Annotations::default() },
        trust: Trust::Trusted,
        area: Area::Work,
        server: None,
        schema: Digest::of(b"schema"),
        arguments,
        value: None,
        paths: Vec::new(),
        added: Vec::new(),
        previews: false,
        asks: None,
        hook: None,
    }
}

pub fn known(class: EffectClass, allowed: bool, arguments: Arguments) -> CallView {
    CallView::Known(Box::new(known_call(class, allowed, arguments)))
}

/// An independent computation of a call's approval digest.
pub fn approval(tool: &str, known: &KnownCall) -> Digest {
    let arguments = match known.arguments {
        Arguments::AsAsked { digest } | Arguments::Repaired { digest, .. } => digest,
        Arguments::Invalid { .. } => Digest::default(),
    };
    let call = Digest::default().chain(&(tool, &known.server, known.schema, arguments, &known.added));
    if known.paths.is_empty() { call } else { call.chain(&known.paths) }
}

/// Terms that require `count` approvals from these approvers, optionally with an expiry that denies.
pub fn terms(count: u32, of: &[&str], expires_in_ms: Option<u64>) -> Terms {
    Terms { quorums: [Quorum { count, of: approvers(of) }].into(), expires_in_ms, ..Terms::default() }
}

/// Parses the approvers of a rule.
pub fn approvers(names: &[&str]) -> BTreeSet<Approver> {
    names.iter().map(|name| Approver::try_from((*name).to_owned()).unwrap()).collect()
}

/// A rule for the calls of one tool, with a derived name.
pub fn rule(verdict: Verdict, tool: &str, terms: Terms) -> Rule {
    let name = format!("{} {tool}", crate::told::text(&verdict));
    Rule { name: Some(name), tools: vec![tool.into()], terms, ..Rule::new(verdict) }
}

/// A person in the threads' workspace.
pub fn person(name: &str, roles: &[&str]) -> Party {
    let roles = roles.iter().map(|role| (*role).to_owned()).collect();
    Party { principal: name.into(), workspace: "w".into(), roles }
}

/// The people of the tales: ann owns the threads, and eve has no rights.
pub const PEOPLE: &[&str] = &["ann", "bob", "cy", "dee", "eve"];

pub fn roles_of(name: &str) -> &'static [&'static str] {
    match name {
        "bob" => &[ADMIN],
        "cy" => &["ops"],
        "dee" => &["ops", "boss"],
        _ => &[],
    }
}

/// The owner of the threads.
pub fn party() -> Party {
    person("ann", &[])
}

/// An answer to one interrupt by the owner.
pub fn answered(interrupt: &str, answer: Answer, view: View) -> Input {
    let given = Given { interrupt: interrupt.into(), answer, approval: None };
    Input::Answered { answers: vec![given], by: party(), grants: Vec::new(), note: None, view }
}

/// A view with the default policy and these calls.
pub fn view(calls: Vec<CallView>) -> View {
    View { version: 1, calls, ..View::default() }
}

/// Independent check of whether a person may answer an interrupt.
pub fn may_answer(owners: &[&str], by: &str, roles: &[&str], terms: &Terms) -> bool {
    owners.contains(&by) || roles.contains(&ADMIN) || terms.quorums.iter().any(|one| is_named(one, by, roles))
}

/// Independent check of whether the approval of a permitted person counts.
pub fn may_approve(by: &str, roles: &[&str], terms: &Terms) -> bool {
    terms.quorums.iter().any(|quorum| quorum.of.is_empty() || is_named(quorum, by, roles))
}

fn is_named(quorum: &Quorum, by: &str, roles: &[&str]) -> bool {
    let names: Vec<String> = quorum.of.iter().map(Approver::to_string).collect();
    names.contains(&format!("user:{by}")) || roles.iter().any(|role| names.contains(&format!("role:{role}")))
}

/// Independent check of whether these approvals suffice. The voters are all different.
pub fn are_enough(votes: &[&str], terms: &Terms) -> bool {
    terms.quorums.iter().all(|quorum| {
        let one = Terms { quorums: [quorum.clone()].into(), ..Terms::default() };
        let fitting = votes.iter().filter(|who| may_approve(who, roles_of(who), &one));
        fitting.count() >= quorum.count as usize
    })
}

pub fn as_asked(arguments: &str) -> Arguments {
    Arguments::AsAsked { digest: Digest::of(arguments.as_bytes()) }
}

pub fn reply(attempt: Attempt, blocks: Vec<Block>, stop: StopReason, view: View) -> Input {
    Input::ModelReplied(Box::new(ModelReplied {
        attempt,
        blocks,
        stop,
        usage: Usage { input: Some(10), output: Some(2), ..Usage::default() },
        cost: Some(MicroUsd(5)),
        request: Fingerprint::default(),
        ttft_ms: (attempt.step > 1).then_some(u64::from(attempt.step)),
        duration_ms: 7,
        thoughts_ms: Vec::new(),
        view,
    }))
}

/// A short successful result.
pub fn returned(call: CallKey) -> Input {
    let content = vec![Block::text("one")];
    Input::ToolReturned {
        call,
        content,
        error: false,
        unavailable: false,
        duration_ms: 1,
        kept: None,
        offloaded: None,
    }
}
pub fn failure(attempt: Attempt, class: FailureClass) -> ModelFailed {
    ModelFailed { attempt, class, message: "it broke".into(), retry_after_ms: None, partial: None }
}

/// The cost of a generated title.
pub fn title_made() -> TitleMade {
    let usage = Usage { input: Some(90), output: Some(9), ..Usage::default() };
    TitleMade { model: "test/a".into(), usage, cost: Some(MicroUsd(3)) }
}

/// A file that is about to be deleted.
pub fn file_change() -> Box<FileChange> {
    let (digest, media_type) = (Digest::of(b"old"), "application/octet-stream".into());
    let blob = BlobRef { digest, media_type, size_bytes: 3, tokens: 1 };
    let before = FileImage::Kept { blob, mode: 0o644 };
    Box::new(FileChange { path: "a.txt".into(), before, after: FileImage::Missing })
}
