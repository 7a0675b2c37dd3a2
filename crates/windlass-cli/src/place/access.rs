//! The access to a model's provider: by `--base-url` and `--api-key-env`, or as recorded with a run.
//!
//! A run records references: the address without credentials, and the name of the variable with the key. The command
//! that resumes the run uses these, and no variable of another terminal. No key is recorded or printed.

use std::collections::BTreeMap;

use reqwest::Url;
use windlass::EngineError;
use windlass::machine::{ModelAccess, ModelName};
use windlass::port::journal::RunRow;
use windlass_server::config::{self, BASE_URL, Flags, Lookup, ProviderFile, Reference, Secrets, provider_of};
use windlass_server::trouble::Trouble;

use super::{Consent, Ground, Place};
use crate::console::Console;

/// Maximum length of a recorded address in bytes; real addresses are shorter.
const RECORDED_MAX_BYTES: usize = 2_048;

impl Ground {
    /// Applies `--base-url` and `--api-key-env` to the provider of a new run's model. The run records them.
    pub fn reach(&mut self, console: &Console, model: &ModelName) -> Result<(), Trouble> {
        let flags = self.settings.beside(model, self.flags.clone(), &config::environment);
        self.apply(console, model, &flags)?;
        self.access = self.recorded(model, &flags).map(Box::new);
        // Later commands read both values from the run.
        (self.model.base_url, self.model.api_key_env) = (None, None);
        Ok(())
    }

    /// Configures the provider of a recorded run's model. This command's flags take precedence, then the run's record,
    /// then the variables of this terminal.
    fn reach_again(
        &mut self,
        console: &Console,
        model: &ModelName,
        access: Option<&ModelAccess>,
    ) -> Result<(), Trouble> {
        let own = access.filter(|access| access.provider == provider_of(model));
        if let Some(other) = access.filter(|access| access.provider != provider_of(model)) {
            self.reach_first(console, other);
        }
        if let Some(access) = own.filter(|access| !self.reached.contains_key(&access.provider)) {
            self.warn_of_variable(console, access);
        }
        let flags = self.flags_for(model, access)?;
        self.claim(model, &flags)?;
        self.apply(console, model, &flags)?;
        // Hints repeat flags that only this command has, because the run has not recorded them.
        let repeated = if own.is_some() { self.flags.clone() } else { flags };
        let shown = repeated.base_url.filter(|address| !without_secrets(address).1);
        (self.model.base_url, self.model.api_key_env) = (shown, repeated.api_key_env);
        Ok(())
    }

    /// Configures the provider of a run's first model. The run has switched to another
    /// provider and may switch back to this one.
    fn reach_first(&mut self, console: &Console, access: &ModelAccess) {
        let first = ModelName::from(format!("{}/", access.provider));
        if let Ok(flags) = resumed(self.address(&first), access, &Flags::default(), &config::environment)
            && self.claim(&first, &flags).is_ok()
        {
            // Without the key, only a switch back fails.
            let _ = self.apply(&console.clone().muted(), &first, &flags);
        }
    }

    fn flags_for(&self, model: &ModelName, access: Option<&ModelAccess>) -> Result<Flags, Trouble> {
        match access.filter(|access| access.provider == provider_of(model)) {
            Some(access) => resumed(self.address(model), access, &self.flags, &config::environment),
            None => Ok(self.settings.beside(model, self.flags.clone(), &config::environment)),
        }
    }

    /// Whether a run uses the same address and key variable for its provider as the runs prepared before.
    fn is_reached_alike(&self, model: &ModelName, access: Option<&ModelAccess>) -> bool {
        let is_alike = |provider: &str, flags: Result<Flags, Trouble>| {
            let known = self.reached.get(provider);
            // `reach_again` reports an unreachable provider.
            known.is_none_or(|known| flags.map_or(true, |flags| *known == reached(&flags)))
        };
        let other = access.filter(|access| access.provider != provider_of(model));
        is_alike(provider_of(model), self.flags_for(model, access))
            && other.is_none_or(|access| {
                let first = ModelName::from(format!("{}/", access.provider));
                let flags = resumed(self.address(&first), access, &Flags::default(), &config::environment);
                is_alike(&access.provider, flags)
            })
    }

    /// Records the flags of a provider. Returns an error if an earlier run uses other flags, because
    /// all runs of this process share them.
    fn claim(&mut self, model: &ModelName, flags: &Flags) -> Result<(), Trouble> {
        let now = reached(flags);
        let provider = provider_of(model).to_owned();
        if self.reached.get(&provider).is_some_and(|known| *known != now) {
            let what =
                format!("runs with different addresses or keys for `{provider}` cannot be resumed together");
            return Err(Trouble::usage(what).hint("resume or answer them in separate commands"));
        }
        self.reached.insert(provider, now);
        Ok(())
    }

    fn apply(&mut self, console: &Console, model: &ModelName, flags: &Flags) -> Result<(), Trouble> {
        if let Secrets::Withheld { address } = self.settings.reach(model, flags, &config::environment)? {
            let provider = provider_of(model);
            let address = bare(&address);
            let what = format!("the configured key and headers of `{provider}` are not sent to `{address}`");
            console.warn(&what, &["pass the variable with the key for that address as `--api-key-env NAME`"]);
        }
        Ok(())
    }

    /// Returns the access to record with a new run. Returns `None` if only the settings determine the access.
    fn recorded(&self, model: &ModelName, flags: &Flags) -> Option<ModelAccess> {
        if flags.base_url.is_none() && flags.api_key_env.is_none() {
            return None;
        }
        let address = self.address(model).map(without_secrets);
        let (kept, had_secrets) = address.map_or((None, false), |(kept, had)| (Some(kept), had));
        let is_long = kept.as_ref().is_some_and(|kept| kept.len() > RECORDED_MAX_BYTES);
        Some(ModelAccess {
            provider: provider_of(model).to_owned(),
            base_url: kept.filter(|_| !is_long),
            base_url_withheld: had_secrets || is_long,
            api_key_env: flags.api_key_env.clone(),
        })
    }

    /// Returns the configured address of a model's provider.
    fn address(&self, model: &ModelName) -> Option<&str> {
        self.settings.providers.get(provider_of(model))?.base_url.as_deref()
    }

    fn warn_of_variable(&self, console: &Console, access: &ModelAccess) {
        let variable = config::environment(BASE_URL).filter(|_| self.flags.base_url.is_none());
        if variable.is_some_and(|address| Some(bare(&address)) != access.base_url.as_deref().map(bare)) {
            let own = access.base_url.as_deref().unwrap_or("the provider's default address");
            let what = format!("`{BASE_URL}` is ignored: the run was started with `{own}`");
            console.warn(&what, &["`--base-url URL` sets another address"]);
        }
    }
}

/// Determines the flags of a resumed run from its record, unless this command sets them. `configured` is
/// the provider's address in the settings. A recorded key is sent to the recorded address only: changed
/// settings or variables do not redirect it.
fn resumed(
    configured: Option<&str>,
    access: &ModelAccess,
    typed: &Flags,
    lookup: &Lookup<'_>,
) -> Result<Flags, Trouble> {
    let recorded = access.base_url.as_deref().map(bare);
    let is_recorded = |address: &str| Some(bare(address)) == recorded;
    let base_url = match &typed.base_url {
        Some(typed) => Some(typed.clone()),
        None if configured.is_some_and(is_recorded) => configured.map(str::to_owned),
        None if access.base_url_withheld => {
            let shown = recorded.unwrap_or_default();
            let what = format!("the run's address `{shown}` contained a secret, which was not recorded");
            return Err(Trouble::usage(what).hint("pass the full address again with `--base-url URL`"));
        }
        None => access.base_url.clone(),
    };
    let goes_to = base_url.as_deref().or(configured);
    let is_same = goes_to.map(bare) == recorded;
    let api_key_env = match (&typed.api_key_env, &access.api_key_env) {
        (Some(name), _) => Some(name.clone()),
        (None, Some(name)) if !is_same => return Err(not_sent(name, goes_to)),
        (None, Some(name)) if lookup(name).is_none() => return Err(not_set(name)),
        (None, name) => name.clone(),
    };
    Ok(Flags { base_url, api_key_env, ..typed.clone() })
}

fn not_set(name: &str) -> Trouble {
    let what = format!("the run was started with the key in the variable `{name}`, which is not set here");
    Trouble::usage(what)
        .hint(format!("set {name} to the key, or name another variable with `--api-key-env NAME`"))
}

/// Returns the address and the variable in a comparable form.
fn reached(flags: &Flags) -> (Option<String>, Option<String>) {
    (flags.base_url.as_deref().map(bare), flags.api_key_env.clone())
}

fn not_sent(name: &str, address: Option<&str>) -> Trouble {
    let address = address.map_or_else(|| "the provider's default address".to_owned(), bare);
    let what =
        format!("the run recorded the key in the variable `{name}` for another address than `{address}`");
    Trouble::usage(what)
        .hint(format!("`--api-key-env {name}` sends it there; `--base-url URL` sets another address"))
}

impl Place {
    /// Makes a run's model callable before the run is resumed, so that a missing key does not end the run.
    pub async fn prepare(&mut self, console: &Console, row: &RunRow) -> anyhow::Result<()> {
        let model = &row.view.model;
        let access = self.recorded_access(row).await?;
        let reached = self.ground.reach_again(console, model, access.as_ref());
        let ready = reached.map_err(anyhow::Error::from).and_then(|()| {
            self.models.replace(self.ground.settings.catalog(std::slice::from_ref(model))?);
            super::check_model(console, &self.models.now(), model, &self.ground.settings.agent().settings)
        });
        ready.map_err(|error| windlass_server::trouble::explain(&error).hint("the run is unchanged").into())
    }

    /// Undoes [`Place::prepare`]: this process's flags and settings determine the access to the models again.
    pub fn reach_own(&mut self, console: &Console, models: &[ModelName]) -> anyhow::Result<()> {
        let ground = &mut self.ground;
        ground.settings.providers.clone_from(&ground.configured);
        ground.reached.clear();
        // Warnings were already printed when the process started.
        models.first().map_or(Ok(()), |model| ground.reach(&console.clone().muted(), model))?;
        self.models.replace(ground.settings.catalog(models)?);
        Ok(())
    }

    /// Whether [`Place::prepare`] can prepare this run together with those prepared before.
    pub async fn reaches_alike(&self, row: &RunRow) -> Result<bool, EngineError> {
        let access = self.recorded_access(row).await?;
        Ok(self.ground.is_reached_alike(&row.view.model, access.as_ref()))
    }

    /// Opens the same place again, without any prepared run.
    pub async fn open_again(&self) -> anyhow::Result<Self> {
        let mut ground = self.ground.clone();
        ground.settings.providers.clone_from(&ground.configured);
        ground.reached.clear();
        ground.open_to_resume(Consent::Ask).await
    }

    async fn recorded_access(&self, row: &RunRow) -> Result<Option<ModelAccess>, EngineError> {
        let machine = self.engine.thread(&row.thread).folded().await?;
        let state = machine.state();
        let active = state.run.as_ref().filter(|run| run.id == row.view.run).map(|run| &run.options);
        let mut queue = state.queue.iter().map(|waiting| &waiting.queued);
        let options = active.or_else(|| queue.find(|it| it.run == row.view.run).map(|it| &it.options));
        Ok(options.and_then(|options| options.access.as_deref().cloned()))
    }
}

/// Whether the settings use the address recorded with a run, and its key variable if it recorded one.
pub fn is_own(providers: &BTreeMap<String, ProviderFile>, access: &ModelAccess) -> bool {
    let own = providers.get(&access.provider);
    let address = own.and_then(|own| own.base_url.as_deref());
    let key = own.and_then(|own| own.api_key.as_ref());
    let is_own_key = |name: &String| matches!(key, Some(Reference::Variable(own)) if own == name);
    address.map(bare) == access.base_url.as_deref().map(bare)
        && access.api_key_env.as_ref().is_none_or(is_own_key)
}

/// Removes the parts of an address that may contain secrets: credentials, query and fragment. Also returns whether the
/// address had any of them. A text that is not a URL is cut at `@`, `?` and `#`.
fn without_secrets(address: &str) -> (String, bool) {
    let Some(mut url) = Url::parse(address).ok().filter(Url::has_host) else {
        let bare = address.rsplit_once('@').map_or(address, |(_, rest)| rest);
        let bare = bare.split(['?', '#']).next().unwrap_or_default();
        return (bare.to_owned(), bare != address);
    };
    let has_credentials = !url.username().is_empty() || url.password().is_some();
    if !has_credentials && url.query().is_none() && url.fragment().is_none() {
        return (address.to_owned(), false);
    }
    // Neither call fails for an address with a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    (url.into(), true)
}

/// Returns the normalized address for comparison and display.
fn bare(address: &str) -> String {
    without_secrets(address).0.trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_of_an_address_is_kept() {
        let cases = [
            ("https://gw.example/v1/", "https://gw.example/v1/", false),
            ("HTTPS://GW.example:443/v1", "HTTPS://GW.example:443/v1", false),
            ("https://me:pw@gw.example/v1", "https://gw.example/v1", true),
            ("https://token@gw.example/v1", "https://gw.example/v1", true),
            ("https://gw.example/v1?key=abc", "https://gw.example/v1", true),
            ("https://gw.example/v1#abc", "https://gw.example/v1", true),
            ("me:pw@gw.example/v1?key=abc", "gw.example/v1", true),
        ];
        for (address, kept, had) in cases {
            assert_eq!(without_secrets(address), (kept.to_owned(), had), "{address}");
        }
    }

    /// Resumes a run that recorded `base_url` and the variable `KEY`, with the given settings and flags.
    fn again(base_url: Option<&str>, configured: Option<&str>, typed: [Option<&str>; 2]) -> String {
        let base_url = base_url.map(str::to_owned);
        let key = Some("KEY".to_owned());
        let access = ModelAccess { base_url, api_key_env: key, ..ModelAccess::default() };
        let [url, key] = typed.map(|typed| typed.map(str::to_owned));
        let typed = Flags { base_url: url, api_key_env: key, ..Flags::default() };
        let lookup = |name: &str| (name == "KEY").then(|| "k".to_owned());
        match resumed(configured, &access, &typed, &lookup) {
            Ok(flags) => {
                format!("{} {}", flags.base_url.unwrap_or_default(), flags.api_key_env.unwrap_or_default())
            }
            Err(trouble) => trouble.to_string(),
        }
    }

    #[test]
    fn a_recorded_key_goes_to_its_address_alone() {
        let (a, b) = (Some("http://a/v1"), Some("http://b/v1"));
        let none = [None, None];
        assert_eq!(again(a, None, none), "http://a/v1 KEY");
        assert_eq!(again(a, Some("http://a/v1/"), none), "http://a/v1/ KEY");
        // Settings that have changed since do not redirect the key.
        assert_eq!(again(a, b, none), "http://a/v1 KEY");
        let elsewhere =
            "the run recorded the key in the variable `KEY` for another address than `http://b/v1`";
        assert_eq!(again(None, b, none), elsewhere);
        assert_eq!(again(a, None, [b, None]), elsewhere);
        assert_eq!(again(None, None, [b, None]), elsewhere);
        assert_eq!(again(a, None, [b, Some("OTHER")]), "http://b/v1 OTHER");
        assert_eq!(again(a, b, [None, Some("OTHER")]), "http://a/v1 OTHER");
        assert_eq!(again(None, None, none), " KEY");
        // The same address, with credentials that the run did not record.
        assert_eq!(again(a, None, [Some("http://me:pw@a/v1"), None]), "http://me:pw@a/v1 KEY");
    }
}
