//! The model adapter: providers over HTTP, and the built-in demo model.
//!
//! Chat completions are written and read here, and so are the replies of the other wires; their requests stand on
//! `rig-core`, whose types stay in here. What the library does not do (raw stop reasons, stall time-outs, typed
//! errors, compact storage of a provider's items) is added on top.
//! It retries nothing and stores nothing.

mod body;
mod capture;
mod catalog;
mod chat;
mod cloud;
mod config;
mod demo;
mod failure;
mod generate;
mod history;
mod info;
mod messages;
mod native;
#[cfg(all(test, feature = "testing"))]
mod oracle;
mod provider;
mod responses;
mod schema;
mod settings;
mod stream;
#[cfg(feature = "testing")]
pub mod testing;
mod transport;
mod wire;

pub use catalog::{ProviderCatalog, ProviderCatalogBuilder, ProviderStatus};
pub use config::{Auth, KnownModel, ProviderConfig, Secret, WireKind};
pub use demo::{DEMO_MODEL, DemoModel};
