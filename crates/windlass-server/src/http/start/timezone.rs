//! Parses a client's time zone into its current UTC offset.

use windlass::machine::Timestamp;

use crate::clock::now;
use crate::http::problem::Problem;

/// Returns the current offset in minutes east of UTC, for a zone name (`Europe/Rome`), `Z`, or an offset (`+02:00`).
pub fn offset_minutes(zone: &str) -> Result<i32, Problem> {
    at(zone, now()).ok_or_else(|| {
        let shown = crate::text::first_line(zone, 64);
        Problem::invalid(format!("`timezone` is `{shown}`, which is not a time zone"))
            .hint("send a name such as `Europe/Rome`, or an offset such as `+02:00` or `Z`")
    })
}

fn at(zone: &str, now: Timestamp) -> Option<i32> {
    if zone == "Z" {
        return Some(0);
    }
    if let Some(minutes) = offset(zone) {
        return Some(minutes);
    }
    let now = jiff::Timestamp::from_millisecond(i64::try_from(now.0).ok()?).ok()?;
    let zone = jiff::tz::TimeZone::get(zone).ok()?;
    Some(zone.to_offset(now).seconds() / 60)
}

/// Parses an offset such as `+02:00`, up to 18 hours from UTC. (RFC 3339)
fn offset(text: &str) -> Option<i32> {
    let (sign, rest) = match text.strip_prefix('+') {
        Some(rest) => (1, rest),
        None => (-1, text.strip_prefix('-')?),
    };
    let (hours, minutes) = rest.split_once(':')?;
    let number = |part: &str| {
        (part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit())).then(|| part.parse::<i32>())
    };
    let (hours, minutes) = (number(hours)?.ok()?, number(minutes)?.ok()?);
    (hours <= 18 && minutes < 60).then_some(sign * (60 * hours + minutes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_names_and_offsets() {
        // Noon UTC on 2026-01-15 and 2026-07-15.
        let (winter, summer) = (Timestamp(1_768_478_400_000), Timestamp(1_784_116_800_000));
        for (zone, now, minutes) in [
            ("Europe/Rome", winter, Some(60)),
            ("Europe/Rome", summer, Some(120)),
            ("Asia/Kolkata", winter, Some(330)),
            ("UTC", winter, Some(0)),
            ("Z", winter, Some(0)),
            ("+02:00", winter, Some(120)),
            ("-09:30", winter, Some(-570)),
            ("+2", winter, None),
            ("+19:00", winter, None),
            ("Mars/Olympus", winter, None),
            ("../etc/passwd", winter, None),
            ("", winter, None),
        ] {
            assert_eq!(at(zone, now), minutes, "{zone}");
        }
    }
}
