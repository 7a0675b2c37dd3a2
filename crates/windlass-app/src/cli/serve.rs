//! `windlass serve`: the server, until it is told to stop.

use std::net::SocketAddr;
use std::sync::Arc;

use ::http::Uri;
use clap::Args;
use windlass::machine::Principal;

use super::{ModelFlags, PlaceFlags};
use crate::account::link::LinkUse;
use crate::account::user::{LOCAL, People};
use crate::account::{Accounts, Role};
use crate::console::Console;
use crate::http::origin::Origins;
use crate::http::{self, App};
use crate::place::{Ask, Ground};
use crate::signals::{Signal, Signals};
use crate::trouble::{Exit, Trouble};

/// Where the server listens unless something else is said.
pub(super) const LISTEN: &str = "127.0.0.1:7717";

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
    server.check()?;
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
    invite(console, &accounts, listening.address, &public_urls).await?;
    let app = App {
        engine: place.engine.clone(),
        accounts,
        agent,
        settings: place.ground.settings.clone(),
        origins,
    };
    let mut signals = Signals::listen()?;
    let mut exit = Exit::Done;
    let stop = async {
        exit = match signals.next().await {
            Signal::Interrupt => Exit::Interrupted,
            Signal::End(code) => Exit::Signal(code),
        };
    };
    listening.serve(http::router(Arc::new(app)), stop).await;
    Ok(exit)
}

/// As long as nobody has registered: prints a one-time link for whoever reads this. On this machine it signs the local
/// administrator in; beyond, where others could be faster, it is what the first registration needs.
async fn invite(
    console: &Console,
    accounts: &Accounts,
    address: SocketAddr,
    public_urls: &[Uri],
) -> anyhow::Result<()> {
    if accounts.is_registered().await? {
        return Ok(());
    }
    let (used_for, what, base) = match (address.ip().is_loopback(), public_urls.first()) {
        (false, Some(url)) => {
            let used_for = LinkUse::Invite { role: Role::Admin, email: None };
            (used_for, "register the first administrator", url.to_string())
        }
        (true, _) | (false, None) => {
            let used_for = LinkUse::SignIn { user: Principal::from(LOCAL) };
            (used_for, "sign in as the local administrator", format!("http://{address}"))
        }
    };
    let token = accounts.start_link(used_for).await?;
    let link = http::link(&base, &token);
    console.out_line(&format!(
        "nobody has registered yet; {what} with this link, once and within a day:\n  {link}"
    ));
    Ok(())
}
