//! US dollars as users write them, converted to millionths of a dollar.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dollars(pub u64);

/// Maximum number of decimals: the smallest amount is a millionth of a dollar.
const DECIMALS: usize = 6;

impl FromStr for Dollars {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WANTED: &str = "write an amount in dollars such as `2` or `0.05`, with at most six decimals";
        let text = text.trim().trim_start_matches('$');
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(decimals) || decimals.len() > DECIMALS {
            return Err(WANTED);
        }
        let millionths = |text: String| text.parse::<u64>().ok();
        let all = millionths(format!("{whole}{decimals:0<DECIMALS$}"));
        all.filter(|all| i64::try_from(*all).is_ok()).map(Self).ok_or(WANTED)
    }
}

impl fmt::Display for Dollars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, millionths) = (self.0 / 1_000_000, self.0 % 1_000_000);
        let decimals = format!("{millionths:06}");
        // Always print cents; print further digits only if they are not zero.
        let kept = decimals.trim_end_matches('0').len().max(2);
        write!(f, "{whole}.{}", &decimals[..kept])
    }
}

impl TryFrom<&toml::Value> for Dollars {
    type Error = &'static str;

    fn try_from(written: &toml::Value) -> Result<Self, Self::Error> {
        match written {
            toml::Value::Integer(whole) => whole.to_string().parse(),
            // The shortest decimal representation of the float equals the written number.
            toml::Value::Float(number) => number.to_string().parse(),
            other => other.to_string().parse(),
        }
    }
}

impl<'de> Deserialize<'de> for Dollars {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = toml::Value::deserialize(deserializer)?;
        Self::try_from(&written)
            .map_err(|wanted| serde::de::Error::custom(format!("`{written}` is not an amount; {wanted}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_read_and_said() {
        let cases = [
            ("2", Some(2_000_000), "2.00"),
            ("$0.05", Some(50_000), "0.05"),
            ("1.5", Some(1_500_000), "1.50"),
            ("0.000001", Some(1), "0.000001"),
            ("0.1234567", None, ""),
            ("-1", None, ""),
            ("1e3", None, ""),
            (".5", None, ""),
            ("", None, ""),
            ("99999999999999", None, ""),
        ];
        for (text, wanted, said) in cases {
            let read = text.parse::<Dollars>().ok();
            assert_eq!(read.map(|dollars| dollars.0), wanted, "{text}");
            assert_eq!(read.map(|dollars| dollars.to_string()).unwrap_or_default(), said);
        }
    }
}
