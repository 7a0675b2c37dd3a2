//! Durations and points in time, as policy files write them: `"1h30m"`, `2026-12-31T18:00:00+01:00`.
//!
//! This module reads no clock.

use std::str::FromStr;

use jiff::{Span, SpanRelativeTo};
use serde::{Deserialize, Deserializer};
use toml::value::Datetime;
use windlass::machine::Timestamp;

/// A duration in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length(pub u64);

const WANTED: &str = "write a duration such as `90s`, `30m`, `1h30m` or `2d`";

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text).ok_or_else(|| format!("`{text}` is not a duration; {WANTED}"))
    }
}

impl Length {
    /// Parses jiff's ["friendly" format](https://docs.rs/jiff/0.2/jiff/fmt/friendly/). A day has 24 hours.
    fn parse(text: &str) -> Option<Self> {
        let span: Span = text.trim().parse().ok()?;
        let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
        u64::try_from(duration.as_millis()).ok().map(Self)
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer).map_err(|_| serde::de::Error::custom(WANTED))?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A point in time. A date without a time means the beginning of that day in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment(pub Timestamp);

impl Moment {
    fn of(written: Datetime) -> Result<Self, &'static str> {
        let text = match (written.date, written.time, written.offset) {
            (None, ..) => return Err("the date is missing"),
            (Some(_), Some(_), None) => return Err("the time zone is missing, such as `Z` or `+01:00`"),
            (Some(date), None, _) => format!("{date}T00:00:00Z"),
            (Some(_), Some(_), Some(_)) => written.to_string(),
        };
        let moment: jiff::Timestamp = text.parse().map_err(|_| "this time does not exist")?;
        let ms = u64::try_from(moment.as_millisecond()).map_err(|_| "the time is before 1970")?;
        Ok(Self(Timestamp(ms)))
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wanted = "write it without quotes: `2026-12-31` or `2026-12-31T18:00:00+01:00`";
        let written = Datetime::deserialize(deserializer)
            .map_err(|_| serde::de::Error::custom(format!("this is not a date; {wanted}")))?;
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
            ("30 m", Some(1_800_000)),
            ("1.5h", Some(5_400_000)),
            ("1w", Some(604_800_000)),
            ("1mo", None),
            ("-1h", None),
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
            ("2026-03-01T00:00:00", Err("the time zone is missing, such as `Z` or `+01:00`")),
            ("12:00:00", Err("the date is missing")),
            ("1969-12-31", Err("the time is before 1970")),
        ];
        for (text, wanted) in cases {
            let moment = Moment::of(text.parse().unwrap()).map(|moment| moment.0.0);
            assert_eq!(moment, wanted, "{text}");
        }
    }
}
