//! `windlass completions`: prints a shell's completion script for the commands and flags.

use clap::Args;
use clap_complete::Shell;

use crate::console::Console;

#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// bash, zsh, fish, elvish or powershell
    shell: Shell,
}

pub fn run(console: &Console, args: &CompletionsArgs, command: &mut clap::Command) {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "windlass", &mut script);
    console.out(&String::from_utf8_lossy(&script));
}
