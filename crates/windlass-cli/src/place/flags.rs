//! Flags that select the working folder, the store and the model.

use std::path::PathBuf;

use clap::Args;

#[derive(Args, Clone, Debug, Default)]
pub struct PlaceFlags {
    /// The working folder [default: the current directory]
    #[arg(long, value_name = "DIR", env = "WINDLASS_DIR", hide_env_values = true)]
    pub dir: Option<PathBuf>,
    /// The store's folder [default: in the user's data directory]
    #[arg(long, value_name = "PATH", env = "WINDLASS_STORE", hide_env_values = true)]
    pub store: Option<PathBuf>,
}

impl PlaceFlags {
    /// Returns the working folder, the current directory by default.
    pub fn folder(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| PathBuf::from("."))
    }
}

#[derive(Args, Clone, Debug, Default)]
pub struct ModelFlags {
    /// The model, as `provider/name`
    #[arg(long, short, value_name = "MODEL", env = windlass_server::config::MODEL, hide_env_values = true)]
    pub model: Option<String>,
    /// Another address for the model's provider [env: WINDLASS_BASE_URL]
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// The variable with that provider's key [env: WINDLASS_API_KEY_ENV]
    #[arg(long, value_name = "NAME")]
    pub api_key_env: Option<String>,
    /// Maximum steps (model calls) in a run
    #[arg(long, value_name = "N", env = "WINDLASS_MAX_STEPS",
          hide_env_values = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_steps: Option<u32>,
}
