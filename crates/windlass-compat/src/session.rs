//! A session as a client names it: a conversation of the caller's, whose thread follows from the name.
//!
//! There is no table: the thread's id is made of whose it is and of the name, so that two users who chose the same name
//! never meet, and nobody learns which names others have. What the caller began elsewhere goes by the thread's own id.

use windlass::EngineError;
use windlass::machine::{Digest, ThreadId};
use windlass::port::journal::ThreadRow;
use windlass_server::http::Shared;
use windlass_server::http::caller::Caller;
use windlass_server::http::problem::Problem;

/// Characters of a name.
const NAME_MAX: usize = 64;
/// Hexadecimal digits that stand for whose a session is: more than any store has users.
const WHOSE_DIGITS: usize = 16;

/// A session.
#[derive(Clone, Debug)]
pub struct Session {
    /// The name that the client knows.
    pub name: String,
    /// Its thread.
    pub thread: ThreadId,
    /// The thread as it stands; `None` where nothing was said yet.
    pub row: Option<ThreadRow>,
}

/// Finds the caller's session of a name, which may be one that is only to begin.
pub async fn find(app: &Shared, caller: &Caller, name: &str) -> Result<Session, Problem> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(is_plain) {
        let shown = windlass_server::text::first_line(name, NAME_MAX);
        return Err(Problem::invalid(format!("`session_id` is `{shown}`")).hint(format!(
            "use 1 to {NAME_MAX} letters, digits and `-_.:`, or leave it away for a new one"
        )));
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

/// The same, where something was said in it before.
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

/// The name of a thread of the caller's.
pub fn name_of(caller: &Caller, thread: &ThreadId) -> String {
    let id = thread.as_str();
    id.strip_prefix(&whose(caller)).unwrap_or(id).to_owned()
}

/// Administrators see the conversations of others in the native API; a session here is one's own.
fn is_own(caller: &Caller, row: &ThreadRow) -> bool {
    row.view.workspace == caller.workspace() && row.view.owner == *caller.user()
}

/// What the ids of a user's threads begin with.
fn whose(caller: &Caller) -> String {
    let digest = Digest::default().chain(&(caller.workspace(), caller.user())).to_string();
    format!("{}-", &digest[..WHOSE_DIGITS])
}
