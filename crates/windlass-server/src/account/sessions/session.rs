//! Sessions, as they are kept, and what whoever signs in is given.

use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass::machine::{Principal, Timestamp};
use windlass::port::records::{RecordChange, RecordWrite};

use crate::account::people::user::User;

/// The kind of refresh tokens, by digest; their owner is the session.
pub(in crate::account) const REFRESH: &str = "refresh";
/// The kind of sessions, by id; their owner is the user.
pub(in crate::account) const SESSION: &str = "session";
/// What the id of a session begins with.
pub(in crate::account) const PREFIX: &str = "ses_";

/// How long an access token counts, in seconds. (SK-P8)
pub const ACCESS_S: u64 = 15 * 60;
/// How long the access token of a client counts that cannot refresh, in seconds. (WT-E7)
pub const LASTING_S: u64 = 24 * 3_600;
/// How long a refresh token counts, in seconds. (SK-P8)
pub const REFRESH_S: u64 = 7 * 24 * 3_600;
/// How long a session may be refreshed at most, in seconds.
pub(in crate::account) const SESSION_MAX_S: u64 = 90 * 24 * 3_600;
/// Sessions of a user: every browser and program, with room. The one not used for longest ends for a new one.
pub(in crate::account) const SESSIONS_MAX: usize = 50;

/// How long a guest's session lasts since it was last renewed, in seconds: as long as that of a browser which signed in.
pub const GUEST_S: u64 = REFRESH_S;

/// When whoever signs in is given the first refresh token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstRefresh {
    /// At once.
    Now,
    /// When they ask for it, which they must do soon.
    OnRequest,
    /// Never: their client cannot refresh, so the access token lasts as long as the session, a day.
    Never,
    /// Never: a guest has nothing but the access token, which lasts as long as the session.
    Guest,
}

/// A session as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Its id.
    pub id: String,
    /// Whose it is.
    pub user: Principal,
    /// When somebody signed in.
    pub created_at: Timestamp,
    /// When it was last refreshed.
    pub seen_at: Timestamp,
    /// The moment from which it no longer counts.
    pub expires_at: Timestamp,
    /// The program that signed in, as it names itself.
    pub agent: Option<String>,
    /// The address that it signed in from.
    pub from: Option<String>,
    /// Whether its first refresh token is still to be asked for.
    #[serde(default)]
    pub awaits_refresh: bool,
    /// Whether it is a guest's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guest: bool,
}

/// Where a request comes from.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// The address of the connection.
    pub from: Option<IpAddr>,
    /// The program, as it names itself.
    pub agent: Option<String>,
}

/// What whoever signed in is given. Shown to nobody else, and never logged.
pub struct Tokens {
    /// The access token.
    pub access: String,
    /// The refresh token; none where the browser has it already.
    pub refresh: Option<String>,
    /// The session's id, which is no secret.
    pub session: String,
    /// The account.
    pub user: Arc<User>,
}

/// The sessions that changes end.
pub(in crate::account) fn ends_in(changes: &[RecordChange]) -> Vec<String> {
    let ends = changes.iter().filter(|it| it.kind == SESSION && it.write == RecordWrite::Delete);
    ends.map(|it| it.key.clone()).collect()
}

pub(in crate::account) fn later(at: Timestamp, seconds: u64) -> Timestamp {
    Timestamp(at.0.saturating_add(seconds * 1_000))
}
