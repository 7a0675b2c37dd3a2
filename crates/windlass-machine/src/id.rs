//! Identifiers, positions and times, each with its own type.
//!
//! This module generates no ids: ids arrive in inputs or are derived from other ids, so that a replay of the same
//! inputs gives the same journal.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$doc:meta] $name:ident),+ $(,)?) => {$(
        #[$doc]
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps a text as an id of this kind.
            pub fn new(id: impl Into<Arc<str>>) -> Self {
                Self(id.into())
            }
            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl From<&str> for $name {
            fn from(id: &str) -> Self {
                Self(id.into())
            }
        }
        impl From<String> for $name {
            fn from(id: String) -> Self {
                Self(id.into())
            }
        }
    )+};
}

text_id! {
    /// A thread: the long-lived conversation with one journal.
    ThreadId,
    /// One activation of an agent in a thread.
    RunId,
    /// The client's id of an input, by which the machine deduplicates repeated sends.
    InputId,
    /// The dispatch of one tool call: `(thread, run, step, call index)`, derived and stable.
    EffectId,
    /// An interrupt, which a run waits for.
    InterruptId,
    /// The author of an action: a user, an API key, `policy`, or `engine`.
    Principal,
    /// A model's name, `provider/model`.
    ModelName,
    /// A tool's name as the model sees it.
    ToolName,
}

/// A position in a thread's journal; the first event has 1, and 0 is before all events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// Returns the next position.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Milliseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Returns the time `ms` milliseconds later.
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }
    /// Returns the milliseconds from `earlier` to this time; 0 if `earlier` is later.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A model call of a run: its step and the attempt at it, both counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Attempt {
    /// Number of the step in the run.
    pub step: u32,
    /// Number of the attempt at this step; only recorded if it is not the first.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub attempt: u32,
}

fn first() -> u32 {
    1
}

fn is_first(attempt: &u32) -> bool {
    *attempt == 1
}

/// A tool call of a step, by its index in the model's reply, counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallKey {
    /// Step that requested the call.
    pub step: u32,
    /// Index of the call in the step's reply.
    pub index: u32,
}

impl EffectId {
    /// Derives the effect id of a call. The same call always has the same id.
    pub fn derive(thread: &ThreadId, run: &RunId, call: CallKey) -> Self {
        Self::from(format!("{thread}/{run}/{}/{}", call.step, call.index))
    }
}

/// A BLAKE3 digest, formatted as 64 hexadecimal digits.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Computes the digest of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
    /// Computes the digest of this digest and a value's JSON.
    pub fn chain(&self, value: &impl Serialize) -> Self {
        struct Sink(blake3::Hasher);
        impl std::io::Write for Sink {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.update(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let mut sink = Sink(blake3::Hasher::new());
        sink.0.update(&self.0);
        // A hasher accepts every byte, and our values always serialise, so this cannot fail.
        let _ = serde_json::to_writer(std::io::BufWriter::with_capacity(512, &mut sink), value);
        Self(*sink.0.finalize().as_bytes())
    }
    /// Returns the 32 raw bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
    /// Parses 64 hexadecimal digits; `None` for anything else.
    pub fn from_hex(hex: &str) -> Option<Self> {
        blake3::Hash::from_hex(hex).ok().map(|hash| Self(*hash.as_bytes()))
    }
}

/// The first half of a [`Digest`], shown as 32 hexadecimal digits. Use it only for values where a deliberate
/// collision is no attack; approvals and blobs use whole digests.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 16]);

impl From<Digest> for Fingerprint {
    fn from(digest: Digest) -> Self {
        let mut half = [0; 16];
        half.copy_from_slice(&digest.0[..16]);
        Self(half)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let hex = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        let is_hex = hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        match u128::from_str_radix(&hex, 16) {
            Ok(number) if is_hex => Ok(Self(number.to_be_bytes())),
            Ok(_) | Err(_) => {
                let why = format!("`{hex}` is not a fingerprint of 32 hexadecimal digits");
                Err(serde::de::Error::custom(why))
            }
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let hex = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::from_hex(&hex).ok_or_else(|| {
            serde::de::Error::custom(format!("`{hex}` is not a BLAKE3 digest of 64 hexadecimal digits"))
        })
    }
}
