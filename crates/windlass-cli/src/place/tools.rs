//! Builds the tools of a place from the configuration.
//!
//! Schemas of tools are constants, so they are compiled on first use. The test in this file compiles all of them.

use std::sync::Arc;

use windlass::port::tool::Tool;
use windlass::reader::Reader;
use windlass::tool::Registry;
use windlass::tool::builtin::{desk_tools, fetch_data, file_tools, request_human_approval};

use super::Ground;

impl Ground {
    /// Registers the tools that the configuration enables.
    pub fn tools(&self) -> anyhow::Result<Registry> {
        let ask = request_human_approval(self.settings.question_timeout_ms);
        let registry = windlass::registry()
            .add_built_in(file_tools(&Reader::this_program()))?
            .add_built_in(desk_tools())?
            .add_built_in([Arc::new(ask) as Arc<dyn Tool>])?
            .add_built_in(self.commands()?)?
            .add_built_in(windlass_server::outside::tools(&self.settings)?)?;
        let registry = match self.settings.agent.offload.offload() {
            Some(_) => registry.add_built_in([Arc::new(fetch_data()) as Arc<dyn Tool>])?,
            None => registry,
        };
        let tools = &self.settings.tools;
        let registry = tools.disabled.iter().fold(registry, |registry, name| registry.disable(name.as_str()));
        let named = tools.named.iter();
        Ok(named.fold(registry, |registry, (name, tool)| registry.adjust(name.as_str(), tool.adjustment())))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use windlass_server::config::{self, Flags, Settings};

    use super::*;
    use crate::paths::UserPaths;
    use crate::place::{ModelFlags, PlaceFlags, Starts};

    /// Settings that enable every tool.
    const EVERY_TOOL: &str = "
        [agent.offload]
        enabled = true
        [api.own]
        base_url = 'https://api.example.com'
        ";

    /// Settings that enable commands, which are supported on Linux only.
    const COMMANDS: &str = "
        [tools.bash]
        enabled = true
        ";

    #[test]
    fn the_schemas_of_all_tools_compile() {
        let text =
            if cfg!(target_os = "linux") { [EVERY_TOOL, COMMANDS].concat() } else { EVERY_TOOL.into() };
        let file = config::parse(Path::new("windlass.toml"), &text).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let ground = Ground {
            folder: folder.path().to_owned(),
            user: UserPaths {
                config: folder.path().join("config/windlass.toml"),
                data: folder.path().join("data"),
            },
            settings: Settings::resolve(vec![file], Flags::default(), &|_| None).unwrap(),
            policies: Vec::new(),
            flags: Flags::default(),
            place: PlaceFlags::default(),
            model: ModelFlags::default(),
            access: None,
            configured: Default::default(),
            reached: Default::default(),
            starts: Starts::Nothing,
            programs: Vec::new(),
        };
        let registry = ground.tools().unwrap();
        for name in ["Read", "write_todos", "request_human_approval", "WebSearch", "ApiCall", "FetchData"] {
            assert!(registry.get(name).is_some(), "{name} is missing from {registry:?}");
        }
        assert_eq!(registry.get("Bash").is_some(), cfg!(target_os = "linux"));
        registry.compile_all().unwrap();
    }
}
