//! Files that go with a message: uploads by name, files of the conversation by path, those of an earlier message, and
//! `@name` in the text.

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
    /// All files of a message of a conversation that the sender may go on with, as they were sent then.
    Earlier {
        /// The conversation's id.
        #[schema(value_type = String)]
        thread: ThreadId,
        /// The message's `seq`.
        message: u64,
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
    let too_many = |count: usize| {
        let detail = format!("{count} files go with the message; at most {FILES_MAX} may");
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
                    let detail = format!("no message with files stands at {message} in thread `{thread}`");
                    return Err(Problem::invalid(detail));
                }
                blocks.extend(files);
                too_many(blocks.len())?;
            }
        }
    }
    Ok(blocks)
}

/// Makes blocks of the files that a message's text names as `@name`: of the conversation's folder, or among the
/// sender's uploads. A name that no file has is a word like any other, and so is one whose file goes along anyway: said
/// once more, a message has the files of then.
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
                // A picture keeps no name.
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

/// A file by its name.
enum Named {
    /// Among the sender's uploads.
    Upload(String),
    /// In a conversation's folder.
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
