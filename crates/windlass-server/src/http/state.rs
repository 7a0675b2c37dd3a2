//! The state that all handlers share.

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

/// State shared by all handlers.
pub struct App {
    pub engine: Engine,
    /// Models available to the engine.
    pub models: Arc<Catalog>,
    pub accounts: Accounts,
    pub config: AppConfig,
    /// Origins at which the server accepts requests.
    pub origins: Origins,
    /// Working folders of users.
    pub homes: Homes,
    /// Integrations: external systems that workspaces are connected to.
    pub integrations: Arc<Integrations>,
    pub servers: Arc<Servers>,
    pub limits: AppLimits,
    pub streams: AppStreams,
    pub monitoring: Monitoring,
    /// Outward dialects that this server serves.
    pub dialects: Vec<Arc<dyn Dialect>>,
}

/// Configuration at server start.
pub struct AppConfig {
    pub settings: Settings,
    /// Agent of new runs.
    pub agent: AgentConfig,
    /// Active policy files, as read at server start.
    pub policies: Vec<InForce>,
}

/// Limits on requests.
pub struct AppLimits {
    /// Request rate limits per caller.
    pub limiter: Limiter,
    pub uploading: Uploading,
    /// Generation of thread titles.
    pub titles: Titles,
}

impl AppLimits {
    pub fn new(limiter: Limiter) -> Self {
        Self { limiter, uploading: Uploading::default(), titles: Titles::default() }
    }
}

/// State that all streams share.
pub struct AppStreams {
    /// Encoded frames, shared by the readers of each thread.
    pub frames: Frames,
    /// This token is cancelled at shutdown: streams then close with a reconnect hint, and no new work starts.
    pub stopping: CancellationToken,
}

/// Metrics and access to them.
pub struct Monitoring {
    pub metrics: Arc<Metrics>,
    /// Token that allows an external scraper to read the metrics.
    pub scrape: Option<Secret>,
}

impl App {
    /// Returns whether a request contains the scrape token.
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

/// [`App`], as handlers receive it.
pub type Shared = Arc<App>;
