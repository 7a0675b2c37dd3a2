//! The tools that access external hosts: WebFetch, WebSearch, and ApiCall if APIs are configured.
//!
//! All of them use the same outbound client with the same rules.

use std::sync::Arc;

use windlass::outbound::Outbound;
use windlass::port::tool::Tool;
use windlass::reader::Reader;
use windlass::tool::api::{Api, ApiCall};
use windlass::tool::web::{web_fetch, web_search};

use crate::config::{Kept, Search, Settings};
use crate::trouble::Trouble;

/// Creates the tools. Reports errors in the settings before anything starts.
pub fn tools(settings: &Settings) -> anyhow::Result<Vec<Arc<dyn Tool>>> {
    let outbound = Outbound::new(settings.outbound.reach());
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    if settings.web.fetches() {
        tools.push(Arc::new(web_fetch(
            outbound.clone(),
            settings.web.hosts.clone().unwrap_or_default(),
            Reader::this_program(),
        )));
    }
    let provider = match settings.web.search()? {
        Search::Off => None,
        Search::Usual => Some(None),
        Search::Chosen(provider) => Some(Some(provider)),
    };
    if let Some(provider) = provider {
        let is_chosen = provider.is_some();
        match web_search(outbound.clone(), provider, Box::new(Kept), Reader::this_program()) {
            Ok(tool) => tools.push(Arc::new(tool)),
            Err(error) if is_chosen => return Err(refused(error).into()),
            // Do not offer the default search engine if the outbound rules do not allow its host.
            Err(error) => tracing::debug!(%error, "no search"),
        }
    }
    let services = settings.api.iter().map(|(name, service)| service.service(name));
    let api =
        Api { secrets: Arc::new(Kept), ..Api::new(services.collect::<Result<_, _>>()?, Default::default()) };
    if let Some(tool) = ApiCall::new(api, outbound, crate::clock::clock()).map_err(refused)? {
        tools.push(Arc::new(tool));
    }
    Ok(tools)
}

fn refused(error: impl std::fmt::Display) -> Trouble {
    Trouble::usage(error.to_string()).hint(
        "set the allowed hosts in `[outbound]`, services in `[api.<name>]`, and search in `[web.search]`",
    )
}
