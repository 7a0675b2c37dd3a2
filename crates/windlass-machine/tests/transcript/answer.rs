//! The lines of a transcript that answer interrupts.

use windlass_machine::*;

use super::Stage;
use crate::fixture::as_asked;
use crate::script::{has, option};
use crate::seen::{mark, read};
use crate::told::shown;

impl Stage {
    /// `answer 0 approve , 1 deny "no" as=cy roles=ops,dev in=w2 [gone] [schema] [denied]`
    pub(super) fn answer(&mut self, words: &[String]) -> Input {
        let about = |word: &String| !matches!(word.split_once('='), Some(("as" | "roles" | "in", _)));
        let said: Vec<String> = words[1..].iter().filter(|word| about(word)).cloned().collect();
        let mut view = self.view();
        let answers = said.split(|word| word == ",").map(|words| self.given(words, &mut view)).collect();
        let roles = option(words, "roles").map(|roles| roles.split(',').map(Into::into).collect());
        // Bob is an administrator unless a line says otherwise.
        let by = Party {
            principal: option(words, "as").unwrap_or("bob").into(),
            workspace: option(words, "in").unwrap_or("w").into(),
            roles: roles.unwrap_or_else(|| match option(words, "as") {
                Some(_) => Vec::new(),
                None => vec![ADMIN.into()],
            }),
        };
        Input::Answered { answers, by, grants: Vec::new(), note: None, view }
    }

    /// Parses one answer. Updates the view to what the driver reads for this answer.
    fn given(&self, words: &[String], view: &mut View) -> Given {
        let interrupt = match words[0].as_str() {
            "run" => self.interrupt(None),
            at => at.parse::<u32>().map_or_else(|_| at.into(), |index| self.interrupt(Some(index))),
        };
        let seat = words[0].parse::<usize>().ok().and_then(|index| view.calls.get_mut(index));
        let reason =
            words.get(2).filter(|word| !matches!(word.as_str(), "gone" | "schema" | "denied")).cloned();
        let answer = match words[1].as_str() {
            "approve" => Answer::Approve,
            "edit" => Answer::Edit { arguments: reason.clone().expect("arguments").into() },
            "deny" => Answer::Deny { reason },
            "reply" => Answer::Reply(Box::new(Reply {
                selected: option(words, "selected").map(Into::into),
                text: option(words, "text").map(Into::into),
                values: option(words, "values").map(|values| serde_json::from_str(values).unwrap()),
            })),
            "done" => Answer::Done { result: reason.expect("a result") },
            "retry" => Answer::Retry,
            "fail" => Answer::Fail { reason },
            "raise" => Answer::Raise { to: words[2].parse().unwrap() },
            "stop" => Answer::Stop,
            "withdrawn" => Answer::Withdrawn,
            other => panic!("`{other}` is no answer"),
        };
        if let Some(call) = seat {
            if let (Answer::Edit { arguments }, CallView::Known(known)) = (&answer, &mut *call) {
                known.arguments = match has(words, "invalid") {
                    true => Arguments::Invalid { reason: "`path` is missing".into() },
                    false => as_asked(&shown(arguments)),
                };
                known.value = read(&shown(arguments));
            }
            // After the interrupt and the answer: a `deny` there is the person's answer, not a hook's.
            for word in &words[2..] {
                mark(call, word);
            }
        }
        let approval = match option(words, "seen") {
            Some("right") => self.approval(&interrupt),
            Some(other) => Some(Digest::of(other.as_bytes())),
            None => None,
        };
        Given { interrupt, answer, approval }
    }

    /// Returns the digest that an open approval is bound to.
    fn approval(&self, interrupt: &InterruptId) -> Option<Digest> {
        match self.run()?.asking(interrupt)?.1.kind {
            InterruptKind::Approval { approval, .. } => Some(approval),
            _ => None, // tidy: nothing else is bound
        }
    }

    /// Returns the newest interrupt of a call, or of the run as a whole, open or not.
    fn interrupt(&self, index: Option<u32>) -> InterruptId {
        let found = self.journal.iter().rev().find_map(|event| match &event.fact {
            Fact::InterruptOpened { interrupt, call, .. } if call.map(|call| call.index) == index => {
                Some(interrupt.clone())
            }
            _ => None, // tidy: the others open nothing
        });
        found.unwrap_or_else(|| panic!("{index:?} has no interrupt"))
    }
}
