//! The state that handlers share.

pub mod dialect;
pub mod limiter;
pub mod metrics;
pub mod origins;
pub mod titles;
pub mod uploading;

use std::sync::Arc;

use http::{HeaderMap, header};
use tokio_util::sync::CancellationToken;
use windlass::models::Secret;
use windlass::{AgentConfig, Engine};

use self::dialect::Dialect;
use self::limiter::Limiter;
use self::metrics::Metrics;
use self::origins::Origins;
use self::titles::Titles;
use self::uploading::Uploading;
use super::stream::frame::Frames;
use crate::account::Accounts;
use crate::catalog::Catalog;
use crate::config::Settings;
use crate::home::Homes;
use crate::integration::Integrations;
use crate::policy::InForce;
use crate::servers::Servers;

/// What handlers share.
pub struct App {
    /// The engine.
    pub engine: Engine,
    /// Its models.
    pub models: Arc<Catalog>,
    /// The accounts of its store.
    pub accounts: Accounts,
    /// What the server was started with.
    pub config: AppConfig,
    /// The addresses that it answers at.
    pub origins: Origins,
    /// The folders of its people.
    pub homes: Homes,
    /// The systems that workspaces are connected with.
    pub integrations: Arc<Integrations>,
    /// The tool servers.
    pub servers: Arc<Servers>,
    /// What keeps requests within bounds.
    pub limits: AppLimits,
    /// What streams share.
    pub streams: AppStreams,
    /// What is counted, and who may read it.
    pub monitoring: Monitoring,
    /// The outward dialects that are served.
    pub dialects: Vec<Arc<dyn Dialect>>,
}

/// What a server was started with.
pub struct AppConfig {
    /// Its settings.
    pub settings: Settings,
    /// The agent that new runs get.
    pub agent: AgentConfig,
    /// The policy files that count, as they were when the server started.
    pub policies: Vec<InForce>,
}

/// What keeps requests within bounds.
pub struct AppLimits {
    /// The requests of each caller.
    pub limiter: Limiter,
    /// Uploads.
    pub uploading: Uploading,
    /// The making of titles.
    pub titles: Titles,
}

impl AppLimits {
    /// The bounds of a server that has just started.
    pub fn new(limiter: Limiter) -> Self {
        Self { limiter, uploading: Uploading::default(), titles: Titles::default() }
    }
}

/// What streams share.
pub struct AppStreams {
    /// The readers of each thread.
    pub frames: Frames,
    /// Cancelled when the server is to end: streams close with a hint to come back, and nothing new is begun.
    pub stopping: CancellationToken,
}

/// What is counted, and who may read it.
pub struct Monitoring {
    /// The figures.
    pub metrics: Arc<Metrics>,
    /// The token that reads them from elsewhere.
    pub scrape: Option<Secret>,
}

impl App {
    /// Whether a request brings the scrape token.
    pub fn has_scrape_token(&self, headers: &HeaderMap) -> bool {
        let brought = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let (Some(brought), Some(token)) =
            (brought.and_then(|value| value.strip_prefix("Bearer ")), &self.monitoring.scrape)
        else {
            return false;
        };
        aws_lc_rs::constant_time::verify_slices_are_equal(
            brought.trim().as_bytes(),
            token.expose().as_bytes(),
        )
        .is_ok()
    }
}

/// [`App`] as handlers get it.
pub type Shared = Arc<App>;
