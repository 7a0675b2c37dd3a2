//! Several processes on one store: this test program starts itself again as the others.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use futures::StreamExt;
use windlass::clock::SystemClock;
use windlass::port::bus::Bus;
use windlass::port::journal::{AppendError, Claim, Epoch, Head, Journal};
use windlass::sqlite::bus::{Owners, SocketBus};
use windlass::sqlite::{SqliteStore, StoreOptions};
use windlass::testing::suite::{batch, claimed, draws, fragment};
use windlass_machine::{Seq, ThreadId};

use super::open;

/// Another process that plays a role on a store; killed when dropped.
pub(super) struct Other {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

const ROLE: &str = "WINDLASS_TEST_ROLE";
const STORE: &str = "WINDLASS_TEST_STORE";
const SAYS: &str = "other: ";

impl Other {
    /// Starts the process.
    pub fn start(role: &str, store: &Path) -> Self {
        Self::start_with(Command::new(std::env::current_exe().unwrap()), role, store)
    }

    fn start_with(mut command: Command, role: &str, store: &Path) -> Self {
        let mut child = command
            .args(["--exact", "store::process::other", "--nocapture"])
            .env(ROLE, role)
            .env(STORE, store)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Its next line of output; `None` once it has ended.
    pub fn says(&mut self) -> Option<String> {
        let said = |line: String| Some(line.split_once(SAYS)?.1.to_owned());
        self.lines.by_ref().map_while(Result::ok).find_map(said)
    }

    /// Kills it without notice, and waits until it is gone.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn signal(&self, signal: i32) {
        // SAFETY: a plain system call on a child process that has not been reaped.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program of the other process; without a role in the environment it does nothing.
#[tokio::test]
async fn other() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let folder = PathBuf::from(std::env::var(STORE).unwrap());
    let opened = SqliteStore::open(&folder, StoreOptions::default(), Arc::new(SystemClock::new())).await;
    if role == "open" {
        let said = opened.map_or_else(|error| error.to_string(), |_| "opened".to_owned());
        return println!("{SAYS}{said}");
    }
    let store = opened.unwrap();
    let thread = ThreadId::from(role.as_str());
    let mut head = claimed(&store, &thread).await;
    match role.as_str() {
        "stream" => stream(Arc::new(store), &thread).await,
        "spender" | "other spender" => println!("{SAYS}{}", spend(&store, &thread, head).await),
        "hold" => {
            store.append(batch(&thread, head, &["a"])).await.unwrap();
            println!("{SAYS}ready");
            std::future::pending().await
        }
        _ => {
            for number in 1..=1000 {
                head.seq = store.append(batch(&thread, head, &["a"])).await.unwrap();
                println!("{SAYS}{number}");
            }
        }
    }
}

/// The common limit of several spenders.
const CAP: u64 = 1_000;

/// Takes 3 of a budget at a time until there is no room. Returns how often there was.
async fn spend(store: &SqliteStore, thread: &ThreadId, mut head: Head) -> u64 {
    for number in 0.. {
        let mut batch = batch(thread, head, &["a"]);
        batch.reserve = vec![draws(&number.to_string(), &[("usd", CAP, 3)])];
        match store.append(batch).await {
            Ok(seq) => head.seq = seq,
            Err(AppendError::Limit { .. }) => break,
            Err(other) => panic!("{other:?}"),
        }
    }
    head.seq.0
}

/// Streams ten fragments, and ten more with an event after each wake.
async fn stream(store: Arc<SqliteStore>, thread: &ThreadId) {
    let owners: Arc<dyn Owners> = store.clone();
    let bus = SocketBus::open(store.node().clone(), owners).unwrap();
    let mut wakes = bus.wakes();
    for round in 0.. {
        for number in 1..=10 {
            bus.publish(thread, fragment(3, round * 10 + number));
        }
        println!("{SAYS}{round}");
        assert_eq!(wakes.next().await.as_ref(), Some(thread));
    }
}

#[tokio::test]
async fn a_killed_process_loses_its_threads_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut other = Other::start("hold", folder.path());
    assert_eq!(other.says().as_deref(), Some("ready"));
    let store = open(folder.path()).await;
    let thread = ThreadId::from("hold");
    assert!(matches!(store.claim(&thread).await.unwrap(), Claim::Held { .. }));
    other.kill();
    let head = claimed(&store, &thread).await;
    assert_eq!((head.seq, head.epoch), (Seq(1), Epoch(2)));
    store.append(batch(&thread, head, &["b"])).await.unwrap();
}

#[tokio::test]
async fn a_stopped_process_keeps_its_threads() {
    let folder = tempfile::tempdir().unwrap();
    let mut other = Other::start("hold", folder.path());
    assert_eq!(other.says().as_deref(), Some("ready"));
    other.signal(libc::SIGSTOP);
    let store = open(folder.path()).await;
    let thread = ThreadId::from("hold");
    for _ in 0..3 {
        assert!(matches!(store.claim(&thread).await.unwrap(), Claim::Held { .. }));
    }
    // Other operations continue meanwhile.
    let head = claimed(&store, &"another".into()).await;
    store.append(batch(&"another".into(), head, &["a"])).await.unwrap();
    other.signal(libc::SIGCONT);
}

#[tokio::test]
async fn two_processes_append_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut others = ["one", "two"].map(|role| Other::start(role, folder.path()));
    for other in &mut others {
        while other.says().is_some_and(|said| said != "1000") {}
    }
    let store = open(folder.path()).await;
    for thread in ["one", "two"] {
        assert_eq!(store.read(&thread.into(), Seq(0), 2000).await.unwrap().len(), 1000);
    }
}

#[tokio::test]
async fn two_processes_never_take_more_than_a_budget_has() {
    let folder = tempfile::tempdir().unwrap();
    let mut others = ["spender", "other spender"].map(|role| Other::start(role, folder.path()));
    let mut granted = 0;
    for other in &mut others {
        granted += other.says().expect("how often it was granted").parse::<u64>().unwrap();
    }
    assert_eq!(granted, CAP / 3);
    let store = open(folder.path()).await;
    let rows = store.budgets("usd").await.unwrap();
    assert_eq!(rows.iter().map(|row| row.reserved).collect::<Vec<_>>(), [granted * 3]);
    for thread in ["spender", "other spender"].map(ThreadId::from) {
        let written = store.read(&thread, Seq(0), 1000).await.unwrap().len();
        assert_eq!(store.open_reservations(&thread).await.unwrap().len(), written);
    }
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut other = Other::start("writer", folder.path());
    while other.says().expect("it writes on") != "300" {}
    other.signal(libc::SIGKILL);
    // Everything it printed before it died was acknowledged.
    let mut acknowledged = 300;
    while let Some(said) = other.says() {
        acknowledged = said.parse().unwrap();
    }
    let store = open(folder.path()).await;
    let thread = ThreadId::from("writer");
    let head = claimed(&store, &thread).await;
    assert!(head.seq >= Seq(acknowledged), "{} of {acknowledged}", head.seq);
    assert_eq!(store.read(&thread, Seq(0), 2000).await.unwrap().len() as u64, head.seq.0);
    store.check().await.unwrap();
}

#[tokio::test]
async fn a_dead_processs_files_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let mut other = Other::start("stream", folder.path());
    assert_eq!(other.says().as_deref(), Some("0"));
    let nodes = || {
        let entries = std::fs::read_dir(folder.path().join("nodes")).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let files = nodes();
    assert!(
        matches!(&files[..], [lock, sock] if lock.ends_with(".lock") && sock.ends_with(".sock")),
        "{files:?}"
    );
    other.kill();
    let store = open(folder.path()).await;
    assert_eq!(nodes(), [format!("{}.lock", store.node().id())]);
    drop(store);
    assert_eq!(nodes(), [""; 0]);
}

#[tokio::test]
async fn a_read_only_folder_is_reported() {
    use std::os::unix::fs::PermissionsExt;
    let set = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    let parent = tempfile::tempdir().unwrap();
    set(parent.path(), 0o755);
    let folder = parent.path().join("store");
    drop(open(&folder).await);
    // Permissions do not bind root. There, the other process runs as the user `nobody`, who needs access to the
    // program.
    let program = parent.path().join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut command = Command::new(&program);
    // SAFETY: a plain system call.
    if unsafe { libc::geteuid() } == 0 {
        command.uid(65534).gid(65534);
    }
    for path in [folder.join("nodes"), folder.join("blobs"), folder.clone()] {
        set(&path, 0o555);
    }
    let said = Other::start_with(command, "open", &folder).says().expect("an answer");
    for path in [folder.clone(), folder.join("nodes"), folder.join("blobs")] {
        set(&path, 0o700);
    }
    assert!(said.contains("cannot be used") && said.contains("write access"), "{said}");
}
