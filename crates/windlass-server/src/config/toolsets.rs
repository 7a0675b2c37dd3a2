//! `[toolsets.<name>]`: groups of tools. The tables also define which of these tools every model request contains.

use std::collections::BTreeMap;

use serde::Deserialize;
use windlass::machine::Glob;
use windlass::tool::builtin::builtin_toolsets;
use windlass::tool::{Shown, Toolset};

/// A group of tools.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolsetFile {
    /// Description for the model.
    pub description: String,
    /// Patterns of tool names, with `*` and `?`.
    pub tools: Vec<Glob>,
    /// MCP servers whose tools belong to the toolset.
    pub servers: Vec<String>,
    /// Tags of the tools that belong to the toolset.
    pub tags: Vec<String>,
    /// The tools of this toolset that every request contains: `nothing`, `reads` or `all`.
    pub shown: ShownWord,
}

/// The tools of a toolset that every request contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShownWord {
    /// No tool: the model loads the toolset on demand.
    #[default]
    Nothing,
    /// The read-only tools.
    Reads,
    /// All tools.
    All,
}

/// Returns the toolsets for the engine: the configured toolsets sorted by name, then the built-in toolsets.
pub fn toolsets(files: &BTreeMap<String, ToolsetFile>) -> Vec<Toolset> {
    let of = |(name, file): (&String, &ToolsetFile)| Toolset {
        name: name.clone(),
        description: file.description.clone(),
        tools: file.tools.clone(),
        servers: file.servers.clone(),
        tags: file.tags.clone(),
        shown: match file.shown {
            ShownWord::Nothing => Shown::Nothing,
            ShownWord::Reads => Shown::Reads,
            ShownWord::All => Shown::All,
        },
    };
    let mut sets: Vec<Toolset> = files.iter().map(of).collect();
    // If an earlier toolset contains a tool, a later toolset does not contain it.
    for usual in builtin_toolsets() {
        match sets.iter_mut().find(|set| set.name == usual.name) {
            // A configured toolset that only sets `shown` has the tools of the built-in toolset.
            Some(set) if set.tools.is_empty() && set.servers.is_empty() && set.tags.is_empty() => {
                set.tools = usual.tools;
                if set.description.is_empty() {
                    set.description = usual.description;
                }
            }
            Some(_) => {}
            None => sets.push(usual),
        }
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_built_in_group_can_be_shown_or_replaced() {
        let read = |text: &str| toolsets(&toml::from_str(text).unwrap());
        let usual = builtin_toolsets();
        let planning = read("planning = {shown = 'all'}").remove(0);
        assert_eq!(planning, Toolset { shown: Shown::All, ..usual[0].clone() });
        let own = read("planning = {tools = ['Task*']}");
        assert_eq!(own.len(), usual.len());
        assert_eq!(own[0].tools, [Glob::new("Task*")]);
    }

    #[test]
    fn a_group_is_read_with_what_it_shows() {
        let text = "k8s = {description = 'the cluster', tools = ['k8s_*'], shown = 'reads'}\n\
                    git = {servers = ['git'], tags = ['vcs']}";
        let read: BTreeMap<String, ToolsetFile> = toml::from_str(text).unwrap();
        let k8s = Toolset {
            name: "k8s".into(),
            description: "the cluster".into(),
            tools: vec![Glob::new("k8s_*")],
            shown: Shown::Reads,
            ..Toolset::default()
        };
        let git = Toolset {
            name: "git".into(),
            servers: vec!["git".into()],
            tags: vec!["vcs".into()],
            ..Toolset::default()
        };
        assert_eq!(toolsets(&read), [vec![git, k8s], builtin_toolsets()].concat());
        let wrong = toml::from_str::<BTreeMap<String, ToolsetFile>>("k8s = {shown = 'some'}").unwrap_err();
        assert!(wrong.to_string().contains("expected one of `nothing`, `reads`, `all`"), "{wrong}");
    }
}
