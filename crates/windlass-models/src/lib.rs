//! The model adapter: providers over HTTP, and the built-in demo model.
//!
//! It stands on `rig-core`, whose types stay in here. What the library does not do (raw stop
//! reasons, stall time-outs, typed errors, compact storage of a provider's items) is added on top.
//! It retries nothing and stores nothing.

#[cfg(feature = "bedrock")]
mod bedrock;
mod catalog;
mod cloud;
mod config;
mod demo;
mod endpoint;
mod failure;
mod history;
mod info;
mod media;
mod native;
mod preset;
mod provider;
mod reply;
mod rewrite;
mod schema;
mod settings;
mod stop;
mod stream;
#[cfg(feature = "testing")]
pub mod testing;
mod transport;
#[cfg(feature = "vertex")]
mod vertex;
mod wire;

pub use catalog::{ProviderCatalog, ProviderCatalogBuilder, ProviderStatus};
pub use config::{Auth, KnownModel, ProviderConfig, Secret, WireKind};
pub use demo::{DEMO_MODEL, DemoModel};
