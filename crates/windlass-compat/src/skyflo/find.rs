//! Finds a conversation by its id and checks access. A conversation is a thread, or a draft without a message.
//!
//! The conversation's id is the thread's id. A draft is a record, which the first message removes.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass::EngineError;
use windlass::machine::{Input, Principal, ThreadId, Timestamp};
use windlass::port::journal::ThreadRow;
use windlass::port::records::{Expect, Record, RecordError};
use windlass_server::http::Shared;
use windlass_server::http::caller::Caller;
use windlass_server::http::problem::Problem;

/// Maximum number of drafts per user. Every list reads all of them.
pub const DRAFTS_MAX: usize = 200;
/// Kind of the draft records.
pub const DRAFT: &str = "skyflo.conversation";

/// Name of the note with the client's changes other than the title.
pub const CHANGED: &str = "skyflo.conversation";

/// A conversation without a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Draft {
    pub id: String,
    pub workspace: String,
    pub owner: Principal,
    /// The title that a client set.
    pub title: String,
    /// Other changes by clients.
    pub changed: Value,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A conversation that the caller may read.
#[derive(Clone, Debug)]
pub enum Found {
    Thread(Box<ThreadRow>),
    Draft(Box<Draft>),
}

impl Draft {
    /// Parses a draft from its record.
    pub fn read(record: Record) -> Result<Self, Problem> {
        serde_json::from_value(record.value)
            .map_err(|error| Problem::internal(format!("the draft `{}`: {error}", record.key)))
    }

    /// Stores the draft.
    pub async fn put(&self, app: &Shared, expected: Expect) -> Result<(), RecordError> {
        // Cannot fail: the draft contains only strings, numbers and JSON.
        let value = serde_json::to_value(self).unwrap_or_default();
        app.engine.records().put(DRAFT, &self.id, self.owner.as_str(), value, expected).await.map(drop)
    }

    pub async fn delete(&self, app: &Shared) -> Result<(), RecordError> {
        app.engine.records().delete(DRAFT, &self.id, Expect::Any).await
    }

    /// Copies the title and changes to the thread that the first message has created.
    pub async fn settle(&self, app: &Shared, thread: &ThreadId, caller: &Caller) -> Result<(), Problem> {
        if !self.title.is_empty() {
            let (title, by) = (self.title.clone(), caller.user().clone());
            app.engine.thread(thread).send(Input::Title { title, by }).await?;
        }
        if self.changed.as_object().is_some_and(|changed| !changed.is_empty()) {
            let note = Input::Note { name: CHANGED.into(), data: self.changed.clone() };
            app.engine.thread(thread).send(note).await?;
        }
        Ok(self.delete(app).await?)
    }
}

/// Whether an id is a UUID. Clients choose UUIDs for new conversations.
pub fn is_uuid(id: &str) -> bool {
    let groups: Vec<&str> = id.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Returns the conversation of this id. A conversation of another user is forbidden; one of another workspace is
/// reported as not found. (SK-P11, SK-X7)
pub async fn found(app: &Shared, caller: &Caller, id: &str) -> Result<Found, Problem> {
    look(app, caller, id).await?.ok_or_else(|| Problem::not_found(format!("conversation `{id}`")))
}

/// Returns the conversation of this id, or `None` if it does not exist.
pub async fn look(app: &Shared, caller: &Caller, id: &str) -> Result<Option<Found>, Problem> {
    match app.engine.thread(&ThreadId::from(id)).row().await {
        Err(EngineError::NoThread(_)) => {}
        Err(error) => return Err(error.into()),
        Ok(row) => {
            let mine = may_see(caller, id, &row.view.workspace, &row.view.owner)?;
            return Ok(mine.then(|| Found::Thread(Box::new(row))));
        }
    }
    let Some(record) = app.engine.records().get(DRAFT, id).await? else { return Ok(None) };
    let draft = Draft::read(record)?;
    let mine = may_see(caller, id, &draft.workspace, &draft.owner)?;
    Ok(mine.then(|| Found::Draft(Box::new(draft))))
}

/// Whether the conversation exists for the caller. Returns an error if another user owns it.
fn may_see(caller: &Caller, id: &str, workspace: &str, owner: &Principal) -> Result<bool, Problem> {
    if workspace != caller.workspace() {
        return Ok(false);
    }
    if caller.is_admin() || owner == caller.user() {
        return Ok(true);
    }
    Err(Problem::forbidden(format!("conversation `{id}` belongs to another user")))
}

/// Returns the thread to write to, with the draft that the thread replaces. An unused id is first claimed by a draft,
/// so that two users with the same id cannot share a conversation.
pub async fn open(app: &Shared, caller: &Caller, id: &str) -> Result<(ThreadId, Option<Draft>), Problem> {
    let draft = match look(app, caller, id).await? {
        Some(Found::Thread(row)) => return Ok((row.thread, None)),
        Some(Found::Draft(draft)) => *draft,
        None => create(app, caller, id).await?,
    };
    Ok((ThreadId::from(id), Some(draft)))
}

/// Creates a draft with an id that a client chose.
pub async fn create(app: &Shared, caller: &Caller, id: &str) -> Result<Draft, Problem> {
    if !is_uuid(id) {
        return Err(Problem::not_found(format!("conversation `{id}`"))
            .hint("create it with `POST /conversations`, or choose a UUID"));
    }
    let kept = app.engine.records().list(DRAFT, Some(caller.user().as_str()), None, DRAFTS_MAX).await?;
    if kept.len() >= DRAFTS_MAX {
        let detail = format!("the limit of {DRAFTS_MAX} conversations without a message is reached");
        return Err(
            Problem::conflict("too_many", detail).hint("send a message in one of them, or delete some")
        );
    }
    let now = windlass_server::clock::clock().now();
    let draft = Draft {
        id: id.to_owned(),
        workspace: caller.workspace().to_owned(),
        owner: caller.user().clone(),
        title: String::new(),
        changed: json!({}),
        created_at: now,
        updated_at: now,
    };
    let taken = || Problem::conflict("taken", format!("conversation `{id}` already exists"));
    match draft.put(app, Expect::Absent).await {
        Ok(()) => {}
        Err(RecordError::Conflict { .. }) => return Err(taken()),
        Err(error) => return Err(error.into()),
    }
    // Another caller's first message may have created the thread after the lookup.
    match app.engine.thread(&ThreadId::from(id)).row().await {
        Err(EngineError::NoThread(_)) => Ok(draft),
        Err(error) => Err(error.into()),
        Ok(_) => {
            draft.delete(app).await?;
            Err(taken())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_uuid;

    #[test]
    fn only_uuids_are_chosen() {
        assert!(is_uuid("7f1b2c3d-0000-4000-8000-00000000000A"));
        for id in
            ["", "thr_1", "../x", "7f1b2c3d000040008000000000000000", "g1b2c3d4-0000-4000-8000-000000000000"]
        {
            assert!(!is_uuid(id), "{id}");
        }
    }
}
