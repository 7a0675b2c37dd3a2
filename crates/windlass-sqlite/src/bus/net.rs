//! The socket of this node, and its connections to other nodes: a request is one JSON
//! line, the response is lines of signals.
//!
//! Sends nothing durable.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use windlass_engine::bus::LocalBus;
use windlass_engine::port::bus::{Backlog, Bus, Signal};
use windlass_engine::port::journal::StoreError;
use windlass_machine::ThreadId;

use super::Owners;
use super::relay::{Look, Relays};
use crate::node::{Node, socket_path};

/// Maximum length of a request line in bytes; a thread's id is far shorter.
const REQUEST_MAX_BYTES: u64 = 4 * 1024;
/// Maximum length of a signal's line in bytes. Fragments are a few bytes. The limit allows a snapshot of the longest
/// buffered reply, each byte of which may take six bytes in JSON.
const SIGNAL_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum number of concurrent followers: one for each thread that another node of this machine follows.
const FOLLOWERS: usize = 256;
/// Maximum number of concurrent connections. The surplus ensures that short wake requests always find a slot.
const CONNECTIONS: usize = FOLLOWERS + 64;
/// Maximum time that a connection may take to send its request.
const REQUEST_TIME: Duration = Duration::from_secs(5);

/// Connects the bus to other nodes. Dropping it ends its tasks and removes the socket.
pub(super) struct Network {
    local: Arc<LocalBus>,
    node: Arc<Node>,
    owners: Arc<dyn Owners>,
    look: Arc<Look>,
    tasks: [JoinHandle<()>; 2],
}

impl Network {
    /// Listens on the socket, and starts to relay followed threads.
    pub fn open(local: Arc<LocalBus>, node: Arc<Node>, owners: Arc<dyn Owners>) -> Result<Self, StoreError> {
        let listener = listen(node.folder(), node.id())?;
        let look = Arc::<Look>::default();
        let relays =
            Relays::new(Arc::clone(&local), Arc::clone(&node), Arc::clone(&owners), Arc::clone(&look));
        let tasks = [tokio::spawn(serve(listener, Arc::clone(&local))), tokio::spawn(relays.run())];
        Ok(Self { local, node, owners, look, tasks })
    }

    /// Requests an immediate lookup of the thread's owner, instead of one within a second.
    pub fn look_for(&self, thread: &ThreadId) {
        self.look.soon(thread);
    }

    /// Wakes the owner of the thread, or this process if no other owns it.
    pub fn wake(&self, thread: &ThreadId) {
        let (local, node, owners) =
            (Arc::clone(&self.local), Arc::clone(&self.node), Arc::clone(&self.owners));
        let wanted = thread.clone();
        let reach = async move {
            // If the owner has died or the store does not respond, this process handles the thread.
            let found = owners.owners(std::slice::from_ref(&wanted)).await.unwrap_or_default();
            let holder = found.into_iter().next().and_then(|(_, holder, _)| holder);
            let reached = match holder {
                Some(id) if id != node.id() => {
                    ask(node.folder(), &id, &Request::Wake(wanted.clone())).await.is_ok()
                }
                Some(_) | None => false,
            };
            if !reached {
                local.wake(&wanted);
            }
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(reach)),
            // Outside a runtime, other nodes cannot be reached; their poll finds the row within a second.
            Err(_) => self.local.wake(thread),
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        // If the removal fails, another node removes the socket of this dead node.
        let _ = std::fs::remove_file(socket_path(self.node.folder(), self.node.id()));
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Request {
    Wake(ThreadId),
    Follow { thread: ThreadId, backlog: Backlog },
}

/// Follows a thread at the node that owns it. Returns when the connection ends.
pub(super) async fn relay(
    nodes: &Path,
    id: &str,
    thread: &ThreadId,
    local: &LocalBus,
) -> std::io::Result<()> {
    let request = Request::Follow { thread: thread.clone(), backlog: local.relayed_backlog(thread) };
    let stream = ask(nodes, id, &request).await?;
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut reader).take(SIGNAL_MAX_BYTES).read_until(b'\n', &mut line).await?;
        if read == 0 || line.last() != Some(&b'\n') {
            return Ok(());
        }
        local.relay(thread, serde_json::from_slice::<Signal>(&line)?);
    }
}

async fn ask(nodes: &Path, id: &str, request: &Request) -> std::io::Result<UnixStream> {
    let mut stream = UnixStream::connect(reachable(nodes, id)?.path()).await?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    Ok(stream)
}

fn listen(nodes: &Path, id: &str) -> Result<UnixListener, StoreError> {
    use std::os::unix::fs::PermissionsExt;
    let bind = || {
        let listener = UnixListener::bind(reachable(nodes, id)?.path())?;
        // The folder is already private. This mode protects the socket if the folder's permissions are relaxed.
        std::fs::set_permissions(socket_path(nodes, id), std::fs::Permissions::from_mode(0o600))?;
        Ok(listener)
    };
    bind().map_err(|error: std::io::Error| StoreError::Unavailable {
        why: format!("no socket in `{}`: {error}; a shorter path to the store may help", nodes.display()),
    })
}

async fn serve(listener: UnixListener, local: Arc<LocalBus>) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    let followers = Arc::new(Semaphore::new(FOLLOWERS));
    while let Ok(permit) = Arc::clone(&connections).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            // The process is most likely out of file descriptors. Both the client and this loop retry.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (local, followers) = (Arc::clone(&local), Arc::clone(&followers));
        tokio::spawn(async move {
            // If the connection breaks, the other node reconnects when it needs to.
            let _ = answer(stream, &local, &followers).await;
            drop(permit);
        });
    }
}

async fn answer(stream: UnixStream, local: &Arc<LocalBus>, followers: &Semaphore) -> std::io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader).take(REQUEST_MAX_BYTES);
    let mut line = Vec::new();
    tokio::time::timeout(REQUEST_TIME, reader.read_until(b'\n', &mut line)).await??;
    let (thread, backlog) = match serde_json::from_slice(&line)? {
        Request::Wake(thread) => {
            local.wake(&thread);
            return Ok(());
        }
        Request::Follow { thread, backlog } => (thread, backlog),
    };
    // Without a slot, the connection ends, and the other node polls the journal each second.
    let Ok(_room) = followers.try_acquire() else { return Ok(()) };
    let mut signals = local.follow_from_afar(&thread, backlog);
    let mut rest = [0; 1];
    loop {
        let signal = tokio::select! {
            signal = signals.next() => signal,
            // The client sends nothing more, so a read returns when it disconnects.
            _ = reader.read(&mut rest) => None,
        };
        let Some(signal) = signal else { return Ok(()) };
        let mut line = serde_json::to_vec(&*signal)?;
        line.push(b'\n');
        writer.write_all(&line).await?;
    }
}

/// A path to a socket that fits into a socket address.
enum Reachable {
    Direct(PathBuf),
    #[cfg(target_os = "linux")]
    Through {
        path: PathBuf,
        /// The open folder, which `path` refers to: kept open while the path is used.
        _folder: std::fs::File,
    },
}

impl Reachable {
    fn path(&self) -> &Path {
        match self {
            Self::Direct(path) => path,
            #[cfg(target_os = "linux")]
            Self::Through { path, .. } => path,
        }
    }
}

/// Returns a path that fits into a socket address, which holds 104 to 108 bytes; a store's path may be longer. On
/// Linux, an open folder also has a short path.
fn reachable(nodes: &Path, id: &str) -> std::io::Result<Reachable> {
    const ADDRESS_BYTES: usize = 100;
    let direct = socket_path(nodes, id);
    if direct.as_os_str().len() <= ADDRESS_BYTES {
        return Ok(Reachable::Direct(direct));
    }
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        let folder = std::fs::File::open(nodes)?;
        let short = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
        Ok(Reachable::Through { path: socket_path(&short, id), _folder: folder })
    }
    #[cfg(not(target_os = "linux"))]
    Ok(Reachable::Direct(direct))
}
