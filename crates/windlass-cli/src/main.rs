//! The binary `windlass`. All of its code is in the library of this package.

use std::process::ExitCode;

fn main() -> ExitCode {
    windlass_cli::main()
}
