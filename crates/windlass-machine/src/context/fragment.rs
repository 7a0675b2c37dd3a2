//! Texts of the prompt's tail, which are rebuilt for each step.
//!
//! The engine never adds them to the history, so that prompt caches remain valid.

use crate::id::Timestamp;

/// Formats the time for the model, to the minute.
pub fn time(at: Timestamp, utc_offset_minutes: i32) -> String {
    let local = i64::try_from(at.0 / 60_000).unwrap_or(0) + i64::from(utc_offset_minutes);
    let (days, minutes) = (local.div_euclid(1440), local.rem_euclid(1440));
    let (year, month, day) = civil(days);
    let sign = if utc_offset_minutes < 0 { '-' } else { '+' };
    let offset = utc_offset_minutes.unsigned_abs();
    format!(
        "Current date and time: {year:04}-{month:02}-{day:02} {:02}:{:02} (UTC{sign}{:02}:{:02})",
        minutes / 60,
        minutes % 60,
        offset / 60,
        offset % 60
    )
}

/// Converts days since 1970-01-01 to year, month and day of the Gregorian calendar. (H. Hinnant, "chrono-Compatible
/// Low-Level Date Algorithms", civil_from_days)
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_dates_in_any_zone() {
        let check = |ms, offset, text: &str| {
            assert_eq!(time(Timestamp(ms), offset), format!("Current date and time: {text}"));
        };
        check(0, 0, "1970-01-01 00:00 (UTC+00:00)");
        check(0, -90, "1969-12-31 22:30 (UTC-01:30)");
        check(951_782_399_000, 0, "2000-02-28 23:59 (UTC+00:00)");
        check(951_782_400_000, 0, "2000-02-29 00:00 (UTC+00:00)");
        check(1_795_236_180_000, 60, "2026-11-21 05:43 (UTC+01:00)");
    }
}
