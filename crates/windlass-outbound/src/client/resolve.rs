//! Resolves names and returns only the addresses that may be called.
//!
//! The HTTP client connects to these addresses without another lookup. A name therefore cannot
//! resolve to a different address after the check (DNS rebinding). Literal addresses are not
//! resolved; the rules check them as given.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::error::Refusal;
use super::reach::Reach;

/// Resolves host names.
pub trait Resolver: Send + Sync {
    /// Returns the addresses of a name.
    fn resolve(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// Uses the operating system's resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let host = host.to_owned();
        async move {
            let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        }
        .boxed()
    }
}

/// A resolver that applies the rules.
pub(super) struct Guarded {
    pub resolver: Arc<dyn Resolver>,
    pub reach: Arc<Reach>,
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().trim_end_matches('.').to_ascii_lowercase();
        let (found, reach) = (self.resolver.resolve(name.as_str()), self.reach.clone());
        async move {
            let mut refused: Option<Refusal> = None;
            let mut addresses = Vec::new();
            for address in found.await? {
                match reach.judge_address(&host, address) {
                    Ok(()) => addresses.push(SocketAddr::new(address, 0)),
                    Err(refusal) => refused = Some(refusal),
                }
            }
            match refused {
                Some(refusal) if addresses.is_empty() => Err(refusal.into()),
                Some(_) | None => Ok(Box::new(addresses.into_iter()) as Addrs),
            }
        }
        .boxed()
    }
}
