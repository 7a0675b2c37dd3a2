//! Pages of lists: a cursor that only the server reads, and the same envelope for each list.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass::machine::Timestamp;

use super::problem::Problem;

/// Rows of a page where the request names no number.
pub const LIMIT: usize = 50;
/// Rows of a page at most.
pub const LIMIT_MAX: usize = 200;

/// Which page.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// At most so many rows.
    #[param(minimum = 1, maximum = 200, default = 50)]
    pub limit: Option<usize>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

impl PageQuery {
    /// How many rows; refuses none and too many.
    pub fn limit(&self) -> Result<usize, Problem> {
        match self.limit.unwrap_or(LIMIT) {
            limit @ 1..=LIMIT_MAX => Ok(limit),
            limit => Err(Problem::bad_request(format!("`limit` is {limit}; it must be 1 to {LIMIT_MAX}"))),
        }
    }

    /// Where the page begins.
    pub fn after<T: DeserializeOwned>(&self) -> Result<Option<T>, Problem> {
        self.cursor.as_deref().map(read).transpose()
    }
}

/// A page of a list.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Page<T> {
    /// The rows.
    pub data: Vec<T>,
    /// What asks for the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl<T> Page<T> {
    /// A page of up to `limit` rows out of rows that were read one beyond it; `place` is where a row stands.
    pub fn of<C: Serialize>(mut rows: Vec<T>, limit: usize, place: impl Fn(&T) -> C) -> Self {
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next_cursor = rows.last().filter(|_| more).map(|last| cursor(&place(last)));
        Self { data: rows, next_cursor }
    }

    /// A page whose rows were chosen already; `next` is where the page after it begins.
    pub fn until<C: Serialize>(rows: Vec<T>, next: Option<&C>) -> Self {
        Self { data: rows, next_cursor: next.map(cursor) }
    }

    /// The same page with its rows as something else.
    pub fn map<U>(self, shown: impl FnMut(T) -> U) -> Page<U> {
        Page { data: self.data.into_iter().map(shown).collect(), next_cursor: self.next_cursor }
    }
}

/// A time of a query, in milliseconds since the Unix epoch: as far as stores count it.
pub fn time(name: &str, ms: Option<u64>) -> Result<Option<Timestamp>, Problem> {
    match ms {
        Some(ms) if i64::try_from(ms).is_err() => {
            Err(Problem::bad_request(format!("`{name}` is {ms}; it must be 0 to {}", i64::MAX)))
        }
        ms => Ok(ms.map(Timestamp)),
    }
}

/// A place in a list as clients carry it.
fn cursor<C: Serialize>(place: &C) -> String {
    // Places are tuples of numbers and strings, which are always JSON.
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(place).unwrap_or_default())
}

fn read<T: DeserializeOwned>(cursor: &str) -> Result<T, Problem> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok();
    bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).ok_or_else(|| {
        Problem::bad_request(format!(
            "`cursor` is `{}`, which no page gave",
            crate::text::first_line(cursor, 80)
        ))
        .hint("use `next_cursor` of the page before, unchanged")
    })
}
