//! Windlass: a durable engine for LLM agents.
//!
//! The crate that programs depend on: the engine of `windlass-engine` with its stores, models and tools, and a
//! [`builder`] that has a default for every option. It knows neither HTTP servers nor command lines.
//!
//! ```
//! # #[tokio::main]
//! # async fn main() -> Result<(), windlass::EngineError> {
//! use windlass::models::DEMO_MODEL;
//! use windlass::{Status, Task};
//!
//! let engine = windlass::builder().build().await?;
//! let outcome = engine.run_task(Task::new(DEMO_MODEL.into(), "Hello")).await?;
//! assert_eq!(outcome.status, Status::Done);
//! # Ok(())
//! # }
//! ```
//!
//! Features: `sqlite`, `pdf` and `yaml` (on by default), `mcp`, `bedrock`, `vertex`, and `testing`.

use std::sync::Arc;

pub use windlass_engine::*;
#[cfg(feature = "mcp")]
pub use windlass_mcp as mcp;
pub use windlass_models as models;
pub use windlass_outbound as outbound;
pub use windlass_outbound::secret;
#[cfg(feature = "sqlite")]
pub use windlass_sqlite as sqlite;
pub use windlass_tools::{media_type, reader};

use self::models::ProviderCatalog;
use self::port::model::Models;
use self::tool::{JsonSchemas, Registry};

/// Starts building an engine. By default, it keeps threads in memory, has no tools, and calls the models whose keys are
/// in the environment.
pub fn builder() -> Builder {
    Builder::new(registry(), || Ok(Arc::new(ProviderCatalog::builder().build()?) as Arc<dyn Models>))
}

/// Creates a registry without tools, which validates arguments against JSON schemas.
pub fn registry() -> Registry {
    Registry::new(Arc::new(JsonSchemas))
}

/// Tools: the engine's registry and folder, function tools, and the built-in ones.
pub mod tool {
    pub use windlass_engine::tool::*;
    pub use windlass_schema::{
        ContentKind, FunctionTool, IntoToolOutcome, Json, JsonSchemas, Typed, TypedContent, schema_for,
    };
    #[cfg(target_os = "linux")]
    pub use windlass_tools::sandbox;
    pub use windlass_tools::{api, builtin, web};
}

/// For tests of programs that embed Windlass, and of ports that other crates implement.
#[cfg(feature = "testing")]
pub mod testing {
    pub use windlass_engine::testing::*;
    #[cfg(feature = "mcp")]
    pub use windlass_mcp::testing as mcp;
    pub use windlass_models::testing as provider;
    pub use windlass_tools::testing as fuzz;
    pub use windlass_tools::testing::rights_of;
}
