//! `[toolsets.<name>]`: tools in groups, and what of them every request carries.

use std::collections::BTreeMap;

use serde::Deserialize;
use windlass::machine::Glob;
use windlass::tool::{Shown, Toolset};

/// A group of tools.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolsetFile {
    /// What it is for, for the model.
    pub description: String,
    /// Names of its tools, with `*` and `?`.
    pub tools: Vec<Glob>,
    /// Servers whose tools belong to it.
    pub servers: Vec<String>,
    /// Tags whose tools belong to it.
    pub tags: Vec<String>,
    /// What of it every request carries: `nothing`, `reads` or `all`.
    pub shown: ShownWord,
}

/// What of a toolset every request carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShownWord {
    /// Nothing: it is loaded when the model asks.
    #[default]
    Nothing,
    /// The tools that only read.
    Reads,
    /// All of it.
    All,
}

/// The toolsets as the engine takes them, by name.
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
    files.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(toolsets(&read), [git, k8s]);
        let wrong = toml::from_str::<BTreeMap<String, ToolsetFile>>("k8s = {shown = 'some'}").unwrap_err();
        assert!(wrong.to_string().contains("expected one of `nothing`, `reads`, `all`"), "{wrong}");
    }
}
