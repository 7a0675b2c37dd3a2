//! Modules of the web UI that need no browser: Node's test runner runs `tests/modules/*.test.js` of the server.
//!
//! Modules that use the document are tested in the browser instead.

use std::path::Path;
use std::process::Command;

#[test]
fn modules_pass_their_tests() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    // The version that `cargo xtask test` installs; Debian's needs a package file to load ES modules.
    let node = package.ancestors().nth(2).unwrap().join("target/mcp/node/bin/node");
    assert!(node.exists(), "`{}` is absent: `cargo xtask test` installs it", node.display());
    let tests = package.join("../windlass-server/tests/modules/*.test.js");
    // Exits even if a test left a timer behind.
    let output = Command::new(node).args(["--test", "--test-force-exit"]).arg(tests).output().unwrap();
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{errors}");
    let passed = out.lines().find_map(|line| line.split_once("pass ")?.1.trim().parse::<u32>().ok());
    assert!(passed > Some(0), "no test ran\n{out}");
}
