//! Model providers over HTTP, and the built-in demo model.
//!
//! This crate implements each wire except Bedrock's, for which it uses the model library `rig-core` (feature
//! `bedrock`). That library is also the oracle in the tests; its types are not exposed.
//! This crate retries nothing and stores nothing.

mod body;
mod catalog;
mod chat;
mod cloud;
mod config;
mod demo;
mod envelope;
mod failure;
mod generate;
mod history;
mod info;
#[cfg(any(all(test, feature = "testing"), feature = "bedrock"))]
mod library;
mod messages;
mod native;
mod openai;
#[cfg(all(test, feature = "testing"))]
mod oracle;
mod provider;
mod responses;
mod schema;
mod settings;
mod stream;
mod table;
#[cfg(feature = "testing")]
pub mod testing;
mod transport;
mod wire;

pub use catalog::{ProviderCatalog, ProviderCatalogBuilder, ProviderStatus};
pub use config::{Auth, KnownModel, ProviderConfig, Secret, WireKind};
pub use demo::{DEMO_MODEL, DemoModel};
