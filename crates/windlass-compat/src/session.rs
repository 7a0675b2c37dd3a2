//! A session under the client's name: a conversation of the caller, whose thread id is derived from the name.
//!
//! The module needs no table: the thread id is derived from the owner and the name. Two users can choose
//! the same name without conflict, and neither can discover the other's names. A thread that another
//! interface created is named by its thread id.

use windlass::EngineError;
use windlass::machine::{Digest, ThreadId};
use windlass::port::journal::ThreadRow;
use windlass_server::http::Shared;
use windlass_server::http::caller::Caller;
use windlass_server::http::problem::Problem;

/// Maximum length of a name in characters.
const NAME_MAX: usize = 64;
/// Number of hexadecimal digits that identify the owner: enough for more users than any store has.
const WHOSE_DIGITS: usize = 16;

#[derive(Clone, Debug)]
pub struct Session {
    /// The client's name of the session.
    pub name: String,
    pub thread: ThreadId,
    /// The thread's row; `None` before the first message.
    pub row: Option<ThreadRow>,
}

/// Finds the caller's session of this name. The session need not exist yet.
pub async fn find(app: &Shared, caller: &Caller, name: &str) -> Result<Session, Problem> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(is_plain) {
        let shown = windlass_server::text::first_line(name, NAME_MAX);
        return Err(Problem::invalid(format!("`session_id` is `{shown}`, which is not valid"))
            .hint(format!("use 1 to {NAME_MAX} letters, digits and `-_.:`, or omit it for a new session")));
    }
    for thread in [ThreadId::from(name), ThreadId::from(format!("{}{name}", whose(caller)))] {
        match app.engine.thread(&thread).row().await {
            Ok(row) if is_own(caller, &row) => {
                return Ok(Session { name: name.to_owned(), thread, row: Some(row) });
            }
            Ok(_) | Err(EngineError::NoThread(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let thread = ThreadId::from(format!("{}{name}", whose(caller)));
    Ok(Session { name: name.to_owned(), thread, row: None })
}

/// Finds the caller's session. Returns an error if the session has no message.
pub async fn begun(app: &Shared, caller: &Caller, name: &str) -> Result<(Session, ThreadRow), Problem> {
    let missing = || Problem::not_found(format!("session `{name}`"));
    let session =
        find(app, caller, name).await.map_err(|problem| match problem.status.is_client_error() {
            true => missing(),
            false => problem,
        })?;
    let row = session.row.clone().ok_or_else(missing)?;
    Ok((session, row))
}

/// Returns the session name of one of the caller's threads.
pub fn name_of(caller: &Caller, thread: &ThreadId) -> String {
    let id = thread.as_str();
    id.strip_prefix(&whose(caller)).unwrap_or(id).to_owned()
}

/// Whether the caller owns a thread. Administrators can read other users' conversations in the
/// native API, but not through a session.
fn is_own(caller: &Caller, row: &ThreadRow) -> bool {
    row.view.workspace == caller.workspace() && row.view.owner == *caller.user()
}

/// Returns the prefix of the caller's thread ids.
fn whose(caller: &Caller) -> String {
    let digest = Digest::default().chain(&(caller.workspace(), caller.user())).to_string();
    format!("{}-", &digest[..WHOSE_DIGITS])
}
