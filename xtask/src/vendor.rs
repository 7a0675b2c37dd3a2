//! `cargo xtask vendor`: downloads the web UI's libraries in the versions below, with their licences.
//!
//! The output is committed, so that a build needs no npm. Run this command after a change of a version below.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;

/// The folder of the libraries, from which the server serves them.
const FOLDER: &str = "crates/windlass-server/ui/vendor";

/// A package, and the files to take with their new names.
struct Package {
    name: &'static str,
    version: &'static str,
    licence: &'static str,
    files: &'static [(&'static str, &'static str)],
}

const PACKAGES: &[Package] = &[
    Package {
        name: "preact",
        version: "10.29.8",
        licence: "LICENSE",
        files: &[("dist/preact.module.js", "preact.js"), ("hooks/dist/hooks.module.js", "hooks.js")],
    },
    Package {
        name: "@preact/signals-core",
        version: "1.14.5",
        licence: "LICENSE",
        files: &[("dist/signals-core.module.js", "signals-core.js")],
    },
    Package {
        name: "@preact/signals",
        version: "2.11.4",
        licence: "LICENSE",
        files: &[("dist/signals.module.js", "signals.js")],
    },
    Package { name: "htm", version: "3.1.1", licence: "LICENSE", files: &[("dist/htm.module.js", "htm.js")] },
    Package {
        name: "marked",
        version: "18.2.1",
        licence: "LICENSE",
        files: &[("lib/marked.esm.js", "marked.js")],
    },
    Package {
        name: "dompurify",
        version: "3.4.18",
        licence: "LICENSE",
        files: &[("dist/purify.es.mjs", "dompurify.js")],
    },
    Package {
        name: "@highlightjs/cdn-assets",
        version: "11.12.0",
        licence: "LICENSE",
        files: &[("es/highlight.min.js", "highlight.js")],
    },
    Package {
        name: "uplot",
        version: "1.6.32",
        licence: "LICENSE",
        files: &[("dist/uPlot.esm.js", "uplot.js"), ("dist/uPlot.min.css", "uplot.css")],
    },
];

/// Names by which modules import each other, and the corresponding files. This avoids an import map, which would be an
/// inline script.
const IMPORTS: &[(&str, &str)] = &[
    ("preact/hooks", "./hooks.js"),
    ("@preact/signals-core", "./signals-core.js"),
    ("preact", "./preact.js"),
];

/// The minifier for libraries that are published with comments. It keeps licence comments.
const MINIFIER: &str = "esbuild@0.28.2";

/// Maximum number of lines of a library that is treated as already minified.
const MINIFIED_LINES: usize = 1_000;

pub fn run(arguments: &[String]) -> Result<()> {
    if let [first, ..] = arguments {
        bail!("unexpected argument `{first}`\nhint: `cargo xtask vendor` takes no arguments");
    }
    let folder = process::root().join(FOLDER);
    let packed = process::root().join("target/vendor");
    fs::create_dir_all(&folder)?;
    let mut licences = String::from("The libraries in this folder, each with its licence.\n");
    for package in PACKAGES {
        let inside = unpack(package, &packed)?;
        for (from, to) in package.files {
            let text = fs::read_to_string(inside.join(from)).with_context(|| format!("no `{from}`"))?;
            fs::write(folder.join(to), resolved(&text))?;
            if from.ends_with(".mjs") || from.ends_with(".esm.js") && text.lines().count() > MINIFIED_LINES {
                minify(&folder.join(to))?;
            }
        }
        let licence = fs::read_to_string(inside.join(package.licence))?;
        let Package { name, version, .. } = package;
        write!(licences, "\n\n==== {name} {version} ====\n\n{}\n", licence.trim_end())?;
    }
    fs::write(folder.join("LICENSES.txt"), licences)?;
    println!("{} packages in {FOLDER}", PACKAGES.len());
    Ok(())
}

/// Downloads and unpacks a package. Returns the folder of its files.
fn unpack(package: &Package, packed: &Path) -> Result<std::path::PathBuf> {
    let Package { name, version, .. } = package;
    let folder = packed.join(name.replace('/', "-"));
    fs::create_dir_all(&folder)?;
    let mut pack = Command::new("npm");
    pack.args(["pack", "--silent", "--pack-destination"]).arg(&folder).arg(format!("{name}@{version}"));
    process::run(&mut pack)?;
    let file = format!("{}-{version}.tgz", name.trim_start_matches('@').replace('/', "-"));
    process::run(Command::new("tar").arg("xzf").arg(folder.join(file)).arg("-C").arg(&folder))?;
    Ok(folder.join("package"))
}

/// Minifies a module in place.
fn minify(module: &Path) -> Result<()> {
    let mut command = Command::new("npx");
    command.args(["--yes", MINIFIER]).arg(module).args([
        "--minify",
        "--format=esm",
        "--legal-comments=inline",
    ]);
    command.args(["--charset=utf8", "--allow-overwrite"]).arg(format!("--outfile={}", module.display()));
    process::run(&mut command)
}

/// Rewrites a module's imports to file names, and removes its reference to a source map.
fn resolved(text: &str) -> String {
    let mut text = text.to_owned();
    for (name, file) in IMPORTS {
        for quote in ['"', '\''] {
            for word in ["from", "from ", "import", "import "] {
                let wanted = format!("{word}{quote}{file}{quote}");
                text = text.replace(&format!("{word}{quote}{name}{quote}"), &wanted);
            }
        }
    }
    let plain = |line: &str| line.split("//# sourceMappingURL=").next().unwrap_or_default().to_owned();
    text.lines().map(|line| plain(line) + "\n").collect()
}
