//! The revision of a call that a client was asked about. Binds an answer to that revision.
//!
//! Dialects identify an approval by its call. A second approval of a call may be requested after an edit or a change of
//! its tool. The outward id then ends in the approval digest, and an answer with an older id is rejected.

use windlass::machine::{
    Answer, Asked, Call, CallKey, CallStatus, Digest, Fact, Given, InterruptKind, Phase, Run,
};
use windlass_server::http::problem::Problem;

use super::call::{Call as OutwardCall, named};

/// Separator between the call's id and the digest.
const MARK: &str = "-v";
/// Number of hexadecimal digits of the digest in an id: 128 bits, so that collisions are infeasible.
const DIGITS: usize = 32;

/// The approval digests that determine a call's outward id.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Revision {
    /// The digest at the first verdict.
    first: Option<Digest>,
    /// The current digest.
    current: Digest,
    /// The digest of the most recent approval request.
    asked: Option<Digest>,
}

impl Revision {
    /// Returns the revision of a call of the current step.
    pub fn of(call: &Call) -> Self {
        Self { first: call.first_approval, current: call.approval, asked: call.asked_approval }
    }

    /// Applies an event about the call.
    pub fn apply(&mut self, fact: &Fact) {
        match fact {
            Fact::CallJudged { approval, .. } => {
                self.first.get_or_insert(*approval);
                self.current = *approval;
            }
            Fact::CallEdited { approval, .. } => self.current = *approval,
            Fact::InterruptOpened {
                kind: InterruptKind::Approval { .. } | InterruptKind::Hook { .. },
                ..
            } => {
                self.asked = Some(self.current);
            }
            _ => {} // tidy: the other kinds change no approval digest
        }
    }

    /// Returns the outward id of the call. The first revision uses the plain id, which clients know before any verdict.
    pub fn id(&self, plain: &str) -> String {
        match self.asked.filter(|asked| self.first != Some(*asked)) {
            Some(asked) => format!("{plain}{MARK}{}", &asked.to_string()[..DIGITS]),
            None => plain.to_owned(),
        }
    }

    /// Splits an id into the plain id and the digest's digits.
    pub fn split(id: &str) -> (&str, Option<&str>) {
        let is_digest =
            |text: &str| text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match id.rsplit_once(MARK).filter(|(_, digest)| is_digest(digest)) {
            Some((plain, digest)) => (plain, Some(digest)),
            None => (id, None),
        }
    }
}

/// The interrupt that an outward call id refers to.
#[derive(Debug)]
pub struct Target<'a> {
    /// The open interrupt.
    pub asked: &'a Asked,
    /// The waiting call.
    pub call: &'a Call,
}

impl<'a> Target<'a> {
    /// Finds the open interrupt of a call. Rejects the id of any revision except the one that waits for approval.
    pub fn find(run: Option<&'a Run>, id: &str) -> Result<Self, Problem> {
        let shown = windlass_server::text::first_line(id, 160);
        let closed = || Problem::conflict("closed", format!("call `{shown}` is not waiting for an answer"));
        let (of, key) = named(id).ok_or_else(|| Problem::not_found(format!("call `{shown}`")))?;
        let run = run.filter(|run| run.id == of && run.attempt.step == key.step).ok_or_else(closed)?;
        let Phase::Calls(line) = &run.phase else { return Err(closed()) };
        let call = line.calls.get(key.index as usize).ok_or_else(closed)?;
        let CallStatus::Asking(asked) = &call.status else { return Err(closed()) };
        if is_about_consent(&asked.kind) && outward_id(run, key, call) != id {
            let detail = format!("call `{shown}` has changed since it was shown; the answer was not applied");
            return Err(Problem::conflict("stale", detail).hint("read the conversation again, then decide"));
        }
        Ok(Self { asked, call })
    }

    /// Binds an answer to the revision of the call that the client was asked about.
    pub fn given(&self, answer: Answer) -> Given {
        Given { interrupt: self.asked.interrupt.clone(), answer, approval: digest_of(&self.asked.kind) }
    }
}

fn outward_id(run: &Run, key: CallKey, call: &Call) -> String {
    OutwardCall::of_state(&run.id, key, call).id
}

fn is_about_consent(kind: &InterruptKind) -> bool {
    match kind {
        InterruptKind::Approval { .. } | InterruptKind::Hook { .. } => true,
        InterruptKind::Question(_)
        | InterruptKind::SignIn { .. }
        | InterruptKind::Handoff { .. }
        | InterruptKind::InDoubt { .. }
        | InterruptKind::Limit(_) => false,
    }
}

/// Returns the digest to which an approval of this interrupt is bound.
pub fn digest_of(kind: &InterruptKind) -> Option<Digest> {
    match kind {
        InterruptKind::Approval { approval, .. } => Some(*approval),
        InterruptKind::Hook { .. }
        | InterruptKind::Question(_)
        | InterruptKind::SignIn { .. }
        | InterruptKind::Handoff { .. }
        | InterruptKind::InDoubt { .. }
        | InterruptKind::Limit(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use windlass::machine::{EffectClass, Terms, Verdict};

    use super::*;

    fn judged(approval: Digest) -> Fact {
        Fact::CallJudged {
            call: CallKey { step: 1, index: 0 },
            verdict: Verdict::Ask,
            rule: "r".into(),
            class: EffectClass::Once,
            arguments: None,
            view: 1,
            approval,
            previews: false,
        }
    }

    fn opened(approval: Digest) -> Fact {
        Fact::InterruptOpened {
            interrupt: "run_1.1.0.0".into(),
            kind: InterruptKind::Approval { tool: "Write".into(), approval, preview: None },
            call: Some(CallKey { step: 1, index: 0 }),
            terms: Terms::default(),
        }
    }

    #[test]
    fn an_id_changes_when_people_are_asked_about_another_revision() {
        let (first, second) = (Digest::of(b"a"), Digest::of(b"b"));
        let mut revision = Revision::default();
        assert_eq!(revision.id("run_1-1-0"), "run_1-1-0");
        revision.apply(&judged(first));
        revision.apply(&opened(first));
        assert_eq!(revision.id("run_1-1-0"), "run_1-1-0");
        revision.apply(&Fact::CallEdited {
            call: CallKey { step: 1, index: 0 },
            arguments: "{}".into(),
            approval: second,
            by: "ann".into(),
        });
        assert_eq!(
            revision.id("run_1-1-0"),
            "run_1-1-0",
            "the question about the old one is still to be closed"
        );
        revision.apply(&opened(second));
        let id = revision.id("run_1-1-0");
        assert_eq!(Revision::split(&id), ("run_1-1-0", Some(&second.to_string()[..DIGITS])));
        assert_eq!(named(&id), named("run_1-1-0"));
        revision.apply(&judged(first));
        revision.apply(&opened(first));
        assert_eq!(revision.id("run_1-1-0"), "run_1-1-0");
    }

    #[test]
    fn an_id_without_a_digest_is_whole() {
        for id in
            ["run_1-1-0", "run-v1-1-0", "", "run_1-1-0-v12", "run_1-1-0-vzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"]
        {
            assert_eq!(Revision::split(id), (id, None));
        }
    }
}
