//! Files attached to a message: uploads by name, files of the thread by path, files of an earlier message, and `@name`
//! mentions in the text.

use std::collections::BTreeSet;
use std::io::Read;

use bytes::Bytes;
use serde::Deserialize;
use utoipa::ToSchema;
use windlass::machine::{Block, Message, Seq, ThreadId};

use crate::http::Shared;
use crate::http::caller::Caller;
use crate::http::files::{Folder, blocking, home, of_thread};
use crate::http::problem::Problem;

/// Maximum number of files of one message.
const FILES_MAX: usize = 20;

/// A file to attach to a message.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum Attachment {
    /// One of the sender's uploads.
    Upload {
        /// Name of the upload.
        upload: String,
    },
    /// A file in the thread's folder.
    Path {
        /// Path in that folder.
        path: String,
    },
    /// All files of an earlier message, as they were when it was sent. The sender must own the thread or administer
    /// its workspace.
    Earlier {
        /// Id of the thread.
        #[schema(value_type = String)]
        thread: ThreadId,
        /// The message's `seq`.
        message: u64,
    },
}

/// A thread, and the folder that its journal records.
pub type Place = (ThreadId, Option<String>);

/// Converts attachments into blocks. `None` stands for a new thread, which has no folder yet.
pub async fn attach(
    app: &Shared,
    caller: &Caller,
    place: Option<Place>,
    attachments: Vec<Attachment>,
) -> Result<Vec<Block>, Problem> {
    let too_many = |count: usize| {
        let detail = format!("the message has {count} files; at most {FILES_MAX} are allowed");
        (count > FILES_MAX).then(|| Problem::invalid(detail)).map_or(Ok(()), Err)
    };
    too_many(attachments.len())?;
    let mut blocks = Vec::with_capacity(attachments.len());
    for attachment in attachments {
        match attachment {
            Attachment::Upload { upload } => blocks.push(block(app, caller, Named::Upload(upload)).await?),
            Attachment::Path { path } => {
                let Some(place) = place.clone() else {
                    return Err(Problem::invalid(format!("a new conversation has no file `{path}` yet")));
                };
                blocks.push(block(app, caller, Named::Path(place, path)).await?);
            }
            Attachment::Earlier { thread, message } => {
                caller.thread(app, &thread).await?;
                let files = app.engine.thread(&thread).files().attached(Seq(message)).await?;
                if files.is_empty() {
                    let detail = format!("thread `{thread}` has no message with files at event {message}");
                    return Err(Problem::invalid(detail));
                }
                blocks.extend(files);
                too_many(blocks.len())?;
            }
        }
    }
    Ok(blocks)
}

/// Converts the files that a text mentions as `@name` into blocks. A name is looked up in the thread's folder, then
/// among the sender's uploads. Ignores names without a file, and names that are already attached: a repeated message
/// keeps the file contents of the first attempt.
pub async fn mentioned(
    app: &Shared,
    caller: &Caller,
    place: Option<Place>,
    message: &Message,
    attached: &[Block],
) -> Result<Vec<Block>, Problem> {
    let text = message.shown_text();
    let goes_along = |name: &str| {
        attached.iter().any(|block| matches!(block, Block::File { name: known, .. } if known == name))
    };
    let mut seen = BTreeSet::new();
    let named = names(&text).filter(|name| seen.insert(*name) && !goes_along(name));
    let mut blocks = Vec::new();
    for name in named.take(FILES_MAX) {
        if attached.len() + blocks.len() >= FILES_MAX {
            break;
        }
        let path = place.clone().map(|place| Named::Path(place, name.to_owned()));
        for named in path.into_iter().chain([Named::Upload(name.to_owned())]) {
            match block(app, caller, named).await {
                // An image block has no name to compare, so compare the block itself.
                Ok(block) if attached.contains(&block) => break,
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

/// The source of a file.
enum Named {
    /// One of the sender's uploads.
    Upload(String),
    /// A file in a thread's folder.
    Path(Place, String),
}

async fn block(app: &Shared, caller: &Caller, named: Named) -> Result<Block, Problem> {
    let (held, home) = (app.clone(), home(caller));
    let (name, bytes) = blocking(move || {
        let (folder, path): (Folder, String) = match named {
            Named::Upload(upload) => (held.homes.uploads(&home)?, upload),
            Named::Path((thread, recorded), path) => (of_thread(&held, &thread, recorded.as_deref())?, path),
        };
        let bytes = read(&folder, &path, held.config.settings.files.max_bytes())?;
        Ok((path, bytes))
    })
    .await?;
    let media_type = windlass::media_type(&name, &bytes).unwrap_or("application/octet-stream");
    Ok(app.engine.attach(&name, media_type, bytes).await?)
}

fn read(folder: &Folder, path: &str, max_bytes: u64) -> Result<Bytes, Problem> {
    let mut bytes = Vec::new();
    let file = folder.open_file(&folder.resolve(path)?)?;
    file.take(max_bytes + 1).read_to_end(&mut bytes).map_err(Problem::internal)?;
    if bytes.len() as u64 > max_bytes {
        return Err(Problem::invalid(format!("the file `{path}` is larger than {max_bytes} bytes")));
    }
    Ok(bytes.into())
}

/// Returns the mentions of a text: words that begin with `@`.
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
