//! The stored form of sessions, and the tokens that a sign-in returns.

use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass::machine::{Principal, Timestamp};
use windlass::port::records::{RecordChange, RecordWrite};

use crate::account::people::user::User;

/// Record kind of refresh tokens. The key is the digest, the owner is the session.
pub(in crate::account) const REFRESH: &str = "refresh";
/// Record kind of sessions. The key is the id, the owner is the user.
pub(in crate::account) const SESSION: &str = "session";
/// Prefix of session ids.
pub(in crate::account) const PREFIX: &str = "ses_";

/// Lifetime of an access token, in seconds. (SK-P8)
pub const ACCESS_S: u64 = 15 * 60;
/// Lifetime of the access token of a client that cannot refresh, in seconds. (WT-E7)
pub const LASTING_S: u64 = 24 * 3_600;
/// Lifetime of a refresh token, in seconds. (SK-P8)
pub const REFRESH_S: u64 = 7 * 24 * 3_600;
/// Maximum lifetime of a session with refreshes, in seconds.
pub(in crate::account) const SESSION_MAX_S: u64 = 90 * 24 * 3_600;
/// Maximum number of sessions of a user. A new session replaces the least recently used one.
pub(in crate::account) const SESSIONS_MAX: usize = 50;

/// Lifetime of a guest's session after its last renewal, in seconds; the same as for the session of a signed-in
/// browser.
pub const GUEST_S: u64 = REFRESH_S;

/// The time at which a client receives its first refresh token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstRefresh {
    /// With the sign-in.
    Now,
    /// On request, shortly after the sign-in.
    OnRequest,
    /// Never: the client cannot refresh, so the access token is valid as long as the session, a day.
    Never,
    /// Never: a guest has only the access token, which is valid as long as the session.
    Guest,
}

/// The stored form of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub id: String,
    pub user: Principal,
    /// When the user signed in.
    pub created_at: Timestamp,
    /// When the session was last refreshed.
    pub seen_at: Timestamp,
    pub expires_at: Timestamp,
    /// User agent of the client that signed in.
    pub agent: Option<String>,
    /// Network address of the client that signed in.
    pub from: Option<String>,
    /// Whether the client can still request the session's first refresh token.
    #[serde(default)]
    pub awaits_refresh: bool,
    /// Whether the session belongs to a guest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guest: bool,
}

/// The client of a request.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// Network address.
    pub from: Option<IpAddr>,
    /// User agent.
    pub agent: Option<String>,
}

/// The tokens that a sign-in returns. They must never be logged.
pub struct Tokens {
    pub access: String,
    /// The next refresh token; `None` if the browser already has it, or the client receives none.
    pub refresh: Option<String>,
    /// Public id of the session.
    pub session: String,
    pub user: Arc<User>,
}

/// Returns the ids of the sessions that the changes end.
pub(in crate::account) fn ends_in(changes: &[RecordChange]) -> Vec<String> {
    let ends = changes.iter().filter(|it| it.kind == SESSION && it.write == RecordWrite::Delete);
    ends.map(|it| it.key.clone()).collect()
}

pub(in crate::account) fn later(at: Timestamp, seconds: u64) -> Timestamp {
    Timestamp(at.0.saturating_add(seconds * 1_000))
}
