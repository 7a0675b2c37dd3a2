//! The checksum of an event's bytes, bound to the event's position. SQLite detects a damaged page, but not a changed
//! bit in a value.
//!
//! The checksum detects damage only: a process with write access to the database can also write a checksum.

use windlass_machine::Digest;

/// Returns the checksum of `bytes`: the first 64 bits of their BLAKE3 digest.
pub(super) fn checksum(bytes: &[u8]) -> i64 {
    let [a, b, c, d, e, f, g, h, ..] = *Digest::of(bytes).as_bytes();
    i64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// Returns the checksum to store for an event at `place`. Equal bytes at two positions have different checksums.
pub(super) fn placed(checksum: i64, place: i64) -> i64 {
    checksum ^ place
}

/// Whether stored bytes match their checksum; `true` if the row has no checksum.
pub(super) fn matches(bytes: &[u8], place: i64, stored: Option<i64>) -> bool {
    stored.is_none_or(|stored| stored == placed(checksum(bytes), place))
}
