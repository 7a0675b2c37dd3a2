//! Moments as these clients write them: ISO 8601 in UTC.
//!
//! No clock is read here.

use toml::value::{Datetime, Offset};
use windlass::machine::Timestamp;

/// Milliseconds of a day.
pub const DAY_MS: u64 = 86_400_000;

/// A moment, to the millisecond.
pub fn iso(at: Timestamp) -> String {
    let (year, month, day) = date(at.0 / DAY_MS);
    let ms = at.0 % DAY_MS;
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1_000)
}

/// Days since 1970-01-01 to year, month and day.
/// (H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days)
fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// Reads a date or a moment; one without a zone is in UTC. `None`: it is none, or lies before 1970.
pub fn read(text: &str) -> Option<Timestamp> {
    // A plus that was not escaped arrives as a blank.
    let text = text.trim().replacen(' ', "+", usize::from(text.contains('T')));
    let written: Datetime = text.parse().ok()?;
    let date = written.date?;
    let days = days(i64::from(date.year), i64::from(date.month), i64::from(date.day));
    let offset = match written.offset {
        None | Some(Offset::Z) => 0,
        Some(Offset::Custom { minutes }) => i64::from(minutes),
    };
    let (mut minutes, mut ms) = (days * 1_440 - offset, 0);
    if let Some(time) = written.time {
        minutes += i64::from(time.hour) * 60 + i64::from(time.minute);
        ms =
            i64::from(time.second.unwrap_or(0)) * 1_000 + i64::from(time.nanosecond.unwrap_or(0) / 1_000_000);
    }
    u64::try_from(minutes * 60_000 + ms).ok().map(Timestamp)
}

/// Days from 1970-01-01 to a date. (the same source, days_from_civil)
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
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
