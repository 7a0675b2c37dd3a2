//! A full disk: the run stops with a clear error, and can be resumed once there is room again.

use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

use super::{end, is, said, until};
use crate::cli::{INSIGHTS, TASK, User, count};

/// Limits the size of a process's files: further writes fail as on a full disk.
fn limit_files(child: &Child, bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    let process = i32::try_from(child.id()).unwrap();
    // SAFETY: the limit is read during the call; nothing is written back.
    let set = unsafe { libc::prlimit(process, libc::RLIMIT_FSIZE, &limit, std::ptr::null_mut()) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// Ignores `SIGXFSZ`, so that a write beyond the limit fails instead of killing the process.
fn outlives_the_limit(mut command: Command) -> Command {
    // SAFETY: one system call that is allowed between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            Ok(())
        });
    }
    command
}

/// Resumes a run that stopped in its second step, and checks its invariants.
fn check_resumed(user: &User, flags: &[&str]) {
    let arguments =
        |words: &[&'static str]| words.iter().copied().chain(flags.iter().copied()).collect::<Vec<_>>();
    user.run(&arguments(&["resume", "--yes"])).exits(0);
    assert_eq!(user.read("insights.md"), INSIGHTS);
    let events = crate::cli::lines(&user.run(&arguments(&["threads", "export"])).exits(0).out);
    assert_eq!((count(&events, "run.started"), count(&events, "run.finished")), (1, 1));
    assert_eq!(count(&events, "step.replied"), 4, "no recorded reply is asked for again");
    assert_eq!(count(&events, "tool.finished"), 3);
}

#[test]
fn a_disk_that_fills_up_stops_the_run_and_loses_nothing() {
    let user = User::new();
    let command = user.command(&["run", "--yes", "--stream-json", TASK]);
    let mut child = outlives_the_limit(command).spawn().unwrap();
    until(&mut child, is("step.replied", 2));
    limit_files(&child, 1);
    let store = user.store();
    end(child).exits(5).tells(&[
        "error: ",
        "the disk refused to write",
        "hint: make room",
        &format!("hint: the store is `{}`", store.display()),
        "nothing recorded was lost; `windlass resume` continues the run",
    ]);
    check_resumed(&user, &[]);
}

#[test]
fn a_full_disk_is_reported_before_a_run_starts() {
    let user = User::new();
    user.run(&["run", "--yes", TASK]).exits(0);
    let before = user.events();
    let mut command = outlives_the_limit(user.command(&["run", "--yes", TASK]));
    // SAFETY: one system call that is allowed between fork and exec.
    unsafe {
        command.pre_exec(|| {
            let limit = libc::rlimit { rlim_cur: 1, rlim_max: libc::RLIM_INFINITY };
            libc::setrlimit(libc::RLIMIT_FSIZE, &limit);
            Ok(())
        });
    }
    let store = format!("hint: the store is `{}`", user.store().display());
    said(command).exits(5).tells(&["error: ", "hint: make room", &store]);
    assert_eq!(user.events(), before);
}

/// Mounts a file system of limited size, visible only to this thread and its children, for their lifetime.
fn small_disk(at: &Path, options: &str) -> bool {
    let at = CString::new(at.as_os_str().as_bytes()).unwrap();
    let options = CString::new(options).unwrap();
    // SAFETY: every string ends with a zero byte and outlives the calls.
    unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(
                c"none".as_ptr(),
                c"/".as_ptr(),
                std::ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                std::ptr::null(),
            ) == 0
            && libc::mount(c"tmpfs".as_ptr(), at.as_ptr(), c"tmpfs".as_ptr(), 0, options.as_ptr().cast()) == 0
    }
}

/// Writes a file until there is no room for another byte.
fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    for size in [4096, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
}

/// Uses a real file system of two megabytes. If mounting is not permitted, the limit above covers the case.
#[test]
fn a_small_disk_fills_up_and_is_cleared() {
    let user = User::new();
    let disk = user.home().join("disk");
    std::fs::create_dir_all(&disk).unwrap();
    if !small_disk(&disk, "size=2m") {
        return println!("not run: this user may not mount a file system");
    }
    let store = disk.join("store").display().to_string();
    let flags = ["--store", store.as_str()];
    let mut child = user.start(&["run", "--yes", "--stream-json", TASK, flags[0], flags[1]]);
    until(&mut child, is("step.replied", 2));
    fill(&disk.join("ballast"));
    let named = format!("hint: the store is `{store}`");
    let resumes = format!("`windlass resume --store {store}` continues the run");
    end(child).exits(5).tells(&["the disk is full", "hint: make room", &named, &resumes]);
    user.run(&["run", "--yes", TASK, flags[0], flags[1]]).exits(5).tells(&["error: ", "hint: ", &named]);
    std::fs::remove_file(disk.join("ballast")).unwrap();
    check_resumed(&user, &flags);
}
