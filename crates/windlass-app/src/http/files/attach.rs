//! Files that go with a message: uploads by name, files of the conversation by path, and `@name` in the text.

use std::io::Read;

use bytes::Bytes;
use serde::Deserialize;
use utoipa::ToSchema;
use windlass::machine::{Block, Message, ThreadId};

use super::{Folder, blocking, home};
use crate::http::Shared;
use crate::http::caller::Caller;
use crate::http::problem::Problem;

/// Files of one message at most.
const FILES_MAX: usize = 20;

/// A file that goes with a message.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum Attachment {
    /// One of the sender's uploads.
    Upload {
        /// Its name.
        upload: String,
    },
    /// A file of the conversation's folder.
    Path {
        /// Its path there.
        path: String,
    },
}

/// A conversation, with what is recorded of its folder.
pub type Place = (ThreadId, Option<String>);

/// Makes blocks of the files that go with a message. A new conversation has no place yet.
pub async fn attach(
    app: &Shared,
    caller: &Caller,
    place: Option<Place>,
    attachments: Vec<Attachment>,
) -> Result<Vec<Block>, Problem> {
    if attachments.len() > FILES_MAX {
        let detail = format!("{} files go with the message; at most {FILES_MAX} may", attachments.len());
        return Err(Problem::invalid(detail));
    }
    let mut blocks = Vec::with_capacity(attachments.len());
    for attachment in attachments {
        blocks.push(block(app, caller, place.clone(), attachment).await?);
    }
    Ok(blocks)
}

/// Makes blocks of the files that a message's text names as `@name`: of the conversation's folder, or among the
/// sender's uploads. A name that no file has is a word like any other.
pub async fn mentioned(
    app: &Shared,
    caller: &Caller,
    place: Option<Place>,
    message: &Message,
) -> Result<Vec<Block>, Problem> {
    let text = message.shown_text();
    let mut blocks = Vec::new();
    for name in names(&text).take(FILES_MAX) {
        let path = place.is_some().then(|| Attachment::Path { path: name.to_owned() });
        let upload = Attachment::Upload { upload: name.to_owned() };
        for attachment in path.into_iter().chain([upload]) {
            match block(app, caller, place.clone(), attachment).await {
                Ok(block) => {
                    blocks.push(block);
                    break;
                }
                Err(problem) if problem.status.is_client_error() => {}
                Err(problem) => return Err(problem),
            }
        }
    }
    Ok(blocks)
}

async fn block(
    app: &Shared,
    caller: &Caller,
    place: Option<Place>,
    attachment: Attachment,
) -> Result<Block, Problem> {
    let (held, home) = (app.clone(), home(caller));
    let (name, bytes) = blocking(move || {
        let (folder, path): (Folder, String) = match attachment {
            Attachment::Upload { upload } => (held.homes.uploads(&home)?, upload),
            Attachment::Path { path } => {
                let (thread, recorded) = place.ok_or_else(|| {
                    Problem::invalid(format!("a new conversation has no file `{path}` yet"))
                })?;
                (held.homes.thread(&thread, recorded.as_deref())?, path)
            }
        };
        let bytes = read(&folder, &path, held.settings.files.max_bytes())?;
        Ok((path, bytes))
    })
    .await?;
    Ok(app.engine.attach(&name, "application/octet-stream", bytes).await?)
}

fn read(folder: &Folder, path: &str, max_bytes: u64) -> Result<Bytes, Problem> {
    let mut bytes = Vec::new();
    let file = folder.open_file(&folder.resolve(path)?)?;
    file.take(max_bytes + 1).read_to_end(&mut bytes).map_err(Problem::internal)?;
    if bytes.len() as u64 > max_bytes {
        return Err(Problem::invalid(format!("the file `{path}` has more than {max_bytes} bytes")));
    }
    Ok(bytes.into())
}

/// The words of a text that may name a file: `@name`.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let words =
        text.split_whitespace().filter_map(|word| word.trim_start_matches(['(', '"']).strip_prefix('@'));
    words
        .map(|word| word.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '"']))
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_mentioned_by_its_name() {
        let text = "compare @a.csv with (@b/c.md), and write to me@example.com @";
        assert_eq!(names(text).collect::<Vec<_>>(), ["a.csv", "b/c.md"]);
    }
}
