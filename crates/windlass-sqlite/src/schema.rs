//! The tables, and the migration of an older database.
//!
//! A migration is a script under the next number; a released script is never edited.

use windlass_engine::port::journal::StoreError;

use crate::blob::collect::name_all;
use crate::database::Database;
use crate::writer::usage::sum_all;

/// The migration scripts. The database's `user_version` is the number of scripts that have run.
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

/// Number of the script that creates the table of blob names.
const NAMES: usize = 2;
/// Number of the script that creates the sums of usage.
const SUMS: usize = 9;

/// Runs the missing scripts in one transaction. Rejects a database that a newer build has migrated.
pub(super) fn migrate(db: &Database) -> Result<(), StoreError> {
    // The write lock comes first, so that two processes that start at once do not both run the migration.
    db.transaction("BEGIN IMMEDIATE", || run_missing(db))
}

fn run_missing(db: &Database) -> Result<(), StoreError> {
    let found: i64 = db.value("PRAGMA user_version", [])?;
    let known = MIGRATIONS.len() as i64;
    if found > known {
        let why = format!(
            "the store has version {found}, and this build knows versions up to {known}; upgrade windlass"
        );
        return Err(StoreError::Refused { why });
    }
    for (number, script) in (1..).zip(MIGRATIONS).skip(found.max(0) as usize) {
        db.run_script(script)?;
        if number == NAMES {
            name_all(db)?;
        }
        if number == SUMS {
            sum_all(db)?;
        }
    }
    Ok(())
}
