//! Restricts which folders of a crate may use each other. For crates see [`super::manifest`].
//!
//! Test code is exempt: for example, tests of the driver use the store in memory.

use super::finding::Finding;
use super::lexer;
use super::source::SourceFile;

/// A folder and the modules of its crate that it must not mention.
struct Layer {
    folder: &'static str,
    unknown: &'static [&'static str],
}

const LAYERS: &[Layer] = &[
    Layer {
        folder: "crates/windlass-engine/src/drive/",
        unknown: &["memory", "bus", "clock", "builder", "engine"],
    },
    Layer {
        folder: "crates/windlass-engine/src/port/",
        unknown: &["drive", "memory", "bus", "clock", "engine"],
    },
    Layer { folder: "crates/windlass-engine/src/tool/", unknown: &["drive", "memory", "bus", "engine"] },
    Layer { folder: "crates/windlass-engine/src/memory/", unknown: &["drive", "tool", "engine"] },
    Layer { folder: "crates/windlass-engine/src/bus/", unknown: &["drive", "tool", "engine"] },
    Layer { folder: "crates/windlass-server/src/account/", unknown: &["http", "config", "servers", "home"] },
    Layer { folder: "crates/windlass-server/src/config/", unknown: &["http", "servers", "home"] },
    Layer { folder: "crates/windlass-server/src/policy/", unknown: &["http", "account", "servers", "home"] },
    Layer { folder: "crates/windlass-server/src/home/", unknown: &["http", "account", "servers"] },
    Layer { folder: "crates/windlass-server/src/servers/", unknown: &["http", "home"] },
    Layer { folder: "crates/windlass-cli/src/place/", unknown: &["cli"] },
    Layer { folder: "crates/windlass-cli/src/view/", unknown: &["cli", "place"] },
    Layer { folder: "crates/windlass-cli/src/screen/", unknown: &["cli", "place", "view"] },
];

/// The folder of the dialects, with a subfolder for each.
const DIALECTS: &str = "crates/windlass-compat/src/";

/// The folders of the web UI, lowest first. A folder imports only earlier ones.
const FLOORS: [&str; 5] = ["lib", "state", "view", "chat", "pages"];

/// The parent folder of the web UI's folders.
const UI: &str = "crates/windlass-server/ui/app/";

/// Finds mentions of a module that the layer must not use.
pub fn mentions(file: &SourceFile, findings: &mut Vec<Finding>) {
    for layer in LAYERS.iter().filter(|layer| file.is_in(layer.folder)) {
        for module in layer.unknown {
            let advice = format!("`{}` must not import `{module}`", layer.folder);
            report(file, &mentions_of(&file.views.code, module), &advice, findings);
        }
    }
}

/// Finds mentions of one dialect in another.
pub fn dialects(file: &SourceFile, findings: &mut Vec<Finding>) {
    const NAMES: [&str; 4] = ["agui", "skillchat", "skyflo", "zeus"];
    let Some((own, _)) = file.path.strip_prefix(DIALECTS).and_then(|path| path.split_once('/')) else {
        return;
    };
    for other in NAMES.into_iter().filter(|name| *name != own) {
        let mut at = mentions_of(&file.views.code, other);
        at.extend(lexer::find_words(&file.views.code, &format!("super::{other}")));
        let advice =
            format!("a dialect must not import another one; move code shared with `{other}` beside them");
        report(file, &at, &advice, findings);
    }
}

/// Finds imports of the web UI from a higher folder.
pub fn floors(file: &SourceFile, findings: &mut Vec<Finding>) {
    let Some((own, _)) = file.path.strip_prefix(UI).and_then(|path| path.split_once('/')) else { return };
    let Some(own) = FLOORS.iter().position(|floor| *floor == own) else { return };
    for (index, line) in file.text.lines().enumerate() {
        for above in &FLOORS[own + 1..] {
            if line.contains(&format!("../{above}/")) && (line.contains("import") || line.contains("from \""))
            {
                let advice = format!("`{}` must not import `{above}`, which is above it", FLOORS[own]);
                findings.push(Finding::error(file, index + 1, "layers", advice));
            }
        }
    }
}

fn report(file: &SourceFile, at: &[usize], advice: &str, findings: &mut Vec<Finding>) {
    for line in at.iter().map(|at| file.line_of(*at)) {
        if !file.is_test_line(line) {
            findings.push(Finding::error(file, line, "layers", advice));
        }
    }
}

/// Returns the positions at which code names `crate::<module>`, directly or in a group
/// such as `use crate::{a, <module>::b}`.
fn mentions_of(code: &str, module: &str) -> Vec<usize> {
    let mut found = lexer::find_words(code, &format!("crate::{module}"));
    for (at, prefix) in code.match_indices("crate::{") {
        let open = at + prefix.len() - 1;
        let mut depth = 0_usize;
        let mut expects_item = true;
        for (offset, char) in code[open..].char_indices() {
            match char {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            if depth == 1 && expects_item && lexer::is_word(char) {
                let item = &code[open + offset..];
                if item.split(|char| !lexer::is_word(char)).next() == Some(module) {
                    found.push(open + offset);
                }
            }
            if !char.is_whitespace() {
                expects_item = depth == 1 && matches!(char, '{' | ',');
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn the_driver_does_not_know_stores() {
        let path = "crates/windlass-engine/src/drive/thread/actor.rs";
        check(mentions, path, "use crate::port::Journal;\nuse crate::memory::MemoryStore;\n", &[2]);
        check(
            mentions,
            path,
            "use crate::{\n    port::{self, memory},\n    memory::MemoryStore,\n};\n",
            &[3],
        );
        check(mentions, path, "// crate::memory\nlet memory = crate::memories();\n", &[]);
        check(mentions, path, "#[cfg(test)]\nmod tests {\n use crate::memory::MemoryStore;\n}\n", &[]);
    }

    #[test]
    fn tools_and_ports_do_not_know_the_driver() {
        for folder in ["tool", "port", "memory", "bus"] {
            let path = format!("crates/windlass-engine/src/{folder}/a.rs");
            check(mentions, &path, "use crate::drive::x;\nuse crate::machine::z;\n", &[1]);
        }
    }

    #[test]
    fn accounts_know_no_http() {
        let text = "use crate::http::state;\nuse crate::vault::a;\n";
        check(mentions, "crates/windlass-server/src/account/a.rs", text, &[1]);
        check(mentions, "crates/windlass-server/src/http/a.rs", text, &[]);
    }

    #[test]
    fn a_dialect_does_not_know_another() {
        let text = "use crate::zeus::body;\nuse super::super::skyflo::a;\nuse crate::date;\n";
        check(dialects, "crates/windlass-compat/src/skyflo/a.rs", text, &[1]);
        check(dialects, "crates/windlass-compat/src/zeus/a.rs", text, &[2]);
        check(dialects, "crates/windlass-compat/src/date.rs", text, &[]);
    }

    #[test]
    fn the_ui_imports_downwards() {
        let text = "import { a } from \"../lib/a.js\";\nimport { b } from \"../chat/b.js\";\nconst c = \"../pages/\";\n";
        check(floors, "crates/windlass-server/ui/app/view/x.js", text, &[2]);
        check(floors, "crates/windlass-server/ui/app/pages/x.js", text, &[]);
        check(floors, "crates/windlass-server/ui/app/app.js", text, &[]);
    }
}
