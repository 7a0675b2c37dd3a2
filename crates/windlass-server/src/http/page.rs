//! Pagination: one envelope for all lists, and opaque cursors.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass::machine::Timestamp;

use super::problem::Problem;

/// Default number of rows of a page.
pub const LIMIT: usize = 50;
/// Maximum number of rows of a page.
pub const LIMIT_MAX: usize = 200;

/// Query parameters of a paginated list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// Maximum number of rows.
    #[param(minimum = 1, maximum = 200, default = 50)]
    pub limit: Option<usize>,
    /// `next_cursor` of the previous page.
    pub cursor: Option<String>,
}

impl PageQuery {
    /// Returns the page size. Returns 400 unless it is from 1 to [`LIMIT_MAX`].
    pub fn limit(&self) -> Result<usize, Problem> {
        match self.limit.unwrap_or(LIMIT) {
            limit @ 1..=LIMIT_MAX => Ok(limit),
            limit => Err(Problem::bad_request(format!("`limit` is {limit}; it must be 1 to {LIMIT_MAX}"))),
        }
    }

    /// Decodes the position after which the page begins.
    pub fn after<T: DeserializeOwned>(&self) -> Result<Option<T>, Problem> {
        self.cursor.as_deref().map(read).transpose()
    }
}

/// A page of a list.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Page<T> {
    pub data: Vec<T>,
    /// Cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl<T> Page<T> {
    /// Builds a page from up to `limit + 1` rows; the extra row only signals another page. `place` returns the
    /// position of a row for the cursor.
    pub fn of<C: Serialize>(mut rows: Vec<T>, limit: usize, place: impl Fn(&T) -> C) -> Self {
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next_cursor = rows.last().filter(|_| more).map(|last| cursor(&place(last)));
        Self { data: rows, next_cursor }
    }

    /// Builds a page from rows that are already limited. `next` is the position after which the next page begins;
    /// `None` on the last page.
    pub fn until<C: Serialize>(rows: Vec<T>, next: Option<&C>) -> Self {
        Self { data: rows, next_cursor: next.map(cursor) }
    }

    /// Converts each row.
    pub fn map<U>(self, shown: impl FnMut(T) -> U) -> Page<U> {
        Page { data: self.data.into_iter().map(shown).collect(), next_cursor: self.next_cursor }
    }
}

/// Parses a time of a query, in milliseconds since the Unix epoch. Rejects values above `i64::MAX`, the maximum of the
/// stores.
pub fn time(name: &str, ms: Option<u64>) -> Result<Option<Timestamp>, Problem> {
    match ms {
        Some(ms) if i64::try_from(ms).is_err() => {
            Err(Problem::bad_request(format!("`{name}` is {ms}; it must be 0 to {}", i64::MAX)))
        }
        ms => Ok(ms.map(Timestamp)),
    }
}

/// Encodes a position as an opaque cursor.
fn cursor<C: Serialize>(place: &C) -> String {
    // Invariant: positions are tuples of numbers and strings, which always serialize.
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(place).unwrap_or_default())
}

fn read<T: DeserializeOwned>(cursor: &str) -> Result<T, Problem> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok();
    bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).ok_or_else(|| {
        Problem::bad_request(format!(
            "`cursor` is `{}`, which is not a cursor of this list",
            crate::text::first_line(cursor, 80)
        ))
        .hint("send `next_cursor` of the previous page, unchanged")
    })
}
