//! `windlass serve`: runs the server until a signal stops it.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ::http::Uri;
use clap::Args;
use tokio_util::sync::CancellationToken;
use windlass::Engine;
use windlass::machine::Principal;
use windlass::models::Secret;
use windlass_server::account::link::LinkUse;
use windlass_server::account::people::user::LOCAL;
use windlass_server::account::{Accounts, Registration, Role};
use windlass_server::config::{Dialect, ServerFile, TitleModel};
use windlass_server::http::connection::tls::Certificate;
use windlass_server::http::state::limiter::Limiter;
use windlass_server::http::state::metrics::Metrics;
use windlass_server::http::state::origins::Origins;
use windlass_server::http::state::{AppConfig, AppLimits, AppStreams, Monitoring};
use windlass_server::http::{self, App, Terms};
use windlass_server::trouble::{Exit, Trouble};

use crate::cli::flags::{ModelFlags, PlaceFlags};
use crate::console::Console;
use crate::idle;
use crate::place::{Ask, Ground};
use crate::signals::{Signal, Signals};

/// The default listening address.
pub(super) const LISTEN: &str = "127.0.0.1:7717";

#[derive(Args, Debug)]
pub struct ServeArgs {
    /// The address to listen on [default: 127.0.0.1:7717]; port 0 selects a free port, and an address that other
    /// machines reach requires `--public-url`
    #[arg(long, value_name = "ADDRESS", env = "WINDLASS_LISTEN", hide_env_values = true)]
    listen: Option<SocketAddr>,
    /// A public address of the server, such as https://agents.example.com; requests for other host names are rejected
    /// [repeatable]
    #[arg(long = "public-url", value_name = "URL")]
    public_urls: Vec<Uri>,
    /// The model that titles new conversations [default: the run's model]; `none` uses the first words of the message
    #[arg(long, value_name = "MODEL", env = "WINDLASS_TITLE_MODEL", hide_env_values = true)]
    title_model: Option<TitleModel>,
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    place: PlaceFlags,
}

pub async fn run(console: &Console, args: &ServeArgs) -> anyhow::Result<Exit> {
    let mut ground = Ground::find(console, &args.place, &args.model, Ask::OnTerminal)?;
    let titles = &mut ground.settings.server.title_model;
    *titles = args.title_model.clone().unwrap_or_else(|| titles.clone());
    let server = ground.settings.server.clone();
    server.check()?;
    let address = match (args.listen, server.listen) {
        (Some(address), _) | (None, Some(address)) => address,
        (None, None) => LISTEN.parse()?,
    };
    let public_urls = [args.public_urls.clone(), server.public_urls()?].concat();
    check_address(address, &public_urls)?;
    check_guests(&server, address, &public_urls)?;
    let mut models = ground.settings.models.clone();
    for model in &models {
        ground.reach(console, model)?;
    }
    let certificate = server.tls.as_ref().map(Certificate::load).transpose()?;
    let scrape = metrics_token(&server)?;
    let metrics = Arc::new(Metrics::default());
    // Listen before the store is opened: sign-ins to tool servers redirect browsers to this address.
    let listening = http::listen(address).await.map_err(|error| unbound(address, &error))?;
    let scheme = if certificate.is_some() { "https" } else { "http" };
    let own = format!("{scheme}://{}", listening.address);
    let back = http::back(public_urls.first().map_or(own.clone(), Uri::to_string));
    // The title model uses the key and address of the settings; the flags apply only to the agent's model.
    models.extend(server.title_model.named().cloned());
    let (place, accounts) = ground.open_server(&models, metrics.clone(), back).await?;
    let servers = place.servers.clone().ok_or_else(|| Trouble::engine("no tool servers were started"))?;
    let agent = place.agent(console)?;
    check_titles(&place.engine, &server.title_model)?;
    accounts.local().await?;
    if let Err(error) = place.homes.make_private() {
        tracing::warn!(%error, "other users of this machine may be able to read the users' files");
    }
    // Open the integrations before any run is resumed that may need them.
    let integrations = place.integrations().await?;
    tokio::spawn(recover(place.engine.clone()));
    let cors = server.cors.as_deref().unwrap_or_default();
    let origins = Origins::new(scheme, listening.address, &public_urls, cors);
    console.out_line(&format!("windlass serves at {own}"));
    invite(console, &accounts, &place.ground.store(), &own, public_urls.first()).await?;
    warn_of_first_registration(console, &accounts, &server).await?;
    let app = App {
        engine: place.engine.clone(),
        models: place.models.clone(),
        accounts,
        config: AppConfig {
            settings: place.ground.settings.clone(),
            agent,
            policies: place.ground.policies.clone(),
        },
        origins,
        homes: place.homes.clone(),
        integrations,
        servers,
        limits: AppLimits::new(Limiter::new(&server.limits)),
        streams: AppStreams { frames: Default::default(), stopping: CancellationToken::new() },
        monitoring: Monitoring { metrics, scrape },
        dialects: windlass_compat::served(&server.dialect),
    };
    tokio::spawn(place.homes.clone().sweep_hourly(place.engine.clone()));
    tokio::spawn(idle::give_back_when_idle());
    let mut signals = Signals::listen()?;
    let (stopping, within) = (app.streams.stopping.clone(), server.limits.stop_timeout());
    let terms = Terms { limits: server.limits, proxies: server.proxies.unwrap_or_default(), certificate };
    let served = listening.serve(http::router(Arc::new(app)), stopping.clone(), terms);
    Ok(stop(&mut signals, &stopping, &place.engine, within, served).await)
}

/// Returns the bearer token for remote reads of the metrics.
fn metrics_token(server: &ServerFile) -> Result<Option<Secret>, Trouble> {
    server.metrics_token.as_ref().map(|token| token.resolve("server.metrics_token")).transpose()
}

/// Resumes interrupted runs. The engine's sweep resumes any that remain.
async fn recover(engine: Engine) {
    if let Err(error) = engine.recover().await {
        tracing::error!(%error, "cannot resume interrupted runs");
    }
}

/// Returns an error for a non-loopback address without a public URL: the server would not know its host name.
fn check_address(address: SocketAddr, public_urls: &[Uri]) -> Result<(), Trouble> {
    if address.ip().is_loopback() || !public_urls.is_empty() {
        return Ok(());
    }
    Err(Trouble::usage(format!(
        "listening on `{address}` exposes the server beyond this machine, which requires a public URL"
    ))
    .hint("set it with `--public-url https://…`, or listen on 127.0.0.1"))
}

/// Rejects guests on a server that other machines can reach and that has registration closed.
fn check_guests(server: &ServerFile, address: SocketAddr, public_urls: &[Uri]) -> Result<(), Trouble> {
    let is_exposed = !address.ip().is_loopback() || !public_urls.is_empty();
    if !server.dialect.skillchat.admits_guests() || !is_exposed || server.registration() == Registration::Open
    {
        return Ok(());
    }
    Err(Trouble::usage(
        "`[server.dialect.skillchat] guest = true` admits every client, and the server is reachable from other machines",
    )
    .hint("remove the key, or open registration with `[server] registration = \"open\"`"))
}

fn unbound(address: SocketAddr, error: &std::io::Error) -> Trouble {
    Trouble::usage(format!("cannot listen on `{address}`: {error}"))
        .hint("choose another address with `--listen`, for example 127.0.0.1:0")
}

/// Returns an error if the title model does not exist. Otherwise, titles would be missing without an explanation.
fn check_titles(engine: &Engine, model: &TitleModel) -> Result<(), Trouble> {
    let Some((model, Err(error))) = model.named().map(|model| (model, engine.model(model))) else {
        return Ok(());
    };
    Err(Trouble::usage(format!("cannot generate titles with `{model}`: {error}"))
        .hint("set another model, or `none`, with `--title-model` or `[server] title_model`"))
}

/// Serves until a signal arrives. Then requests finish, streams tell clients to reconnect, and threads are released,
/// all within the time-out. A second signal ends the process at once, without loss of recorded data.
async fn stop(
    signals: &mut Signals,
    stopping: &CancellationToken,
    engine: &Engine,
    within: Duration,
    served: impl Future<Output = ()>,
) -> Exit {
    let mut served = pin!(served);
    let signal = tokio::select! {
        signal = signals.next() => signal,
        () = served.as_mut() => return Exit::Engine,
    };
    let exit = match signal {
        Signal::Interrupt => Exit::Interrupted,
        Signal::End(code) => Exit::Signal(code),
    };
    tracing::info!("shutting down");
    stopping.cancel();
    let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
    let left = async {
        let (driven, ()) = tokio::join!(engine.hand_over(within_ms), served);
        if driven > 0 {
            tracing::warn!(
                driven,
                "tools were still running; their outcome is in doubt when their runs resume"
            );
        }
    };
    tokio::select! {
        () = left => {}
        _ = signals.next() => tracing::warn!("received a second signal, exiting at once"),
    }
    exit
}

/// Name of the file in the store's folder with the first sign-in link, used if standard output is not a terminal.
const FIRST_LINK: &str = "first-link";

/// Creates a one-time link for the operator if no account is registered yet. Without a public address, the link signs
/// in the local administrator. With a public address, other clients could reach the server first, so the link is
/// required for the first registration.
///
/// Prints the link to a terminal. Any other standard output often ends in logs that more users can read. The link is
/// then written to a file that only this user can read.
async fn invite(
    console: &Console,
    accounts: &Accounts,
    store: &Path,
    own: &str,
    public: Option<&Uri>,
) -> anyhow::Result<()> {
    let file = store.join(FIRST_LINK);
    if accounts.is_registered().await? {
        let _ = std::fs::remove_file(&file);
        return Ok(accounts.end_start_link().await?);
    }
    let (used_for, what, base) = match public {
        Some(url) => {
            let used_for = LinkUse::Invite { role: Role::Admin, email: None };
            (used_for, "register the first administrator", url.to_string())
        }
        None => {
            let used_for = LinkUse::SignIn { user: Principal::from(LOCAL) };
            (used_for, "sign in as the local administrator", own.to_owned())
        }
    };
    let token = accounts.start_link(used_for).await?;
    let link = http::link(&base, &token);
    let (with, shown) = match std::io::stdout().is_terminal() {
        true => ("this link", link),
        false => {
            write_private(&file, &link)?;
            ("the link in this file", file.display().to_string())
        }
    };
    console.out_line(&format!(
        "no account is registered yet; {what} with {with} (one-time, valid for an hour):\n  {shown}"
    ));
    Ok(())
}

/// Prints a warning if a dialect lets the first account register as administrator without the link.
async fn warn_of_first_registration(
    console: &Console,
    accounts: &Accounts,
    server: &ServerFile,
) -> anyhow::Result<()> {
    let dialect = &server.dialect;
    let is_open = dialect.serves(Dialect::Skyflo) && dialect.skyflo.first_registration();
    if is_open && !accounts.is_registered().await? {
        let what = "the first account that registers under `/skyflo` becomes the administrator";
        let hint = "register it before others can reach the server, or unset `first_registration` in \
                    `[server.dialect.skyflo]`";
        console.warn(what, &[hint]);
    }
    Ok(())
}

/// Replaces a file by a new file that only this user can read.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(format!("{text}\n").as_bytes())
}
