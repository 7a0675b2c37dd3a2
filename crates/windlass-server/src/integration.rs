//! External systems that a workspace is connected to: their URLs, settings and sealed credentials. (SK-R9, SK-P13)
//!
//! The only request that this module sends checks whether a system accepts its credentials.

pub mod connected;
pub mod reach;

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Method, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use windlass::machine::Timestamp;
use windlass::outbound::{Request, Url};
use windlass::port::clock::Clock;
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, Record, RecordChange, RecordError, Records};

use crate::account::secret;
use crate::integration::reach::Reach;
use crate::vault::{Credential, Vault};

/// Record kind of integrations. The key is `workspace/provider`, so a workspace has at most one integration for each
/// provider.
const INTEGRATION: &str = "integration";
/// Record kind of sealed credentials.
const CREDENTIAL: &str = "credential";

/// Supported systems with their required settings.
pub const PROVIDERS: &[(&str, &[&str])] = &[("jenkins", &["api_url"])];

/// Timeout for a check of credentials.
const CHECK_WITHIN: Duration = Duration::from_secs(10);

/// Maximum number of integrations of a workspace. A workspace has at most one for each provider.
const MAX: usize = 100;

/// Whether an integration is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum IntegrationStatus {
    /// Used.
    #[default]
    Active,
    /// Its tools are not offered.
    Disabled,
}

/// A connected system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Integration {
    /// Id of the integration.
    pub id: String,
    /// The system, such as `jenkins`.
    pub provider: String,
    /// Display name.
    pub name: String,
    /// Settings.
    #[schema(value_type = Object)]
    pub metadata: Map<String, Value>,
    /// Name under which the credentials are sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_ref: Option<String>,
    /// Whether it is used.
    pub status: IntegrationStatus,
    /// When it was created, in milliseconds since the Unix epoch.
    #[schema(value_type = u64)]
    pub created_at: Timestamp,
    /// When it last changed, in milliseconds since the Unix epoch.
    #[schema(value_type = u64)]
    pub updated_at: Timestamp,
}

/// An integration to create.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct IntegrationDraft {
    /// The system, such as `jenkins`.
    pub provider: String,
    /// Display name.
    pub name: String,
    /// Settings.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub metadata: Map<String, Value>,
    /// Credentials. They are never returned.
    #[schema(value_type = Option<Object>)]
    pub credentials: Option<Map<String, Value>>,
    /// Whether it is used.
    #[serde(default)]
    pub status: IntegrationStatus,
}

/// A change of an integration. Absent fields stay unchanged.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct IntegrationChange {
    /// Display name.
    pub name: Option<String>,
    /// All settings; they replace the old ones.
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Map<String, Value>>,
    /// New credentials; they replace the old ones.
    #[schema(value_type = Option<Object>)]
    pub credentials: Option<Map<String, Value>>,
    /// Whether it is used.
    pub status: Option<IntegrationStatus>,
}

/// The result of checking a connected system's credentials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Checked {
    /// Whether the system accepts them.
    pub ok: bool,
    /// Result class. It has no further details, so that a check cannot be used to explore the server's network.
    pub said: Said,
    /// Human-readable explanation.
    pub detail: &'static str,
}

/// Result class of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// The system accepts the credentials.
    Ok,
    /// The system rejects the credentials.
    Refused,
    /// No such system responds at the URL.
    Unreachable,
}

impl From<Said> for Checked {
    fn from(said: Said) -> Self {
        let detail = match said {
            Said::Ok => "the system accepts the credentials",
            Said::Refused => "the system rejects the credentials",
            Said::Unreachable => "the system cannot be reached, or calling it is not allowed",
        };
        Self { ok: said == Said::Ok, said, detail }
    }
}

/// The reason why an integration was not created or changed.
#[derive(Debug, thiserror::Error)]
pub enum IntegrationError {
    /// The provider is not supported.
    #[error("provider `{0}` is not supported; supported providers: {known}", known = PROVIDERS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "))]
    Unsupported(String),
    /// The workspace already has an integration for this provider.
    #[error("`{0}` is already connected; change the existing integration")]
    Duplicate(String),
    /// A setting is missing or not a text.
    #[error("the setting `{setting}` of `{provider}` is missing or is not a string")]
    Setting {
        /// The provider.
        provider: String,
        /// Name of the setting.
        setting: String,
    },
    /// The server may not call the URL.
    #[error("`api_url` is `{url}`, which {why}")]
    Address {
        url: String,
        /// The defect of the URL.
        why: &'static str,
    },
    /// The credentials were given for another system.
    #[error("the stored credentials are for `{0}`; send `credentials` for the new URL")]
    Elsewhere(String),
    /// The credentials cannot be unsealed.
    #[error("the stored credentials cannot be decrypted for this URL; send `credentials` again")]
    Sealed,
    #[error("a name must have 1 to 200 bytes; this one has {0}")]
    Name(usize),
    #[error("integration `{0}` does not exist")]
    Missing(String),
    #[error(transparent)]
    Record(#[from] RecordError),
}

impl From<StoreError> for IntegrationError {
    fn from(error: StoreError) -> Self {
        Self::Record(error.into())
    }
}

pub struct Integrations {
    records: Arc<dyn Records>,
    clock: Arc<dyn Clock>,
    vault: Vault,
    reach: Reach,
    /// Pairs of workspace and provider that have an active integration.
    active: RwLock<BTreeSet<(String, String)>>,
}

impl Integrations {
    /// Loads the integrations in these records.
    pub async fn open(
        records: Arc<dyn Records>,
        clock: Arc<dyn Clock>,
        vault: Vault,
        reach: Reach,
    ) -> Result<Self, StoreError> {
        let (mut active, mut after) = (BTreeSet::new(), None::<String>);
        loop {
            let page = records.list(INTEGRATION, None, after.as_deref(), MAX).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.key.clone());
            for record in page {
                let workspace = record.owner.clone();
                let it = read(record)?;
                if it.status == IntegrationStatus::Active {
                    active.insert((workspace, it.provider));
                }
            }
        }
        Ok(Self { records, clock, vault, reach, active: RwLock::new(active) })
    }

    /// Returns whether a workspace has an active integration for a provider.
    pub fn is_active(&self, workspace: &str, provider: &str) -> bool {
        // Invariant: a poisoned lock still guards a whole set.
        let active = self.active.read().unwrap_or_else(PoisonError::into_inner);
        active.contains(&(workspace.to_owned(), provider.to_owned()))
    }

    fn mark(&self, workspace: &str, provider: &str, status: IntegrationStatus) {
        let place = (workspace.to_owned(), provider.to_owned());
        let mut active = self.active.write().unwrap_or_else(PoisonError::into_inner);
        match status {
            IntegrationStatus::Active => active.insert(place),
            IntegrationStatus::Disabled => active.remove(&place),
        };
    }

    /// Lists a workspace's integrations, optionally of one provider.
    pub async fn list(
        &self,
        workspace: &str,
        provider: Option<&str>,
    ) -> Result<Vec<Integration>, StoreError> {
        let records = self.records.list(INTEGRATION, Some(workspace), None, MAX).await?;
        let all = records.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let wanted = |it: &Integration| provider.is_none_or(|provider| it.provider == provider);
        Ok(all.into_iter().filter(wanted).collect())
    }

    /// Connects a system.
    pub async fn add(
        &self,
        workspace: &str,
        draft: IntegrationDraft,
    ) -> Result<Integration, IntegrationError> {
        let url = self.checked(&draft.provider, &draft.name, &draft.metadata)?;
        let now = self.clock.now();
        let sealed =
            draft.credentials.map(|credentials| self.seal(&draft.provider, workspace, &url, &credentials));
        let made = Integration {
            id: format!("int_{}", secret::draw::<9>()),
            provider: draft.provider,
            name: draft.name,
            metadata: draft.metadata,
            credentials_ref: sealed.as_ref().map(|sealed| sealed.key.clone()),
            status: draft.status,
            created_at: now,
            updated_at: now,
        };
        let put = put(workspace, &made, Expect::Absent)?;
        match self.records.apply(sealed.into_iter().chain([put]).collect()).await {
            Ok(_) => {
                self.mark(workspace, &made.provider, made.status);
                Ok(made)
            }
            Err(RecordError::Conflict { .. }) => Err(IntegrationError::Duplicate(made.provider)),
            Err(error) => Err(error.into()),
        }
    }

    /// Changes an integration. New credentials replace the old ones in the same transaction. The server never sends
    /// existing credentials to another system than the one that they were given for.
    pub async fn change(
        &self,
        workspace: &str,
        id: &str,
        change: IntegrationChange,
    ) -> Result<Integration, IntegrationError> {
        let (mut it, version) = self.find(workspace, id).await?;
        let before = origin_of(&it.metadata);
        it.name = change.name.unwrap_or(it.name);
        it.metadata = change.metadata.unwrap_or(it.metadata);
        it.status = change.status.unwrap_or(it.status);
        it.updated_at = self.clock.now();
        let url = self.checked(&it.provider, &it.name, &it.metadata)?;
        let mut changes = Vec::new();
        if change.credentials.is_none() && it.credentials_ref.is_some() && before != origin(&url) {
            return Err(IntegrationError::Elsewhere(before));
        }
        if let Some(credentials) = change.credentials {
            let sealed = self.seal(&it.provider, workspace, &url, &credentials);
            let old = it.credentials_ref.replace(sealed.key.clone());
            changes.push(sealed);
            changes.extend(old.map(|old| RecordChange::delete(CREDENTIAL, &old, Expect::Any)));
        }
        changes.push(put(workspace, &it, Expect::Version(version))?);
        self.records.apply(changes).await?;
        self.mark(workspace, &it.provider, it.status);
        Ok(it)
    }

    /// Deletes an integration and its credentials.
    pub async fn remove(&self, workspace: &str, id: &str) -> Result<(), IntegrationError> {
        let (it, version) = self.find(workspace, id).await?;
        let own = RecordChange::delete(INTEGRATION, &key(workspace, &it.provider), Expect::Version(version));
        let credential = it.credentials_ref.map(|name| RecordChange::delete(CREDENTIAL, &name, Expect::Any));
        self.records.apply([own].into_iter().chain(credential).collect()).await?;
        self.mark(workspace, &it.provider, IntegrationStatus::Disabled);
        Ok(())
    }

    /// Unseals the credentials of an integration for a request.
    pub async fn credential(&self, it: &Integration) -> Result<Option<Credential>, IntegrationError> {
        let Some(name) = &it.credentials_ref else { return Ok(None) };
        let Some(record) = self.records.get(CREDENTIAL, name).await? else { return Ok(None) };
        let sealed = record.value.as_str().unwrap_or_default();
        let opened = self.vault.unseal(&bound(name, &origin_of(&it.metadata)), sealed);
        opened.map(Some).map_err(|_| IntegrationError::Sealed)
    }

    /// Checks whether a system accepts its credentials, with a read-only request.
    pub async fn check(&self, workspace: &str, id: &str) -> Result<Checked, IntegrationError> {
        let (it, _) = self.find(workspace, id).await?;
        let mut url = self.checked(&it.provider, &it.name, &it.metadata)?;
        url.set_path(&format!("{}/api/json", url.path().trim_end_matches('/')));
        url.set_query(Some("tree=mode"));
        let mut request = Request::new(Method::GET, url);
        request.limits.within = CHECK_WITHIN;
        if let Some(credential) = self.credential(&it).await? {
            let said: Map<String, Value> = serde_json::from_str(credential.expose()).unwrap_or_default();
            let text = |name: &str| said.get(name).and_then(Value::as_str).unwrap_or_default();
            let word = if said.contains_key("api_token") { text("api_token") } else { text("password") };
            let pair = STANDARD.encode(format!("{}:{word}", text("username")));
            let basic =
                HeaderValue::try_from(format!("Basic {pair}")).map_err(|_| IntegrationError::Sealed)?;
            request.credentials.insert(AUTHORIZATION, basic);
        }
        let said = match self.reach.ask(request).await {
            Some(status) if status.is_success() => Said::Ok,
            Some(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => Said::Refused,
            Some(_) | None => Said::Unreachable,
        };
        Ok(said.into())
    }

    async fn find(&self, workspace: &str, id: &str) -> Result<(Integration, u64), IntegrationError> {
        for record in self.records.list(INTEGRATION, Some(workspace), None, MAX).await? {
            let version = record.version;
            let it = read(record)?;
            if it.id == id {
                return Ok((it, version));
            }
        }
        Err(IntegrationError::Missing(id.to_owned()))
    }

    fn seal(
        &self,
        provider: &str,
        workspace: &str,
        url: &Url,
        credentials: &Map<String, Value>,
    ) -> RecordChange {
        let name = format!("{provider}-cred-{}", secret::draw::<15>());
        let text = Value::Object(credentials.clone()).to_string();
        let sealed = Value::String(self.vault.seal(&bound(&name, &origin(url)), &text));
        RecordChange::put(CREDENTIAL, &name, workspace, sealed, Expect::Absent)
    }

    /// Validates the settings, and returns the system's URL.
    fn checked(
        &self,
        provider: &str,
        name: &str,
        metadata: &Map<String, Value>,
    ) -> Result<Url, IntegrationError> {
        check(provider, name, metadata)?;
        let text = api_url(metadata);
        self.reach.target(text).map_err(|why| {
            let url = crate::text::first_line(text, 200);
            IntegrationError::Address { url, why }
        })
    }
}

/// Returns the name under which credentials are sealed. The name contains the origin, so the credentials cannot be
/// unsealed for another system.
fn bound(name: &str, origin: &str) -> String {
    format!("{name} {origin}")
}

fn api_url(metadata: &Map<String, Value>) -> &str {
    metadata.get("api_url").and_then(Value::as_str).unwrap_or_default()
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

fn origin_of(metadata: &Map<String, Value>) -> String {
    Url::parse(api_url(metadata)).map(|url| origin(&url)).unwrap_or_default()
}

fn key(workspace: &str, provider: &str) -> String {
    format!("{workspace}/{provider}")
}

fn put(workspace: &str, it: &Integration, expected: Expect) -> Result<RecordChange, StoreError> {
    let value = serde_json::to_value(it).map_err(|error| StoreError::Refused { why: error.to_string() })?;
    Ok(RecordChange::put(INTEGRATION, &key(workspace, &it.provider), workspace, value, expected))
}

fn check(provider: &str, name: &str, metadata: &Map<String, Value>) -> Result<(), IntegrationError> {
    let known = PROVIDERS.iter().find(|(known, _)| *known == provider);
    let (_, settings) = known.ok_or_else(|| IntegrationError::Unsupported(provider.to_owned()))?;
    if name.is_empty() || name.len() > 200 {
        return Err(IntegrationError::Name(name.len()));
    }
    for setting in *settings {
        if metadata.get(*setting).and_then(Value::as_str).is_none_or(str::is_empty) {
            let (provider, setting) = (provider.to_owned(), (*setting).to_owned());
            return Err(IntegrationError::Setting { provider, setting });
        }
    }
    Ok(())
}

fn read(record: Record) -> Result<Integration, StoreError> {
    let Record { kind, key, value, .. } = record;
    serde_json::from_value(value)
        .map_err(|error| StoreError::Corrupt { why: format!("the {kind} `{key}` cannot be read: {error}") })
}
