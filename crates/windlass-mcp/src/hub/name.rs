//! Assigns the tool names that models use. Each is valid for every provider and unique.
//!
//! A tool keeps its own name if the name is free. Otherwise its name is `server__tool`. An assigned name
//! stays with its tool even while the server does not list the tool. The name is released when the server is
//! removed, or when the server has dropped very many tools since.

use std::collections::{BTreeSet, HashMap, HashSet};

use windlass_machine::Digest;

use crate::config::Prefix;

/// Maximum length of a name that every provider accepts, in characters.
const MAX_LENGTH: usize = 64;

/// The assigned names.
#[derive(Default)]
pub(crate) struct Names {
    /// The assigned names, by server and the server's own name of the tool.
    given: HashMap<(String, String), Given>,
    taken: BTreeSet<String>,
    /// Number of assignments and lists read so far.
    count: u64,
}

struct Given {
    name: String,
    /// The value of `count` when the name was assigned or the tool was last listed.
    number: u64,
}

/// Maximum number of names kept per server for tools that are no longer
/// listed. The server may list these tools again.
const MAX_UNLISTED: usize = 2_000;

impl Names {
    /// Creates a table in which the engine's names are reserved.
    pub fn reserving(names: impl IntoIterator<Item = String>) -> Self {
        Self { taken: names.into_iter().collect(), ..Self::default() }
    }

    /// Returns the name of a tool. Repeated calls return the same name.
    pub fn of(&mut self, server: &str, tool: &str, prefix: Prefix) -> String {
        let key = (server.to_owned(), tool.to_owned());
        if let Some(given) = self.given.get(&key) {
            return given.name.clone();
        }
        let own = match prefix {
            Prefix::OnClash => Some(valid(tool)),
            Prefix::Always => None,
        };
        let long = valid(&format!("{server}__{tool}"));
        // Replacing invalid characters may make different names equal.
        let told_apart = marked(&long, &format!("{server}\n{tool}"));
        let candidates = own.into_iter().chain([long, told_apart.clone()]);
        let free = candidates.into_iter().find(|name| !self.taken.contains(name));
        let name = free.unwrap_or(told_apart);
        self.taken.insert(name.clone());
        self.give(key, name.clone());
        name
    }

    fn give(&mut self, key: (String, String), name: String) {
        self.count += 1;
        self.given.insert(key, Given { name, number: self.count });
    }

    /// Releases names of unlisted tools if there are very many. The names unlisted
    /// for the longest time are released first.
    pub fn tidy<'a>(&mut self, server: &str, listed: impl IntoIterator<Item = &'a str>) {
        let listed: HashSet<&str> = listed.into_iter().collect();
        self.count += 1;
        for tool in &listed {
            if let Some(given) = self.given.get_mut(&(server.to_owned(), (*tool).to_owned())) {
                given.number = self.count;
            }
        }
        if self.given.len() <= MAX_UNLISTED {
            return;
        }
        let is_unlisted = |key: &(String, String)| key.0 == server && !listed.contains(key.1.as_str());
        let unlisted = self.given.iter().filter(|(key, _)| is_unlisted(key));
        let mut unlisted: Vec<_> = unlisted.map(|(key, given)| (given.number, key.clone())).collect();
        if unlisted.len() <= MAX_UNLISTED {
            return;
        }
        unlisted.sort_unstable();
        for (_, key) in &unlisted[..unlisted.len() - MAX_UNLISTED] {
            if let Some(given) = self.given.remove(key) {
                self.taken.remove(&given.name);
            }
        }
    }

    /// Releases all names of a server's tools.
    pub fn forget(&mut self, server: &str) {
        let taken = &mut self.taken;
        self.given.retain(|(of, _), given| {
            let stays = of != server;
            if !stays {
                taken.remove(&given.name);
            }
            stays
        });
    }

    /// Returns the assigned name of a tool.
    pub fn given(&self, server: &str, tool: &str) -> Option<String> {
        self.given.get(&(server.to_owned(), tool.to_owned())).map(|given| given.name.clone())
    }

    /// Assigns the name that a tool had in an earlier process, if it is free.
    pub fn restore(&mut self, server: &str, tool: &str, name: &str) {
        let key = (server.to_owned(), tool.to_owned());
        if valid(name) == name && !self.given.contains_key(&key) && self.taken.insert(name.to_owned()) {
            self.give(key, name.to_owned());
        }
    }
}

/// Returns a valid name: invalid characters are replaced, and a long
/// name is truncated and ends with a digest.
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

    #[test]
    fn names_of_tools_that_are_gone_are_not_kept_for_ever() {
        let mut names = Names::reserving(["mine".to_owned()]);
        names.of("other", "list", Prefix::OnClash);
        let all: Vec<String> = (0..3 * MAX_UNLISTED).map(|n| format!("t{n}")).collect();
        for tools in all.chunks(100) {
            tools.iter().for_each(|tool| drop(names.of("odd", tool, Prefix::OnClash)));
            names.tidy("odd", ["t0"].into_iter().chain(tools.iter().map(String::as_str)));
        }
        assert_eq!((names.given.len(), names.taken.len()), (MAX_UNLISTED + 102, MAX_UNLISTED + 103));
        let kept = |server, tool: &str| names.given(server, tool).is_some();
        assert!(kept("other", "list") && kept("odd", "t0") && kept("odd", &all[all.len() - 101]));
        assert!(!kept("odd", "t1"));
    }

    #[test]
    fn the_tools_that_were_dropped_first_lose_their_names_first() {
        let mut names = Names::default();
        // This name is assigned before all others, and its tool is listed until the end.
        names.of("odd", "lasts", Prefix::OnClash);
        let all: Vec<String> = (0..=MAX_UNLISTED).map(|n| format!("t{n:0>4}")).collect();
        all.iter().for_each(|tool| drop(names.of("odd", tool, Prefix::OnClash)));
        names.tidy("odd", ["lasts"].into_iter().chain(all[1..].iter().map(String::as_str)));
        assert!(names.given("odd", "t0000").is_some(), "there are not too many yet");
        names.tidy("odd", ["lasts"]);
        assert_eq!((names.given("odd", "t0000"), names.given.len()), (None, MAX_UNLISTED + 1));
        names.tidy("odd", [""; 0]);
        assert!(names.given("odd", "lasts").is_some() && names.given("odd", "t0001").is_none());
    }

    #[test]
    fn names_of_a_server_that_is_taken_out_are_free() {
        let mut names = Names::reserving(["mine".to_owned()]);
        assert_eq!(names.of("one", "list", Prefix::OnClash), "list");
        assert_eq!(names.of("two", "list", Prefix::OnClash), "two__list");
        names.forget("one");
        assert_eq!(names.of("three", "list", Prefix::OnClash), "list");
        let taken = ["list", "mine", "two__list"].map(str::to_owned);
        assert_eq!((names.given.len(), names.taken), (2, BTreeSet::from(taken)));
    }
}
