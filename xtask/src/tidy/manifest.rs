//! Restricts the dependencies in the crates' manifests.

use std::collections::BTreeSet;

use super::finding::Finding;
use super::source::SourceFile;

const MACHINE: &str = "crates/windlass-machine/Cargo.toml";
const MACHINE_MAY_USE: &[&str] = &["serde", "serde_json", "thiserror", "regex", "blake3"];
const MACHINE_TESTS_MAY_USE: &[&str] = &["proptest", "insta"];

const ENGINE: &str = "crates/windlass-engine/Cargo.toml";

/// A crate of the project, and the project's crates that it may depend on. Adapters never depend on each other: shared
/// code is in a crate below both.
struct Direction {
    name: &'static str,
    knows: &'static [&'static str],
}

const DIRECTIONS: &[Direction] = &[
    Direction { name: "windlass-machine", knows: &[] },
    Direction { name: "windlass-outbound", knows: &[] },
    Direction { name: "windlass-engine", knows: &["windlass-machine", "windlass-outbound"] },
    Direction { name: "windlass-schema", knows: &["windlass-engine", "windlass-machine"] },
    Direction { name: "windlass-sqlite", knows: &["windlass-engine", "windlass-machine"] },
    Direction {
        name: "windlass-models",
        knows: &["windlass-engine", "windlass-machine", "windlass-outbound"],
    },
    Direction {
        name: "windlass-mcp",
        knows: &["windlass-engine", "windlass-machine", "windlass-outbound", "windlass-schema"],
    },
    Direction {
        name: "windlass-tools",
        knows: &["windlass-engine", "windlass-machine", "windlass-outbound", "windlass-schema"],
    },
    Direction {
        name: "windlass",
        knows: &[
            "windlass-engine",
            "windlass-mcp",
            "windlass-models",
            "windlass-outbound",
            "windlass-schema",
            "windlass-sqlite",
            "windlass-tools",
        ],
    },
    Direction { name: "windlass-server", knows: &["windlass"] },
    Direction { name: "windlass-compat", knows: &["windlass", "windlass-server"] },
    Direction { name: "windlass-cli", knows: &["windlass", "windlass-compat", "windlass-server"] },
];

/// Maximum number of crates in the engine's dependency tree, including the engine: an embedding program compiles all
/// of them.
const ENGINE_CRATES_MAX: usize = 70;

/// Crates that the engine must not depend on, directly or indirectly.
const ENGINE_LACKS: &[&str] =
    &["reqwest", "hyper", "rustls", "libsqlite3-sys", "rusqlite", "rig-core", "rmcp", "html5ever", "lopdf"];

/// A dependency in a manifest.
struct Dependency<'a> {
    line: usize,
    name: &'a str,
    is_for_tests: bool,
}

/// Finds dependencies that break the direction of the crates, or the purity of the machine.
pub fn dependencies(file: &SourceFile, findings: &mut Vec<Finding>) {
    for dependency in dependencies_of(&file.text) {
        let Dependency { line, name, is_for_tests } = dependency;
        if let Some(advice) = advice(&file.path, name, is_for_tests) {
            findings.push(Finding::error(file, line, "dependencies", advice));
        }
    }
}

/// Returns the reason why a manifest must not have a dependency.
fn advice(path: &str, name: &str, is_for_tests: bool) -> Option<String> {
    let is_machines = path == MACHINE;
    if is_machines && !MACHINE_MAY_USE.contains(&name) {
        let is_allowed = is_for_tests && MACHINE_TESTS_MAY_USE.contains(&name);
        return (!is_allowed).then(|| {
            format!("the machine must not depend on `{name}`; move the code that needs it to the engine")
        });
    }
    let own = path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
    let direction = DIRECTIONS.iter().find(|direction| direction.name == own)?;
    let is_ours = DIRECTIONS.iter().any(|direction| direction.name == name);
    let is_allowed = !is_ours || is_for_tests || direction.knows.contains(&name);
    (!is_allowed)
        .then(|| format!("`{own}` must not depend on `{name}`; move shared code into a crate below both"))
}

/// Compares the engine's dependencies with their limit. `tree` is the output of `cargo tree --prefix none`.
pub fn engine(tree: &str) -> Vec<Finding> {
    let names: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    let mut found = Vec::new();
    if names.len() > ENGINE_CRATES_MAX {
        found.push(format!("the engine depends on {} crates; at most {ENGINE_CRATES_MAX}", names.len()));
    }
    let lacks = ENGINE_LACKS.iter().filter(|name| names.contains(**name));
    found.extend(lacks.map(|name| format!("the engine must not depend on `{name}`")));
    let file = SourceFile::new(ENGINE, String::new());
    found.into_iter().map(|advice| Finding::error(&file, 1, "dependencies", advice)).collect()
}

fn dependencies_of(manifest: &str) -> Vec<Dependency<'_>> {
    let mut found = Vec::new();
    let mut table = "";
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        let is_for_tests = |table: &str| table.contains("dev-dependencies");
        if let Some(header) = line.strip_prefix('[') {
            table = header.trim_end_matches(']');
            if let Some((kind, name)) = table.rsplit_once("dependencies.") {
                found.push(Dependency { line: index + 1, name, is_for_tests: kind.ends_with("dev-") });
            }
        } else if table.ends_with("dependencies") && !line.starts_with('#') {
            let name = line.split(['=', '.']).next().unwrap_or_default().trim();
            if !name.is_empty() {
                found.push(Dependency { line: index + 1, name, is_for_tests: is_for_tests(table) });
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
    fn the_machine_is_pure() {
        let good =
            "[package]\nname = \"x\"\n[dependencies]\nserde.workspace = true\nblake3 = \"1\"\n# tokio\n";
        check(dependencies, MACHINE, good, &[]);
        check(dependencies, MACHINE, "[dependencies]\nserde = \"1\"\ntokio.workspace = true\n", &[3]);
        check(dependencies, MACHINE, "[dependencies.rand]\nversion = \"1\"\n", &[1]);
        check(dependencies, MACHINE, "[target.'cfg(unix)'.dependencies]\nlibc = \"1\"\n", &[2]);
    }

    #[test]
    fn its_tests_may_use_a_little_more() {
        check(dependencies, MACHINE, "[dev-dependencies]\nproptest = \"1\"\ninsta.workspace = true\n", &[]);
        check(dependencies, MACHINE, "[dependencies]\nproptest = \"1\"\n", &[2]);
        check(dependencies, MACHINE, "[dev-dependencies]\ntokio = \"1\"\n", &[2]);
    }

    #[test]
    fn crates_know_those_below_them() {
        let text =
            "[dependencies]\ntokio = \"1\"\nwindlass-models.workspace = true\nwindlass-engine = \"1\"\n";
        check(dependencies, "crates/windlass-sqlite/Cargo.toml", text, &[3]);
        check(dependencies, ENGINE, text, &[3, 4]);
        check(dependencies, "crates/windlass/Cargo.toml", text, &[]);
        let tests = "[dev-dependencies]\nwindlass-machine.workspace = true\n";
        check(dependencies, "crates/windlass/Cargo.toml", tests, &[]);
    }

    #[test]
    fn the_engine_stays_small() {
        assert_eq!(engine("tokio v1.0.0\nserde v1.0.0 (proc-macro)\ntokio v1.0.0 (*)\n"), []);
        assert_eq!(engine("hyper v1.0.0\ntokio v1.0.0\n").len(), 1);
        let many: String = (0..71).map(|at| format!("crate-{at} v1.0.0\n")).collect();
        assert_eq!(engine(&many).len(), 1);
    }
}
