//! The model adapter: providers over HTTP, and the built-in demo model.
//!
//! Each wire is written and read here. Bedrock's is the model library's (`rig-core`, feature `bedrock`), which is also the
//! oracle in the tests; its types stay in here.
//! It retries nothing and stores nothing.

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
