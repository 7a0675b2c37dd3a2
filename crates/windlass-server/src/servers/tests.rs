//! Adding and removing servers in a store that several processes use, and the deletion of their data.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use serde_json::Value;
use windlass::mcp::TokenStore as _;
use windlass::memory::MemoryStore;
use windlass::port::records::Record;

use super::*;
use crate::account::people::user::People;
use crate::config::{Flags, parse};

/// A store of records that is slow to list, and that can reject deletions of secrets.
struct SlowRecords {
    inner: MemoryStore,
    holds_secrets: AtomicBool,
}

#[async_trait]
impl Records for SlowRecords {
    async fn get(&self, kind: &str, key: &str) -> Result<Option<Record>, StoreError> {
        self.inner.get(kind, key).await
    }

    async fn list(
        &self,
        kind: &str,
        owner: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        let found = self.inner.list(kind, owner, after, limit).await;
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        found
    }

    async fn apply(&self, changes: Vec<RecordChange>) -> Result<Vec<Option<u64>>, RecordError> {
        let is_secret = changes.iter().any(|change| change.kind == "mcp_secret");
        if is_secret && self.holds_secrets.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable { why: "the disk is full".into() }.into());
        }
        self.inner.apply(changes).await
    }

    async fn changes(&self, kinds: &[&str]) -> Result<Vec<u64>, StoreError> {
        self.inner.changes(kinds).await
    }
}

struct World {
    records: Arc<SlowRecords>,
    accounts: Accounts,
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let inner = MemoryStore::new(crate::clock::clock());
        let records = Arc::new(SlowRecords { inner, holds_secrets: AtomicBool::new(false) });
        let folder = tempfile::tempdir().unwrap();
        let vault = Vault::open(folder.path()).unwrap();
        let accounts =
            Accounts::new(records.clone(), crate::clock::clock(), Arc::new(People::default()), vault);
        Self { records, accounts, folder }
    }

    /// Opens the servers in another process. No server listens at their URLs.
    async fn process(&self, which: Which<'_>) -> Arc<Servers> {
        let file = "[outbound]\ninternal_hosts = ['127.0.0.1']\nports = [443, 1]\n";
        let file = parse(Path::new("windlass.toml"), file).unwrap();
        let settings = Settings::resolve(vec![file], Flags::default(), &|_| None).unwrap();
        let back = Back::At("http://127.0.0.1:1/back".into());
        let (store, records) = (self.folder.path(), self.records.clone() as Arc<dyn Records>);
        Servers::start(&settings, &windlass::registry(), store, records, back, which).await.unwrap()
    }

    async fn add(&self, servers: &Servers, name: &str) -> Result<(), ChangeError> {
        servers.add(draft(name), &self.accounts, Note::new("default", "mcp.added")).await
    }

    async fn remove(&self, servers: &Servers, name: &str) -> Result<(), ChangeError> {
        servers.remove(name, &self.accounts, Note::new("default", "mcp.removed")).await
    }

    /// Returns the number of records that belong to a server.
    async fn left_of(&self, name: &str) -> usize {
        let mut left = 0;
        for kind in ["mcp_secret", "mcp_flow", "mcp_known", added::SERVER] {
            let all = self.records.list(kind, None, None, 1_000).await.unwrap();
            let its = |key: &str| key.split('/').any(|part| part == name);
            left += all.iter().filter(|record| its(&record.key)).count();
        }
        left
    }
}

fn draft(name: &str) -> Draft {
    Draft { name: name.into(), url: Some("http://127.0.0.1:1/mcp".into()), ..Draft::default() }
}

fn names(servers: &Servers) -> Vec<String> {
    servers.hub.status().into_iter().map(|status| status.name).collect()
}

/// Stores the data of a sign-in and a tool list.
async fn leave_behind(servers: &Servers, name: &str) {
    for part in ["tokens", "client/x", "client-id/y", "sign-in/s"] {
        servers.tokens.save(&format!("mcp/{name}/{part}"), b"{}".to_vec()).await.unwrap();
    }
    servers.tokens.begin(name, "s", "ann").await.unwrap();
    let known = serde_json::json!({ "server": name, "tools": [] });
    let key = format!("{name}/0000");
    servers.records.put("mcp_known", &key, name, known, Expect::Any).await.unwrap();
}

#[tokio::test]
async fn servers_that_are_added_at_once_all_stay() {
    let world = World::new();
    let servers = world.process(Which::All).await;
    let mut added = servers.added.lock().await;
    // The list is read while other tasks add servers.
    let (taken_in, one, other) = tokio::join!(
        async {
            let taken_in = servers.take_in(&mut added).await;
            drop(added);
            taken_in
        },
        world.add(&servers, "one"),
        world.add(&servers, "other"),
    );
    taken_in.unwrap();
    one.unwrap();
    other.unwrap();
    assert_eq!(names(&servers), ["one", "other"]);
    assert!(matches!(world.add(&servers, "one").await, Err(ChangeError::Duplicate(_))));
    servers.take_in(&mut *servers.added.lock().await).await.unwrap();
    assert_eq!(names(&servers), ["one", "other"]);
}

#[tokio::test]
async fn more_servers_than_may_be_added_are_read_all_the_same() {
    let world = World::new();
    let vault = Vault::open(world.folder.path()).unwrap();
    for n in 0..=added::MAX {
        let added = Added { draft: draft(&format!("s{n:03}")), at: crate::clock::now() };
        let change = added::change(&vault, &added).unwrap();
        world.records.apply(vec![change]).await.unwrap();
    }
    let all = added::list(&*world.records, Some(&vault)).await.unwrap();
    assert_eq!((all.len(), all.last().unwrap().name.as_str()), (added::MAX + 1, "s100"));
    let one = world.process(Which::One("s100")).await;
    assert_eq!(names(&one), ["s100"]);
    assert!(matches!(world.add(&one, "more").await, Err(ChangeError::Full)));
}

#[tokio::test]
async fn a_process_for_one_server_starts_no_other() {
    let world = World::new();
    let all = world.process(Which::All).await;
    world.add(&all, "a").await.unwrap();
    world.add(&all, "b").await.unwrap();
    let one = world.process(Which::One("a")).await;
    one.take_in(&mut *one.added.lock().await).await.unwrap();
    assert_eq!((names(&one), names(&all).len()), (vec!["a".to_owned()], 2));
}

#[tokio::test]
async fn nothing_of_a_server_is_left_for_the_next_of_its_name() {
    let world = World::new();
    let servers = world.process(Which::All).await;
    for name in ["a", "ab"] {
        world.add(&servers, name).await.unwrap();
        leave_behind(&servers, name).await;
    }
    world.records.holds_secrets.store(true, Ordering::Relaxed);
    let failed = world.remove(&servers, "a").await;
    assert!(matches!(failed, Err(ChangeError::Record(_))), "{failed:?}");
    // The server still exists, so the removal can be repeated.
    assert_eq!((names(&servers), world.left_of("a").await), (vec!["a".to_owned(), "ab".to_owned()], 7));
    world.records.holds_secrets.store(false, Ordering::Relaxed);
    world.remove(&servers, "a").await.unwrap();
    assert_eq!((world.left_of("a").await, world.left_of("ab").await), (0, 7));
    assert_eq!(names(&servers), ["ab"]);
    assert!(matches!(world.remove(&servers, "a").await, Err(ChangeError::Missing(_))));
    // Data that another process still writes does not belong to a new server with the same name.
    leave_behind(&servers, "a").await;
    world.add(&servers, "a").await.unwrap();
    assert_eq!(world.left_of("a").await, 1);
}

#[tokio::test]
async fn a_server_that_cannot_be_used_is_not_kept_and_said_once() {
    let world = World::new();
    let servers = world.process(Which::All).await;
    for (url, said) in [
        ("https://10.0.0.1/mcp", "10.0.0.1"),
        ("https://example.com:8443/mcp", "8443"),
        ("http://example.com/mcp", "does not use https"),
    ] {
        let draft = Draft { url: Some(url.into()), ..draft("a") };
        let refused = servers.add(draft, &world.accounts, Note::new("default", "mcp.added")).await;
        let Err(ChangeError::Invalid(why)) = refused else { panic!("{url}: {refused:?}") };
        assert!(why.contains(said), "{why}");
    }
    assert_eq!(world.left_of("a").await, 0);
    // Another process with other settings may have stored a server that is unusable in this process.
    let sealed = Value::String("not sealed by us".into());
    world.records.put(added::SERVER, "x", "default", sealed, Expect::Any).await.unwrap();
    let mut taken = servers.added.lock().await;
    servers.take_in(&mut taken).await.unwrap();
    let first = taken["x"];
    servers.take_in(&mut taken).await.unwrap();
    assert!(!first.is_in && taken["x"].version == first.version && names(&servers).is_empty());
    drop(taken);
    // An unusable server can be removed.
    world.remove(&servers, "x").await.unwrap();
}
