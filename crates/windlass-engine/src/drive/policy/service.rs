//! The policy that counts for a thread now: the program's rules, and what people have said since in the store.
//!
//! It judges nothing. Grants, allow lists and what runs without asking are records, so that every process on a store sees them.

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

/// Kinds of records that a policy is made of.
pub(crate) const GRANT: &str = "grant";
pub(crate) const ALLOW: &str = "allow";
/// What runs without asking; stores have always called it so.
pub(crate) const AUTO_RUN: &str = "mode";

/// Who has which role, and the kinds of records that say so.
#[derive(Default)]
pub(crate) struct Roles {
    pub of: Option<Arc<RolesOf>>,
    pub kinds: Vec<&'static str>,
}

/// Records that are read at a time.
pub(crate) const PAGE: usize = 1_000;

/// The program's rules with the records of a store, and whether either has changed since they were looked up.
pub(crate) struct PolicyService {
    records: Arc<dyn Records>,
    clock: Arc<dyn Clock>,
    catalog: Arc<ToolCatalog>,
    roles: Roles,
    base: RwLock<Arc<Policy>>,
    /// Raised by every change, also by those of other processes once they are noticed.
    generation: AtomicU64,
    /// The kinds of records that a policy is made of, those that roles come from among them.
    kinds: Vec<&'static str>,
    /// The newest change of each when it was last looked at.
    changes: Mutex<Vec<u64>>,
}

/// The policy of a thread as it was looked up.
#[derive(Clone, Debug)]
pub(crate) struct PolicyNow {
    policy: Arc<Policy>,
    /// Roles of whom the run works for.
    roles: Vec<String>,
    /// Differs where policy or tools do, the same in every process.
    pub version: u64,
    generation: u64,
    /// The program's rules that it began with.
    base: Arc<Policy>,
    /// What it was read from.
    sources: Sources,
    /// The tools that it counts for.
    tools: Digest,
    /// When one of its rules or grants begins or ceases to count.
    next_bound: Option<Timestamp>,
    /// Versions of the records of its grants: a use of one is written only where it is still that.
    pub grants: Arc<[(String, Record)]>,
}

/// The newest changes of the records that a policy was read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sources {
    /// Of those of the user and the thread.
    own: Vec<u64>,
    /// Of the kinds that roles come from.
    roles: Vec<u64>,
}

impl PolicyNow {
    /// Uses a grant once. Returns the change of records that all uses of it since it was looked up are together:
    /// refused where the grant was changed or taken back.
    pub(crate) fn use_up(&mut self, grant: &str) -> Option<RecordChange> {
        let (_, record) = Arc::make_mut(&mut self.grants).iter_mut().find(|(id, _)| id == grant)?;
        let expected = Expect::Version(record.version);
        let remaining = record.value.get_mut("remaining").filter(|remaining| !remaining.is_null());
        let Some(remaining) = remaining else {
            // Nothing is counted: that it still stands is all that matters.
            return Some(RecordChange::keep(GRANT, &record.key, expected));
        };
        *remaining = remaining.as_u64().unwrap_or_default().saturating_sub(1).into();
        let grants = &mut Arc::make_mut(&mut self.policy).grants;
        if let Some(known) = grants.iter_mut().find(|known| known.id == grant) {
            known.remaining = known.remaining.map(|remaining| remaining.saturating_sub(1));
        }
        Some(RecordChange::put(GRANT, &record.key, &record.owner, record.value.clone(), expected))
    }

    /// The same for a run that has tools of its own.
    pub(crate) fn with_tools(mut self, own: Digest) -> Self {
        self.version = number(Digest::default().chain(&(self.version, own)));
        self
    }

    /// Whether it lets more through than without anybody's choice.
    pub(crate) fn is_loosened(&self) -> bool {
        self.policy.auto_run != AutoRun::Ask
    }

    /// A view with what is known of calls.
    pub(crate) fn view(&self, calls: Vec<CallView>) -> View {
        View { version: self.version, policy: self.policy.clone(), roles: self.roles.clone(), calls }
    }
}

/// Where it is kept what runs without asking: for a user, or for one thread.
pub(crate) fn auto_run_key(of: AutoRunOf<'_>) -> String {
    match of {
        AutoRunOf::User(user) => format!("user/{user}"),
        AutoRunOf::Thread(thread) => format!("thread/{thread}"),
    }
}

/// The thread whose choice is kept under a key; `None` where it is a user's.
pub(crate) fn thread_of_auto_run(key: &str) -> Option<&str> {
    key.strip_prefix("thread/")
}

/// Whose choice.
#[derive(Clone, Copy)]
pub(crate) enum AutoRunOf<'a> {
    User(&'a Principal),
    Thread(&'a ThreadId),
}

/// A choice as it is recorded.
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
        // A poisoned lock still holds a whole policy: nothing panics while it is held.
        self.base.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes another policy in place of the one that the program was started with.
    pub(crate) fn replace(&self, base: Policy) {
        *self.base.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(base);
        self.changed();
    }

    /// Says that something has changed.
    pub(crate) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether a policy that was looked up may be out of date.
    pub(crate) fn is_stale(&self, policy: &PolicyNow) -> bool {
        let is_over = policy.next_bound.is_some_and(|bound| bound <= self.clock.now());
        is_over || policy.generation != self.generation() || policy.tools != self.catalog.now().digest
    }

    /// Notices what other processes have changed.
    pub(crate) async fn look_at_changes(&self) -> Result<(), StoreError> {
        let now = self.records.changes(&self.kinds).await?;
        // A poisoned lock still holds whole numbers.
        let mut seen = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen != now {
            *seen = now;
            self.changed();
        }
        Ok(())
    }

    /// Looks up the policy that counts for whom a run works for in a thread.
    pub(crate) async fn policy_for(
        &self,
        user: &Principal,
        thread: &ThreadId,
    ) -> Result<PolicyNow, StoreError> {
        // Read before the records: a change that comes in between is looked up again.
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
            // A record that this build cannot read allows nothing.
            if let Ok(allowed) = serde_json::from_value::<AllowedTool>(record.value) {
                policy.allowlist.insert(allowed);
            }
        }
        let mut grants = Vec::new();
        for record in self.all(GRANT, owner).await? {
            // A record that this build cannot read allows nothing.
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

    /// Whether a policy that may be out of date counts unchanged: what has changed since is of other users and threads. Reads
    /// the numbers of changes, and roles where they may have changed.
    pub(crate) async fn confirm(
        &self,
        policy: &mut PolicyNow,
        user: &Principal,
        thread: &ThreadId,
    ) -> Result<bool, StoreError> {
        // Read before the changes, as in `policy_for`.
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

    /// The newest changes of what a policy is read from.
    async fn sources(&self, user: &Principal, thread: &ThreadId) -> Result<Sources, StoreError> {
        let (user, of_thread) = (user.as_str(), auto_run_key(AutoRunOf::Thread(thread)));
        // Threads' choices that older builds wrote have no owner.
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

    /// All records of a kind, of one owner or of all.
    pub(crate) async fn all(&self, kind: &str, owner: Option<&str>) -> Result<Vec<Record>, StoreError> {
        all_records(&*self.records, kind, owner).await
    }

    /// What was chosen, and the version of its record.
    pub(crate) async fn auto_run(&self, of: AutoRunOf<'_>) -> Result<Option<(AutoRun, u64)>, StoreError> {
        let record = self.records.get(AUTO_RUN, &auto_run_key(of)).await?;
        // A choice that this build cannot read is taken for the strictest.
        let read = |record: Record| match serde_json::from_value::<RecordedAutoRun>(record.value) {
            Ok(recorded) => (recorded.auto_run, record.version),
            Err(_) => (AutoRun::Ask, record.version),
        };
        Ok(record.map(read))
    }
}

/// All records of a kind, of one owner or of all.
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

/// The record of a grant that goes with an answer.
pub(in crate::drive) fn granted(NewGrant { user, grant }: &NewGrant) -> Option<RecordChange> {
    // A grant holds only strings, numbers and JSON values.
    let value = serde_json::to_value(grant).ok()?;
    Some(RecordChange::put(GRANT, &grant.id, user.as_str(), value, Expect::Absent))
}

/// How many of the times at which rules and grants begin or cease to count have come, and the next one.
fn bounds(policy: &Policy, now: Timestamp) -> (usize, Option<Timestamp>) {
    let rules = policy.rules.iter().flat_map(|rule| [rule.from, rule.until]);
    let grants = policy.grants.iter().map(|grant| grant.expires_at);
    let all: Vec<Timestamp> = rules.chain(grants).flatten().collect();
    let past = all.iter().filter(|bound| **bound <= now).count();
    (past, all.into_iter().filter(|bound| *bound > now).min())
}

/// A number that differs where policy, roles or tools do; never 0, which stands for no policy.
fn version(policy: &Policy, past: usize, roles: &[String], tools: Digest) -> u64 {
    number(policy.digest().chain(&(past, roles, tools)))
}

fn number(digest: Digest) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&digest.as_bytes()[..8]);
    // Journals are JSON, whose readers may keep numbers as floats.
    (u64::from_le_bytes(first) >> 12).max(1)
}
