//! Timestamps in ISO 8601 and UTC, as the dialects' clients write them.
//!
//! Reads no clock.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use windlass::machine::Timestamp;

pub const DAY_MS: u64 = 86_400_000;

/// Formats a timestamp with milliseconds.
pub fn iso(at: Timestamp) -> String {
    let ms = i64::try_from(at.0).unwrap_or(i64::MAX);
    // Times beyond the year 9999 are clamped to the largest timestamp.
    let moment = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX);
    format!("{moment:.3}")
}

/// Parses a date or a timestamp, in UTC if the text has no zone. Returns `None` if the text is
/// invalid or the time is before 1970.
pub fn read(text: &str) -> Option<Timestamp> {
    // An unescaped `+` in a query arrives as a space.
    let text = text.trim().replacen(' ', "+", usize::from(text.contains('T')));
    let in_utc = |text: &str| text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok();
    let moment = text.parse().ok().or_else(|| Some(in_utc(&text)?.timestamp()));
    let ms = moment.map(jiff::Timestamp::as_millisecond)?;
    u64::try_from(ms).ok().map(Timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for ms in [0, 951_782_399_999, 951_782_400_000, 1_772_323_200_250, 4_102_444_799_001] {
            assert_eq!(read(&iso(Timestamp(ms))), Some(Timestamp(ms)), "{}", iso(Timestamp(ms)));
        }
        assert_eq!(iso(Timestamp(1_795_236_180_042)), "2026-11-21T04:43:00.042Z");
    }

    #[test]
    fn dates_and_zones() {
        let cases = [
            ("2026-03-01", Some(1_772_323_200_000)),
            ("2026-03-01T01:00:00+01:00", Some(1_772_323_200_000)),
            ("2026-03-01T01:00:00 01:00", Some(1_772_323_200_000)),
            ("2026-03-01T00:00:00.123456+00:00", Some(1_772_323_200_123)),
            ("2026-03-01T00:00:00", Some(1_772_323_200_000)),
            ("1969-12-31", None),
            ("12:00:00", None),
            ("yesterday", None),
            ("", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(read(text).map(|at| at.0), wanted, "{text}");
        }
    }
}
