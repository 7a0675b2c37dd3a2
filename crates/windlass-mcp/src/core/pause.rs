//! The backoff between attempts to connect to a server.
//!
//! The function is pure: the caller passes the number of attempts and a random number.

const FIRST_PAUSE_MS: u64 = 1_000;
pub(crate) const LONGEST_PAUSE_MS: u64 = 60_000;

/// Returns the pause before the next attempt, in milliseconds: exponential backoff with jitter.
pub(crate) fn pause_ms(attempts: u32, dice: u64) -> u64 {
    let longest = FIRST_PAUSE_MS.saturating_mul(1 << (attempts - 1).min(16)).min(LONGEST_PAUSE_MS);
    longest / 2 + dice % (longest / 2 + 1)
}
