//! What the crates may depend on, read from their manifests.

use super::finding::Finding;
use super::source::SourceFile;

const MACHINE: &str = "crates/windlass-machine/Cargo.toml";
const MACHINE_MAY_USE: &[&str] = &["serde", "serde_json", "thiserror", "regex", "blake3"];
const MACHINE_TESTS_MAY_USE: &[&str] = &["proptest", "insta"];

const ENGINE: &str = "crates/windlass/Cargo.toml";
const ENGINE_MUST_NOT_USE: &[&str] = &["axum", "clap", "windlass-app"];

/// A dependency as a manifest names it.
struct Dependency<'a> {
    line: usize,
    name: &'a str,
    is_for_tests: bool,
}

/// Dependencies that break the direction app → engine → machine, or the machine's purity.
pub fn dependencies(file: &SourceFile, findings: &mut Vec<Finding>) {
    if file.path != MACHINE && file.path != ENGINE {
        return;
    }
    for dependency in dependencies_of(&file.text) {
        let name = dependency.name;
        let advice = if file.path == ENGINE {
            if !ENGINE_MUST_NOT_USE.contains(&name) {
                continue;
            }
            format!("the library has no `{name}`; what needs it belongs in `windlass-app`")
        } else {
            let is_allowed = MACHINE_MAY_USE.contains(&name)
                || dependency.is_for_tests && MACHINE_TESTS_MAY_USE.contains(&name);
            if is_allowed {
                continue;
            }
            format!("the machine does not use `{name}`; move what needs it to the engine")
        };
        findings.push(Finding::error(file, dependency.line, "dependencies", advice));
    }
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
    fn the_library_knows_no_server_and_no_terminal() {
        check(
            dependencies,
            ENGINE,
            "[dependencies]\ntokio = \"1\"\naxum = \"1\"\nclap.workspace = true\n",
            &[3, 4],
        );
        check(dependencies, "crates/windlass-app/Cargo.toml", "[dependencies]\nclap = \"1\"\n", &[]);
    }
}
