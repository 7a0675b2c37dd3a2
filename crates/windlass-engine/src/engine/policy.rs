//! Choices of people in addition to the rules: grants, allow lists and auto-run.
//!
//! The choices are records in the store, visible to every process that uses it.

use windlass_machine::{
    AllowedTool, AutoRun, Condition, Grant, Policy, Principal, Reject, Timestamp, ToolName, check_json,
};

use crate::drive::policy::service::{ALLOW, AUTO_RUN, GRANT, RecordedAutoRun, auto_run_key};
use crate::engine::Engine;
use crate::engine::handle::PolicyHandle;
use crate::engine::whose::Whose;
use crate::error::EngineError;
use crate::port::journal::StoreError;
use crate::port::records::{Expect, Record, RecordChange, RecordError};

/// A grant to create.
#[derive(Clone, Debug, PartialEq)]
pub struct GrantDraft {
    /// The user whose runs may use the grant.
    pub user: Principal,
    /// The tool whose calls the grant allows.
    pub tool: ToolName,
    /// Conditions on the arguments.
    pub arguments: Vec<Condition>,
    /// Number of calls that the grant allows; `None` is unlimited.
    pub count: Option<u32>,
    /// Expiry time; `None`: the grant does not expire.
    pub expires_at: Option<Timestamp>,
    /// The person who gives the grant.
    pub by: Principal,
}

impl Engine {
    /// Converts a draft to a grant with a new id. Returns its user as well.
    pub(crate) fn drafted(&self, draft: GrantDraft) -> Result<(Principal, Grant), EngineError> {
        let GrantDraft { user, tool, arguments, count, expires_at, by } = draft;
        let AllowedTool { tool, server, schema } = self.bound(&tool)?;
        let id = self.fresh("grt");
        Ok((user, Grant { id, tool, server, schema, arguments, remaining: count, expires_at, by }))
    }

    /// Binds a tool name to its current server and schema.
    fn bound(&self, tool: &ToolName) -> Result<AllowedTool, EngineError> {
        let offered = self.services.catalog.now();
        let known = offered.registry.known(tool).ok_or_else(|| EngineError::NoTool(tool.clone()))?;
        let server = known.tool.traits().server.map(str::to_owned);
        Ok(AllowedTool { tool: tool.clone(), server, schema: Some(known.schema_digest) })
    }
}

impl PolicyHandle<'_> {
    /// Creates a grant: matching calls run without asking, unless a rule decides otherwise. The grant is bound to the
    /// current schema of the tool. Returns [`NoTool`](EngineError::NoTool) if no tool has that name.
    pub async fn grant(self, draft: GrantDraft) -> Result<Grant, EngineError> {
        let engine = self.engine;
        let (user, grant) = engine.drafted(draft)?;
        let id = &grant.id;
        let value = serde_json::to_value(&grant).map_err(|error| EngineError::Config(error.to_string()))?;
        // An unreadable record would stop every thread of its user.
        check_json(&value).map_err(|why| Reject::Invalid { what: format!("the grant {why}") })?;
        engine
            .services
            .records
            .put(GRANT, id, user.as_str(), value, Expect::Absent)
            .await
            .map_err(refused)?;
        engine.services.policy.changed();
        Ok(grant)
    }

    /// Lists the grants for a user's runs, or all grants.
    pub async fn grants(self, user: Option<&Principal>) -> Result<Vec<(Principal, Grant)>, EngineError> {
        let engine = self.engine;
        let owner = user.map(Principal::as_str);
        let records = engine.services.policy.all(GRANT, owner).await?;
        let grants = records.into_iter().filter_map(|record| {
            let user = Principal::from(record.owner.as_str());
            Some((user, read(record)?))
        });
        Ok(grants.collect())
    }

    /// Revokes a grant. Calls that have not started cannot use it any
    /// more. If `user` is set, the grant must belong to that user.
    pub async fn revoke(self, grant: &str, user: Option<&Principal>) -> Result<(), EngineError> {
        let engine = self.engine;
        let missing = || EngineError::Store(StoreError::NotFound { what: format!("grant `{grant}`") });
        let record = engine.services.records.get(GRANT, grant).await?.ok_or_else(missing)?;
        if user.is_some_and(|user| user.as_str() != record.owner) {
            return Err(missing());
        }
        engine.services.records.delete(GRANT, grant, Expect::Any).await.map_err(refused)?;
        engine.services.policy.changed();
        Ok(())
    }

    /// Sets the calls that run without asking, for a user or a thread; `None` removes the choice.
    pub async fn set_auto_run(self, whose: &Whose, auto_run: Option<AutoRun>) -> Result<(), EngineError> {
        self.change_auto_run(whose, auto_run, Expect::Any).await
    }

    /// Like [`set_auto_run`](Self::set_auto_run), but only if the current choice is the expected choice. Returns
    /// [`Stale`](Reject::Stale) if it is not.
    pub async fn change_auto_run(
        self,
        whose: &Whose,
        auto_run: Option<AutoRun>,
        expected: Expect,
    ) -> Result<(), EngineError> {
        let engine = self.engine;
        let key = auto_run_key(whose.of());
        let change = match auto_run {
            Some(auto_run) => {
                let value = serde_json::to_value(RecordedAutoRun { auto_run });
                let value = value.map_err(|error| EngineError::Config(error.to_string()))?;
                RecordChange::put(AUTO_RUN, &key, &whose.owner(), value, expected)
            }
            None => RecordChange::delete(AUTO_RUN, &key, expected),
        };
        match engine.services.records.apply(vec![change]).await {
            Ok(_) => engine.services.policy.changed(),
            Err(conflict @ RecordError::Conflict { .. }) => {
                return Err(Reject::Stale { what: conflict.to_string() }.into());
            }
            Err(RecordError::Store(error)) => return Err(error.into()),
        }
        Ok(())
    }

    /// Returns the choice of a user or a thread; `None` if it was never set or was removed.
    pub async fn auto_run(self, whose: &Whose) -> Result<Option<AutoRun>, EngineError> {
        Ok(self.read_auto_run(whose).await?.0)
    }

    /// Returns the choice of a user or a thread, and the expectation for a conditional change of it.
    pub async fn read_auto_run(self, whose: &Whose) -> Result<(Option<AutoRun>, Expect), EngineError> {
        let engine = self.engine;
        Ok(match engine.services.policy.auto_run(whose.of()).await? {
            Some((auto_run, version)) => (Some(auto_run), Expect::Version(version)),
            None => (None, Expect::Absent),
        })
    }

    /// Adds a tool with its current schema to a user's allow list. The list applies if `allowlist` is chosen. (ZE-H9)
    /// Returns [`NoTool`](EngineError::NoTool) if no tool has that name.
    pub async fn allow(self, user: &Principal, tool: &ToolName) -> Result<(), EngineError> {
        let engine = self.engine;
        let value = serde_json::to_value(engine.bound(tool)?);
        let value = value.map_err(|error| EngineError::Config(error.to_string()))?;
        let key = allow_key(user, tool);
        let put = engine.services.records.put(ALLOW, &key, user.as_str(), value, Expect::Any);
        put.await.map_err(refused)?;
        engine.services.policy.changed();
        Ok(())
    }

    /// Removes a tool from a user's allow list.
    pub async fn disallow(self, user: &Principal, tool: &ToolName) -> Result<(), EngineError> {
        let engine = self.engine;
        engine.services.records.delete(ALLOW, &allow_key(user, tool), Expect::Any).await.map_err(refused)?;
        engine.services.policy.changed();
        Ok(())
    }

    /// Returns a user's allow list, sorted.
    pub async fn allowed(self, user: &Principal) -> Result<Vec<ToolName>, EngineError> {
        let engine = self.engine;
        let records = engine.services.policy.all(ALLOW, Some(user.as_str())).await?;
        Ok(records.into_iter().filter_map(|record| Some(read::<AllowedTool>(record)?.tool)).collect())
    }

    /// Replaces the policy that the engine was built with, also for waiting calls.
    pub fn replace(self, policy: Policy) {
        let engine = self.engine;
        engine.services.policy.replace(policy);
    }
}

/// Returns the key of a user and a tool. A tool's name has no slash, so keys are unique.
fn allow_key(user: &Principal, tool: &ToolName) -> String {
    format!("{tool}/{user}")
}

/// Parses a record. Lists omit a record that this build cannot decode, because it allows no calls.
fn read<T: serde::de::DeserializeOwned>(record: Record) -> Option<T> {
    let (kind, key) = (record.kind, record.key);
    let read: Result<T, _> = serde_json::from_value(record.value);
    read.inspect_err(|error| tracing::warn!(kind, key, %error, "a record cannot be read; it is left out"))
        .ok()
}

fn refused(error: RecordError) -> EngineError {
    match error {
        RecordError::Store(error) => error.into(),
        conflict @ RecordError::Conflict { .. } => StoreError::Refused { why: conflict.to_string() }.into(),
    }
}
