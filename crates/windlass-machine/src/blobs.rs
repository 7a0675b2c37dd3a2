//! Finds the blobs that a recorded value references, by the types of its fields.
//!
//! A serializer collects the digest of each [`BlobRef`]. Texts and JSON values that look like a reference are
//! ignored, and fields that are added later are found automatically. `BlobRef` must not be flattened
//! (`#[serde(flatten)]`) into another type, because serde then hides its name.
//!
//! [`BlobRef`]: crate::message::BlobRef

use serde::Serialize;
use serde::ser::{self, Serializer};
use serde_json::{Error, Value};

use crate::event::Event;
use crate::id::Digest;
use crate::input::Input;

/// The serialised name of `BlobRef`, and its digest field.
const BLOB: (&str, &str) = ("BlobRef", "digest");

impl Event {
    /// Returns the blobs that the event references, in order, possibly with duplicates.
    pub fn blobs(&self) -> Vec<Digest> {
        blobs_of(self)
    }
}

impl Input {
    /// Returns the blobs that the input references, in order, possibly with duplicates.
    pub fn blobs(&self) -> Vec<Digest> {
        blobs_of(self)
    }
}

fn blobs_of(value: &impl Serialize) -> Vec<Digest> {
    let mut found = Vec::new();
    // The finder accepts everything that JSON can represent, and no other value is stored.
    let looked = value.serialize(Finder { found: &mut found });
    debug_assert!(looked.is_ok(), "{looked:?}");
    found
}

struct Finder<'a> {
    found: &'a mut Vec<Digest>,
}

impl Finder<'_> {
    fn look(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), Error> {
        value.serialize(Finder { found: self.found })
    }
}

/// The parts of a composite value.
struct Parts<'a> {
    finder: Finder<'a>,
    is_blob: bool,
}

impl<'a> Parts<'a> {
    fn of(finder: Finder<'a>) -> Self {
        Self { finder, is_blob: false }
    }
}

macro_rules! nothing_in {
    ($($method:ident: $type:ty),+ $(,)?) => {
        $(fn $method(self, _: $type) -> Result<(), Error> {
            Ok(())
        })+
    };
}

impl<'a> Serializer for Finder<'a> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Parts<'a>;
    type SerializeTuple = Parts<'a>;
    type SerializeTupleStruct = Parts<'a>;
    type SerializeTupleVariant = Parts<'a>;
    type SerializeMap = Parts<'a>;
    type SerializeStruct = Parts<'a>;
    type SerializeStructVariant = Parts<'a>;

    nothing_in! {
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_f32: f32,
        serialize_f64: f64, serialize_char: char, serialize_str: &str, serialize_bytes: &[u8],
        serialize_i128: i128, serialize_u128: u128, serialize_unit_struct: &'static str,
    }

    fn serialize_none(self) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_unit(self) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Parts<'a>, Error> {
        Ok(Parts::of(self))
    }

    fn serialize_tuple(self, _: usize) -> Result<Parts<'a>, Error> {
        Ok(Parts::of(self))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Parts<'a>, Error> {
        Ok(Parts::of(self))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Parts<'a>, Error> {
        Ok(Parts::of(self))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Parts<'a>, Error> {
        Ok(Parts::of(self))
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Parts<'a>, Error> {
        Ok(Parts { finder: self, is_blob: name == BLOB.0 })
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Parts<'a>, Error> {
        Ok(Parts::of(self))
    }
}

macro_rules! look_at_each {
    ($($part:ident: $method:ident),+ $(,)?) => {
        $(impl ser::$part for Parts<'_> {
            type Ok = ();
            type Error = Error;
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.finder.look(value)
            }
            fn end(self) -> Result<(), Error> {
                Ok(())
            }
        })+
    };
}

look_at_each! {
    SerializeSeq: serialize_element,
    SerializeTuple: serialize_element,
    SerializeTupleStruct: serialize_field,
    SerializeTupleVariant: serialize_field,
}

impl ser::SerializeMap for Parts<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, _: &T) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.finder.look(value)
    }

    fn end(self) -> Result<(), Error> {
        Ok(())
    }
}

impl ser::SerializeStruct for Parts<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
        if !self.is_blob {
            return self.finder.look(value);
        }
        if key == BLOB.1
            && let Value::String(hex) = serde_json::to_value(value)?
        {
            self.finder.found.extend(Digest::from_hex(&hex));
        }
        Ok(())
    }

    fn end(self) -> Result<(), Error> {
        Ok(())
    }
}

impl ser::SerializeStructVariant for Parts<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, _: &'static str, value: &T) -> Result<(), Error> {
        self.finder.look(value)
    }

    fn end(self) -> Result<(), Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::BlobRef;

    #[derive(Serialize)]
    struct Wide {
        first: BlobRef,
        numbers: (i128, u128),
        second: BlobRef,
    }

    #[test]
    fn a_number_of_any_width_does_not_end_the_list() {
        let blob = |seed: &[u8]| BlobRef {
            digest: Digest::of(seed),
            media_type: "text/plain".into(),
            size_bytes: 1,
            tokens: 1,
        };
        let wide = Wide { first: blob(b"a"), numbers: (i128::MIN, u128::MAX), second: blob(b"b") };
        assert_eq!(blobs_of(&wide), [Digest::of(b"a"), Digest::of(b"b")]);
    }
}
