//! Which part may know which. The machine is kept apart by its manifest, see [`super::manifest`].
//!
//! Test code is free: a driver is tested with the adapters in memory.

use super::finding::Finding;
use super::lexer;
use super::source::SourceFile;

/// A folder and the sibling modules that it must not mention.
struct Layer {
    folder: &'static str,
    unknown: &'static [&'static str],
}

const LAYERS: &[Layer] = &[
    Layer { folder: "crates/windlass/src/drive/", unknown: &["adapter"] },
    Layer { folder: "crates/windlass/src/adapter/", unknown: &["drive"] },
    Layer { folder: "crates/windlass/src/port/", unknown: &["drive", "adapter"] },
    Layer { folder: "crates/windlass/src/tool/", unknown: &["drive", "adapter"] },
    Layer { folder: "crates/windlass/src/skill/", unknown: &["drive", "adapter"] },
    Layer { folder: "crates/windlass/src/memory/", unknown: &["drive", "adapter"] },
    Layer { folder: "crates/windlass/src/knowledge/", unknown: &["drive", "adapter"] },
];

/// The only place that may see the types of the provider library.
const RIG_FOLDER: &str = "crates/windlass/src/adapter/model/";

/// Mentions of a module that the layer must not know.
pub fn mentions(file: &SourceFile, findings: &mut Vec<Finding>) {
    for layer in LAYERS.iter().filter(|layer| file.is_in(layer.folder)) {
        for module in layer.unknown {
            for at in mentions_of(&file.views.code, module) {
                let line = file.line_of(at);
                if !file.is_test_line(line) {
                    let advice =
                        format!("`{}` does not know `{module}`; go through a trait in `port/`", layer.folder);
                    findings.push(Finding::error(file, line, "layers", advice));
                }
            }
        }
    }
}

/// Mentions of the provider library outside its adapter.
pub fn rig(file: &SourceFile, findings: &mut Vec<Finding>) {
    if !file.path.starts_with("crates/") || file.is_in(RIG_FOLDER) {
        return;
    }
    for word in ["rig::", "rig_core", "rig_reqwest"] {
        for at in lexer::find_words(&file.views.code, word) {
            let advice = format!("types of rig stay inside `{RIG_FOLDER}`; map them to our own there");
            findings.push(Finding::error(file, file.line_of(at), "layers", advice));
        }
    }
}

/// Where code names `crate::<module>`, directly or in a group such as `use crate::{a, <module>::b}`.
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
    fn the_driver_does_not_know_adapters() {
        let path = "crates/windlass/src/drive/actor.rs";
        check(mentions, path, "use crate::port::Journal;\nuse crate::adapter::sqlite::Sqlite;\n", &[2]);
        check(mentions, path, "use crate::{\n    port::{self, adapter},\n    adapter::memory,\n};\n", &[3]);
        check(mentions, path, "// crate::adapter\nlet adapter = crate::adapters();\n", &[]);
        check(mentions, path, "#[cfg(test)]\nmod tests {\n use crate::adapter::memory;\n}\n", &[]);
    }

    #[test]
    fn adapters_do_not_know_the_driver() {
        check(mentions, "crates/windlass/src/adapter/sqlite/mod.rs", "use crate::drive::Actor;\n", &[1]);
        check(mentions, "crates/windlass/src/adapter/sqlite/mod.rs", "use crate::adapter::memory;\n", &[]);
    }

    #[test]
    fn tools_skills_memory_and_knowledge_see_ports_only() {
        for folder in ["tool", "skill", "memory", "knowledge"] {
            let path = format!("crates/windlass/src/{folder}/a.rs");
            check(
                mentions,
                &path,
                "use crate::drive::x;\nuse crate::adapter::y;\nuse crate::port::z;\n",
                &[1, 2],
            );
        }
    }

    #[test]
    fn rig_stays_in_its_adapter() {
        let text = "use rig_core::completion;\nfn f(a: rig::Message) {}\n";
        check(rig, "crates/windlass/src/drive/execute.rs", text, &[2, 1]);
        check(rig, "crates/windlass-app/src/main.rs", text, &[2, 1]);
        check(rig, "crates/windlass/src/adapter/model/anthropic.rs", text, &[]);
    }
}
