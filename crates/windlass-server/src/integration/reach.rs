//! The external systems that integrations may call: public systems over `https`, and internal systems that the operator
//! names.
//!
//! The library's outbound guard enforces the rules. This module also rejects URLs other than plain `https` addresses.

use http::StatusCode;
use windlass::outbound::{Host, Outbound, Ports, Reach as Rules, Refusal, Request, Url};

/// The rules for calling external systems.
#[derive(Clone)]
pub struct Reach {
    out: Outbound,
}

impl Reach {
    /// Allows public systems and the given internal hosts, on any port, because administrators enter the URLs.
    pub fn new(internal_hosts: Vec<Host>) -> Self {
        let rules = Rules { internal_hosts, ports: Ports::Any, ..Rules::default() };
        Self { out: Outbound::new(rules) }
    }

    /// Parses a system's URL, or returns the reason why the URL is invalid. The outbound guard checks the address
    /// later.
    pub fn target(&self, text: &str) -> Result<Url, &'static str> {
        let url = Url::parse(text).map_err(|_| "is not a URL")?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err("has a query or a fragment");
        }
        match self.out.reach().judge(&url, None) {
            Err(Refusal::Credentials) => return Err("contains credentials; send them as `credentials`"),
            Err(Refusal::NoHost) => return Err("has no host"),
            // The guard learns the address of a host only at the call, whose error details are not returned.
            Err(_) | Ok(()) => {}
        }
        match url.scheme() {
            "https" => Ok(url),
            "http" if self.out.reach().is_inside(&url) => Ok(url),
            "http" => Err("does not use https, and `[server] internal_hosts` does not list its host"),
            _ => Err("does not use https"),
        }
    }

    /// Sends a request. Returns the status of the response, or `None` if the request failed or was not allowed.
    pub async fn ask(&self, request: Request) -> Option<StatusCode> {
        self.out.send(request).await.ok().map(|response| response.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_https_addresses_are_taken_and_those_that_are_named() {
        let hosts = ["10.0.0.0/8", "Jenkins.local"];
        let reach = Reach::new(hosts.iter().map(|host| host.parse().unwrap()).collect());
        for good in
            ["https://ci.example.com/a", "http://10.1.2.3", "http://JENKINS.local:8080", "https://[::1]"]
        {
            assert!(reach.target(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "ci.example.com",
            "file:///etc/passwd",
            "ftp://10.1.2.3",
            "http://ci.example.com",
            "http://127.0.0.1",
            "http://0x7f.1",
            "https://bot:x@ci.example.com",
            "https://ci.example.com/?",
            "https://ci.example.com/#x",
        ] {
            assert!(reach.target(bad).is_err(), "{bad}");
        }
    }
}
