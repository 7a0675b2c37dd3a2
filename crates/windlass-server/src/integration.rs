//! Systems that a workspace is connected with: their addresses and settings, and their credentials, which lie sealed in
//! a record of their own. (SK-R9, SK-P13)
//!
//! The only call that is made here asks a system whether it takes its credentials.

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

/// The kind of the records, whose key is `workspace/provider`: one for each.
const INTEGRATION: &str = "integration";
/// The kind of sealed credentials.
const CREDENTIAL: &str = "credential";

/// Systems that can be connected, with the settings that they need.
pub const PROVIDERS: &[(&str, &[&str])] = &[("jenkins", &["api_url"])];

/// How long a system may take to answer.
const CHECK_WITHIN: Duration = Duration::from_secs(10);

/// Integrations of a workspace at most: there is one for each provider.
const MAX: usize = 100;

/// Whether an integration is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum IntegrationStatus {
    /// It is.
    #[default]
    Active,
    /// Its tools are not offered.
    Disabled,
}

/// A connected system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Integration {
    /// Its id.
    pub id: String,
    /// Which system.
    pub provider: String,
    /// What people call it.
    pub name: String,
    /// Its settings.
    #[schema(value_type = Object)]
    pub metadata: Map<String, Value>,
    /// The name under which its credentials are sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_ref: Option<String>,
    /// Whether it is used.
    pub status: IntegrationStatus,
    /// When it was made, in milliseconds since the Unix epoch.
    #[schema(value_type = u64)]
    pub created_at: Timestamp,
    /// When it last changed, in milliseconds since the Unix epoch.
    #[schema(value_type = u64)]
    pub updated_at: Timestamp,
}

/// An integration that is to be made.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct IntegrationDraft {
    /// Which system.
    pub provider: String,
    /// What people call it.
    pub name: String,
    /// Its settings.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub metadata: Map<String, Value>,
    /// Its credentials, which are never shown again.
    #[schema(value_type = Option<Object>)]
    pub credentials: Option<Map<String, Value>>,
    /// Whether it is used.
    #[serde(default)]
    pub status: IntegrationStatus,
}

/// What is changed of an integration; absent stays.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct IntegrationChange {
    /// What people call it.
    pub name: Option<String>,
    /// Its settings, all of them.
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Map<String, Value>>,
    /// New credentials in place of the old ones.
    #[schema(value_type = Option<Object>)]
    pub credentials: Option<Map<String, Value>>,
    /// Whether it is used.
    pub status: Option<IntegrationStatus>,
}

/// What a connected system said to its credentials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Checked {
    /// Whether it took them.
    pub ok: bool,
    /// What it said, and no more than that: nobody looks around behind the server by asking.
    pub said: Said,
    /// In plain words.
    pub detail: &'static str,
}

/// What a connected system said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// It takes the credentials.
    Ok,
    /// It refuses them.
    Refused,
    /// No such system answers there.
    Unreachable,
}

impl From<Said> for Checked {
    fn from(said: Said) -> Self {
        let detail = match said {
            Said::Ok => "the system takes the credentials",
            Said::Refused => "the system refuses the credentials",
            Said::Unreachable => "no such system answers there, or it may not be called",
        };
        Self { ok: said == Said::Ok, said, detail }
    }
}

/// Why an integration was not made or changed.
#[derive(Debug, thiserror::Error)]
pub enum IntegrationError {
    /// There is no such provider.
    #[error("`{0}` cannot be connected; what can is: {known}", known = PROVIDERS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "))]
    Unsupported(String),
    /// The workspace has one for this provider.
    #[error("`{0}` is connected already; change that integration")]
    Duplicate(String),
    /// A setting is missing or no text.
    #[error("the setting `{setting}` of `{provider}` is missing or no text")]
    Setting {
        /// Which system.
        provider: String,
        /// Which setting.
        setting: String,
    },
    /// The address is none that may be called.
    #[error("`api_url` is `{url}`, which {why}")]
    Address {
        /// The address.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The credentials were given for another system.
    #[error("the credentials were given for `{0}`; send `credentials` for the new address as well")]
    Elsewhere(String),
    /// The credentials cannot be opened.
    #[error("the credentials cannot be opened for this address; send `credentials` again")]
    Sealed,
    /// The name is empty or too long.
    #[error("a name has 1 to 200 bytes; this one has {0}")]
    Name(usize),
    /// There is no such integration.
    #[error("integration `{0}` does not exist")]
    Missing(String),
    /// The records.
    #[error(transparent)]
    Record(#[from] RecordError),
}

impl From<StoreError> for IntegrationError {
    fn from(error: StoreError) -> Self {
        Self::Record(error.into())
    }
}

/// The integrations of a store.
pub struct Integrations {
    records: Arc<dyn Records>,
    clock: Arc<dyn Clock>,
    vault: Vault,
    reach: Reach,
    /// Workspaces and providers of those that are used.
    active: RwLock<BTreeSet<(String, String)>>,
}

impl Integrations {
    /// Integrations in these records.
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

    /// Whether a workspace is connected with a system and uses it.
    pub fn is_active(&self, workspace: &str, provider: &str) -> bool {
        // A poisoned lock still holds a whole set.
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

    /// A workspace's integrations, of one provider or all.
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

    /// Changes an integration. New credentials take the place of the old ones in the same change; old ones never go
    /// to another system than the one that they were given for.
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

    /// Forgets an integration with its credentials.
    pub async fn remove(&self, workspace: &str, id: &str) -> Result<(), IntegrationError> {
        let (it, version) = self.find(workspace, id).await?;
        let own = RecordChange::delete(INTEGRATION, &key(workspace, &it.provider), Expect::Version(version));
        let credential = it.credentials_ref.map(|name| RecordChange::delete(CREDENTIAL, &name, Expect::Any));
        self.records.apply([own].into_iter().chain(credential).collect()).await?;
        self.mark(workspace, &it.provider, IntegrationStatus::Disabled);
        Ok(())
    }

    /// The credentials of an integration, opened for the request that they are for.
    pub async fn credential(&self, it: &Integration) -> Result<Option<Credential>, IntegrationError> {
        let Some(name) = &it.credentials_ref else { return Ok(None) };
        let Some(record) = self.records.get(CREDENTIAL, name).await? else { return Ok(None) };
        let sealed = record.value.as_str().unwrap_or_default();
        let opened = self.vault.unseal(&bound(name, &origin_of(&it.metadata)), sealed);
        opened.map(Some).map_err(|_| IntegrationError::Sealed)
    }

    /// Asks a system whether it takes its credentials; changes nothing there.
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

    /// The address of a system whose settings are as they should be.
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

/// What credentials are sealed under: they open for no other system than the one that they were given for.
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
