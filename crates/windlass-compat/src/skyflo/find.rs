//! A conversation by its id: a thread, or a draft that nobody has written in yet. Who may see it is asked here.
//!
//! The conversation's id is the thread's. A draft is a record; it goes with the first message.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass::EngineError;
use windlass::machine::{Input, Principal, ThreadId, Timestamp};
use windlass::port::journal::ThreadRow;
use windlass::port::records::{Expect, Record, RecordError};
use windlass_server::http::Shared;
use windlass_server::http::caller::Caller;
use windlass_server::http::problem::Problem;

/// Conversations without a message that a user has at most: all are read for each list.
pub const DRAFTS_MAX: usize = 200;
/// The kind of the records.
pub const DRAFT: &str = "skyflo.conversation";

/// The name of the note that keeps what clients have changed of a conversation, beside its title.
pub const CHANGED: &str = "skyflo.conversation";

/// A conversation without a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Draft {
    /// Its id.
    pub id: String,
    /// Its workspace.
    pub workspace: String,
    /// Whose it is.
    pub owner: Principal,
    /// The title that somebody gave it.
    pub title: String,
    /// What else clients have changed of it.
    pub changed: Value,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// A conversation that the caller may see.
#[derive(Clone, Debug)]
pub enum Found {
    /// One with messages.
    Thread(Box<ThreadRow>),
    /// One without.
    Draft(Box<Draft>),
}

impl Draft {
    /// A draft as it was read.
    pub fn read(record: Record) -> Result<Self, Problem> {
        serde_json::from_value(record.value)
            .map_err(|error| Problem::internal(format!("the draft `{}`: {error}", record.key)))
    }

    /// Writes it.
    pub async fn put(&self, app: &Shared, expected: Expect) -> Result<(), RecordError> {
        // Strings, numbers and JSON: always JSON.
        let value = serde_json::to_value(self).unwrap_or_default();
        app.engine.records().put(DRAFT, &self.id, self.owner.as_str(), value, expected).await.map(drop)
    }

    /// Deletes it.
    pub async fn delete(&self, app: &Shared) -> Result<(), RecordError> {
        app.engine.records().delete(DRAFT, &self.id, Expect::Any).await
    }

    /// Takes what it says over into the thread that its first message has made.
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

/// Whether an id is a UUID, which is what clients choose for new conversations.
pub fn is_uuid(id: &str) -> bool {
    let groups: Vec<&str> = id.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The conversation of an id. Another user's is refused, and of another workspace's nobody is told. (SK-P11, SK-X7)
pub async fn found(app: &Shared, caller: &Caller, id: &str) -> Result<Found, Problem> {
    look(app, caller, id).await?.ok_or_else(|| Problem::not_found(format!("conversation `{id}`")))
}

/// The same, where there may be none.
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

/// `false`: it does not exist for the caller.
fn may_see(caller: &Caller, id: &str, workspace: &str, owner: &Principal) -> Result<bool, Problem> {
    if workspace != caller.workspace() {
        return Ok(false);
    }
    if caller.is_admin() || owner == caller.user() {
        return Ok(true);
    }
    Err(Problem::forbidden(format!("conversation `{id}` is another user's")))
}

/// The thread to write into, with the draft that it takes the place of. An id that nobody uses yet is taken for the
/// caller first, so that two who chose the same do not meet in one conversation.
pub async fn open(app: &Shared, caller: &Caller, id: &str) -> Result<(ThreadId, Option<Draft>), Problem> {
    let draft = match look(app, caller, id).await? {
        Some(Found::Thread(row)) => return Ok((row.thread, None)),
        Some(Found::Draft(draft)) => *draft,
        None => create(app, caller, id).await?,
    };
    Ok((ThreadId::from(id), Some(draft)))
}

/// Makes a conversation of an id that a client has chosen.
pub async fn create(app: &Shared, caller: &Caller, id: &str) -> Result<Draft, Problem> {
    if !is_uuid(id) {
        return Err(Problem::not_found(format!("conversation `{id}`"))
            .hint("make it with `POST /conversations`, or choose a UUID"));
    }
    let kept = app.engine.records().list(DRAFT, Some(caller.user().as_str()), None, DRAFTS_MAX).await?;
    if kept.len() >= DRAFTS_MAX {
        let detail = format!("there are {DRAFTS_MAX} conversations without a message already");
        return Err(Problem::conflict("too_many", detail).hint("write in one of them, or delete some"));
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
    let taken = || Problem::conflict("taken", format!("conversation `{id}` exists already"));
    match draft.put(app, Expect::Absent).await {
        Ok(()) => {}
        Err(RecordError::Conflict { .. }) => return Err(taken()),
        Err(error) => return Err(error.into()),
    }
    // Somebody else's first message may have gone by since it was looked for.
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
