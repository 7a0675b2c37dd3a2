//! Rate and concurrency limits: requests by user, key and address, and runs by user.
//!
//! The engine enforces budgets of tokens and money. The counters of this module are lost when the process ends.

mod bucket;
pub mod places;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, request};
use windlass::machine::Principal;
use windlass::port::journal::ThreadStatus;
use windlass::{Engine, Task};

use self::bucket::{Buckets, Verdict};
use self::places::Places;
use crate::account::{Credential, Identity};
use crate::config::ServerLimits;
use crate::http::problem::Problem;

// draft-ietf-httpapi-ratelimit-headers-10.
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LEFT: HeaderName = HeaderName::from_static("ratelimit");

/// Number of invalid credentials that an address may try per minute.
const FAILURES_PER_MINUTE: u32 = 30;

/// Maximum number of concurrent trial calls of one user.
const TRIALS_PER_USER: usize = 2;
/// Maximum number of concurrent requests of one user that connect to tool servers named in the request, up to ten
/// each.
const REACHING_PER_USER: usize = 2;

/// The counters of a server.
pub struct Limiter {
    users: Buckets,
    keys: Buckets,
    pub(in crate::http) addresses: Buckets,
    failures: Buckets,
    /// Open streams per user.
    pub streams: Places,
    /// Trial calls in progress per user.
    pub trials: Places,
    /// Requests that connect to tool servers named in the request, per user.
    pub reaching: Places,
    runs_per_user: u32,
    starting: Arc<Mutex<HashMap<Principal, u32>>>,
}

/// The limits that a request was counted against.
#[derive(Clone, Debug, Default)]
pub(in crate::http) struct Tally(Arc<Mutex<Counted>>);

#[derive(Debug, Default)]
struct Counted {
    /// The name and the verdict of the limit that is closest to its maximum.
    tightest: Option<(&'static str, Verdict)>,
    /// The authenticated user, if any.
    user: Option<Principal>,
}

impl Tally {
    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::http) fn is_admitted(&self) -> bool {
        self.counted().user.is_some()
    }

    pub(in crate::http) fn note(&self, name: &'static str, verdict: Verdict) -> Result<(), Problem> {
        let tightest = &mut self.counted().tightest;
        if tightest.is_none_or(|(_, known)| !verdict.allowed || verdict.left < known.left) {
            *tightest = Some((name, verdict));
        }
        if verdict.allowed { Ok(()) } else { Err(too_many(name, verdict)) }
    }

    pub(in crate::http) fn write(&self, response: &mut Response) {
        let tightest = self.counted().tightest;
        let Some((name, Verdict { per_minute, left, reset_s, .. })) = tightest else { return };
        let headers = response.headers_mut();
        let mut put = |header: HeaderName, value: String| {
            // Invariant: names and numbers are valid header values.
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(header, value);
            }
        };
        put(POLICY, format!("\"{name}\";q={per_minute};w=60"));
        put(LEFT, format!("\"{name}\";r={left};t={reset_s}"));
    }
}

fn too_many(name: &str, verdict: Verdict) -> Problem {
    let detail = format!("more than {} requests per minute from this {name}", verdict.per_minute);
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", detail).retry_after(verdict.reset_s.max(1))
}

impl Limiter {
    pub fn new(limits: &ServerLimits) -> Self {
        Self {
            users: Buckets::new(limits.requests_per_minute()),
            keys: Buckets::new(limits.requests_per_minute()),
            addresses: Buckets::new(limits.anonymous_requests_per_minute()),
            failures: Buckets::new(FAILURES_PER_MINUTE),
            streams: Places::new(limits.streams_per_user()),
            trials: Places::new(TRIALS_PER_USER),
            reaching: Places::new(REACHING_PER_USER),
            runs_per_user: limits.runs_per_user(),
            starting: Arc::default(),
        }
    }

    /// Counts a request of an authenticated user.
    pub fn admit(&self, identity: &Identity, parts: &request::Parts) -> Result<(), Problem> {
        let tally = parts.extensions.get::<Tally>().cloned().unwrap_or_default();
        tally.counted().user = Some(identity.user.clone());
        if let Credential::Key { id, .. } = &identity.credential
            && let Some(verdict) = self.keys.take(id)
        {
            tally.note("key", verdict)?;
        }
        match self.users.take(identity.user.as_str()) {
            Some(verdict) => tally.note("user", verdict),
            None => Ok(()),
        }
    }

    /// Counts a request whose credential was invalid. After too many invalid credentials, the address receives a 429
    /// instead of the 401, so that it can no longer test credentials. Other responses are returned unchanged.
    pub(in crate::http) fn stranger(&self, address: &str, tally: &Tally, response: Response) -> Response {
        if let Some(verdict) = self.addresses.take(address) {
            // The server checked the limit when the request arrived. A limit that is exceeded only now does not reject
            // the response.
            let _ = tally.note("address", verdict);
        }
        if response.status() != StatusCode::UNAUTHORIZED {
            return response;
        }
        match self.failures.take(address).map(|verdict| tally.note("address", verdict)) {
            Some(Err(problem)) => {
                let detail = "too many invalid credentials from this address";
                Problem { detail: detail.into(), ..problem }.into_response()
            }
            Some(Ok(())) | None => response,
        }
    }

    /// Reserves a slot among a user's active runs for a message. Returns `None` if there is no limit, or if the thread
    /// already has an active run and needs no slot. The caller keeps the reservation until the store contains the run.
    pub async fn room_for_run(&self, engine: &Engine, task: &Task) -> Result<Option<Starting>, Problem> {
        let busy = match &task.thread {
            Some(thread) => {
                engine.thread(thread).row().await.is_ok_and(|row| row.view.status != ThreadStatus::Idle)
            }
            None => false,
        };
        if self.runs_per_user == 0 || busy {
            return Ok(None);
        }
        let user = &task.by;
        let starting = Starting { user: user.clone(), all: self.starting.clone() };
        let beside = starting.begin();
        let limit = self.runs_per_user as usize;
        let active = engine.active_runs(user, limit).await?;
        if active + beside > limit {
            let detail = format!("`{user}` has reached the limit of {limit} active runs");
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_runs", detail)
                .hint("cancel a run, answer a waiting one, or ask an administrator to raise `runs_per_user`")
                .retry_after(5));
        }
        Ok(Some(starting))
    }
}

/// A run that is about to be started.
pub struct Starting {
    user: Principal,
    all: Arc<Mutex<HashMap<Principal, u32>>>,
}

impl Starting {
    /// Counts this run. Returns the number of runs that the user is about to start, including this run.
    fn begin(&self) -> usize {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(self.user.clone()).or_default();
        *count += 1;
        *count as usize
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.user);
            }
        }
    }
}
