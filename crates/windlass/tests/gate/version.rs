//! The policy changes in the middle of a round: each call counts as judged by the policy that judged it.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use windlass::machine::{
    Answer, AtLimit, EffectClass, Glob, HookVerdict, Limits, Policy, Rule, RunOptions, Verdict,
};
use windlass::port::hook::{Hook, HookCall};
use windlass::{AgentConfig, Engine, Task};

use super::{asking, facts, given, open, plan, put_down, store, task_in};
use crate::drive::{Counter, party, registry};

fn rule(verdict: Verdict, tool: &str) -> Rule {
    Rule { name: Some(format!("{verdict:?} {tool}")), tools: vec![Glob::new(tool)], ..Rule::new(verdict) }
}

fn policy(pay: Verdict) -> Policy {
    Policy { rules: vec![rule(Verdict::Ask, "erase"), rule(pay, "pay")], ..Policy::default() }
}

/// Forbids to pay as soon as it is asked about a call the second time.
#[derive(Default)]
struct Forbids {
    engine: OnceLock<Engine>,
}

#[async_trait]
impl Hook for Forbids {
    async fn before_tool(&self, call: HookCall<'_>) -> HookVerdict {
        if let (Some(engine), "erase") = (self.engine.get(), call.tool.as_str()) {
            engine.set_policy(policy(Verdict::Deny));
        }
        HookVerdict::Allow
    }
}

/// Two answers are taken in one round, and the policy changes between them.
#[tokio::test]
async fn a_rule_that_comes_in_the_middle_of_a_round_counts_for_the_calls_that_the_round_left_alone() {
    let (paid, hook) = (Counter::default(), Arc::new(Forbids::default()));
    let other = Counter::default();
    let tools = registry([
        other.tool("erase", EffectClass::Once),
        other.tool("mail", EffectClass::Once),
        paid.tool("pay", EffectClass::Once),
    ]);
    let models = plan(&[&[("erase", "a"), ("mail", "b"), ("pay", "c")]]);
    let engine = asking(&store(), &models, tools).hook(hook.clone()).build().await.unwrap();
    engine.set_policy(policy(Verdict::Allow));
    let limits = Limits { max_calls: [("mail".into(), 0)].into(), ..Limits::default() };
    let agent = AgentConfig { limits, ..AgentConfig::from("test/scripted") };
    let options = RunOptions { at_limit: Some(AtLimit::Ask), ..RunOptions::default() };
    let waits = engine.run(Task { agent, options, ..task_in("t", "go") }).await.unwrap();
    let [erase, mail] = &*open(&waits) else { panic!("{waits:?}") };
    put_down(&engine, &"t".into()).await;
    assert!(hook.engine.set(engine.clone()).is_ok());
    for (interrupt, answer) in [(erase, Answer::Approve), (mail, Answer::Raise { to: 1 })] {
        engine.leave_answers(&"t".into(), vec![given(interrupt, answer)], party("ann")).await.unwrap();
    }
    engine.resume(&waits.run_id).await.unwrap();
    // Whether mailing is asked about or not, nothing is paid.
    let mut outcome = engine.wait(&waits.run_id).await.unwrap();
    while !outcome.meta.interrupts.is_empty() {
        let asked = outcome.meta.interrupts[0].interrupt.clone();
        engine.answer(&"t".into(), &asked, Answer::Approve, party("ann")).await.unwrap();
        outcome = engine.wait(&waits.run_id).await.unwrap();
    }
    assert_eq!(paid.count(), 0, "{:#?}", facts(&engine, &"t".into()).await);
    assert!(outcome.data.as_ref().unwrap().contains("denied by policy (`Deny pay`)"), "{outcome:?}");
}
