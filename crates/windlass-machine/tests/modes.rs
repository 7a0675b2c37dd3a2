//! Calls that a mode withholds never run, whatever allows them; and a thread continues in its last mode.

use std::sync::Arc;

use windlass_machine::*;

use crate::fixture::{self, as_asked, known_call, reply};

fn take(machine: &mut Machine, input: &Input) -> Vec<Event> {
    machine.handle(input, Timestamp(1_000)).unwrap()
}

/// Starts a run, optionally with an explicit mode.
fn run(machine: &mut Machine, number: u32, mode: Option<Mode>, agent: Agent) {
    let mut new =
        fixture::new_message(&format!("m{number}"), "Do it", &format!("r{number}"), Arc::new(agent));
    (new.options.mode, new.options.surface) = (mode, Surface::Chat);
    take(machine, &Input::Message(Box::new(new)));
}

fn begun(mode: Mode) -> Machine {
    let mut machine = Machine::restore("t".into(), None, []).unwrap();
    run(&mut machine, 1, Some(mode), fixture::agent());
    machine
}

fn ended(machine: &mut Machine) {
    let attempt = machine.state().run.as_ref().unwrap().attempt;
    take(machine, &reply(attempt, vec![Block::text("done")], StopReason::End, View::default()));
}

/// The model requests one call with this view, under a policy that allows everything.
fn asked(machine: &mut Machine, known: KnownCall) -> Vec<Event> {
    let attempt = machine.state().run.as_ref().unwrap().attempt;
    let blocks = vec![fixture::call("c", "Tool", "{}")];
    take(machine, &reply(attempt, blocks, StopReason::ToolCalls, everything(1, known)))
}

fn everything(version: u64, known: KnownCall) -> View {
    let rules = vec![Rule { name: Some("all".into()), ..Rule::new(Verdict::Allow) }];
    let policy = Policy { rules, auto_run: AutoRun::Everything, ..Policy::default() };
    View { version, policy: Arc::new(policy), ..fixture::view(vec![CallView::Known(Box::new(known))]) }
}

fn result(events: &[Event]) -> Option<(Outcome, String)> {
    events.iter().find_map(|event| match &event.fact {
        Fact::ToolFinished { outcome, content, .. } => {
            let message = Message { role: Role::Tool, blocks: content.clone() };
            Some((*outcome, message.plain_text()))
        }
        _ => None, // tidy: the test reads only results
    })
}

fn starts(events: &[Event]) -> bool {
    events.iter().any(|event| matches!(event.fact, Fact::ToolStarted { .. }))
}

// rows: ZE-H12, ZE-E15
#[test]
fn no_rule_lets_a_call_through_that_the_mode_withholds() {
    let classes = [
        EffectClass::Pure,
        EffectClass::Idempotent,
        EffectClass::Keyed,
        EffectClass::Reconcile { wait_ms: 5 },
        EffectClass::Once,
    ];
    let mut ran = Vec::new();
    for mode in Mode::ALL {
        for area in [Area::Work, Area::Memory, Area::People, Area::Machine] {
            for (reads, trust) in [true, false]
                .into_iter()
                .zip([Trust::Trusted, Trust::Untrusted])
                .chain([(true, Trust::Untrusted), (false, Trust::Trusted)])
            {
                for class in classes {
                    let known = KnownCall { area, trust, ..known_call(class, reads, as_asked("{}")) };
                    let events = asked(&mut begun(mode), known);
                    let is_reading = reads
                        && trust == Trust::Trusted
                        && matches!(class, EffectClass::Pure | EffectClass::Idempotent);
                    assert_eq!(starts(&events), mode.has(area, is_reading), "{mode:?} {area:?} {class:?}");
                    if starts(&events) && is_reading {
                        ran.push((mode, area));
                    }
                    assert!(mode == Mode::Agent || is_reading || !starts(&events), "{mode:?} {class:?}");
                }
            }
        }
    }
    ran.dedup();
    assert!(ran.contains(&(Mode::Ask, Area::Work)) && ran.contains(&(Mode::Plan, Area::Memory)), "{ran:?}");
}

#[test]
fn a_withheld_call_names_the_modes_that_allow_it() {
    let writes = || known_call(EffectClass::Once, false, as_asked("{}"));
    let (outcome, text) = result(&asked(&mut begun(Mode::Ask), writes())).unwrap();
    assert_eq!(outcome, Outcome::Refused);
    let told = "Not run: the mode `ask` changes nothing. `Tool` is there for this in the mode `agent`. Do not retry it: say \
        what you would do with it, and that the user can choose that mode for their next message";
    assert_eq!(text, serde_json::json!({ "error": told }).to_string());
    // A call with invalid arguments is withheld as well.
    let broken = KnownCall { arguments: Arguments::Invalid { reason: "`n` is missing".into() }, ..writes() };
    assert_eq!(result(&asked(&mut begun(Mode::Ask), broken)).unwrap().1, text);
    let asks = KnownCall { area: Area::People, ..known_call(EffectClass::Pure, true, as_asked("{}")) };
    let (_, text) = result(&asked(&mut begun(Mode::Ask), asks.clone())).unwrap();
    assert!(
        text.contains("the mode `ask` has no such calls") && text.contains("`agent` or `plan`"),
        "{text}"
    );
    assert!(starts(&asked(&mut begun(Mode::Plan), asks)));
}

#[test]
fn a_call_that_waits_is_withheld_once_it_is_known_to_write() {
    let mut machine = begun(Mode::Plan);
    let reads = known_call(EffectClass::Pure, true, as_asked("{}"));
    let hooked = KnownCall { hook: Some(HookVerdict::Ask { reason: "look".into() }), ..reads.clone() };
    let events = asked(&mut machine, hooked);
    assert!(!starts(&events) && machine.state().run.as_ref().unwrap().is_waiting());
    let interrupt = machine.state().run.as_ref().unwrap().open().next().unwrap().1.interrupt.clone();
    // A person approves the call with other arguments, with which it writes.
    let writes = KnownCall { annotations: Annotations::default(), ..reads };
    let edited = Input::Answered {
        answers: vec![Given { interrupt, answer: Answer::Edit { arguments: "{}".into() }, approval: None }],
        by: fixture::party(),
        grants: Vec::new(),
        note: None,
        view: everything(1, writes.clone()),
    };
    assert!(matches!(machine.handle(&edited, Timestamp(1_000)), Err(Reject::Closed { .. })));
    // The server is no longer trusted.
    let events = take(&mut machine, &Input::Rejudge { view: everything(2, writes) });
    let (outcome, text) = result(&events).unwrap();
    assert!(outcome == Outcome::Denied && text.contains("mode plan"), "{text}");
    assert!(!starts(&events));
}

#[test]
fn a_thread_keeps_its_last_mode() {
    let mut machine = Machine::restore("t".into(), None, []).unwrap();
    let asking = || Agent { mode: Some(Mode::Ask), ..fixture::agent() };
    let mode = |machine: &Machine| machine.state().run.as_ref().unwrap().options.mode();
    let expected = [
        (None, fixture::agent(), Mode::Agent),
        // No mode was chosen: the agent's mode applies and becomes the thread's.
        (None, asking(), Mode::Ask),
        (None, fixture::agent(), Mode::Ask),
        (Some(Mode::Plan), asking(), Mode::Plan),
        (None, asking(), Mode::Plan),
        (Some(Mode::Agent), asking(), Mode::Agent),
        (None, asking(), Mode::Agent),
    ];
    for (number, (chosen, agent, counts)) in expected.into_iter().enumerate() {
        run(&mut machine, number as u32, chosen, agent);
        assert_eq!(mode(&machine), counts, "run {number}");
        ended(&mut machine);
    }
    // A queued run uses the thread's last mode at the time when it starts.
    run(&mut machine, 8, Some(Mode::Plan), fixture::agent());
    run(&mut machine, 9, None, fixture::agent());
    ended(&mut machine);
    assert_eq!(mode(&machine), Mode::Plan);
}

#[test]
fn the_prompt_says_the_mode_after_the_agents_own_words() {
    let prompt = |mode| begun(mode).request().unwrap();
    let agent = prompt(Mode::Agent);
    assert_eq!((agent.mode, agent.system.len()), (Mode::Agent, 1));
    for mode in [Mode::Ask, Mode::Plan] {
        let request = prompt(mode);
        assert_eq!((request.mode, &request.system[0]), (mode, &agent.system[0]));
        let text = request.system[1].inline().unwrap();
        assert!(text.starts_with(&format!("Mode: {}. ", mode.word())), "{text}");
        assert!(request.system[1].tokens() < 100, "{text}");
        assert_ne!(begun(mode).request_fingerprint(), begun(Mode::Agent).request_fingerprint());
    }
}

#[test]
fn a_withheld_tool_keeps_its_name_and_little_else() {
    let schema = serde_json::json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let write = ToolSpec {
        name: "Write".into(),
        description: "Writes a file. ".repeat(20),
        input_schema: schema.clone(),
        annotations: Annotations::default(),
        withheld: vec![Mode::Ask, Mode::Plan],
    };
    assert_eq!(*write.in_mode(Mode::Agent), write);
    let placeholder = write.in_mode(Mode::Ask);
    assert_eq!(
        (placeholder.name.as_str(), placeholder.description.as_str()),
        ("Write", "Withheld in mode ask.")
    );
    assert_eq!(placeholder.input_schema, serde_json::json!({"type": "object"}));
}
