//! Builds the tools that run commands from the configuration.
//!
//! The library isolates commands. This module determines the paths that no command may access.

use std::sync::Arc;

use windlass::port::tool::Tool;
use windlass_server::trouble::Trouble;

use super::Ground;

impl Ground {
    /// Returns the tools that run commands, if the configuration enables them.
    #[cfg(target_os = "linux")]
    pub fn commands(&self) -> Result<Vec<Arc<dyn Tool>>, Trouble> {
        use std::path::Path;

        use windlass::clock::SystemClock;
        use windlass::tool::builtin::bash_tools;

        let bash = &self.settings.tools.bash;
        if !bash.is_enabled() {
            return Ok(Vec::new());
        }
        let home = std::env::home_dir();
        // These paths hold approvals, trust decisions and grants, which a command must neither read nor forge.
        let own =
            [Some(self.store()), Some(self.user.data.clone()), self.user.config.parent().map(Path::to_owned)];
        let settings = bash.settings(home.as_deref(), own.into_iter().flatten().collect());
        let tools = settings.and_then(|settings| bash_tools(settings, Arc::new(SystemClock::new())));
        tools.map_err(|why| Trouble::usage(why).hint("`windlass doctor` shows what this kernel supports"))
    }

    /// Returns no tool: commands are supported on Linux only.
    #[cfg(not(target_os = "linux"))]
    pub fn commands(&self) -> Result<Vec<Arc<dyn Tool>>, Trouble> {
        if self.settings.tools.bash.is_enabled() {
            return Err(Trouble::usage("`tools.bash.enabled`: commands require Linux, for the sandbox"));
        }
        Ok(Vec::new())
    }
}
