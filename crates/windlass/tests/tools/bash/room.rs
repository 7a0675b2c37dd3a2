//! Commands in a folder with a quota.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass::tool::{FolderQuota, WorkingFolder};

use super::super::{context, run, show};
use super::Shell;

/// A limit for the files directly in a folder.
struct Limit {
    folder: PathBuf,
    bytes: u64,
}

impl FolderQuota for Limit {
    fn take(&self, bytes: u64) -> Result<(), String> {
        let taken = self.taken()?;
        if taken + bytes <= self.bytes { Ok(()) } else { Err(format!("{taken} bytes are taken")) }
    }

    fn taken(&self) -> Result<u64, String> {
        let files = fs::read_dir(&self.folder).map_err(|error| error.to_string())?;
        // A file that a command has just removed takes no room.
        Ok(files.flatten().filter_map(|file| file.metadata().ok()).map(|found| found.len()).sum())
    }

    fn limit(&self) -> u64 {
        self.bytes
    }
}

fn says(shell: &Shell, bytes: u64, command: &str) -> String {
    let quota = Arc::new(Limit { folder: shell.inside.clone(), bytes });
    let folder = WorkingFolder::open(&shell.inside).unwrap().with_quota(quota);
    let context = context(Some(Arc::new(folder)), CancellationToken::new());
    show(&run(&*shell.tool("Bash"), context, json!({"command": command})))
}

#[test]
fn one_file_holds_no_more_than_there_is_room_for() {
    let shell = Shell::new();
    fs::write(shell.inside.join("old"), "x".repeat(60)).unwrap();
    let said = says(&shell, 100, "head -c 50 /dev/zero > new");
    assert!(said.starts_with("error: "), "{said}");
    assert_eq!(fs::metadata(shell.inside.join("new")).unwrap().len(), 40);
    // The folder is full. Files can still be deleted, which makes room.
    assert_eq!(says(&shell, 100, "rm old; echo gone"), "ok: gone");
    assert_eq!(says(&shell, 100, "echo more > third; cat third"), "ok: more");
}

#[test]
fn a_command_whose_files_hold_too_much_together_is_stopped() {
    let shell = Shell::new();
    let many = "i=0; while true; do i=$((i+1)); echo 123456789 > file.$i; sleep 0.01; done";
    let said = says(&shell, 100, many);
    assert_eq!(said, "error: (stopped: its files exceeded the space limit)");
}
