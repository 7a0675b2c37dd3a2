//! Durations and points in time, as written in policy files: `"1h30m"`, `2026-12-31T18:00:00+01:00`.
//!
//! This module reads no clock.

use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use toml::value::{Datetime, Offset, Time};
use windlass::machine::Timestamp;

/// A duration in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length(pub u64);

const WANTED: &str = "write a length of time such as `90s`, `30m`, `1h30m` or `2d`";

/// Units and their milliseconds.
const UNITS: &[(&str, u64)] = &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text).ok_or_else(|| format!("`{text}` is no length of time; {WANTED}"))
    }
}

impl Length {
    fn parse(text: &str) -> Option<Self> {
        let mut rest = text.trim();
        let mut total = 0_u64;
        loop {
            let digits = rest.find(|c: char| !c.is_ascii_digit())?;
            let (number, after) = rest.split_at(digits);
            let letters = after.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(after.len());
            let (unit, after) = after.split_at(letters);
            let (_, ms) = UNITS.iter().find(|(name, _)| *name == unit)?;
            total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(*ms)?)?;
            rest = after.trim_start();
            if rest.is_empty() {
                return Some(Self(total));
            }
        }
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer).map_err(|_| serde::de::Error::custom(WANTED))?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A point in time. A date without a time means its beginning in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment(pub Timestamp);

impl Moment {
    fn of(written: Datetime) -> Result<Self, &'static str> {
        let date = written.date.ok_or("a date is missing")?;
        let offset_minutes = match (written.time, written.offset) {
            (None, _) | (_, Some(Offset::Z)) => 0,
            (Some(_), Some(Offset::Custom { minutes })) => i64::from(minutes),
            (Some(_), None) => return Err("a time zone is missing, such as `Z` or `+01:00`"),
        };
        let days = days_from_epoch(i64::from(date.year), i64::from(date.month), i64::from(date.day));
        let time = written.time.unwrap_or(Time { hour: 0, minute: 0, second: None, nanosecond: None });
        let seconds = i64::from(time.hour) * 3_600
            + i64::from(time.minute) * 60
            + i64::from(time.second.unwrap_or_default());
        let ms = (days * 86_400 + seconds - offset_minutes * 60) * 1_000
            + i64::from(time.nanosecond.unwrap_or_default() / 1_000_000);
        u64::try_from(ms).map(|ms| Self(Timestamp(ms))).map_err(|_| "it lies before 1970")
    }
}

/// Days from 1970-01-01 to a Gregorian date. (H. Hinnant, "chrono-Compatible Low-Level Date Algorithms")
fn days_from_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wanted = "write it without quotes: `2026-12-31` or `2026-12-31T18:00:00+01:00`";
        let written = Datetime::deserialize(deserializer)
            .map_err(|_| serde::de::Error::custom(format!("this is no moment; {wanted}")))?;
        Self::of(written).map_err(|why| serde::de::Error::custom(format!("`{written}`: {why}; {wanted}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        let cases = [
            ("30m", Some(1_800_000)),
            ("1h30m", Some(5_400_000)),
            ("1h 30m", Some(5_400_000)),
            ("2d", Some(172_800_000)),
            ("250ms", Some(250)),
            ("0s", Some(0)),
            ("", None),
            ("30", None),
            ("m", None),
            ("30 m", None),
            ("30M", None),
            ("1.5h", None),
            ("-1h", None),
            ("1w", None),
            ("99999999999999999999d", None),
            ("18446744073709551615d", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(Length::parse(text).map(|length| length.0), wanted, "{text}");
        }
    }

    #[test]
    fn moments() {
        let cases = [
            ("1970-01-01", Ok(0)),
            ("2000-02-29", Ok(951_782_400_000)),
            ("2026-03-01T00:00:00Z", Ok(1_772_323_200_000)),
            ("2026-03-01T01:00:00+01:00", Ok(1_772_323_200_000)),
            ("2026-02-28T18:30:00.250-05:30", Ok(1_772_323_200_250)),
            ("2026-03-01T00:00:00", Err("a time zone is missing, such as `Z` or `+01:00`")),
            ("12:00:00", Err("a date is missing")),
            ("1969-12-31", Err("it lies before 1970")),
        ];
        for (text, wanted) in cases {
            let moment = Moment::of(text.parse().unwrap()).map(|moment| moment.0.0);
            assert_eq!(moment, wanted, "{text}");
        }
    }
}
