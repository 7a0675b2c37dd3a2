//! `windlass doctor`: checks configuration, store and servers, and prints hints for repair. Never prints a key.

mod check;
mod servers;

use std::path::Path;
use std::sync::Arc;

use clap::Args;
use windlass::clock::SystemClock;
use windlass::machine::{Fact, ModelName, ModelSettings, Reasoning, Seq};
use windlass::models::DEMO_MODEL;
use windlass::port::journal::{Journal, StoreError, ThreadQuery, ThreadStatus};
use windlass::port::model::{Ability, ModelInfo, Models};
use windlass::sqlite::{SqliteStore, StoreOptions};
use windlass::{AgentConfig, Task};
use windlass_server::config::ModelSource;
use windlass_server::trouble::Exit;

use self::check::{Check, State};
use crate::cli::flags::{ModelFlags, PlaceFlags};
use crate::console::Console;
use crate::paths::UserPaths;
use crate::place::trust::{FolderFiles, Standing, Trusted};
use crate::place::{Ask, Ground};
use crate::view::preview::plural;

/// Providers on the local machine, which need no key.
const LOCAL: &[&str] = &["ollama", "llamacpp", "vllm", "lmstudio", "openai-compatible"];

/// Maximum number of events read to find the reply: a run of one step has fewer.
const EVENTS: usize = 64;

/// Number of threads per page.
const THREADS: usize = 1_000;

#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Also send the model a small test request
    #[arg(long)]
    online: bool,
    /// Do not start or contact tool servers
    #[arg(long, conflicts_with = "online")]
    offline: bool,
    /// Print the checks as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    place: PlaceFlags,
}

pub async fn run(console: &Console, args: &DoctorArgs) -> anyhow::Result<Exit> {
    let mut checks = vec![Check::ok("version", env!("CARGO_PKG_VERSION"))];
    // Mute the warnings, because each has a separate check below.
    let quiet = Ground::find(&console.clone().muted(), &args.place, &args.model, Ask::Never);
    match quiet.map_err(anyhow::Error::from) {
        Err(error) => checks.push(Check::broken("configuration", &error)),
        Ok(mut ground) => {
            checks.push(configuration(&ground));
            checks.push(folder(&ground.folder));
            if let Some(check) = trust(&ground.user, &ground.folder) {
                checks.push(check);
            }
            checks.push(policy(&ground));
            checks.push(commands(&ground));
            checks.push(keys(&ground));
            checks.extend(outside(&ground));
            checks.extend(model(console, &mut ground, args.online).await);
            checks.extend(store(&ground).await);
            if !args.offline {
                checks.extend(servers::servers(&ground).await);
            }
        }
    }
    let broken = checks.iter().any(|check| check.state == State::Broken);
    if args.json {
        let report = serde_json::json!({"ok": !broken, "checks": checks});
        console.out_json(&report.to_string());
    } else {
        checks.iter().for_each(|check| check.print(console));
    }
    Ok(if broken { Exit::Failed } else { Exit::Done })
}

fn configuration(ground: &Ground) -> Check {
    let path = &ground.user.config;
    match path.exists() {
        true => Check::ok("configuration", format!("`{}`", path.display())),
        false => Check::ok("configuration", format!("defaults; `{}` does not exist", path.display())),
    }
}

fn folder(folder: &Path) -> Check {
    let shown = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let message = format!("`{}`", shown.display());
    match std::fs::metadata(folder) {
        Ok(found) if found.permissions().readonly() => Check::warning(
            "folder",
            format!("{message} is read-only: the agent can read files but not write them"),
        ),
        Ok(_) => Check::ok("folder", message),
        Err(error) => Check::broken("folder", &error.into()),
    }
}

fn policy(ground: &Ground) -> Check {
    match ground.rules().len() {
        0 => Check::ok("policy", "no rules: calls require approval unless their tool is read-only"),
        1 => Check::ok("policy", "1 rule in force"),
        count => Check::ok("policy", format!("{count} rules in force")),
    }
}

/// Checks whether agents may run commands, and which isolation this kernel offers.
#[cfg(target_os = "linux")]
fn commands(ground: &Ground) -> Check {
    use windlass::tool::sandbox::support;

    use windlass_server::config::SandboxWord;
    let found = support();
    let kernel = match (found.landlock, found.missing().as_str()) {
        (Some(version), "") => {
            let processes = if found.processes { ", process namespace" } else { "" };
            format!("sandbox available: Landlock {version}, seccomp{processes}")
        }
        (_, missing) => format!("no sandbox: {missing}"),
    };
    let bash = &ground.settings.tools.bash;
    if !bash.is_enabled() {
        let hint = "`enabled = true` in `[tools.bash]` lets agents run commands";
        return Check::ok("commands", format!("off; {kernel}")).hint(hint);
    }
    if let Err(error) = ground.commands() {
        return Check::broken("commands", &error.into());
    }
    let sandbox = bash.settings(std::env::home_dir().as_deref(), Vec::new()).map(|it| it.sandbox);
    let blocked = sandbox.map(|sandbox| sandbox.blocked()).unwrap_or_default();
    if !blocked.is_empty() {
        let check = Check::warning("commands", format!("on, but every command is rejected; {kernel}"));
        return blocked.into_iter().fold(check, Check::hint);
    }
    let network = if bash.network == Some(true) { ", with network access" } else { "" };
    let message = format!("on{network}; {kernel}");
    match bash.sandbox {
        Some(SandboxWord::Off) => Check::warning("commands", format!("on, without a sandbox{network}"))
            .hint("`sandbox = \"required\"` in `[tools.bash]` confines them"),
        Some(SandboxWord::Preferred) if !found.missing().is_empty() => Check::warning("commands", message),
        Some(SandboxWord::Required | SandboxWord::Preferred) | None => {
            found.gaps().into_iter().fold(Check::ok("commands", message), Check::hint)
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn commands(ground: &Ground) -> Check {
    match ground.commands() {
        Ok(_) => Check::ok("commands", "off; commands require Linux"),
        Err(error) => Check::broken("commands", &error.into()),
    }
}

fn trust(user: &UserPaths, folder: &Path) -> Option<Check> {
    let files = match FolderFiles::read(folder) {
        Ok(files) => files?,
        Err(error) => return Some(Check::broken("trust", &error.into())),
    };
    let trusted = match Trusted::load(user) {
        Ok(trusted) => trusted,
        Err(error) => return Some(Check::broken("trust", &error.into())),
    };
    let named = files.iter().map(|file| format!("`{}`", file.path.display())).collect::<Vec<_>>();
    let (named, are) = (named.join(" and "), if named.len() == 1 { "is" } else { "are" });
    let counts = if files.policy.is_some() { "only rules that deny or ask apply" } else { "it is ignored" };
    let hint = "review it, then run `windlass trust` in a terminal";
    Some(match trusted.standing(&files) {
        Standing::Trusted => Check::ok("trust", format!("{named} {are} trusted")),
        Standing::Changed => {
            Check::warning("trust", format!("{named} {are} no longer trusted (changed); {counts}")).hint(hint)
        }
        Standing::Unknown => {
            Check::warning("trust", format!("{named} {are} not trusted; {counts}")).hint(hint)
        }
    })
}

fn keys(ground: &Ground) -> Check {
    let catalog = match ground.settings.catalog(&[]) {
        Ok(catalog) => catalog,
        Err(error) => return Check::broken("keys", &error),
    };
    let ready: Vec<String> = catalog
        .providers()
        .into_iter()
        .filter(|provider| provider.ready && !LOCAL.contains(&provider.name.as_str()))
        .map(|provider| provider.name)
        .collect();
    if ready.is_empty() {
        let hint = "set ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY or another provider's key";
        return Check::warning("keys", "no provider key found").hint(hint);
    }
    Check::ok("keys", ready.join(", "))
}

/// Checks whether tools with outside access can be offered, and whether the secrets of services can be resolved.
fn outside(ground: &Ground) -> Vec<Check> {
    let tools = match windlass_server::outside::tools(&ground.settings) {
        Ok(tools) => tools,
        Err(error) => return vec![Check::broken("outside", &error)],
    };
    let names: Vec<&str> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
    let mut checks = vec![match names.is_empty() {
        true => Check::ok("outside", "no tool has outside access"),
        false => Check::ok("outside", names.join(", ")),
    }];
    for (name, service) in &ground.settings.api {
        for reference in service.references() {
            if let Err(trouble) = reference.resolve(&format!("api.{name}.auth")) {
                checks.push(Check::broken("api", &trouble.into()));
            }
        }
    }
    checks
}

async fn model(console: &Console, ground: &mut Ground, online: bool) -> Vec<Check> {
    let models = ground.settings.models.clone();
    let why = match ground.settings.source {
        ModelSource::Flag => "from a flag or variable".to_owned(),
        ModelSource::File => "from the configuration".to_owned(),
        ModelSource::Key(key) => format!("because {key} is set"),
        ModelSource::Nothing => "a script: no provider key found".to_owned(),
    };
    let settings = ground.settings.agent().settings;
    let mut checks = Vec::new();
    if let Err(error) = ground.reach(console, &models[0]) {
        return vec![Check::broken("model", &error.into())];
    }
    let catalog = match ground.settings.catalog(&models) {
        Ok(catalog) => catalog,
        Err(error) => return vec![Check::broken("model", &error)],
    };
    for (nth, name) in models.iter().enumerate() {
        let (what, why) =
            if nth == 0 { ("model", why.as_str()) } else { ("fallback", "from the configuration") };
        checks.push(match catalog.resolve(name) {
            Ok(model) => known(what, name, model.info(), &settings, why),
            Err(error) => Check::broken(what, &error.into()),
        });
    }
    if online && checks.iter().all(|check| check.state != State::Broken) {
        checks.push(ping(Arc::new(catalog), &models[0]).await);
    }
    checks
}

fn known(
    what: &'static str,
    name: &ModelName,
    info: &ModelInfo,
    settings: &ModelSettings,
    why: &str,
) -> Check {
    if let Some(ability) = info.lacks(Ability::needed(settings)) {
        return Check::new(what, State::Broken, ability.refusal(name))
            .hint("choose another model with `--model provider/name`");
    }
    let tools = match info.can(Ability::ToolCalls) {
        Some(true) => "tool calls",
        Some(false) | None => "tool calls unknown",
    };
    let schema = match info.can(Ability::StructuredOutput) {
        Some(true) => ", structured output",
        Some(false) => ", no structured output",
        None => ", structured output unknown",
    };
    let window =
        info.context_tokens.map(|tokens| format!(", {tokens} tokens of context")).unwrap_or_default();
    let price = if info.price.is_some() { "" } else { ", price unknown" };
    let message = format!("`{name}` ({why}): {tools}{schema}{window}{price}");
    match info.can(Ability::ToolCalls) {
        None => Check::warning(what, message)
            .hint("describe it in the configuration: `[providers.<name>.models.\"<model>\"]`"),
        Some(_) => Check::ok(what, message),
    }
}

/// Sends a test request from an in-memory engine, which stores no data.
async fn ping(models: Arc<dyn Models>, name: &ModelName) -> Check {
    let mut agent = AgentConfig { models: vec![name.clone()], ..AgentConfig::from(DEMO_MODEL) };
    agent.settings.reasoning = Reasoning::Off;
    agent.settings.max_output_tokens = Some(64);
    agent.limits.max_steps = 1;
    let asked = async {
        let engine = windlass::builder().models(models).build().await?;
        let outcome = engine.run_task(Task::new(agent, "Reply with the one word: ready")).await?;
        let events = engine.thread(&outcome.thread).events(Seq::default(), EVENTS).await?;
        anyhow::Ok((outcome, events))
    };
    match asked.await {
        // A reasoning model may reach the token limit before its first word, so any reply is a success.
        Ok((outcome, events))
            if events.iter().any(|it| matches!(it.event.fact, Fact::StepReplied { .. })) =>
        {
            Check::ok("online", format!("`{name}` answered in {} ms", outcome.figures.duration_ms))
        }
        Ok((outcome, _)) => {
            let why = outcome.errors.first();
            let message =
                why.map_or("no reply".to_owned(), |why| format!("{} (`{}`)", why.message, why.code));
            Check::new("online", State::Broken, format!("`{name}`: {message}"))
                .hint("check the key, the address (`--base-url`) and the network")
        }
        Err(error) => Check::broken("online", &error),
    }
}

async fn store(ground: &Ground) -> Vec<Check> {
    let path = ground.store();
    let shown = path.display().to_string();
    let open_to_others = open_to_others(&path);
    // The engine rejects a store inside the working folder before it creates any file.
    if let Err(error) = ground.clone().open_store().await {
        return vec![Check::broken("store", &error).hint(format!("the store is `{shown}`"))];
    }
    let opened = SqliteStore::open(&path, StoreOptions::default(), Arc::new(SystemClock::new())).await;
    let store = match opened {
        Ok(store) => store,
        Err(error) => {
            return vec![Check::broken("store", &error.into()).hint(format!("the store is `{shown}`"))];
        }
    };
    let mut checks = vec![match store.check().await {
        Ok(found) => Check::ok("store", format!("`{shown}`: {found}")),
        Err(error) => Check::broken("store", &error.into()).hint(format!("the store is `{shown}`")),
    }];
    checks.extend(open_to_others);
    let others = store.node().others().len();
    checks.push(Check::ok("processes", format!("{others} more on this store; locks work")));
    checks.extend(
        open_threads(&store).await.unwrap_or_else(|error| vec![Check::broken("runs", &error.into())]),
    );
    checks
}

/// Returns a warning if other users of the machine can read the store's files.
#[cfg(unix)]
fn open_to_others(store: &Path) -> Option<Check> {
    use std::os::unix::fs::PermissionsExt;
    let is_open = |path: &std::path::PathBuf| {
        std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o077 != 0)
    };
    let kept = ["files", "blobs", "windlass.db", "vault.key"].map(|name| store.join(name));
    let open: Vec<String> =
        kept.iter().filter(|path| is_open(path)).map(|path| format!("`{}`", path.display())).collect();
    if open.is_empty() {
        return None;
    }
    let message = format!("other users of this machine can access {}", open.join(", "));
    Some(Check::warning("privacy", message).hint(format!("chmod go= {}", open.join(" ").replace('`', "'"))))
}

#[cfg(not(unix))]
fn open_to_others(_: &Path) -> Option<Check> {
    None
}

/// Counts running and waiting threads. Reads only the rows of threads, not their journals.
async fn open_threads(store: &SqliteStore) -> Result<Vec<Check>, StoreError> {
    let (mut running, mut waiting) = (0_usize, 0_usize);
    let mut query = ThreadQuery { limit: THREADS, ..ThreadQuery::default() };
    loop {
        let threads = store.threads(&query).await?;
        let Some(last) = threads.last() else { break };
        query.before = Some((last.view.updated_at, last.thread.clone()));
        for thread in &threads {
            match thread.view.status {
                ThreadStatus::Idle => {}
                ThreadStatus::Running | ThreadStatus::Sleeping => running += 1,
                ThreadStatus::Waiting => waiting += 1,
            }
        }
    }
    let mut checks = Vec::new();
    if running > 0 {
        let message = format!("{running} unfinished");
        let hint = "`windlass resume` continues a run, `windlass cancel` cancels it";
        checks.push(Check::warning("runs", message).hint(hint));
    }
    if waiting > 0 {
        let verb = if waiting == 1 { "waits" } else { "wait" };
        let message = format!("{waiting} {} {verb} for an answer", plural(waiting, "thread"));
        checks.push(
            Check::warning("waiting", message).hint("`windlass approvals list` shows the open requests"),
        );
    }
    Ok(checks)
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use futures::stream::{self, BoxStream};
    use windlass::machine::{FailureClass, StopReason, Usage};
    use windlass::port::model::{Model, ModelCall, ModelError, ModelEvent, Reply};

    use super::*;

    /// A model that always returns the same result.
    struct Stub(Result<StopReason, FailureClass>, ModelInfo);

    impl Model for Stub {
        fn info(&self) -> &ModelInfo {
            &self.1
        }

        fn stream(&self, _call: ModelCall) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
            let event = match self.0.clone() {
                Ok(stop) => {
                    let reply = Reply { blocks: Vec::new(), stop, usage: Usage::default(), model: None };
                    Ok(ModelEvent::Finished(Box::new(reply)))
                }
                Err(class) => Err(ModelError::new(class, "no")),
            };
            stream::iter([event]).boxed()
        }
    }

    struct Stubs(Arc<Stub>);

    impl Models for Stubs {
        fn resolve(&self, _name: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
            Ok(self.0.clone())
        }
    }

    async fn check(ends: Result<StopReason, FailureClass>) -> State {
        ping(Arc::new(Stubs(Arc::new(Stub(ends, ModelInfo::default())))), &"stub/m".into()).await.state
    }

    #[tokio::test]
    async fn any_reply_shows_that_a_model_is_there() {
        assert!(check(Ok(StopReason::MaxTokens)).await == State::Ok);
        assert!(check(Ok(StopReason::Refusal)).await == State::Ok);
        assert!(check(Err(FailureClass::Auth)).await == State::Broken);
    }
}
