//! The binary `windlass`. Everything it does is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    windlass_cli::main()
}
