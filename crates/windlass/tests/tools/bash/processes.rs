//! Limits of a command's processes: counted by its attendant, and bounded by the kernel if supported.

use std::fs;

use windlass::tool::sandbox::support;

use super::Shell;

#[test]
fn a_fork_bomb_is_ended() {
    let shell = Shell::with(|settings, _| settings.processes = 64);
    // The shell starts no process after the bomb: if the kernel refused it one, the shell would end.
    let said = shell.says("exec 3<> <(:); bomb() { bomb | bomb & }; bomb; read -t 60 <&3");
    assert!(said.ends_with("(stopped: it exceeded the process limit)"), "{said}");
    let said = shell.says("for n in $(seq 30); do sleep 0.3 & done; wait; echo done");
    assert_eq!(said, "ok: done");
}

/// From Linux 6.14 on, the kernel refuses processes about 300 beyond a command's limit.
#[test]
fn the_kernel_bounds_the_processes_of_a_command() {
    let shell = Shell::with(|settings, _| settings.processes = 64);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map_while(|number| number.parse::<u32>().ok());
    let is_bounded = (numbers.next(), numbers.next()) >= (Some(6), Some(14)) && support().processes;
    let said = shell.says("cat /proc/sys/kernel/pid_max");
    assert_eq!(said == "ok: 365", is_bounded, "{said}");
    let machine = fs::read_to_string("/proc/sys/kernel/pid_max").unwrap();
    assert_ne!(machine.trim(), "365", "the limit of the machine was changed");
}
