//! The tables, and the migration of an older database.
//!
//! A migration is a script under the next number; a released script is never edited.

use sqlx::{Connection, SqliteConnection};
use windlass_engine::port::journal::StoreError;

use super::fault::store_error;
use crate::blob::collect::name_all;
use crate::writer::usage::sum_all;

/// The scripts; the database's `user_version` is the number of scripts that have run.
const MIGRATIONS: [&str; 9] = [
    include_str!("001_journal.sql"),
    include_str!("002_uses.sql"),
    include_str!("003_limits.sql"),
    include_str!("004_attend.sql"),
    include_str!("005_queued.sql"),
    include_str!("006_checksums.sql"),
    include_str!("007_timed.sql"),
    include_str!("008_kinds.sql"),
    include_str!("009_rows.sql"),
];

/// The script that creates the table of blob names.
const NAMES: usize = 2;
/// The script that creates the sums of usage.
const SUMS: usize = 9;

/// Runs what is missing, in one transaction. A database that a newer build has migrated is refused.
pub(super) async fn migrate(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    // The write lock comes first, so that two processes that start at once do not both migrate.
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(store_error)?;
    let found: i64 =
        sqlx::query_scalar("PRAGMA user_version").fetch_one(&mut *transaction).await.map_err(store_error)?;
    let known = MIGRATIONS.len() as i64;
    if found > known {
        let why = format!(
            "the store has version {found}, and this build knows versions up to {known}; upgrade windlass"
        );
        return Err(StoreError::Refused { why });
    }
    if found == known {
        return Ok(());
    }
    for (number, script) in (1..).zip(MIGRATIONS).skip(found.max(0) as usize) {
        sqlx::raw_sql(script).execute(&mut *transaction).await.map_err(store_error)?;
        if number == NAMES {
            name_all(&mut transaction).await?;
        }
        if number == SUMS {
            sum_all(&mut transaction).await?;
        }
    }
    transaction.commit().await.map_err(store_error)
}
