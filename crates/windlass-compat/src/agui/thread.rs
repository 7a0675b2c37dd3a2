//! Finds a thread by the id that a client uses. Each user has separate client ids; the engine's own ids are accepted
//! too.
//!
//! No table is needed: the engine's id is derived from the workspace, the user and the client's id.

use windlass::EngineError;
use windlass::machine::{Digest, Principal, ThreadId};
use windlass::port::journal::ThreadRow;
use windlass_server::http::Shared;
use windlass_server::http::caller::Caller;
use windlass_server::http::problem::Problem;

/// Returns the caller's thread of this id, or the engine's id for a new thread.
pub async fn find(
    app: &Shared,
    caller: &Caller,
    outward: &str,
) -> Result<(ThreadId, Option<ThreadRow>), Problem> {
    let own = made_of(caller.workspace(), caller.user(), outward);
    // A client may also use the engine's id of a thread, which any interface may have created.
    for id in [&own, &ThreadId::from(outward)] {
        match app.engine.thread(id).row().await {
            Err(EngineError::NoThread(_)) => {}
            Err(error) => return Err(error.into()),
            Ok(row) if caller.sees(&row.view.workspace, &row.view.owner) => {
                return Ok((id.clone(), Some(row)));
            }
            Ok(_) => {}
        }
    }
    Ok((own, None))
}

fn made_of(workspace: &str, user: &Principal, outward: &str) -> ThreadId {
    let digest = Digest::of(b"agui").chain(&(workspace, user.as_str(), outward)).to_string();
    // 160 bits make collisions infeasible.
    ThreadId::from(format!("agui_{}", &digest[..40]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_id_of_another_user_or_workspace_is_another_thread() {
        let (ann, bob) = (Principal::from("ann"), Principal::from("bob"));
        let id = made_of("default", &ann, "t1");
        assert_eq!(id, made_of("default", &ann, "t1"));
        assert_eq!(id.as_str().len(), 45);
        for other in
            [made_of("default", &bob, "t1"), made_of("other", &ann, "t1"), made_of("default", &ann, "t2")]
        {
            assert_ne!(id, other);
        }
    }
}
