//! The current policy of a thread: the program's rules, and the choices of people recorded in the store.
//!
//! This module judges no calls. Grants, allow lists and auto-run
//! choices are records, so that every process on a store sees them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde::{Deserialize, Serialize};
use windlass_machine::{
    AllowedTool, AutoRun, CallView, Digest, Grant, NewGrant, Policy, Principal, ThreadId, Timestamp, View,
};

use crate::drive::RolesOf;
use crate::drive::catalog::ToolCatalog;
use crate::port::clock::Clock;
use crate::port::journal::StoreError;
use crate::port::records::{Expect, Record, RecordChange, Records};

/// Kinds of records that the policy depends on.
pub(crate) const GRANT: &str = "grant";
pub(crate) const ALLOW: &str = "allow";
/// Kind of the records with auto-run choices. Existing stores contain this name.
pub(crate) const AUTO_RUN: &str = "mode";

/// The source of users' roles, and the record kinds that roles depend on.
#[derive(Default)]
pub(crate) struct Roles {
    pub of: Option<Arc<RolesOf>>,
    pub kinds: Vec<&'static str>,
}

/// Maximum number of records read at a time.
pub(crate) const PAGE: usize = 1_000;

/// The program's rules and the store's records, with detection of changes since the last read.
pub(crate) struct PolicyService {
    records: Arc<dyn Records>,
    clock: Arc<dyn Clock>,
    catalog: Arc<ToolCatalog>,
    roles: Roles,
    base: RwLock<Arc<Policy>>,
    /// Incremented by every change in this process, and by each detected change of other processes.
    generation: AtomicU64,
    /// The record kinds that a policy depends on, including those of roles.
    kinds: Vec<&'static str>,
    /// The newest change number of each kind at the last read of changes.
    changes: Mutex<Vec<u64>>,
}

/// The policy of a thread, as last read.
#[derive(Clone, Debug)]
pub(crate) struct PolicyNow {
    policy: Arc<Policy>,
    /// Roles of the user that the run works for.
    roles: Vec<String>,
    /// Version of policy and tools; equal in every process if both are equal.
    pub version: u64,
    generation: u64,
    /// The program's rules that the policy was built from.
    base: Arc<Policy>,
    /// Change numbers of the records that the policy was read from.
    sources: Sources,
    /// Digest of the tools that the policy applies to.
    tools: Digest,
    /// Time at which the next rule or grant starts or ends.
    next_bound: Option<Timestamp>,
    /// Records of the policy's grants, with their versions. A use
    /// of a grant is only written if the version is unchanged.
    pub grants: Arc<[(String, Record)]>,
}

/// The newest changes of the records that a policy was read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sources {
    /// Records of the user and the thread.
    own: Vec<u64>,
    /// Record kinds that roles depend on.
    roles: Vec<u64>,
}

impl PolicyNow {
    /// Uses a grant once. Returns one change of the grant's record for all uses since the read. The change fails if
    /// the grant was changed or revoked.
    pub(crate) fn use_up(&mut self, grant: &str) -> Option<RecordChange> {
        let (_, record) = Arc::make_mut(&mut self.grants).iter_mut().find(|(id, _)| id == grant)?;
        let expected = Expect::Version(record.version);
        let remaining = record.value.get_mut("remaining").filter(|remaining| !remaining.is_null());
        let Some(remaining) = remaining else {
            // The grant has no limit on uses, so the append only checks that it still exists.
            return Some(RecordChange::keep(GRANT, &record.key, expected));
        };
        *remaining = remaining.as_u64().unwrap_or_default().saturating_sub(1).into();
        let grants = &mut Arc::make_mut(&mut self.policy).grants;
        if let Some(known) = grants.iter_mut().find(|known| known.id == grant) {
            known.remaining = known.remaining.map(|remaining| remaining.saturating_sub(1));
        }
        Some(RecordChange::put(GRANT, &record.key, &record.owner, record.value.clone(), expected))
    }

    /// Returns the policy for a run with its own tools, with a different version.
    pub(crate) fn with_tools(mut self, own: Digest) -> Self {
        self.version = number(Digest::default().chain(&(self.version, own)));
        self
    }

    /// Whether a recorded auto-run choice allows more calls than the default.
    pub(crate) fn is_loosened(&self) -> bool {
        self.policy.auto_run != AutoRun::Ask
    }

    /// Creates a view from this policy and the known properties of calls.
    pub(crate) fn view(&self, calls: Vec<CallView>) -> View {
        View { version: self.version, policy: self.policy.clone(), roles: self.roles.clone(), calls }
    }
}

/// Returns the key under which a user's or a thread's auto-run choice is stored.
pub(crate) fn auto_run_key(of: AutoRunOf<'_>) -> String {
    match of {
        AutoRunOf::User(user) => format!("user/{user}"),
        AutoRunOf::Thread(thread) => format!("thread/{thread}"),
    }
}

/// Returns the thread whose choice a key holds; `None` for a user's.
pub(crate) fn thread_of_auto_run(key: &str) -> Option<&str> {
    key.strip_prefix("thread/")
}

/// The scope of an auto-run choice.
#[derive(Clone, Copy)]
pub(crate) enum AutoRunOf<'a> {
    User(&'a Principal),
    Thread(&'a ThreadId),
}

/// An auto-run choice as stored.
#[derive(Serialize, Deserialize)]
pub(crate) struct RecordedAutoRun {
    pub auto_run: AutoRun,
}

impl PolicyService {
    pub(crate) fn new(
        records: &Arc<dyn Records>,
        clock: &Arc<dyn Clock>,
        catalog: &Arc<ToolCatalog>,
        roles: Roles,
        base: Policy,
    ) -> Self {
        let base = RwLock::new(Arc::new(base));
        let kinds = [ALLOW, GRANT, AUTO_RUN].into_iter().chain(roles.kinds.iter().copied()).collect();
        Self {
            records: records.clone(),
            clock: clock.clone(),
            catalog: catalog.clone(),
            roles,
            base,
            generation: AtomicU64::new(1),
            kinds,
            changes: Mutex::default(),
        }
    }

    fn base(&self) -> Arc<Policy> {
        // A poisoned lock still contains a complete policy: no code panics while the lock is held.
        self.base.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the policy that the program started with.
    pub(crate) fn replace(&self, base: Policy) {
        *self.base.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(base);
        self.changed();
    }

    /// Marks all previously read policies as outdated.
    pub(crate) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether a policy may be outdated.
    pub(crate) fn is_stale(&self, policy: &PolicyNow) -> bool {
        let is_over = policy.next_bound.is_some_and(|bound| bound <= self.clock.now());
        is_over || policy.generation != self.generation() || policy.tools != self.catalog.now().digest
    }

    /// Checks for changes by other processes.
    pub(crate) async fn look_at_changes(&self) -> Result<(), StoreError> {
        let now = self.records.changes(&self.kinds).await?;
        // A poisoned lock still contains complete numbers.
        let mut seen = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen != now {
            *seen = now;
            self.changed();
        }
        Ok(())
    }

    /// Reads the policy for the user that a run works for, in a thread.
    pub(crate) async fn policy_for(
        &self,
        user: &Principal,
        thread: &ThreadId,
    ) -> Result<PolicyNow, StoreError> {
        // Read the generation before the records, so that a change in between causes another read.
        let generation = self.generation();
        let sources = self.sources(user, thread).await?;
        let base = self.base();
        let mut policy = (*base).clone();
        let of_thread = self.auto_run(AutoRunOf::Thread(thread)).await?;
        let chosen = match of_thread {
            Some(chosen) => Some(chosen),
            None => self.auto_run(AutoRunOf::User(user)).await?,
        };
        policy.auto_run = chosen.map_or(policy.auto_run, |(chosen, _)| chosen);
        let owner = Some(user.as_str());
        for record in self.all(ALLOW, owner).await? {
            // A record that this build cannot decode allows nothing.
            if let Ok(allowed) = serde_json::from_value::<AllowedTool>(record.value) {
                policy.allowlist.insert(allowed);
            }
        }
        let mut grants = Vec::new();
        for record in self.all(GRANT, owner).await? {
            // A record that this build cannot decode allows nothing.
            if let Ok(grant) = serde_json::from_value::<Grant>(record.value.clone()) {
                grants.push((grant.id.clone(), record));
                policy.grants.push(grant);
            }
        }
        let now = self.clock.now();
        let (past, next_bound) = bounds(&policy, now);
        let roles = self.roles_of(user).await?;
        let tools = self.catalog.now().digest;
        let version = version(&policy, past, &roles, tools);
        Ok(PolicyNow {
            policy: Arc::new(policy),
            roles,
            version,
            generation,
            base,
            sources,
            tools,
            next_bound,
            grants: grants.into(),
        })
    }

    /// Whether a possibly outdated policy is unchanged, because all later changes concern other users and threads.
    /// Reads only change numbers, and roles if they may have changed.
    pub(crate) async fn confirm(
        &self,
        policy: &mut PolicyNow,
        user: &Principal,
        thread: &ThreadId,
    ) -> Result<bool, StoreError> {
        // Read the generation before the changes, as in `policy_for`.
        let generation = self.generation();
        let is_over = policy.next_bound.is_some_and(|bound| bound <= self.clock.now());
        let is_other = !Arc::ptr_eq(&policy.base, &self.base()) || policy.tools != self.catalog.now().digest;
        if is_over || is_other {
            return Ok(false);
        }
        let sources = self.sources(user, thread).await?;
        if sources.own != policy.sources.own {
            return Ok(false);
        }
        if sources.roles != policy.sources.roles && self.roles_of(user).await? != policy.roles {
            return Ok(false);
        }
        (policy.sources, policy.generation) = (sources, generation);
        Ok(true)
    }

    /// Returns the newest change numbers of all records that a policy is read from.
    async fn sources(&self, user: &Principal, thread: &ThreadId) -> Result<Sources, StoreError> {
        let (user, of_thread) = (user.as_str(), auto_run_key(AutoRunOf::Thread(thread)));
        // Choices for threads that older builds wrote have no owner.
        let own = [(ALLOW, user), (GRANT, user), (AUTO_RUN, user), (AUTO_RUN, &of_thread), (AUTO_RUN, "")];
        let own = self.records.changes_of(&own).await?;
        let roles = match &self.roles.kinds[..] {
            [] => Vec::new(),
            kinds => self.records.changes(kinds).await?,
        };
        Ok(Sources { own, roles })
    }

    async fn roles_of(&self, user: &Principal) -> Result<Vec<String>, StoreError> {
        match &self.roles.of {
            Some(roles_of) => Ok(roles_of(user.clone()).await?),
            None => Ok(Vec::new()),
        }
    }

    /// Reads all records of a kind, of one owner or of all owners.
    pub(crate) async fn all(&self, kind: &str, owner: Option<&str>) -> Result<Vec<Record>, StoreError> {
        all_records(&*self.records, kind, owner).await
    }

    /// Reads an auto-run choice and the version of its record.
    pub(crate) async fn auto_run(&self, of: AutoRunOf<'_>) -> Result<Option<(AutoRun, u64)>, StoreError> {
        let record = self.records.get(AUTO_RUN, &auto_run_key(of)).await?;
        // A choice that this build cannot decode is treated as the strictest choice.
        let read = |record: Record| match serde_json::from_value::<RecordedAutoRun>(record.value) {
            Ok(recorded) => (recorded.auto_run, record.version),
            Err(_) => (AutoRun::Ask, record.version),
        };
        Ok(record.map(read))
    }
}

/// Reads all records of a kind, of one owner or of all owners.
pub(in crate::drive) async fn all_records(
    records: &dyn Records,
    kind: &str,
    owner: Option<&str>,
) -> Result<Vec<Record>, StoreError> {
    let mut all: Vec<Record> = Vec::new();
    loop {
        let after = all.last().map(|record| record.key.clone());
        let page = records.list(kind, owner, after.as_deref(), PAGE).await?;
        let is_last = page.len() < PAGE;
        all.extend(page);
        if is_last {
            return Ok(all);
        }
    }
}

/// Returns the record for a grant that was given with an answer.
pub(in crate::drive) fn granted(NewGrant { user, grant }: &NewGrant) -> Option<RecordChange> {
    // A grant holds only strings, numbers and JSON values.
    let value = serde_json::to_value(grant).ok()?;
    Some(RecordChange::put(GRANT, &grant.id, user.as_str(), value, Expect::Absent))
}

/// Returns the number of start and end times of rules and grants that have passed, and the next of these times.
fn bounds(policy: &Policy, now: Timestamp) -> (usize, Option<Timestamp>) {
    let rules = policy.rules.iter().flat_map(|rule| [rule.from, rule.until]);
    let grants = policy.grants.iter().map(|grant| grant.expires_at);
    let all: Vec<Timestamp> = rules.chain(grants).flatten().collect();
    let past = all.iter().filter(|bound| **bound <= now).count();
    (past, all.into_iter().filter(|bound| *bound > now).min())
}

/// Returns a number that changes with policy, roles or tools. It is never 0, which means no policy.
fn version(policy: &Policy, past: usize, roles: &[String], tools: Digest) -> u64 {
    number(policy.digest().chain(&(past, roles, tools)))
}

fn number(digest: Digest) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&digest.as_bytes()[..8]);
    // Journals are JSON, and JSON readers may store numbers as floats.
    (u64::from_le_bytes(first) >> 12).max(1)
}
