//! A deserialization target that accepts any JSON in which no object repeats a key. The target discards the values.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Any JSON in which no object repeats a key.
pub struct Unique;

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Look)
    }
}

struct Look;

impl<'de> Visitor<'de> for Look {
    type Value = Unique;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_str<E>(self, _: &str) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Unique, A::Error> {
        while items.next_element::<Unique>()?.is_some() {}
        Ok(Unique)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Unique, A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = members.next_key::<String>()? {
            members.next_value::<Unique>()?;
            if let Some(key) = seen.replace(key) {
                let shown: String = key.chars().take(100).collect();
                return Err(A::Error::custom(format!("duplicate key `{shown}`")));
            }
        }
        Ok(Unique)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Option<String> {
        serde_json::from_slice::<Unique>(text.as_bytes()).err().map(|error| error.to_string())
    }

    #[test]
    fn a_key_stands_once_at_every_depth() {
        assert_eq!(refused(r#"{"a":{"b":1,"c":[{"b":null}]},"b":"\u0061","c":-1.5e3,"d":true}"#), None);
        assert_eq!(
            refused(r#"[{"x":[{"a":1,"\u0061":2}]}]"#).unwrap(),
            "duplicate key `a` at line 1 column 25"
        );
        let deep = "[".repeat(10_000);
        assert_eq!(refused(&deep).unwrap(), "recursion limit exceeded at line 1 column 128");
        assert!(refused("{\"a\": 18446744073709551616, \"b\": 1e400}").is_some(), "a number without a value");
    }
}
