//! The names under which models know servers' tools: valid for every provider, and each given once.
//!
//! A tool keeps its own name where that is free, and is `server__tool` where the engine, or a server that was asked
//! earlier, has the name. A name once given stays with its tool as long as the hub lives, whoever comes later.

use std::collections::{BTreeSet, HashMap};

use windlass_machine::Digest;

use super::config::Prefix;

/// What every provider takes.
const MAX_LENGTH: usize = 64;

/// The names that are given.
#[derive(Default)]
pub(super) struct Names {
    /// By server and the server's own name.
    given: HashMap<(String, String), String>,
    taken: BTreeSet<String>,
}

impl Names {
    /// Names that are the engine's own.
    pub fn reserving(names: impl IntoIterator<Item = String>) -> Self {
        Self { given: HashMap::new(), taken: names.into_iter().collect() }
    }

    /// The name of a tool; the same whenever it is asked for.
    pub fn of(&mut self, server: &str, tool: &str, prefix: Prefix) -> String {
        let key = (server.to_owned(), tool.to_owned());
        if let Some(name) = self.given.get(&key) {
            return name.clone();
        }
        let own = match prefix {
            Prefix::OnClash => Some(valid(tool)),
            Prefix::Always => None,
        };
        let long = valid(&format!("{server}__{tool}"));
        // Different names may become the same when what is not allowed in them is replaced.
        let told_apart = marked(&long, &format!("{server}\n{tool}"));
        let candidates = own.into_iter().chain([long, told_apart.clone()]);
        let free = candidates.into_iter().find(|name| !self.taken.contains(name));
        let name = free.unwrap_or(told_apart);
        self.taken.insert(name.clone());
        self.given.insert(key, name.clone());
        name
    }

    /// The name that a tool has been given.
    pub fn given(&self, server: &str, tool: &str) -> Option<String> {
        self.given.get(&(server.to_owned(), tool.to_owned())).cloned()
    }

    /// Gives a tool the name that it had in an earlier process, where that is free.
    pub fn restore(&mut self, server: &str, tool: &str, name: &str) {
        let key = (server.to_owned(), tool.to_owned());
        if valid(name) == name && !self.given.contains_key(&key) && self.taken.insert(name.to_owned()) {
            self.given.insert(key, name.to_owned());
        }
    }
}

/// A name with nothing in it that a provider refuses; a long one ends with a mark of what was cut.
fn valid(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    let replaced: String = name.chars().map(allowed).collect();
    if replaced.is_empty() || replaced.len() > MAX_LENGTH { marked(&replaced, name) } else { replaced }
}

fn marked(name: &str, what: &str) -> String {
    let mark = &Digest::of(what.as_bytes()).to_string()[..8];
    let kept = name.len().min(MAX_LENGTH - mark.len() - 1);
    format!("{}_{mark}", &name[..kept])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_valid_given_once_and_kept() {
        let mut names = Names::reserving(["read_file".to_owned()]);
        let mut name = |server: &str, tool: &str| names.of(server, tool, Prefix::OnClash);
        assert_eq!(name("files", "list"), "list");
        assert_eq!(name("files", "read_file"), "files__read_file", "the engine has the name");
        assert_eq!(name("git", "list"), "git__list", "another server has the name");
        assert_eq!(name("files", "list"), "list");
        assert_eq!(name("git", "look/at it"), "look_at_it");
        assert_eq!(name("git", "look.at.it"), "git__look_at_it");
        let third = name("git", "look:at:it");
        assert!(third.starts_with("git__look_at_it_"), "{third}");
        let long = name("git", &"x".repeat(100));
        assert_eq!(long.len(), MAX_LENGTH);
        assert_ne!(long, name("git", &"x".repeat(101)));
        assert_eq!(names.of("git", "status", Prefix::Always), "git__status");
        assert!(valid("").starts_with('_'));
    }

    #[test]
    fn a_name_of_an_earlier_process_is_kept_for_its_tool() {
        let mut names = Names::reserving(["mine".to_owned()]);
        names.restore("git", "list", "list");
        names.restore("git", "mine", "mine");
        names.restore("git", "odd", "not a name");
        assert_eq!(
            names.of("files", "list", Prefix::OnClash),
            "files__list",
            "it comes first in this process"
        );
        assert_eq!(names.of("git", "list", Prefix::OnClash), "list");
        assert_eq!(names.of("git", "mine", Prefix::OnClash), "git__mine");
        assert_eq!(names.of("git", "odd", Prefix::OnClash), "odd");
    }
}
