//! `Bash` on the kernel that runs the tests, with malicious commands.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use windlass::clock::SystemClock;
use windlass::port::tool::{CallContext, Tool};
use windlass::tool::builtin::{BashSettings, bash_tools};
use windlass::tool::sandbox::{Isolation, Sandbox, Support, support};
use windlass::tool::{Registry, WorkingFolder};

use super::{context, run, show, shown};

mod background;
mod ends;
mod held;
pub mod links;
mod processes;
mod room;
mod scratch;

/// A working folder, an adjacent folder that commands must not see, and the tools.
pub struct Shell {
    _root: TempDir,
    inside: PathBuf,
    outside: PathBuf,
    folder: Arc<WorkingFolder>,
    registry: Registry,
}

impl Shell {
    fn new() -> Self {
        Self::with(|_, _| {})
    }

    fn with(change: impl FnOnce(&mut BashSettings, &Path)) -> Self {
        // Not a place that commands may write: the system's temporary folder is as inaccessible as any other.
        let root = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(root.path()).unwrap();
        let (inside, outside) = (top.join("inside"), top.join("outside"));
        fs::create_dir(&inside).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret.txt"), "SECRET").unwrap();
        let mut settings = BashSettings { shell: "/bin/bash".into(), ..BashSettings::default() };
        change(&mut settings, &outside);
        let tools = bash_tools(settings, Arc::new(SystemClock::new())).unwrap();
        let folder = Arc::new(WorkingFolder::open(&inside).unwrap());
        let registry = windlass::registry().add_all(tools).unwrap();
        Self { _root: root, inside, outside, folder, registry }
    }

    fn tool(&self, name: &str) -> Arc<dyn Tool> {
        self.registry.get(name).unwrap()
    }

    fn context(&self) -> CallContext {
        context(Some(self.folder.clone()), CancellationToken::new())
    }

    fn call(&self, tool: &str, arguments: Value) -> String {
        self.registry.check_arguments(tool, &arguments).unwrap();
        show(&run(&*self.tool(tool), self.context(), arguments))
    }

    /// Runs a command; `<outside>` in it is replaced by the inaccessible folder.
    fn says(&self, command: &str) -> String {
        let command = command.replace("<outside>", self.outside.to_str().unwrap());
        let said = self.call("Bash", json!({"command": command}));
        said.replace(self.outside.to_str().unwrap(), "<outside>")
            .replace(self.inside.to_str().unwrap(), "<inside>")
    }

    /// Asserts that the command fails and reports the failure itself.
    #[track_caller]
    fn refused(&self, command: &str) {
        let said = self.says(command);
        let no = ["ermission denied", "not permitted", "cross-device link", "Read-only file system"];
        assert!(said.starts_with("error: ") && no.iter().any(|no| said.contains(no)), "{command}: {said}");
        assert!(!said.contains("SECRET"), "{said}");
    }
}

/// The number of processes whose command line contains a text.
fn alive(marker: &str) -> usize {
    let of = |entry: &fs::DirEntry| {
        let mut line = String::new();
        let read =
            fs::File::open(entry.path().join("cmdline")).and_then(|mut it| it.read_to_string(&mut line));
        read.is_ok() && line.contains(marker)
    };
    fs::read_dir("/proc").unwrap().flatten().filter(of).count()
}

/// Waits until no process with the marker is left: a killed process takes a moment to go.
#[track_caller]
fn gone(marker: &str) {
    for _ in 0..6_000 {
        if alive(marker) == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(5)); // tidy: sleep the end of a killed process sends no notification
    }
    panic!("`{marker}` is still there");
}

// rows: LM-T1, SK-T5
#[test]
fn a_command_says_what_it_did() {
    let shell = Shell::new();
    assert_eq!(shell.says("echo one; echo two >&2; pwd"), "ok: one\ntwo\n<inside>");
    assert_eq!(shell.says("true"), "ok: The command was executed successfully, but no output was returned.");
    assert_eq!(shell.says("echo no; exit 3"), "error: no\n\n(exit code 3)");
    assert_eq!(shell.says("exit 4"), "error: (exit code 4)");
    assert!(shell.says("(kill -9 $BASHPID); echo $?").ends_with("137"));
    assert!(shell.says("cat; echo end") == "ok: end", "there is nothing to read");
    assert!(shell.says("if").starts_with("error: "));
    assert_eq!(shell.says("echo a > a.txt && mkdir b && mv a.txt b/c.txt && cat b/c.txt"), "ok: a");
    assert!(shell.says("definitely-no-such-program").contains("not found"));
    assert_eq!(shell.says("yes | head -n 2"), "ok: y\ny");
    assert_eq!(shell.says("cat <(echo process substitution)"), "ok: process substitution");
    assert_eq!(shell.says("echo here > $TMPDIR/x && cat ~/x"), "ok: here");
    assert_eq!(shell.says("ls ~ | wc -l"), "ok: 0", "the scratch folder goes with its command");
}

#[test]
fn a_command_has_a_clean_environment() {
    let shell = Shell::with(|settings, _| settings.variables = vec!["CARGO_MANIFEST_DIR".into()]);
    let said = shell.says("env -0 | tr '\\0' '\\n' | cut -d= -f1 | sort | tr '\\n' ' '");
    let known = [
        "CARGO_MANIFEST_DIR",
        "GIT_PAGER",
        "GIT_TERMINAL_PROMPT",
        "HOME",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "LOGNAME",
        "OLDPWD",
        "PAGER",
        "PATH",
        "PWD",
        "SHELL",
        "SHLVL",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "TERM",
        "TMPDIR",
        "TZ",
        "USER",
        "_",
    ];
    for name in said.strip_prefix("ok: ").unwrap().split_whitespace() {
        assert!(known.contains(&name), "{name}");
    }
    assert!(said.contains("CARGO_MANIFEST_DIR") && !said.contains("CARGO_PKG_NAME"));
    // None of this process's open files is accessible to it.
    assert_eq!(shell.says("ls /proc/self/fd | wc -l"), "ok: 4");
}

#[test]
fn files_outside_are_out_of_reach() {
    let shell = Shell::new();
    for command in [
        "cat <outside>/secret.txt",
        "ls <outside>",
        "echo x > <outside>/new.txt",
        "echo x >> <outside>/secret.txt",
        "rm <outside>/secret.txt",
        "mv <outside>/secret.txt .",
        "ln <outside>/secret.txt here.txt && cat here.txt",
        "ln -s <outside> link && cat link/secret.txt",
        "truncate -s 0 <outside>/secret.txt",
        "mkdir <outside>/x",
        "cat /etc/shadow",
        "ls /root",
        "ls /home",
        "ls /tmp",
        "echo x > /usr/bin/windlass-test",
        "echo x > /etc/hosts",
        "echo x > /proc/sys/kernel/hostname",
        "echo 0 > /proc/self/oom_score_adj",
        "cd <outside> && ls",
        "mknod x b 8 0 || { echo 'Permission denied'; false; }",
    ] {
        shell.refused(command);
    }
    assert_eq!(fs::read_to_string(shell.outside.join("secret.txt")).unwrap(), "SECRET");
    assert_eq!(fs::read_dir(&shell.outside).unwrap().count(), 1);
    // The standard variables are set.
    assert_eq!(
        shell.says("cat /etc/passwd | head -c 4; date >/dev/null; echo; ls /usr >/dev/null && echo ok"),
        "ok: root\nok"
    );
}

#[test]
fn what_is_opened_is_open_and_no_more() {
    let shell = Shell::with(|settings, outside| settings.sandbox.read = vec![outside.to_owned()]);
    assert_eq!(shell.says("cat <outside>/secret.txt"), "ok: SECRET");
    shell.refused("cat <outside>/secret.txt > /dev/null; echo x > <outside>/secret.txt 2>&1");
    let shell = Shell::with(|settings, outside| settings.sandbox.write = vec![outside.to_owned()]);
    assert_eq!(shell.says("echo x > <outside>/y && cat <outside>/y"), "ok: x");
    shell.refused("cat /etc/shadow");
    // Without a sandbox it runs as any program of the user; it still ends as a whole.
    let shell = Shell::with(|settings, _| settings.sandbox.isolation = Isolation::Off);
    assert_eq!(shell.says("cat <outside>/secret.txt"), "ok: SECRET");
}

#[test]
fn other_processes_are_out_of_reach() {
    let shell = Shell::new();
    let mut victim = std::process::Command::new("/bin/sleep").arg("86399").spawn().unwrap();
    let pid = victim.id();
    for command in [
        format!("cat /proc/{pid}/environ"),
        format!("cat /proc/{}/environ", std::process::id()),
        format!("kill -9 {pid}"),
    ] {
        let said = shell.says(&command);
        assert!(said.starts_with("error: "), "{command}: {said}");
    }
    let own = shell.says("cat /proc/1/environ | tr '\\0' '\\n' | grep -c CARGO_PKG_NAME");
    assert!(!own.starts_with("ok: 1"), "the first process is its own, or out of reach: {own}");
    shell.says("kill -9 -1");
    assert!(victim.try_wait().unwrap().is_none(), "it was killed");
    victim.kill().unwrap();
    victim.wait().unwrap();
    for command in ["unshare -r true", "unshare -m true", "mount -t tmpfs x .", "chroot . /bin/true", "dmesg"]
    {
        shell.refused(command);
    }
}

#[test]
fn the_network_is_out_of_reach_unless_it_is_allowed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected");
    let shell = Shell::new();
    shell.refused(&connect);
    // A Unix socket would let it instruct a program outside.
    let path = shell.inside.join("x.sock");
    let _unix = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let ask = "curl --no-progress-meter --max-time 5 --unix-socket x.sock http://x/";
    assert!(shell.says(ask).starts_with("error: "));
    assert!(!shell.says(ask).contains("timed out"), "it was connected");
    let open = Shell::with(|settings, _| settings.sandbox.network = true);
    assert_eq!(open.says(&connect), "ok: connected");
    let _unix = std::os::unix::net::UnixListener::bind(open.inside.join("x.sock")).unwrap();
    assert!(open.says(ask).starts_with("error: ") && !open.says(ask).contains("timed out"));
}

#[test]
fn a_daemon_ends_with_its_command() {
    let shell = Shell::new();
    for (nth, command) in [
        "sleep <n> & echo started",
        "setsid sleep <n> & echo started",
        "(setsid setsid nohup sleep <n> >/dev/null 2>&1 &) ; echo started",
        "trap '' TERM HUP; setsid sh -c 'trap \"\" TERM HUP; (setsid sleep <n> &) ; sleep <n>' & echo started",
    ]
    .into_iter()
    .enumerate()
    {
        let marker = format!("{}.{nth}", 80_000 + std::process::id());
        assert_eq!(shell.says(&command.replace("<n>", &marker)), "ok: started");
        gone(&marker);
    }
}

#[test]
fn a_command_that_takes_too_long_is_ended_with_all_that_it_started() {
    let shell = Shell::new();
    let marker = format!("{}.7", 80_000 + std::process::id());
    let endless = format!("echo begun; setsid sleep {marker} & sleep {marker}; echo never");
    let said = shell.call("Bash", json!({"command": endless, "timeout_s": 1}));
    assert!(said.starts_with("error: begun\n") && !said.contains("never"), "{said}");
    assert!(
        said.ends_with("(stopped: it exceeded the time limit of 1 s; run it in the background)"),
        "{said}"
    );
    gone(&marker);
}

#[test]
fn a_command_that_is_cancelled_is_asked_and_then_killed() {
    let shell = Shell::new();
    let marker = format!("{}.8", 80_000 + std::process::id());
    for (command, wanted) in [
        (format!("echo begun > begun; sleep {marker}; echo never"), "(stopped)"),
        (format!("trap '' TERM; sh -c 'trap \"\" TERM; echo begun > begun; sleep {marker}'"), "(stopped)"),
    ] {
        let begun = shell.inside.join("begun");
        let _ = fs::remove_file(&begun);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let cancel = CancellationToken::new();
        let context = CallContext { cancel: cancel.clone(), ..shell.context() };
        let tool = shell.tool("Bash");
        let said = runtime.block_on(async move {
            let call = tokio::spawn(async move { tool.call(context, json!({"command": command})).await });
            while !begun.exists() {
                tokio::task::yield_now().await;
            }
            cancel.cancel();
            call.await.unwrap()
        });
        let said = shown(&said);
        assert!(said.starts_with("error: ") && said.ends_with(wanted), "{said}");
        gone(&marker);
    }
}

/// A call is dropped, as the driver drops one that does not end.
#[test]
fn a_command_is_killed_when_its_call_is_dropped() {
    let shell = Shell::new();
    let marker = format!("{}.9", 80_000 + std::process::id());
    let (begun, command) = (shell.inside.join("begun"), format!("echo begun > begun; sleep {marker}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (context, tool) = (shell.context(), shell.tool("Bash"));
    runtime.block_on(async move {
        let call = tokio::spawn(async move { tool.call(context, json!({"command": command})).await });
        while !begun.exists() {
            tokio::task::yield_now().await;
        }
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
    });
    gone(&marker);
}

#[test]
fn much_output_keeps_its_ends_and_little_memory() {
    let shell = Shell::new();
    let said = shell.says("echo first; seq 1 3000000; echo last");
    assert!(said.starts_with("ok: first\n1\n2\n") && said.ends_with("3000000\nlast"));
    assert!(said.contains(" bytes omitted …]") && said.len() < 70_000, "{}", said.len());
    // A file is bounded as well.
    let small = Shell::with(|settings, _| settings.file_bytes = 100_000);
    assert!(small.says("head -c 1000000 /dev/zero > big").starts_with("error: "));
    assert_eq!(fs::metadata(small.inside.join("big")).unwrap().len(), 100_000);
}

// rows: LM-T1
#[test]
fn a_command_in_the_background_is_read_and_ended() {
    let shell = Shell::new();
    let marker = format!("{}.10", 80_000 + std::process::id());
    let command = format!("echo one; setsid sleep {marker} & sleep {marker}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let call = |tool: &str, arguments: Value| {
        let (tool, context) = (shell.tool(tool), shell.context());
        shown(&runtime.block_on(async move { tool.call(context, arguments).await }))
    };
    let begun = call("Bash", json!({"command": command, "run_in_background": true}));
    assert!(begun.starts_with("ok: Running in the background as `bash_"), "{begun}");
    assert!(begun.contains("`, for at most 3600 s."), "{begun}");
    let named = |begun: &str| begun.split('`').nth(1).unwrap_or_else(|| panic!("{begun}")).to_owned();
    let id = named(&begun);
    let read = |from: u64| call("BashOutput", json!({"id": id, "from": from}));
    while read(0) != "ok: one\n\n[running; continue from 4]" {
        std::thread::yield_now();
    }
    assert_eq!(read(4), "ok: [running; continue from 4]");
    assert_eq!(call("KillBash", json!({"id": id})), format!("ok: `{id}` has ended: stopped"));
    gone(&marker);
    assert!(read(0).starts_with("ok: one\n") && read(0).contains("[stopped; continue from "));
    assert_eq!(call("KillBash", json!({"id": id})), format!("ok: `{id}` had already ended: stopped"));
    // Another process does not know the command, and says why.
    let unknown = format!(
        "error: unknown background command `{id}` (known: none); commands end with the process that runs \
         them, old results are discarded, and only a person can stop a command of another process"
    );
    assert_eq!(Shell::new().call("BashOutput", json!({"id": id})), unknown);
    let sleeper = json!({"command": "sleep 86398", "run_in_background": true});
    let mut all: Vec<String> = (0..8).map(|_| named(&call("Bash", sleeper.clone()))).collect();
    assert!(all.iter().all(|one| one.starts_with("bash_")), "{all:?}");
    let second = all[0].clone();
    all.push(id);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 9, "no two have the same name");
    let full = "error: 8 background commands are already running; stop one with KillBash";
    assert_eq!(call("Bash", json!({"command": "true", "run_in_background": true})), full);
    assert_eq!(call("KillBash", json!({"id": second})), format!("ok: `{second}` has ended: stopped"));
    assert!(call("Bash", json!({"command": "true", "run_in_background": true})).starts_with("ok: "));
}

/// A program may set less than a second, which limits the model's requested time too.
#[test]
fn a_short_time_of_the_settings_holds_whatever_is_wished() {
    let shell = Shell::with(|settings, _| settings.timeout_ms = 300);
    let said = shell.call("Bash", json!({"command": "sleep 86396", "timeout_s": 9}));
    assert!(
        said.ends_with("(stopped: it exceeded the time limit of 0.3 s; run it in the background)"),
        "{said}"
    );
}

#[test]
fn a_store_in_reach_of_commands_is_refused() {
    let refused = |change: &dyn Fn(&mut BashSettings, &Path)| {
        let shell = Shell::with(|settings, outside| change(settings, outside));
        shell.says("echo x")
    };
    let hides = |settings: &mut BashSettings, path: PathBuf| settings.sandbox.hidden = vec![path];
    let said = refused(&|settings, outside| hides(settings, outside.join("../inside/store/not/there/yet")));
    let wanted = "error: `<inside>/store/not/there/yet` is inside `<inside>`, which commands can access; \
                  move the store with `--store`, or work in another folder";
    assert_eq!(said, wanted);
    let said = refused(&|settings, outside| {
        hides(settings, outside.join("store"));
        settings.sandbox.read = vec![outside.to_owned()];
    });
    assert!(said.contains("`<outside>/store` is inside `<outside>`"), "{said}");
    // A system folder that every command sees is no place for the store either.
    let said = refused(&|settings, _| hides(settings, "/usr/local/share/windlass/store".into()));
    assert!(
        said.contains("`/usr/local/share/windlass/store` is inside `/usr`, which commands can access"),
        "{said}"
    );
    // A folder inside the store that belongs to the thread is accepted.
    assert_eq!(refused(&|settings, outside| hides(settings, outside.join(".."))), "ok: x");
}

#[test]
fn a_kernel_that_holds_nothing_is_refused_by_the_name_of_the_setting() {
    let bare = Support::default();
    let required = Sandbox::default();
    let wanted = "this kernel cannot sandbox commands: Landlock is not enabled; it does not support seccomp \
                  filters; use Linux 6.2 or newer, or set `sandbox = \"preferred\"` in `[tools.bash]` to run \
                  commands with the features that are available";
    assert_eq!(required.check(bare).unwrap_err(), wanted);
    let old = Support { landlock: Some(2), seccomp: true, processes: true, mounts: true };
    assert!(required.check(old).unwrap_err().contains("it has Landlock ABI 2, and 3 is required"));
    for isolation in [Isolation::Preferred, Isolation::Off] {
        assert_eq!(Sandbox { isolation, ..Sandbox::default() }.check(bare), Ok(()));
    }
    // The kernel that runs the tests supports everything, so the tests are meaningful.
    assert_eq!(support().missing(), "");
}

/// The process dies in the middle: the kernel ends its commands and their descendants.
#[test]
fn a_command_ends_with_the_process_that_runs_it() {
    let root = tempfile::tempdir().unwrap();
    let marker = format!("{}.11", 80_000 + std::process::id());
    let mut process = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tools::bash::other"])
        .env("WINDLASS_TEST_FOLDER", root.path())
        .env("WINDLASS_TEST_MARKER", &marker)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while !root.path().join("begun").exists() {
        assert!(process.try_wait().unwrap().is_none(), "it ended early");
        std::thread::yield_now();
    }
    assert!(alive(&marker) >= 2);
    process.kill().unwrap();
    process.wait().unwrap();
    gone(&marker);
}

/// The program of the other process; without a folder in the environment it does nothing.
#[test]
fn other() {
    let Some(folder) = std::env::var_os("WINDLASS_TEST_FOLDER").map(PathBuf::from) else { return };
    let marker = std::env::var("WINDLASS_TEST_MARKER").unwrap();
    let tools = bash_tools(BashSettings::default(), Arc::new(SystemClock::new())).unwrap();
    let folder = Arc::new(WorkingFolder::open(folder).unwrap());
    let command = format!("sleep {marker} & (setsid sleep {marker} &); echo x > begun; wait");
    run(&*tools[0], context(Some(folder), CancellationToken::new()), json!({"command": command}));
}

#[test]
fn only_what_goes_to_the_background_outlives_its_call() {
    let shell = Shell::new();
    let outlives = |tool: &str, arguments: Value| shell.tool(tool).outlives(&arguments);
    assert!(outlives("Bash", json!({"command": "make", "run_in_background": true})));
    assert!(!outlives("Bash", json!({"command": "make", "run_in_background": false})));
    assert!(
        !outlives("Bash", json!({"command": "make"})) && !outlives("BashOutput", json!({"id": "bash_1"}))
    );
}
