//! `[tools]`: settings of commands, and overrides for single tools.
//!
//! The list `disabled` removes tools. `[tools.bash]` configures the tools `Bash`, `BashOutput` and `KillBash`. Every
//! other table overrides the tool of that name. In a folder's own file, these settings apply only after a person has
//! trusted the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use windlass::machine::Offload;

use super::gate::{ToolFile, tools_over};
use crate::policy::Length;

/// `[tools]`.
#[derive(Clone, Debug, Default)]
pub struct ToolsFile {
    /// Settings of commands.
    pub bash: BashFile,
    /// Names of tools to remove, from any source. The list takes precedence over all other settings.
    pub disabled: BTreeSet<String>,
    /// Overrides by tool name.
    pub named: BTreeMap<String, ToolFile>,
}

/// `[tools.bash]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BashFile {
    /// Whether agents may run commands.
    pub enabled: Option<bool>,
    /// Whether commands need a sandbox: `required`, `preferred` or `off`.
    pub sandbox: Option<SandboxWord>,
    /// Whether commands can access the network.
    pub network: Option<bool>,
    /// Files and folders that commands may read and execute.
    pub read: Option<Vec<PathBuf>>,
    /// Files and folders that commands may change.
    pub write: Option<Vec<PathBuf>>,
    /// Names of environment variables that commands receive.
    pub variables: Option<Vec<String>>,
    /// Path of the shell that runs commands.
    pub shell: Option<PathBuf>,
    /// Maximum time of a command.
    pub timeout: Option<Length>,
    /// Maximum time of a background command.
    pub background_timeout: Option<Length>,
    /// Maximum number of processes of one command.
    pub max_processes: Option<usize>,
    /// Maximum size of a file that a command writes, in MiB.
    pub max_file_mib: Option<u64>,
    /// Maximum memory of one process, in MiB; 0 means no limit.
    pub max_memory_mib: Option<u64>,
}

/// `sandbox = "required" | "preferred" | "off"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxWord {
    /// Commands run only if the kernel supports the full sandbox.
    Required,
    /// Commands run with the restrictions that the kernel supports.
    Preferred,
    /// Commands run without restrictions, like any program of the user.
    Off,
}

/// `[agent.offload]`: whether models receive summaries of long results. (LM-O1)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OffloadFile {
    /// Default: false.
    pub enabled: Option<bool>,
    /// Maximum size of a result that the model receives completely, in bytes.
    pub threshold_bytes: Option<u64>,
    /// Maximum number of characters in a summary.
    pub max_preview_chars: Option<usize>,
}

impl OffloadFile {
    /// Merges two layers; `self` takes precedence.
    pub fn over(self, weaker: Self) -> Self {
        Self {
            enabled: self.enabled.or(weaker.enabled),
            threshold_bytes: self.threshold_bytes.or(weaker.threshold_bytes),
            max_preview_chars: self.max_preview_chars.or(weaker.max_preview_chars),
        }
    }

    /// Converts to the engine's type. Returns `None` unless summaries are enabled.
    pub fn offload(&self) -> Option<Offload> {
        let usual = Offload::default();
        self.enabled.unwrap_or(false).then(|| Offload {
            enabled: true,
            threshold_bytes: self.threshold_bytes.unwrap_or(usual.threshold_bytes),
            max_preview_chars: self.max_preview_chars.unwrap_or(usual.max_preview_chars),
        })
    }
}

impl ToolsFile {
    /// Merges two layers; `self` takes precedence.
    pub fn over(self, weaker: Self) -> Self {
        // A layer cannot enable a tool that another layer disables.
        let disabled = &self.disabled | &weaker.disabled;
        Self { bash: self.bash.over(weaker.bash), disabled, named: tools_over(self.named, weaker.named) }
    }
}

impl BashFile {
    fn over(self, weaker: Self) -> Self {
        Self {
            enabled: self.enabled.or(weaker.enabled),
            sandbox: self.sandbox.or(weaker.sandbox),
            network: self.network.or(weaker.network),
            read: self.read.or(weaker.read),
            write: self.write.or(weaker.write),
            variables: self.variables.or(weaker.variables),
            shell: self.shell.or(weaker.shell),
            timeout: self.timeout.or(weaker.timeout),
            background_timeout: self.background_timeout.or(weaker.background_timeout),
            max_processes: self.max_processes.or(weaker.max_processes),
            max_file_mib: self.max_file_mib.or(weaker.max_file_mib),
            max_memory_mib: self.max_memory_mib.or(weaker.max_memory_mib),
        }
    }

    pub fn is_enabled(&self) -> bool {
        self.enabled.unwrap_or(false)
    }

    /// Converts to the tools' settings. `hidden` lists paths that no command may access. The error names the key.
    #[cfg(target_os = "linux")]
    pub fn settings(
        &self,
        home: Option<&Path>,
        hidden: Vec<PathBuf>,
    ) -> Result<windlass::tool::builtin::BashSettings, String> {
        use windlass::tool::builtin::BashSettings;
        use windlass::tool::sandbox::{Isolation, Sandbox};
        const MIB: u64 = 1024 * 1024;
        let usual = BashSettings::default();
        let isolation = match self.sandbox.unwrap_or(SandboxWord::Required) {
            SandboxWord::Required => Isolation::Required,
            SandboxWord::Preferred => Isolation::Preferred,
            SandboxWord::Off => Isolation::Off,
        };
        let paths = |key: &str, paths: &Option<Vec<PathBuf>>| -> Result<Vec<PathBuf>, String> {
            paths.iter().flatten().map(|path| whole(key, path, home)).collect()
        };
        let shell = match &self.shell {
            Some(shell) => whole("shell", shell, home)?,
            None => usual.shell,
        };
        Ok(BashSettings {
            shell,
            sandbox: Sandbox {
                isolation,
                network: self.network.unwrap_or(false),
                read: paths("read", &self.read)?,
                write: paths("write", &self.write)?,
                hidden,
            },
            variables: self.variables.clone().unwrap_or_default(),
            timeout_ms: self.timeout.map_or(usual.timeout_ms, |length| length.0.max(1_000)),
            background_timeout_ms: self
                .background_timeout
                .map_or(usual.background_timeout_ms, |length| length.0.max(1_000)),
            processes: self.max_processes.unwrap_or(usual.processes).max(1),
            file_bytes: self.max_file_mib.map_or(usual.file_bytes, |mib| mib.saturating_mul(MIB)),
            memory_bytes: self.max_memory_mib.map_or(usual.memory_bytes, |mib| mib.saturating_mul(MIB)),
        })
    }
}

/// Resolves a path that is absolute or relative to the user's home.
#[cfg(target_os = "linux")]
fn whole(key: &str, path: &Path, home: Option<&Path>) -> Result<PathBuf, String> {
    let below_home = path.strip_prefix("~").ok().zip(home);
    match below_home {
        // The path of the home may contain a symbolic link that the system made. Links below the home are not followed.
        Some((rest, home)) => Ok(home.canonicalize().unwrap_or_else(|_| home.to_owned()).join(rest)),
        None if path.is_absolute() => Ok(path.to_owned()),
        None => Err(format!(
            "`tools.bash.{key}` has the path `{}`; write a path that begins with `/` or `~/`",
            path.display()
        )),
    }
}

impl<'de> Deserialize<'de> for ToolsFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tables;

        impl<'de> Visitor<'de> for Tables {
            type Value = ToolsFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table for each tool, and the list `disabled`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ToolsFile, A::Error> {
                let mut file = ToolsFile::default();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "bash" {
                        file.bash = map.next_value()?;
                    } else if name == "disabled" {
                        file.disabled = map.next_value()?;
                    } else {
                        file.named.insert(name, map.next_value()?);
                    }
                }
                Ok(file)
            }
        }

        deserializer.deserialize_map(Tables)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use windlass::tool::sandbox::Isolation;

    use super::*;

    fn read(text: &str) -> ToolsFile {
        let file: crate::config::ConfigFile = toml::from_str(text).unwrap();
        file.tools
    }

    // rows: LM-T1
    #[test]
    fn commands_are_disabled_and_sandboxed_by_default() {
        let bare = read("");
        assert!(!bare.bash.is_enabled());
        // A table that only configures commands does not enable them.
        let settings = read("[tools.bash]\nnetwork = true\n").bash;
        assert!(!settings.is_enabled());
        let settings =
            read("[tools.bash]\nenabled = true\n").bash.settings(None, vec!["/store".into()]).unwrap();
        assert_eq!(settings.sandbox.isolation, Isolation::Required);
        assert!(!settings.sandbox.network && settings.variables.is_empty());
        assert_eq!(settings.sandbox.hidden, [PathBuf::from("/store")]);
    }

    #[test]
    fn the_stronger_layer_wins_key_by_key_and_other_tools_keep_their_tables() {
        let user = read(
            "[tools.bash]\nenabled = true\nread = ['~/.cargo']\ntimeout = '90s'\n[tools.Pay]\neffect = 'once'\n",
        );
        let folder =
            read("[tools.bash]\nenabled = false\nmax_memory_mib = 512\n[tools.Bash]\ntrusted = true\n");
        let both = folder.over(user);
        assert!(!both.bash.is_enabled());
        assert_eq!(both.named.keys().collect::<Vec<_>>(), ["Bash", "Pay"]);
        let settings = both.bash.settings(Some(Path::new("/home/ann")), Vec::new()).unwrap();
        assert_eq!(settings.sandbox.read, [PathBuf::from("/home/ann/.cargo")]);
        assert_eq!((settings.timeout_ms, settings.memory_bytes), (90_000, 512 * 1024 * 1024));
    }

    // rows: LM-O1
    #[test]
    fn long_results_are_offloaded_only_if_enabled() {
        let read = |text: &str| toml::from_str::<crate::config::ConfigFile>(text).unwrap().agent.offload;
        assert_eq!(read("").offload(), None);
        assert_eq!(read("[agent.offload]\nthreshold_bytes = 9\n").offload(), None);
        let on = read("[agent.offload]\nenabled = true\nthreshold_bytes = 9\n");
        let wanted = Offload { enabled: true, threshold_bytes: 9, max_preview_chars: 500 };
        assert_eq!(on.offload(), Some(wanted));
        assert_eq!(read("[agent.offload]\nenabled = false\n").over(on).offload(), None);
    }

    #[test]
    fn a_path_that_leads_anywhere_is_refused() {
        let relative =
            read("[tools.bash]\nread = ['secrets']\n").bash.settings(None, Vec::new()).unwrap_err();
        assert_eq!(
            relative,
            "`tools.bash.read` has the path `secrets`; write a path that begins with `/` or `~/`"
        );
        // `~` cannot be resolved without a home.
        assert!(read("[tools.bash]\nwrite = ['~/x']\n").bash.settings(None, Vec::new()).is_err());
    }
}
