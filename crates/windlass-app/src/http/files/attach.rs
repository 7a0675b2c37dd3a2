//! Files that go with a message: uploads by name, files of the conversation by path, and `@name` in the text.

use std::io::Read;

use bytes::Bytes;
use serde::Deserialize;
use utoipa::ToSchema;
use windlass::machine::{Block, ThreadId};

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

/// Makes blocks of the files that go with a message. `thread` is the conversation, with what is recorded of its
/// folder, where there is one already.
pub async fn attach(
    app: &Shared,
    caller: &Caller,
    thread: Option<(ThreadId, Option<String>)>,
    attachments: Vec<Attachment>,
) -> Result<Vec<Block>, Problem> {
    if attachments.len() > FILES_MAX {
        let detail = format!("{} files go with the message; at most {FILES_MAX} may", attachments.len());
        return Err(Problem::invalid(detail));
    }
    let mut blocks = Vec::with_capacity(attachments.len());
    for attachment in attachments {
        let (held, home, thread) = (app.clone(), home(caller), thread.clone());
        let (name, bytes) = blocking(move || {
            let (folder, path): (Folder, String) = match attachment {
                Attachment::Upload { upload } => (held.homes.uploads(&home)?, upload),
                Attachment::Path { path } => {
                    let (thread, recorded) = thread.ok_or_else(|| {
                        Problem::invalid(format!("a new conversation has no file `{path}` yet"))
                    })?;
                    (held.homes.thread(&thread, recorded.as_deref())?, path)
                }
            };
            let bytes = read(&folder, &path, held.settings.files.max_bytes())?;
            Ok((path, bytes))
        })
        .await?;
        blocks.push(app.engine.attach(&name, "application/octet-stream", bytes).await?);
    }
    Ok(blocks)
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

/// The names that a text mentions as `@name`: they are files where there is one of that name, and words where not.
pub fn mentioned(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split_whitespace().filter_map(|word| word.trim_start_matches(['(', '"']).strip_prefix('@'));
    words.map(|word| word.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '"'])).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_mentioned_by_its_name() {
        let text = "compare @a.csv with (@b/c.md), and write to me@example.com @";
        assert_eq!(mentioned(text).collect::<Vec<_>>(), ["a.csv", "b/c.md"]);
    }
}
