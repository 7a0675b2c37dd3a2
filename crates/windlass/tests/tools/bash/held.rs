//! Commands that try operations Landlock does not cover: modes of files, socket pairs, threads.
//!
//! If a shell cannot try an operation, the command is this test program, running one of its tests.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use windlass::tool::sandbox::support;

use super::Shell;

/// Landlock does not cover modes, owners and times.
#[test]
fn what_files_outside_are_like_is_out_of_reach() {
    let shell = Shell::with(|settings, outside| {
        fs::create_dir(outside.join("open")).unwrap();
        fs::write(outside.join("one.txt"), "one").unwrap();
        settings.sandbox.write = vec![outside.join("open"), outside.join("one.txt")];
    });
    assert!(support().mounts, "this kernel cannot show it");
    let like = || {
        use std::os::unix::fs::MetadataExt;
        let found = fs::metadata(shell.outside.join("secret.txt")).unwrap();
        (found.mode(), found.uid(), found.gid(), found.mtime())
    };
    let before = like();
    for command in [
        "chmod 777 <outside>/secret.txt",
        "chmod 777 ../outside/secret.txt",
        "cd <outside> && chmod 777 secret.txt",
        "chmod 777 /proc/self/cwd/../outside/secret.txt",
        "chmod 777 /proc/self/root<outside>/secret.txt",
        "ln -s <outside>/secret.txt way; chmod 777 way",
        "chown 1:1 <outside>/secret.txt",
        "touch -d @0 <outside>/secret.txt",
        "chmod 700 <outside>/open/../.",
    ] {
        shell.refused(command);
        assert_eq!(like(), before, "{command}");
    }
    // Files that a command may change can be changed in these ways too.
    let own = "for f in a $TMPDIR/a <outside>/open/a <outside>/one.txt; do \
               echo x > $f && chmod 751 $f && touch -d @0 $f && stat -c %a:%Y $f || exit 1; done";
    assert_eq!(shell.says(own), "ok: 751:0\n751:0\n751:0\n751:0");
}

/// A set-user program would also run as its owner outside, for any user who starts it.
#[test]
fn a_program_that_runs_as_its_owner_cannot_be_made() {
    let shell = Shell::with(|settings, _| settings.sandbox.read = vec![std::env::current_exe().unwrap()]);
    for command in ["echo > a; chmod u+s a", "chmod g+s .", "chmod 6755 a", "install -m 4755 a b"] {
        shell.refused(command);
    }
    assert_eq!(
        shell.says("mkdir -m 1777 d && chmod 755 a && chmod 1770 d && stat -c %a a d"),
        "ok: 755\n1770"
    );
    shell.says(&itself("makes", "."));
    let said = fs::read_to_string(shell.inside.join("said")).unwrap();
    assert_eq!(said, "2541 Err(PermissionDenied), 1517 Err(PermissionDenied), 493 Ok(())");
}

/// The command's program; without its argument it does nothing.
#[test]
fn makes() {
    use std::os::unix::fs::OpenOptionsExt;
    if std::env::var_os("WINDLASS_TEST_ARGUMENT").is_none() {
        return;
    }
    let made = |mode: u32| {
        let opened =
            fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(format!("made.{mode}"));
        format!("{mode} {:?}", opened.map(drop).map_err(|error| error.kind()))
    };
    fs::write("said", [0o4755, 0o2755, 0o755].map(made).join(", ")).unwrap();
}

/// Datagrams sent on a socket pair can be addressed to other sockets.
#[test]
fn a_socket_pair_cannot_reach_other_sockets() {
    for network in [false, true] {
        let shell = Shell::with(|settings, _| {
            settings.sandbox.network = network;
            settings.sandbox.read = vec![std::env::current_exe().unwrap()];
        });
        let heard = std::os::unix::net::UnixDatagram::bind(shell.inside.join("x.sock")).unwrap();
        heard.set_nonblocking(true).unwrap();
        shell.says(&itself("sends", "."));
        let said = fs::read_to_string(shell.inside.join("said")).unwrap();
        let refused = "Err(PermissionDenied)";
        assert_eq!(said, format!("letters {refused}, raw {refused}, stream Ok(())"));
        assert_eq!(heard.recv(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }
}

/// A command that runs this program at one of its tests.
fn itself(test: &str, argument: &str) -> String {
    let program = std::env::current_exe().unwrap();
    format!("WINDLASS_TEST_ARGUMENT={argument} {} --exact tools::bash::held::{test}", program.display())
}

/// The command's program; without its argument it does nothing.
#[test]
fn sends() {
    let Some(folder) = std::env::var_os("WINDLASS_TEST_ARGUMENT").map(PathBuf::from) else { return };
    let sent = |kind: libc::c_int| {
        use std::os::fd::FromRawFd;
        let mut pair = [-1; 2];
        // SAFETY: the kernel fills in two numbers, which have no other owner.
        let socket = unsafe {
            if libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) != 0 {
                return Err(std::io::Error::last_os_error().kind());
            }
            std::os::unix::net::UnixDatagram::from_raw_fd(pair[0])
        };
        let to = folder.join("x.sock");
        if kind == libc::SOCK_STREAM {
            Ok(())
        } else {
            socket.send_to(b"x", to).map(drop).map_err(|it| it.kind())
        }
    };
    let (letters, raw, stream) = (sent(libc::SOCK_DGRAM), sent(libc::SOCK_RAW), sent(libc::SOCK_STREAM));
    fs::write("said", format!("letters {letters:?}, raw {raw:?}, stream {stream:?}")).unwrap();
}

#[test]
fn threads_count_as_processes() {
    let shell = Shell::with(|settings, _| {
        settings.processes = 64;
        settings.sandbox.read = vec![std::env::current_exe().unwrap()];
    });
    let said = shell.says(&itself("threads", "200"));
    assert!(said.ends_with("(stopped: it exceeded the process limit)"), "{said}");
    assert!(shell.says(&itself("threads", "20")).starts_with("ok: "));
    assert_eq!(fs::read_to_string(shell.inside.join("began")).unwrap(), "began 20");
}

/// The command's program: threads that wait for the end; few of them end by themselves.
#[test]
fn threads() {
    let Ok(count) = std::env::var("WINDLASS_TEST_ARGUMENT") else { return };
    let count: usize = count.parse().unwrap();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let ended = Arc::new(std::sync::Mutex::new(ended));
    let waits = |ended: Arc<std::sync::Mutex<std::sync::mpsc::Receiver<()>>>| {
        move || ended.lock().unwrap().recv().is_ok()
    };
    let all: Vec<_> = (0..count).map(|_| std::thread::spawn(waits(ended.clone()))).collect();
    if count > 50 {
        all.into_iter().for_each(|one| drop(one.join()));
    }
    drop(end);
    fs::write("began", format!("began {count}")).unwrap();
}
