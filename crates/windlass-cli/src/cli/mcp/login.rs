//! `windlass mcp login` and `logout`: signs in to a server from a terminal. Prints the address, and waits for the
//! browser's redirect on a local page; opens no program.
//!
//! A running server over the same store detects the sign-in, and resumes the calls that waited for it.

use std::time::Duration;

use clap::Args;
use windlass::machine::{Answer, Given};
use windlass::mcp::{Health, McpError};
use windlass_server::account::people::user::local;
use windlass_server::servers::{self, Ended, Servers, SignInCall, Which};
use windlass_server::text::shown_line;
use windlass_server::trouble::{Exit, Trouble};

use crate::cli::flags::{ModelFlags, PlaceFlags};
use crate::console::Console;
use crate::place::{Ask, Ground, Place};
use crate::signals::Signals;

#[derive(Args, Debug)]
pub struct LoginArgs {
    /// The server's name
    name: String,
    /// How long to wait for the browser, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    #[command(flatten)]
    place: PlaceFlags,
}

#[derive(Args, Debug)]
pub struct LogoutArgs {
    /// The server's name
    name: String,
    #[command(flatten)]
    place: PlaceFlags,
}

/// Signs in to a server.
pub async fn login(console: &Console, args: &LoginArgs) -> anyhow::Result<Exit> {
    let (place, servers) = opened(console, &args.name, &args.place).await?;
    let name = &args.name;
    // A connected server may require more scopes for a waiting call.
    let mut wanted = servers::wanted_scopes(&place.engine, name).await?;
    let granted = servers.hub.granted_scopes(name).await;
    wanted.retain(|scope| !granted.contains(scope));
    if servers.hub.server(name)?.health.is_ready() && wanted.is_empty() {
        console.note(&format!("`{name}` is connected; no sign-in is required"));
        answer_waiting(console, &place, name).await?;
        return Ok(Exit::Done);
    }
    let page = servers.page.clone().ok_or_else(|| {
        Trouble::usage(format!("`{name}` does not use sign-in"))
            .hint("it is a program, authenticates with `headers`, or has `oauth` disabled")
    })?;
    let mut ended = page.ended();
    let begun = servers.begin_sign_in_for(name, &local().principal, &wanted).await?;
    console.note(&format!("open this address in a browser on this machine, and sign in at `{name}`:"));
    console.out_line(&format!("  {}", shown_line(&begun.url)));
    let mut signals = Signals::listen()?;
    let is_ours = |ended: &Option<Ended>| ended.as_ref().is_some_and(|it| it.state == begun.state);
    let ended = tokio::select! {
        ended = ended.wait_for(is_ours) => ended.ok().and_then(|ended| ended.clone()),
        () = tokio::time::sleep(Duration::from_secs(args.timeout)) => {
            let why = format!("no sign-in at `{name}` within {} s", args.timeout);
            return Err(Trouble::usage(why).hint("`--timeout` sets a longer wait").into());
        }
        _ = signals.next() => return Ok(Exit::Interrupted),
    };
    match ended.map(|ended| ended.how) {
        Some(Ok(_)) => {}
        Some(Err(why)) => {
            return Err(Trouble::usage(format!("the sign-in at `{name}` failed: {}", shown_line(&why)))
                .hint(format!("`windlass mcp login {name}` tries again"))
                .into());
        }
        None => return Err(Trouble::engine("the sign-in page was closed").into()),
    }
    match servers.hub.ready(name).await {
        Err(McpError::SignIn { .. }) => {
            let why = format!(
                "signed in, but `{name}` requires another sign-in: its authorization server has changed"
            );
            return Err(Trouble::usage(why).hint(format!("`windlass mcp login {name}` starts it")).into());
        }
        ready => ready?,
    }
    let tools = servers.hub.server(name)?.tools.len();
    console.note(&format!("signed in; `{name}` has {tools} tools"));
    answer_waiting(console, &place, name).await?;
    Ok(Exit::Done)
}

/// Answers the calls that wait for a sign-in at the server. The process that drives their runs applies the answers.
async fn answer_waiting(console: &Console, place: &Place, name: &str) -> anyhow::Result<()> {
    let mut waiting = servers::waiting(&place.engine, name).await?;
    let workspace = local().workspace;
    waiting.retain(|call| call.workspace == workspace);
    for SignInCall { thread, interrupt, .. } in &waiting {
        let answer = Answer::Reply(Box::default());
        let given = Given { interrupt: interrupt.clone(), answer, approval: None };
        place.leave_answers(thread, vec![given]).await?;
    }
    if !waiting.is_empty() {
        let flags = place.ground.place_flags();
        console.hint(&format!("`windlass resume{flags}` continues the runs that waited for this sign-in"));
    }
    Ok(())
}

/// Signs out of a server.
pub async fn logout(console: &Console, args: &LogoutArgs) -> anyhow::Result<Exit> {
    let (place, servers) = opened(console, &args.name, &args.place).await?;
    servers.hub.sign_out(&args.name).await?;
    console.note(&format!("signed out of `{}` and deleted its stored tokens", args.name));
    console.hint("the server may still accept tokens that it has issued: revoke them there as well");
    drop(place);
    Ok(Exit::Done)
}

/// Opens the store and starts one server. Returns an error if the server is unavailable.
async fn opened(
    console: &Console,
    name: &str,
    place: &PlaceFlags,
) -> anyhow::Result<(Place, std::sync::Arc<Servers>)> {
    let ground = Ground::find(console, place, &ModelFlags::default(), Ask::OnTerminal)?;
    let place = ground.open_store().await?;
    let servers = super::over(&place, Which::One(name)).await?;
    let health = servers.hub.server(name)?.health;
    if let Health::Unavailable { why, .. } = health {
        let why = format!("`{name}` is unavailable: {}", shown_line(&why));
        return Err(Trouble::usage(why).hint(format!("`windlass mcp test {name}` shows more")).into());
    }
    Ok((place, servers))
}
