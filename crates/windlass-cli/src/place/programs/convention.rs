//! Files that well-known programs load by convention although the settings do not name them. For example, `npm` reads
//! `package.json`, and `python -m server` runs `server/__main__.py`.

use std::path::Path;

/// Files that a program reads in its working directory.
const IN_FOLDER: &[(&str, &[&str])] = &[
    ("bun", &["package.json"]),
    ("cargo", &["Cargo.toml", "build.rs", "src/main.rs"]),
    ("deno", &["deno.json", "deno.jsonc", "package.json"]),
    ("compose", &["compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"]),
    ("docker-compose", &["compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"]),
    ("go", &["go.mod", "main.go"]),
    ("just", &["justfile", "Justfile", ".justfile"]),
    ("make", &["GNUmakefile", "makefile", "Makefile"]),
    ("npm", &["package.json"]),
    ("pnpm", &["package.json"]),
    ("poetry", &["pyproject.toml"]),
    ("uv", &["pyproject.toml", "uv.toml"]),
    ("yarn", &["package.json"]),
];

/// Files that a program runs if its argument is a directory.
const OF_ARGUMENT: &[(&str, &[&str])] = &[
    ("bun", &["package.json", "index.js", "index.mjs", "index.ts"]),
    ("node", &["package.json", "index.js", "index.mjs", "index.cjs"]),
    ("python", &["__main__.py"]),
];

/// Programs that run a package, and search `node_modules` first.
const OF_PACKAGES: &[&str] = &["bunx", "npx"];

/// Returns the files that the programs of a command line load by convention, relative to the working directory. The
/// files need not exist. Finds programs at any position, as in `env node .` and `sh -c "npm start"`.
pub fn found_by_name(words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let program = program_name(word);
        let rest = &words[at + 1..];
        let of = |table: &[(&str, &'static [&'static str])]| {
            table.iter().find(|(name, _)| *name == program).map_or(&[][..], |(_, files)| files)
        };
        found.extend(of(IN_FOLDER).iter().map(|file| (*file).to_owned()));
        for argument in rest.iter().filter(|word| !word.starts_with('-')) {
            found.extend(of(OF_ARGUMENT).iter().map(|file| format!("{argument}/{file}")));
        }
        if program == "python" {
            let module = rest.iter().position(|word| *word == "-m").and_then(|flag| rest.get(flag + 1));
            found.extend(module.into_iter().flat_map(|module| module_files(module)));
        }
        if OF_PACKAGES.contains(&&*program)
            && let Some(package) = rest.iter().find(|word| !word.starts_with('-'))
        {
            found.extend(package_files(package));
        }
    }
    found
}

/// Returns the name of a program without its folder and without a version: `python` of `/usr/bin/python3.12`.
fn program_name(word: &str) -> String {
    let name = Path::new(word).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = name.strip_suffix(".exe").unwrap_or(name);
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.').to_owned()
}

/// Returns the files that `python -m` runs: the module or the main module of the package, after the enclosing packages.
fn module_files(module: &str) -> Vec<String> {
    let path = module.replace('.', "/");
    let mut files = vec![format!("{path}.py"), format!("{path}/__main__.py")];
    let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
    files.extend(ends.map(|end| format!("{}/__init__.py", &path[..end])));
    files
}

/// Returns the files that `npx` runs if the package is installed locally. The package's
/// name may have a scope and a version.
fn package_files(package: &str) -> Vec<String> {
    let scope_end = if package.starts_with('@') { package.find('/').map_or(0, |slash| slash + 1) } else { 0 };
    let end = package[scope_end..].find('@').map_or(package.len(), |at| scope_end + at);
    let (package, program) = (&package[..end], &package[scope_end..end]);
    vec![format!("node_modules/.bin/{program}"), format!("node_modules/{package}/package.json")]
}

#[cfg(test)]
mod tests {
    use super::found_by_name;

    #[test]
    fn programs_find_their_files_by_convention() {
        let found = |line: &str| found_by_name(&line.split(' ').collect::<Vec<_>>()).join(" ");
        let cases = [
            ("npm start", "package.json"),
            ("env make -j2 serve", "GNUmakefile makefile Makefile"),
            (
                "/usr/bin/python3.12 -u -m tools.server",
                "tools/server.py tools/server/__main__.py tools/__init__.py",
            ),
            ("python dir", "dir/__main__.py"),
            ("node --flag .", "./package.json ./index.js ./index.mjs ./index.cjs"),
            ("npx -y @scope/files@1.2 .", "node_modules/.bin/files node_modules/@scope/files/package.json"),
            ("npx files", "node_modules/.bin/files node_modules/files/package.json"),
            ("docker compose run tools", "compose.yaml compose.yml"),
            ("docker run -i mcp/fetch", ""),
            ("./server --make", ""),
            ("npx", ""),
        ];
        for (line, wanted) in cases {
            let found = found(line);
            match wanted {
                "" => assert_eq!(found, "", "{line}"),
                wanted => assert!(found.contains(wanted), "{line}: {found}"),
            }
        }
    }
}
