//! Attaches standard input to the message of a task.
//!
//! Only a pipe or a regular file is read. The command ignores a terminal, `/dev/null` and a closed stream, so that a
//! run in the background never waits for input that does not arrive.

use std::io::Read;
use std::time::Duration;

use bytes::Bytes;
use windlass::machine::Block;
use windlass_server::trouble::Trouble;

use crate::console::Console;
use crate::place::Place;

/// The attachment's name, which the model sees.
const NAME: &str = "stdin";

/// Time without input after which a note explains that the command waits for input.
const SILENCE: Duration = Duration::from_secs(2);

/// Reads piped input, at most `max_bytes`. Returns `None` if the input is empty or not piped.
pub async fn read(console: &Console, max_bytes: u64) -> anyhow::Result<Option<Bytes>> {
    if !is_piped() {
        return Ok(None);
    }
    let mut reading = tokio::task::spawn_blocking(move || bounded(std::io::stdin().lock(), max_bytes));
    let read = tokio::select! {
        read = &mut reading => read,
        () = tokio::time::sleep(SILENCE) => {
            console.note("reading standard input to attach it to the task");
            console.hint("`< /dev/null` runs the task without it");
            reading.await
        }
    };
    let bytes = read??;
    Ok((!bytes.is_empty()).then(|| bytes.into()))
}

/// Stores the bytes as an attachment and returns its block.
pub async fn attach(console: &Console, place: &Place, bytes: Bytes) -> anyhow::Result<Block> {
    let size_bytes = bytes.len();
    let media_type = windlass::media_type(NAME, &bytes).unwrap_or("application/octet-stream");
    let block = place.engine.attach(NAME, media_type, bytes).await?;
    if let Block::Image { blob } | Block::File { blob, .. } = &block {
        let line = format!("attached standard input: {}, {size_bytes} bytes", blob.media_type);
        console.note(&console.paint.dim(&line));
    }
    Ok(block)
}

fn bounded(source: impl Read, max_bytes: u64) -> Result<Vec<u8>, Trouble> {
    let failed = |error: std::io::Error| Trouble::usage(format!("cannot read standard input: {error}"));
    let mut bytes = Vec::new();
    source.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > max_bytes {
        let what = format!("standard input is larger than {max_bytes} bytes and cannot be attached");
        return Err(Trouble::usage(what)
            .hint("put it into a file in the working folder, and name the file in the task")
            .hint("`max_bytes` in `[files]` sets the limit"));
    }
    Ok(bytes)
}

#[cfg(unix)]
fn is_piped() -> bool {
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileTypeExt;
    let input = std::io::stdin().as_fd().try_clone_to_owned();
    let kind = input.and_then(|input| std::fs::File::from(input).metadata()).map(|found| found.file_type());
    kind.is_ok_and(|kind| kind.is_fifo() || kind.is_file())
}

#[cfg(not(unix))]
fn is_piped() -> bool {
    false
}
