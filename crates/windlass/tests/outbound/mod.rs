//! Which requests pass the guard.

pub mod answers;
mod far;
mod judged;
mod redirects;

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::Method;
use windlass::outbound::{
    Limits, Outbound, OutboundError, Ports, Reach, Refusal, Request, Resolver, Response,
};

pub use far::{Asked, Far, Reply};

/// Names that resolve as a test defines, one result after another; the last one stays.
#[derive(Default)]
pub struct Names {
    known: HashMap<&'static str, Vec<Vec<IpAddr>>>,
    asked: Mutex<Vec<String>>,
}

impl Names {
    pub fn new(known: &[(&'static str, &[&str])]) -> Self {
        let read = |answer: &&str| answer.split(' ').map(|address| address.parse().unwrap()).collect();
        let known = known.iter().map(|(name, answers)| (*name, answers.iter().map(read).collect()));
        Self { known: known.collect(), asked: Mutex::default() }
    }

    /// The names that were looked up.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Resolver for Names {
    fn resolve(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let mut asked = self.asked.lock().unwrap();
        let before = asked.iter().filter(|known| *known == host).count();
        asked.push(host.to_owned());
        let answers = self.known.get(host.trim_end_matches('.'));
        let found = answers.and_then(|answers| answers.get(before).or(answers.last()).cloned());
        async move { found.ok_or_else(|| io::Error::other("no such name")) }.boxed()
    }
}

/// Rules with these hosts as internal, at any port.
pub fn inside(hosts: &[&str]) -> Reach {
    let internal_hosts = hosts.iter().map(|host| host.parse().unwrap()).collect();
    Reach { internal_hosts, ports: Ports::Any, ..Reach::default() }
}

/// A client with these rules and names.
pub fn way(reach: Reach, names: &[(&'static str, &[&str])]) -> Outbound {
    Outbound::with_resolver(reach, Arc::new(Names::new(names)))
}

/// A request that may take a second and return 10,000 bytes.
fn request(url: &str) -> Result<Request, Refusal> {
    let unread =
        |error: url_error::Error| Refusal::Unreadable { text: url.to_owned(), why: error.to_string() };
    let url = windlass::outbound::Url::parse(url).map_err(unread)?;
    let limits = Limits { within: Duration::from_secs(20), max_bytes: 10_000 };
    Ok(Request { limits, ..Request::new(Method::GET, url) })
}

pub async fn get(way: &Outbound, url: &str) -> Result<Response, OutboundError> {
    way.send(request(url)?).await
}

/// A client with the default rules, at any port, with misleading names.
pub fn world() -> Outbound {
    let names: Vec<_> = judged::NAMES.iter().filter(|(name, _)| *name != "nothing.test").copied().collect();
    way(Reach { ports: Ports::Any, ..Reach::default() }, &names)
}

mod url_error {
    pub type Error = <windlass::outbound::Url as std::str::FromStr>::Err;
}
