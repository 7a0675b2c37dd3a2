//! Prompts for several interrupts: a numbered list, and one answer for all calls.

use windlass::machine::Answer;
use windlass_server::text::{first_line, shown};

use super::{Asking, ECHO_CHARS, Extent, Item, Reply, Stage};
use crate::console::Console;
use crate::view::preview::plural;

impl Asking {
    pub(super) fn show_all(&self, console: &Console, extent: Extent) {
        for (index, item) in self.items.iter().enumerate() {
            item.show(console, extent.lines(self.items.len()), Some(index + 1));
        }
    }

    /// Returns the number of calls that this user may approve together.
    fn approvable(&self) -> usize {
        let mine = |item: &&Item| {
            item.is_call() && item.open.terms.may_approve(&self.party.principal, &self.party.roles)
        };
        self.items.iter().filter(mine).count()
    }

    fn calls(&self) -> usize {
        self.items.iter().filter(|item| item.is_call()).count()
    }

    pub(super) fn choices_of_all(&self) -> String {
        let (count, calls) = (self.items.len(), self.calls());
        let which =
            if calls == count { "all".to_owned() } else { format!("the {calls} {}", plural(calls, "call")) };
        let mut choices = vec![format!("1 to {count}: select one")];
        choices.extend((calls > 0 && calls == self.approvable()).then(|| format!("[a]pprove {which}")));
        choices.extend((calls > 0).then(|| format!("[d]eny {which}")));
        choices.extend(["[v]iew all".to_owned(), "[s]top the run".to_owned()]);
        choices.join(", ")
    }

    pub(super) fn choose_of_all(&mut self, console: &Console, word: &str) -> Reply {
        if let Ok(number @ 1..) = word.parse::<usize>()
            && number <= self.items.len()
        {
            self.at = Some(number - 1);
            self.show(console, Extent::Beginning);
            return self.again(console);
        }
        let calls = self.calls();
        match word {
            "a" | "approve" | "approveall" | "all" if calls > 0 && calls == self.approvable() => {
                return self.give(&Answer::Approve, "approved once");
            }
            "d" | "deny" if calls > 0 => self.stage = Stage::DenyReason,
            "v" | "view" => self.show(console, Extent::Whole),
            "s" | "stop" => return Reply::Stop,
            "" => {}
            _ => {
                console
                    .note(&format!("  `{}` is not one of the answers", first_line(&shown(word), ECHO_CHARS)));
                self.prompt(console);
                return Reply::NoAnswer;
            } // tidy: no other word counts
        }
        self.again(console)
    }
}
