//! Lenient parsing of a provider's JSON fields: a value of another type is treated as absent.
//!
//! Text is borrowed from the event if it has no escapes.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// A string.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text<'a>(pub Option<Cow<'a, str>>);

impl Text<'_> {
    /// Returns the string, unless it is absent or empty.
    pub(crate) fn filled(&self) -> Option<&str> {
        self.0.as_deref().filter(|text| !text.is_empty())
    }
}

/// A non-negative integer, also if written as `12.0` or `"12"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count(pub Option<u64>);

/// An object with known fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object<T>(pub Option<T>);

impl<T> Default for Object<T> {
    fn default() -> Self {
        Self(None)
    }
}

/// A list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct List<T>(pub Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// Repairs the bytes of an invalid event: replaces invalid UTF-8, as browsers do, and keeps the last value of
/// duplicate keys. Returns `None` if the event is not JSON or has another form.
pub(crate) fn repaired(data: &[u8], error: &serde_json::Error) -> Option<Vec<u8>> {
    if std::str::from_utf8(data).is_err() {
        return Some(String::from_utf8_lossy(data).into_owned().into_bytes());
    }
    let value = error.is_data().then(|| serde_json::from_slice::<Value>(data).ok())??;
    let repaired = value.to_string().into_bytes();
    (repaired != data).then_some(repaired)
}

/// The visitor methods that treat a value of another type as absent.
macro_rules! absent {
    ($($kind:ident)*) => { $(absent!(@ $kind);)* };
    (@ bool) => { fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> { Ok(Self::Value::default()) } };
    (@ signed) => { fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> { Ok(Self::Value::default()) } };
    (@ unsigned) => { fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> { Ok(Self::Value::default()) } };
    (@ float) => { fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> { Ok(Self::Value::default()) } };
    (@ null) => { fn visit_unit<E>(self) -> Result<Self::Value, E> { Ok(Self::Value::default()) } };
    (@ string) => { fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> { Ok(Self::Value::default()) } };
    (@ list) => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok(Self::Value::default())
        }
    };
    (@ object) => {
        fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
            while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(Self::Value::default())
        }
    };
}

pub(crate) use absent;

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Some(Cow::Borrowed(text))))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Some(Cow::Owned(text.to_owned()))))
            }
            absent!(bool signed unsigned float null list object);
        }
        deserializer.deserialize_any(TextVisitor)
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CountVisitor;
        impl<'de> Visitor<'de> for CountVisitor {
            type Value = Count;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a non-negative integer")
            }
            fn visit_u64<E>(self, count: u64) -> Result<Self::Value, E> {
                Ok(Count(Some(count)))
            }
            fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
                // Floating-point numbers are exact up to 2^53, far above any token count.
                let is_count = number.fract() == 0.0 && (0.0..9e15).contains(&number);
                Ok(Count(is_count.then_some(number as u64)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Count(text.parse().ok()))
            }
            absent!(bool signed null list object);
        }
        deserializer.deserialize_any(CountVisitor)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = Object<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Self::Value, A::Error> {
                T::deserialize(serde::de::value::MapAccessDeserializer::new(object))
                    .map(|value| Object(Some(value)))
            }
            absent!(bool signed unsigned float null string list);
        }
        deserializer.deserialize_any(ObjectVisitor(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
            type Value = List<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(List(items))
            }
            absent!(bool signed unsigned float null string object);
        }
        deserializer.deserialize_any(ListVisitor(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Inner {
        count: Count,
    }

    #[test]
    fn values_of_other_types_are_absent() {
        const VALUES: [&str; 8] = [
            "null",
            "true",
            "-1",
            "1",
            "1.5",
            "\"a\\nb\"",
            "[1, {\"a\": []}]",
            "{\"count\": 2, \"x\": [{}]}",
        ];
        let text = |json| serde_json::from_str::<Text<'_>>(json).unwrap().0.map(Cow::into_owned);
        assert_eq!(VALUES.map(text), [None, None, None, None, None, Some("a\nb".to_owned()), None, None]);
        let count = |json| serde_json::from_str::<Count>(json).unwrap().0;
        assert_eq!(VALUES.map(count), [None, None, None, Some(1), None, None, None, None]);
        let object = |json| serde_json::from_str::<Object<Inner>>(json).unwrap().0.map(|inner| inner.count.0);
        assert_eq!(VALUES.map(object), [None, None, None, None, None, None, None, Some(Some(2))]);
        let list = |json| serde_json::from_str::<List<Count>>(json).unwrap().0.len();
        assert_eq!(VALUES.map(list), [0, 0, 0, 0, 0, 0, 2, 0]);
    }

    #[test]
    fn counts_in_other_spellings() {
        let count = |json| serde_json::from_str::<Count>(json).unwrap().0;
        assert_eq!(
            ["12.0", "\"12\"", "1e300", "-1.0", "\"x\""].map(count),
            [Some(12), Some(12), None, None, None]
        );
    }

    #[test]
    fn of_a_repeated_key_the_last_value_counts() {
        let read = |json: &str| serde_json::from_str::<Inner>(json);
        let twice = r#"{"count":1,"count":2}"#;
        let repaired = repaired(twice.as_bytes(), &read(twice).unwrap_err()).unwrap();
        assert_eq!(read(std::str::from_utf8(&repaired).unwrap()).unwrap().count, Count(Some(2)));
    }

    #[test]
    fn text_without_escapes_is_borrowed() {
        assert!(matches!(serde_json::from_str("\"plain\"").unwrap(), Text(Some(Cow::Borrowed("plain")))));
    }
}
