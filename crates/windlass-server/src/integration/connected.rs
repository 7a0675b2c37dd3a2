//! Fills in tool arguments from a workspace's integration when a tool is called. Models are offered the tools only if
//! the integration is active. (SK-P14, SK-A13)
//!
//! The settings name the arguments. This module provides the values, and the library passes them to the tool. Only
//! servers in the settings receive values: the author of the settings did not choose the servers that operators add
//! later.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value};
use tokio::sync::SetOnce;
use windlass::port::tool::ToolSource;
use windlass::secret::Secret;
use windlass::tool::{Hidden, HiddenArguments, HiddenSource};

use crate::config::{ConnectedFile, Part, Settings};
use crate::integration::{Integration, IntegrationStatus, Integrations};

/// Maximum time that a call waits for the integrations while the process starts.
const OPENED_WITHIN: Duration = Duration::from_secs(5);

/// The integrations, available once the store is open.
pub type Opened = Arc<SetOnce<Arc<Integrations>>>;

/// Wraps a tool source to hide the arguments that the settings name.
pub fn hidden(inner: Arc<dyn ToolSource>, settings: &Settings, opened: &Opened) -> Arc<dyn ToolSource> {
    let rules = rules(settings, opened);
    if rules.is_empty() { inner } else { Arc::new(HiddenSource::new(inner, rules)) }
}

fn rules(settings: &Settings, opened: &Opened) -> Vec<Hidden> {
    let mut rules = Vec::new();
    for (provider, table) in &settings.integrations {
        let ConnectedFile { server, tools, arguments } = table.clone();
        if !settings.mcp.contains_key(&server) {
            tracing::warn!(
                "`[integrations.{provider}]` has no effect: `[mcp.{server}]` is not configured; add that \
                 server, or remove the table"
            );
            continue;
        }
        let names = arguments.keys().cloned().collect();
        let from = Filled { provider: provider.clone(), parts: arguments, opened: opened.clone() };
        rules.push(Hidden { server, tools, arguments: names, from: Arc::new(from) });
    }
    rules
}

/// The arguments that are filled in for one provider.
struct Filled {
    provider: String,
    parts: BTreeMap<String, Part>,
    opened: Opened,
}

#[async_trait]
impl HiddenArguments for Filled {
    fn is_offered(&self, workspace: &str) -> bool {
        self.opened.get().is_some_and(|integrations| integrations.is_active(workspace, &self.provider))
    }

    async fn arguments(&self, workspace: &str) -> Result<BTreeMap<String, Secret>, String> {
        let integrations = tokio::time::timeout(OPENED_WITHIN, self.opened.wait()).await;
        let integrations = integrations.map_err(|_| self.missing())?;
        let unread = |error: &dyn std::fmt::Display| {
            tracing::warn!(provider = self.provider, %error, "an integration cannot be read");
            format!("The {} integration cannot be read. Ask an administrator", self.title())
        };
        let found =
            integrations.list(workspace, Some(&self.provider)).await.map_err(|error| unread(&error))?;
        let active = found.into_iter().find(|it| it.status == IntegrationStatus::Active);
        let it = active.ok_or_else(|| self.missing())?;
        let credential = integrations.credential(&it).await.map_err(|error| unread(&error))?;
        let credential = credential.as_ref().map(|credential| credential.expose());
        let mut values = BTreeMap::new();
        for (name, part) in &self.parts {
            let value = value(part, &it, credential);
            let value = value.map_err(|why| {
                format!("The {} integration is misconfigured: {why}. Ask an administrator", self.title())
            })?;
            values.extend(value.map(|value| (name.clone(), value)));
        }
        Ok(values)
    }
}

impl Filled {
    /// Returns the provider's name with a capital letter.
    fn title(&self) -> String {
        let mut letters = self.provider.chars();
        letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
    }

    fn missing(&self) -> String {
        format!(
            "{} integration is not configured. Admins can create one via /api/v1/integrations.",
            self.title()
        )
    }
}

/// Returns the value of an argument, or `None` if the integration has no such value. An error contains the name and the
/// type of the part, but not its value.
fn value(part: &Part, it: &Integration, credential: Option<&str>) -> Result<Option<Secret>, String> {
    match part {
        Part::CredentialsRef => Ok(it.credentials_ref.as_deref().map(Secret::new)),
        Part::Setting(name) => text(it.metadata.get(name), &format!("its setting `{name}`")),
        Part::Credential(name) => {
            let Some(credential) = credential else { return Ok(None) };
            let credentials = serde_json::from_str::<Map<String, Value>>(credential);
            let credentials =
                credentials.map_err(|_| format!("its credentials are not a JSON object with `{name}`"))?;
            text(credentials.get(name), &format!("`{name}` of its credentials"))
        }
    }
}

/// Converts a value to the text that the tool receives.
fn text(value: Option<&Value>, what: &str) -> Result<Option<Secret>, String> {
    let kind = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => return Ok(Some(Secret::new(text.as_str()))),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => return Ok(Some(Secret::new(value.to_string()))),
        Some(Value::Array(_)) => "a list",
        Some(Value::Object(_)) => "an object",
    };
    Err(format!("{what} is {kind}, which cannot be used as an argument"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass::machine::Timestamp;

    use super::*;

    fn integration() -> Integration {
        let metadata =
            json!({ "url": "https://ci", "port": 8080, "tls": true, "none": null, "all": [1], "deep": {} });
        Integration {
            id: "int_1".into(),
            provider: "jenkins".into(),
            name: "CI".into(),
            metadata: metadata.as_object().unwrap().clone(),
            credentials_ref: Some("jenkins-cred-1".into()),
            status: IntegrationStatus::Active,
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
        }
    }

    #[test]
    fn only_servers_of_the_settings_are_given_anything() {
        let file = "[mcp.ci]\ncommand = 'ci'\n[integrations.jenkins]\nserver = 'ci'\narguments = { a = 'settings.a' }\n\
                    [integrations.gitlab]\nserver = 'added'\narguments = { b = 'settings.b' }\n";
        let file = crate::config::parse(std::path::Path::new("windlass.toml"), file).unwrap();
        let settings = Settings::resolve(vec![file], Default::default(), &|_| None).unwrap();
        let found: Vec<_> =
            rules(&settings, &Opened::default()).into_iter().map(|rule| rule.server).collect();
        assert_eq!(found, ["ci"]);
    }

    #[test]
    fn a_part_is_a_text_or_said_with_its_name_and_kind() {
        let told = |part: &str, credential: Option<&str>| match value(
            &Part::try_from(part.to_owned()).unwrap(),
            &integration(),
            credential,
        ) {
            Ok(value) => value.map_or("nothing".to_owned(), |value| value.expose().to_owned()),
            Err(why) => format!("! {why}"),
        };
        assert_eq!(told("credentials_ref", None), "jenkins-cred-1");
        let settings =
            ["url", "port", "tls", "none", "absent"].map(|name| told(&format!("settings.{name}"), None));
        assert_eq!(settings, ["https://ci", "8080", "true", "nothing", "nothing"]);
        assert!(told("settings.all", None).starts_with("! its setting `all` is a list"));
        assert!(told("settings.deep", None).starts_with("! its setting `deep` is an object"));
        let credentials = Some(r#"{"token": "SENTINEL", "pin": 7, "pair": ["SENTINEL"]}"#);
        let credentials = ["token", "pin"].map(|name| told(&format!("credentials.{name}"), credentials));
        assert_eq!(credentials, ["SENTINEL", "7"]);
        let pair = told("credentials.pair", Some(r#"{"pair": ["SENTINEL"]}"#));
        assert!(
            pair.starts_with("! `pair` of its credentials is a list") && !pair.contains("SENTINEL"),
            "{pair}"
        );
        let bare = told("credentials.token", Some("SENTINEL"));
        assert!(
            bare.starts_with("! its credentials are not a JSON object") && !bare.contains("SENTINEL"),
            "{bare}"
        );
        assert_eq!(told("credentials.token", None), "nothing");
    }
}
