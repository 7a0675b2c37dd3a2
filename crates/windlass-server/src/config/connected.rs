//! `[integrations.<provider>]`: tool arguments that the server fills in from a workspace's integration.
//!
//! The file contains no values. Administrators enter settings and credentials at the server.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use windlass::machine::Glob;

/// `[integrations.<provider>]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectedFile {
    /// MCP server of the tools.
    pub server: String,
    /// Tool name patterns with `*`. An empty list means all tools of the server.
    #[serde(default)]
    pub tools: Vec<Glob>,
    /// The sources of the arguments to fill in, by argument name.
    pub arguments: BTreeMap<String, Part>,
}

/// The source of an argument's value.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Part {
    /// The name under which the credentials are sealed.
    CredentialsRef,
    /// A setting of the integration.
    Setting(String),
    /// A part of the integration's credentials.
    Credential(String),
}

impl TryFrom<String> for Part {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.split_once('.') {
            None if text == "credentials_ref" => Ok(Self::CredentialsRef),
            Some(("settings", name)) if !name.is_empty() => Ok(Self::Setting(name.to_owned())),
            Some(("credentials", name)) if !name.is_empty() => Ok(Self::Credential(name.to_owned())),
            Some(_) | None => Err(format!(
                "`{text}` is not supported; write `credentials_ref`, `settings.<name>` or \
                 `credentials.<name>`"
            )),
        }
    }
}

/// Merges two layers. If the stronger layer redefines a server, arguments configured for the old definition are
/// dropped.
pub(super) fn connected_over(
    stronger: BTreeMap<String, ConnectedFile>,
    mut weaker: BTreeMap<String, ConnectedFile>,
    moved: &BTreeSet<String>,
) -> BTreeMap<String, ConnectedFile> {
    weaker.retain(|_, table| !moved.contains(&table.server));
    weaker.extend(stronger);
    weaker
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_was_moved_gets_nothing() {
        let table = "[jenkins]\nserver = 'ops'\narguments = { api_url = 'settings.api_url', \
                     ref = 'credentials_ref', word = 'credentials.api_token' }";
        let read = || toml::from_str::<BTreeMap<String, ConnectedFile>>(table).unwrap();
        let parts: Vec<_> = read()["jenkins"].arguments.values().cloned().collect();
        let expected =
            [Part::Setting("api_url".into()), Part::CredentialsRef, Part::Credential("api_token".into())];
        assert_eq!(parts, expected);
        assert_eq!(connected_over(BTreeMap::new(), read(), &BTreeSet::new()).len(), 1);
        assert_eq!(connected_over(BTreeMap::new(), read(), &BTreeSet::from(["ops".into()])).len(), 0);
        let wrong = toml::from_str::<BTreeMap<String, ConnectedFile>>(
            "[a]\nserver = 'b'\narguments = { c = 'literal' }",
        );
        assert!(wrong.unwrap_err().to_string().contains("`literal` is not supported"));
    }
}
