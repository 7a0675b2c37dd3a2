//! Lets the user edit a text in an external editor: `$VISUAL`, otherwise `$EDITOR`,
//! otherwise `vi` (`notepad` on Windows).

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use windlass_server::trouble::Trouble;

use crate::paths::private_directory;
use crate::signals::{Signal, Signals};

/// Interval at which the editor process is polled for its exit.
const LOOK: Duration = Duration::from_millis(30);

/// The result of an editing session.
#[derive(Debug)]
pub enum Edited {
    /// The text as saved by the user.
    Text(String),
    /// A termination signal arrived; the editor was killed.
    Left(Signal),
}

/// Opens the editor on a text and waits until it exits. The text is in a private file in
/// `directory`. The editor handles Ctrl-C.
pub async fn edit(
    directory: &Path,
    name: &str,
    text: &str,
    signals: &mut Signals,
) -> Result<Edited, Trouble> {
    let draft = Draft::write(directory, name, text)?;
    let named = chosen();
    let failed = |why: String| {
        Trouble::engine(format!("the editor `{named}` {why}; nothing was changed"))
            .hint("set VISUAL or EDITOR to another editor")
    };
    let mut child = command(&named, &draft.0).spawn().map_err(|error| failed(error.to_string()))?;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => {}
            Err(error) => return Err(failed(error.to_string())),
        }
        tokio::select! {
            signal = signals.next() => match signal {
                Signal::Interrupt => {}
                Signal::End(_) => {
                    end(&mut child);
                    return Ok(Edited::Left(signal));
                }
            },
            () = tokio::time::sleep(LOOK) => {}
        }
    };
    if !status.success() {
        return Err(failed(format!("ended with {status}")));
    }
    draft.read().map(Edited::Text)
}

fn chosen() -> String {
    let named = ["VISUAL", "EDITOR"].into_iter().find_map(windlass_server::config::environment);
    named.unwrap_or_else(|| if cfg!(windows) { "notepad".into() } else { "vi".into() })
}

/// Creates the command that starts the editor. The variable may contain arguments, so a shell splits it.
#[cfg(unix)]
fn command(editor: &str, path: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{editor} \"$@\""), editor]).arg(path);
    command
}

#[cfg(not(unix))]
fn command(editor: &str, path: &Path) -> Command {
    let mut command = Command::new(editor);
    command.arg(path);
    command
}

fn end(child: &mut Child) {
    // The editor may have exited already.
    let _ = child.kill();
    let _ = child.wait();
}

/// The file that is edited. Dropping the value deletes the file.
struct Draft(PathBuf);

impl Draft {
    fn write(directory: &Path, name: &str, text: &str) -> Result<Self, Trouble> {
        private_directory(directory)?;
        let tame = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
        let name: String = name.chars().map(tame).collect();
        let path = directory.join(format!("edit-{}-{name}.json", std::process::id()));
        let failed =
            |error: std::io::Error| Trouble::engine(format!("cannot write `{}`: {error}", path.display()));
        // A killed process with the same process id may have left a file with this name.
        let _ = std::fs::remove_file(&path);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path).map_err(failed)?;
        let draft = Self(path.clone());
        file.write_all(format!("{}\n", text.trim_end()).as_bytes()).map_err(failed)?;
        Ok(draft)
    }

    fn read(&self) -> Result<String, Trouble> {
        std::fs::read_to_string(&self.0)
            .map_err(|error| Trouble::engine(format!("cannot read `{}`: {error}", self.0.display())))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // The editor may have moved the file.
        let _ = std::fs::remove_file(&self.0);
    }
}
