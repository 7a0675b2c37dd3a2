//! What tools need of a workspace's integration, filled in when they are called: they are offered only where the system
//! is connected and its integration active. (SK-P14, SK-A13)
//!
//! Which arguments those are, the settings say; this gives the values to the library, which takes them to the tool.

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

/// How long a call waits for the integrations of a process that is just starting.
const OPENED_WITHIN: Duration = Duration::from_secs(5);

/// The integrations, once the store is open.
pub type Opened = Arc<SetOnce<Arc<Integrations>>>;

/// The tools of servers, those arguments hidden that the settings name.
pub fn hidden(inner: Arc<dyn ToolSource>, settings: &Settings, opened: &Opened) -> Arc<dyn ToolSource> {
    let tables = &settings.integrations;
    if tables.is_empty() {
        return inner;
    }
    let rules = tables.iter().map(|(provider, table)| {
        let from =
            Filled { provider: provider.clone(), parts: table.arguments.clone(), opened: opened.clone() };
        let ConnectedFile { server, tools, arguments } = table.clone();
        Hidden { server, tools, arguments: arguments.into_keys().collect(), from: Arc::new(from) }
    });
    Arc::new(HiddenSource::new(inner, rules.collect()))
}

/// The arguments of one provider's tools.
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
        let credentials = credential.and_then(|text| serde_json::from_str(text.expose()).ok());
        let credentials: Map<String, Value> = credentials.unwrap_or_default();
        let parts = self.parts.iter();
        Ok(parts.filter_map(|(name, part)| Some((name.clone(), value(part, &it, &credentials)?))).collect())
    }
}

impl Filled {
    /// The provider's name as it is written.
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

fn value(part: &Part, it: &Integration, credentials: &Map<String, Value>) -> Option<Secret> {
    let text = match part {
        Part::CredentialsRef => it.credentials_ref.as_deref(),
        Part::Setting(name) => it.metadata.get(name).and_then(Value::as_str),
        Part::Credential(name) => credentials.get(name).and_then(Value::as_str),
    };
    text.map(Secret::new)
}
