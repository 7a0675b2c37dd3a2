//! Commands that replace the paths that the configuration opens, or the working folder. The files that one command
//! leaves behind are the next one's environment.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass::tool::WorkingFolder;
use windlass::tool::builtin::BashSettings;

use super::Shell;

/// A shell whose configuration names paths in folders that its commands may change. Readable: `data`, `deep/data`,
/// `one.txt`, `room/tools`, and `later`, which does not exist yet. Writable, in addition to the working folder: `room` and
/// `room/out`.
fn open() -> Shell {
    Shell::with(|settings, outside| {
        let top = outside.parent().unwrap();
        let (inside, room) = (top.join("inside"), top.join("room"));
        for folder in ["inside/data", "inside/deep/data", "room/out", "room/tools", "outside/data"] {
            fs::create_dir_all(top.join(folder)).unwrap();
            fs::write(top.join(folder).join("note.txt"), format!("{folder}\n")).unwrap();
        }
        fs::write(outside.join("data/secret.txt"), "SECRET\n").unwrap();
        fs::write(inside.join("one.txt"), "one\n").unwrap();
        settings.sandbox.read = ["data", "deep/data", "one.txt", "later"].map(|it| inside.join(it)).into();
        settings.sandbox.read.push(room.join("tools"));
        settings.sandbox.write = vec![room.clone(), room.join("out")];
    })
}

/// Reads and writes every path that the configuration opens.
const PROBE: &str = "cat data/* deep/data/* one.txt later/* <room>/tools/* 2>/dev/null; \
                     echo WRITTEN 2>/dev/null > <room>/out/new.txt; echo end";

fn says(shell: &Shell, command: &str) -> String {
    let top = shell.outside.parent().unwrap().display().to_string();
    let said = shell.says(
        &command.replace("<room>", &format!("{top}/room")).replace("<inside>", &format!("{top}/inside")),
    );
    said.replace(&format!("{top}/room"), "<room>")
}

/// The output of a command that reads and writes all it may, after `first` has prepared the files.
pub fn after(first: &str) -> String {
    let shell = open();
    let prepared = says(&shell, first);
    assert!(prepared.starts_with("ok: "), "{first}: {prepared}");
    let said = says(&shell, PROBE);
    assert!(!said.contains("SECRET"), "{first}: {said}");
    assert!(
        !shell.outside.join("new.txt").exists() && !shell.outside.join("data/new.txt").exists(),
        "{first}"
    );
    said.replace('\n', " ")
}

/// A process that starts later finds the files that an earlier one's commands have left.
#[test]
fn a_link_that_was_there_before_the_start_opens_nothing() {
    let shell = Shell::with(|settings, outside| {
        let inside = outside.with_file_name("inside");
        symlink(outside, inside.join("data")).unwrap();
        settings.sandbox.read = vec![inside.join("data")];
    });
    let said = shell.says("cat data/secret.txt");
    assert!(
        said.starts_with("error: `<inside>/data` in `read` of `[tools.bash]` goes through the symbolic link"),
        "{said}"
    );
    let Shell { folder, inside, .. } = &shell;
    assert!(folder.path().ends_with("inside"));
    fs::remove_file(inside.join("data")).unwrap();
    assert_eq!(shell.says("echo fine"), "ok: fine");
}

/// A command that can change the parent of a working folder can replace the folder.
#[test]
fn another_folder_in_the_place_of_the_working_folder_is_not_worked_in() {
    let swapped = |swap: &dyn Fn(&Path, &Path)| {
        let shell = Shell::with(|settings, outside| {
            settings.sandbox.write = vec![outside.with_file_name("around")];
            fs::create_dir_all(outside.with_file_name("around").join("work")).unwrap();
        });
        let work = shell.outside.with_file_name("around").join("work");
        let shell = Shell { folder: Arc::new(WorkingFolder::open(&work).unwrap()), ..shell };
        assert_eq!(shell.says("echo fine"), "ok: fine");
        swap(&work, &shell.outside);
        let said = shell.says("chmod 777 secret.txt; cat secret.txt; echo x > new.txt");
        let wanted = "is no longer the folder that was opened: it was moved, or replaced by a link or \
                      another folder; restore it, or restart Windlass in the intended folder";
        assert!(said.starts_with("error: the working folder `") && said.ends_with(wanted), "{said}");
        assert_eq!(fs::read_dir(&shell.outside).unwrap().count(), 1);
    };
    let gone = |work: &Path| fs::rename(work, work.with_file_name("gone")).unwrap();
    swapped(&|work, outside| {
        gone(work);
        symlink(outside, work).unwrap();
    });
    swapped(&|work, _| {
        gone(work);
        fs::create_dir(work).unwrap();
    });
    swapped(&|work, _| gone(work));
}

/// An update or an editor replaces a file. Where commands cannot write, the replacement is intended.
#[test]
fn what_people_replace_where_commands_change_nothing_stays_open() {
    let mut paths = Vec::<PathBuf>::new();
    let shell = Shell::with(|settings: &mut BashSettings, outside| {
        fs::create_dir(outside.join("kit")).unwrap();
        paths = vec![outside.join("secret.txt"), outside.join("kit")];
        settings.sandbox.read = paths.clone();
    });
    let new = shell.outside.join("new.txt");
    fs::write(&new, "new").unwrap();
    fs::rename(&new, &paths[0]).unwrap();
    fs::rename(&paths[1], shell.outside.join("old")).unwrap();
    fs::create_dir(&paths[1]).unwrap();
    assert_eq!(shell.says("cat <outside>/secret.txt; ls <outside>/kit"), "ok: new");
    // A link is not followed there either.
    fs::remove_dir(&paths[1]).unwrap();
    symlink("/root", &paths[1]).unwrap();
    assert!(
        shell
            .says("true")
            .contains("`<outside>/kit` in `read` of `[tools.bash]` goes through the symbolic link")
    );
}
