//! The OAuth callback page of a process without an HTTP server, and the confirmation page of both kinds of processes.
//! The confirmation protects against sign-ins that another person has started.
//!
//! The page accepts only OAuth redirects, only on loopback, and exists as long as its process.

use std::sync::{Arc, Weak};

use axum::extract::{Query, State};
use axum::response::Response;
use axum::routing::get;
use axum::{Form, Router};
use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, watch};
use windlass::mcp::SignInReturn;

use super::Servers;
use super::sign_in::{BegunBy, OpenSignIn, SignInError};
use crate::account::people::user::local;
use crate::page::{escaped, page};
use crate::text::first_line;
use crate::trouble::Trouble;

/// Preferred port. A manually registered client needs a fixed redirect URI.
const PORT: u16 = 7719;

/// The callback page.
pub struct Page {
    /// URL of the page.
    pub address: String,
    listener: Mutex<Option<TcpListener>>,
    ended: watch::Sender<Option<Ended>>,
}

/// The result of a sign-in.
#[derive(Clone, Debug)]
pub struct Ended {
    /// State parameter of the sign-in.
    pub state: String,
    /// The name of the server, or the error.
    pub how: Result<String, String>,
}

impl Page {
    /// The page's URL with the preferred port.
    pub const USUAL: &str = "http://127.0.0.1:7719/callback";

    /// Binds the preferred port, or another port if the preferred one is in use.
    pub async fn listen() -> Result<Self, Trouble> {
        let listener = match TcpListener::bind(("127.0.0.1", PORT)).await {
            Ok(listener) => Ok(listener),
            Err(_) => TcpListener::bind(("127.0.0.1", 0)).await,
        };
        let failed = |error: std::io::Error| {
            Trouble::engine(format!("cannot listen on this machine for the redirect of a sign-in: {error}"))
        };
        let listener = listener.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let address = format!("http://127.0.0.1:{port}/callback");
        Ok(Self { address, listener: Mutex::new(Some(listener)), ended: watch::Sender::new(None) })
    }

    /// Subscribes to the results of sign-ins. Requests with an unknown state parameter produce no result.
    pub fn ended(&self) -> watch::Receiver<Option<Ended>> {
        self.ended.subscribe()
    }

    /// Serves the page until the servers are dropped.
    pub(super) fn serve(self: &Arc<Self>, servers: &Arc<Servers>) {
        let (page, servers) = (self.clone(), Arc::downgrade(servers));
        tokio::spawn(async move {
            let Some(listener) = page.listener.lock().await.take() else { return };
            let router =
                Router::new().route("/callback", get(come_back).post(confirm)).with_state((page, servers));
            if let Err(error) = axum::serve(listener, router).await {
                tracing::warn!(%error, "the listener for sign-in redirects has stopped");
            }
        });
    }

    /// Finishes a sign-in and renders the result.
    async fn end(&self, servers: &Servers, back: SignInReturn) -> Response {
        let how = servers.finish_sign_in(&back, &local()).await.map_err(|error| error.to_string());
        let said = if how.is_ok() { SIGNED_IN } else { FAILED };
        self.ended.send_replace(Some(Ended { state: back.state, how }));
        page(StatusCode::OK, said)
    }
}

const SIGNED_IN: &str = "<h1>You are signed in</h1><p>Return to the terminal.";
const FAILED: &str = "<h1>Sign-in failed</h1><p>The terminal shows the reason.";

/// Query parameters of an OAuth redirect.
#[derive(Deserialize)]
struct Brought {
    code: Option<String>,
    state: Option<String>,
    iss: Option<String>,
    error: Option<String>,
}

type Serving = State<(Arc<Page>, Weak<Servers>)>;

async fn come_back(State((own, servers)): Serving, Query(brought): Query<Brought>) -> Response {
    let Brought { code, state, iss, error } = brought;
    let (Some(servers), Some(state)) = (Weak::upgrade(&servers), state) else { return nothing() };
    let open = match servers.open_sign_in(&state, &local().principal).await {
        Ok(open) => open,
        Err(SignInError::Unknown | SignInError::Another) => return nothing(),
        Err(error) => {
            own.ended.send_replace(Some(Ended { state, how: Err(error.to_string()) }));
            return page(StatusCode::OK, FAILED);
        }
    };
    let Some(code) = code else {
        let why = first_line(error.as_deref().unwrap_or("the redirect has no authorization code"), 200);
        own.ended.send_replace(Some(Ended { state, how: Err(why) }));
        return page(StatusCode::OK, FAILED);
    };
    let back = SignInReturn { code, state, iss };
    match &open.begun {
        BegunBy::Oneself => own.end(&servers, back).await,
        BegunBy::Call(owner) => question(&open, owner.as_ref().map(|owner| owner.as_str()), &back),
    }
}

async fn confirm(
    State((own, servers)): Serving,
    headers: HeaderMap,
    Form(back): Form<SignInReturn>,
) -> Response {
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    if origin.is_none() || origin != own.address.strip_suffix("/callback") {
        return page(StatusCode::FORBIDDEN, "<h1>This request did not come from the sign-in page</h1>");
    }
    match Weak::upgrade(&servers) {
        Some(servers) => own.end(&servers, back).await,
        None => nothing(),
    }
}

fn nothing() -> Response {
    page(StatusCode::CONFLICT, "<h1>Unknown or expired sign-in</h1><p>Start it again.")
}

/// Builds the page that asks whether the user of this browser has just signed in. `owner` is the owner of the call that
/// started the sign-in. The browser submits the form to the URL of the page.
pub fn question(open: &OpenSignIn, owner: Option<&str>, back: &SignInReturn) -> Response {
    let server = escaped(&open.server);
    let begun = match (&open.begun, owner) {
        (BegunBy::Oneself, _) => "You started this sign-in.".to_owned(),
        (BegunBy::Call(_), Some(owner)) => {
            let owner = escaped(owner);
            format!("A call in a conversation of <b>{owner}</b> started it, and that user has seen its URL.")
        }
        (BegunBy::Call(_), None) => "A call in another user's conversation started it.".to_owned(),
    };
    let fields = [("code", Some(&back.code)), ("state", Some(&back.state)), ("iss", back.iss.as_ref())];
    let field = |(name, value): (&str, Option<&String>)| {
        value.map(|value| format!("<input type=hidden name={name} value=\"{}\">", escaped(value)))
    };
    let fields: String = fields.into_iter().filter_map(field).collect();
    let body = format!(
        "<h1>Sign in to {server} for everyone on this server?</h1><p>{begun} All runs on this server will \
         use <b>{server}</b> with the account that was signed in.<p>Did you just sign in there yourself? If \
         not, close this page.<form method=post action=\"callback\">{fields}<button>Yes, sign \
         in</button></form>"
    );
    page(StatusCode::OK, &body)
}
