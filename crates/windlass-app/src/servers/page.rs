//! The page on this machine that browsers come back to from signing in, where no server runs.
//!
//! It takes one thing, what a sign-in brought back, and only on the loopback address; it lives as long as its process.

use std::sync::{Arc, Weak};

use axum::Router;
use axum::extract::{Query, State};
use axum::response::Html;
use axum::routing::get;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, watch};
use windlass::adapter::mcp::SignInReturn;

use super::Servers;
use crate::console::first_line;
use crate::trouble::Trouble;

/// Where it listens if it can: a client that was registered by hand needs an address that stays.
const PORT: u16 = 7719;

/// The page.
pub struct Page {
    /// Its address.
    pub address: String,
    listener: Mutex<Option<TcpListener>>,
    ended: watch::Sender<Option<Ended>>,
}

/// How a sign-in ended: at which server, or why not.
pub type Ended = Result<String, String>;

impl Page {
    /// Its usual address.
    pub const USUAL: &str = "http://127.0.0.1:7719/callback";

    /// Listens, at another port where the usual one is taken.
    pub async fn listen() -> Result<Self, Trouble> {
        let listener = match TcpListener::bind(("127.0.0.1", PORT)).await {
            Ok(listener) => Ok(listener),
            Err(_) => TcpListener::bind(("127.0.0.1", 0)).await,
        };
        let failed = |error: std::io::Error| {
            Trouble::engine(format!("cannot listen on this machine for the end of a sign-in: {error}"))
        };
        let listener = listener.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let address = format!("http://127.0.0.1:{port}/callback");
        Ok(Self { address, listener: Mutex::new(Some(listener)), ended: watch::Sender::new(None) })
    }

    /// Told how each sign-in ended.
    pub fn ended(&self) -> watch::Receiver<Option<Ended>> {
        self.ended.subscribe()
    }

    /// Takes what browsers bring, as long as the servers are there.
    pub(super) fn serve(self: &Arc<Self>, servers: &Arc<Servers>) {
        let (page, servers) = (self.clone(), Arc::downgrade(servers));
        tokio::spawn(async move {
            let Some(listener) = page.listener.lock().await.take() else { return };
            let router = Router::new().route("/callback", get(callback)).with_state((page, servers));
            if let Err(error) = axum::serve(listener, router).await {
                tracing::warn!(%error, "nobody can come back from signing in");
            }
        });
    }
}

/// What a browser brings.
#[derive(Deserialize)]
struct Brought {
    code: Option<String>,
    state: Option<String>,
    iss: Option<String>,
    error: Option<String>,
}

async fn callback(
    State((page, servers)): State<(Arc<Page>, Weak<Servers>)>,
    Query(Brought { code, state, iss, error }): Query<Brought>,
) -> Html<&'static str> {
    let ended = match (Weak::upgrade(&servers), code, state) {
        (Some(servers), Some(code), Some(state)) => {
            let back = SignInReturn { code, state, iss };
            servers.finish_sign_in(&back, &crate::place::local()).await.map_err(|error| error.to_string())
        }
        (Some(_), _, _) => Err(first_line(error.as_deref().unwrap_or("the browser brought nothing"), 200)),
        (None, _, _) => Err("the command has ended".to_owned()),
    };
    let said = match &ended {
        Ok(_) => "<!doctype html><title>Windlass</title><p>You are signed in. Go back to the terminal.",
        Err(_) => "<!doctype html><title>Windlass</title><p>That did not work. The terminal says why.",
    };
    page.ended.send_replace(Some(ended));
    Html(said)
}
