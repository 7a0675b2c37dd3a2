//! Session cookies. The address at which a request arrived determines their names and attributes.

use axum::extract::FromRequestParts;
use axum::response::AppendHeaders;
use http::header::{self, HeaderName, SET_COOKIE};
use http::uri::Authority;
use http::{HeaderMap, request};

use crate::account::sessions::session::{ACCESS_S, REFRESH_S, Tokens};
use crate::http::Shared;
use crate::http::problem::Problem;
use crate::http::state::origins::host;

/// Name of the cookie with the access token.
pub const ACCESS: &str = "windlass_auth";
/// Name of the cookie with the refresh token.
pub const REFRESH: &str = "windlass_refresh";

/// Returns the value of a request cookie. An empty value is treated as absent.
pub fn read<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let pairs = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = pairs.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, value)| *known == name && !value.is_empty()).map(|(_, value)| value)
}

/// The base address of the server at which a request arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// Scheme and authority, without a path.
    pub url: String,
    secure: bool,
}

impl FromRequestParts<Shared> for Base {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut request::Parts, app: &Shared) -> Result<Self, Problem> {
        Ok(Self::of(parts, app))
    }
}

/// `Set-Cookie` headers of a response.
pub type SetCookies = AppendHeaders<Vec<(HeaderName, String)>>;

impl Base {
    pub fn of(parts: &request::Parts, app: &Shared) -> Self {
        let host = host(&parts.uri, &parts.headers).unwrap_or_default();
        // The origin middleware has already checked the host of this request.
        Self::at(app.origins.of_host(&host).unwrap_or_default().to_owned())
    }

    /// Returns the name of one of our cookies at this address. With TLS, the name has the `__Host-` prefix, so that no
    /// other host of the same site can set it.
    pub fn name(&self, name: &str) -> String {
        if self.secure { format!("__Host-{name}") } else { name.to_owned() }
    }

    /// Reads one of our cookies from a request.
    pub fn read<'h>(&self, headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
        read(headers, &self.name(name))
    }

    /// Sets one of our cookies, with its lifetime in seconds.
    pub fn set_own(&self, name: &str, value: &str, seconds: u64) -> (HeaderName, String) {
        self.set(&self.name(name), value, seconds, "/")
    }

    pub fn at(url: String) -> Self {
        // Not all browsers keep a `Secure` cookie from a loopback address without TLS.
        let secure = !url.strip_prefix("http://").is_some_and(is_loopback);
        Self { url, secure }
    }

    /// Sets the session cookies after a sign-in.
    pub fn signed_in(&self, tokens: &Tokens) -> SetCookies {
        let mut cookies = vec![self.set_own(ACCESS, &tokens.access, ACCESS_S)];
        cookies.extend(tokens.refresh.iter().map(|token| self.set_own(REFRESH, token, REFRESH_S)));
        AppendHeaders(cookies)
    }

    /// Removes the session cookies.
    pub fn signed_out(&self) -> SetCookies {
        AppendHeaders(vec![self.set_own(ACCESS, "", 0), self.set_own(REFRESH, "", 0)])
    }

    /// Sets a cookie, with its lifetime in seconds. Values contain only letters, digits, `.`, `-` and `_`.
    pub fn set(&self, name: &str, value: &str, seconds: u64, path: &str) -> (HeaderName, String) {
        let secure = if self.secure { "; Secure" } else { "" };
        let cookie =
            format!("{name}={value}; HttpOnly; SameSite=Lax; Path={path}; Max-Age={seconds}{secure}");
        (SET_COOKIE, cookie)
    }
}

fn is_loopback(authority: &str) -> bool {
    let Ok(authority) = authority.parse::<Authority>() else { return false };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    // rows: SK-P9
    #[test]
    fn cookies_are_secure_but_for_a_loopback_address_in_clear() {
        let set = |url: &str| Base::at(url.to_owned()).set("a", "v", 9, "/").1;
        let bare = "a=v; HttpOnly; SameSite=Lax; Path=/; Max-Age=9";
        for url in ["http://127.0.0.1:7717", "http://localhost:7717", "http://[::1]:7717"] {
            assert_eq!(set(url), bare, "{url}");
        }
        for url in ["https://agents.example.com", "https://127.0.0.1:7717", "http://10.0.0.1:7717", ""] {
            assert_eq!(set(url), format!("{bare}; Secure"), "{url}");
        }
    }

    #[test]
    fn with_tls_no_neighbour_sets_our_cookies() {
        let own = |url: &str| Base::at(url.to_owned()).set_own(ACCESS, "v", 9).1;
        assert!(own("https://agents.example.com").starts_with("__Host-windlass_auth=v; "));
        assert!(own("http://127.0.0.1:7717").starts_with("windlass_auth=v; "));
        let mut headers = HeaderMap::new();
        headers.append("cookie", "windlass_auth=tossed".parse().unwrap());
        let found = |url: &str| Base::at(url.to_owned()).read(&headers, ACCESS).map(str::to_owned);
        assert_eq!(found("https://agents.example.com"), None);
        assert_eq!(found("http://127.0.0.1:7717").as_deref(), Some("tossed"));
    }

    #[test]
    fn a_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append("cookie", "x=1; windlass_auth=t.o-k_en;y=2".parse().unwrap());
        headers.append("cookie", "windlass_refresh=".parse().unwrap());
        assert_eq!((read(&headers, ACCESS), read(&headers, REFRESH)), (Some("t.o-k_en"), None));
    }
}
