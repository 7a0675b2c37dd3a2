//! `windlass serve`: the server, until it is told to stop.

use std::net::SocketAddr;
use std::sync::Arc;

use ::http::Uri;
use clap::Args;
use tokio_util::sync::CancellationToken;

use super::{ModelFlags, PlaceFlags};
use crate::account::Accounts;
use crate::account::user::People;
use crate::console::Console;
use crate::http::origin::Origins;
use crate::http::{self, App};
use crate::integration::Integrations;
use crate::place::{Ask, Ground};
use crate::signals::{Signal, Signals};
use crate::trouble::{Exit, Trouble};
use crate::vault::Vault;

/// Where the server listens unless something else is said.
const LISTEN: &str = "127.0.0.1:7717";

/// Arguments of `serve`.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// The address to listen at [default: 127.0.0.1:7717]; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", env = "WINDLASS_LISTEN", hide_env = true)]
    listen: Option<SocketAddr>,
    /// An address that people reach the server by, such as https://agents.example.com
    #[arg(long = "public-url", value_name = "URL")]
    public_urls: Vec<Uri>,
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    place: PlaceFlags,
}

/// Runs `serve`.
pub async fn run(console: &Console, args: &ServeArgs) -> anyhow::Result<Exit> {
    let mut ground = Ground::find(console, &args.place, &args.model, Ask::OnTerminal)?;
    let server = ground.settings.server.clone();
    let address = match (args.listen, server.listen) {
        (Some(address), _) | (None, Some(address)) => address,
        (None, None) => LISTEN.parse()?,
    };
    let mut public_urls = args.public_urls.clone();
    public_urls.extend(server.public_urls()?);
    if !address.ip().is_loopback() && public_urls.is_empty() {
        return Err(Trouble::usage(format!(
            "`{address}` is reached from elsewhere, and by which name is not said"
        ))
        .hint("name the address that people type with `--public-url https://…`, or listen on 127.0.0.1")
        .into());
    }
    let models = ground.settings.models.clone();
    for model in &models {
        ground.reach(console, model)?;
    }
    let people = Arc::new(People::default());
    let place = ground.open_server(&models, people.clone()).await?;
    let agent = place.agent(console)?;
    let accounts = Accounts::new(place.engine.records().clone(), crate::place::clock(), people);
    accounts.local().await?;
    place.engine.recover().await?;

    let listening = http::listen(address).await.map_err(|error| {
        Trouble::usage(format!("cannot listen at `{address}`: {error}"))
            .hint("choose another address with `--listen`, for example 127.0.0.1:0")
    })?;
    let origins = Origins::new(listening.address, &public_urls, &server.cors);
    console.out_line(&format!("windlass serves at http://{}", listening.address));
    let vault = Vault::open(&place.ground.store())?;
    let records = place.engine.records().clone();
    let integrations = Integrations::new(records, crate::place::clock(), vault)?;
    let app = App {
        engine: place.engine.clone(),
        accounts,
        agent,
        settings: place.ground.settings.clone(),
        origins,
        homes: place.homes.clone(),
        integrations,
        uploading: tokio::sync::Mutex::default(),
        stopping: CancellationToken::new(),
    };
    let mut signals = Signals::listen()?;
    let stopping = app.stopping.clone();
    let told = async {
        let signal = signals.next().await;
        stopping.cancel();
        match signal {
            Signal::Interrupt => Exit::Interrupted,
            Signal::End(code) => Exit::Signal(code),
        }
    };
    let served = listening.serve(http::router(Arc::new(app)), stopping.clone());
    let (exit, ()) = tokio::join!(told, served);
    Ok(exit)
}
