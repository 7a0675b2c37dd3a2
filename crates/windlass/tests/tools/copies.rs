//! Folders copied into others: the content of a copy, what is skipped, and what is rejected.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use windlass::tool::{CopyError, CopyLimits, FolderContent, WorkingFolder, remove_tree};

/// A folder that is copied into another.
struct Pair {
    old: tempfile::TempDir,
    new: tempfile::TempDir,
}

impl Pair {
    fn new() -> Self {
        Self { old: tempfile::tempdir().unwrap(), new: tempfile::tempdir().unwrap() }
    }

    fn write(&self, path: &str, content: &str) -> PathBuf {
        let path = self.old.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    fn copy(&self, limits: &CopyLimits, since: Option<SystemTime>) -> Result<FolderContent, CopyError> {
        let folder = |of: &tempfile::TempDir| WorkingFolder::open(of.path()).unwrap();
        let counted = folder(&self.old).content(limits, since);
        let copied = folder(&self.old).copy_into(&folder(&self.new), limits, since);
        // What was counted before equals what is copied.
        match (&counted, &copied) {
            (Ok(counted), Ok(copied)) => assert_eq!(counted, copied),
            (Err(counted), Err(copied)) => assert_eq!(counted.to_string(), copied.to_string()),
            (counted, copied) => panic!("{counted:?} {copied:?}"),
        }
        copied
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.new.path().join(path)).unwrap()
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn a_copy_has_the_files_with_their_permissions_and_times() {
    let pair = Pair::new();
    let script = pair.write("bin/run.sh", "#!/bin/sh\n");
    let secret = pair.write("closed/a.txt", "a");
    let past = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    File::open(&script).unwrap().set_modified(past).unwrap();
    fs::create_dir(pair.old.path().join("empty")).unwrap();
    for (path, mode) in
        [(script, 0o4755), (secret.clone(), 0o440), (secret.parent().unwrap().to_owned(), 0o550)]
    {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let content = pair.copy(&CopyLimits::default(), Some(past + Duration::from_secs(1))).unwrap();
    assert_eq!((content.entries, content.bytes), (5, 11));
    assert_eq!(content.modified_since, [PathBuf::from("closed/a.txt")]);
    assert_eq!((pair.read("bin/run.sh"), pair.read("closed/a.txt")), ("#!/bin/sh\n".into(), "a".into()));
    let new = |path: &str| pair.new.path().join(path);
    // The set-user bit is not copied.
    assert_eq!(["bin/run.sh", "closed/a.txt", "closed"].map(|it| mode(&new(it))), [0o755, 0o440, 0o550]);
    assert_eq!(fs::metadata(new("bin/run.sh")).unwrap().modified().unwrap(), past);
    assert!(new("empty").is_dir());
}

#[test]
fn a_file_with_an_old_time_is_changed_if_its_folder_was_there_before() {
    let pair = Pair::new();
    let past = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    let changed = |path: &Path| {
        let found = fs::symlink_metadata(path).unwrap();
        Duration::new(found.ctime().cast_unsigned(), found.ctime_nsec() as u32)
    };
    let kept = pair.write("kept.txt", "k");
    // Waits for a tick of the file system's clock.
    let since = loop {
        let later = changed(&pair.write("later.txt", "l"));
        if later > changed(&kept) {
            break SystemTime::UNIX_EPOCH + later;
        }
    };
    let dated = pair.write("dated.txt", "d");
    File::open(&dated).unwrap().set_modified(past).unwrap();
    symlink("kept.txt", pair.old.path().join("link")).unwrap();
    let named = |mut content: FolderContent| {
        content.modified_since.sort();
        content.modified_since.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
    };
    let content = pair.copy(&CopyLimits::default(), Some(since)).unwrap();
    assert_eq!(named(content), "dated.txt later.txt link");
    // Everything in a copy was changed when it was made.
    let younger = tempfile::tempdir().unwrap();
    let [from, copy] = [pair.old.path(), younger.path()].map(|path| WorkingFolder::open(path).unwrap());
    from.copy_into(&copy, &CopyLimits::default(), None).unwrap();
    let content = copy.content(&CopyLimits::default(), Some(since)).unwrap();
    assert_eq!(named(content), "later.txt");
}

#[test]
fn a_link_stays_a_link_and_never_leads_into_the_old_folder() {
    let (pair, outside) = (Pair::new(), tempfile::tempdir().unwrap());
    fs::write(outside.path().join("secret"), "s").unwrap();
    let file = pair.write("a.txt", "a");
    let old = |name: &str| pair.old.path().join(name);
    symlink("a.txt", old("relative")).unwrap();
    symlink(&file, old("absolute")).unwrap();
    symlink(outside.path(), old("outside")).unwrap();
    symlink("nowhere", old("broken")).unwrap();
    let content = pair.copy(&CopyLimits::default(), None).unwrap();
    assert_eq!((content.entries, content.bytes), (5, 1), "nothing behind a link is copied");
    let leads_to = |name: &str| fs::read_link(pair.new.path().join(name)).unwrap();
    assert_eq!(leads_to("relative"), Path::new("a.txt"));
    assert_eq!(leads_to("absolute"), pair.new.path().canonicalize().unwrap().join("a.txt"));
    assert_eq!(leads_to("outside"), outside.path());
    assert_eq!(leads_to("broken"), Path::new("nowhere"));
}

#[test]
fn names_of_one_file_become_files_of_their_own() {
    let pair = Pair::new();
    let file = pair.write("a.txt", "a");
    fs::hard_link(&file, pair.old.path().join("b.txt")).unwrap();
    pair.copy(&CopyLimits::default(), None).unwrap();
    fs::write(pair.new.path().join("a.txt"), "changed").unwrap();
    assert_eq!((pair.read("b.txt"), fs::read_to_string(file).unwrap()), ("a".into(), "a".into()));
}

#[test]
fn what_cannot_be_copied_is_left_out_by_name() {
    let pair = Pair::new();
    pair.write("a.txt", "a");
    let _listens = UnixListener::bind(pair.old.path().join("socket")).unwrap();
    let closed = pair.write("closed.txt", "c");
    fs::set_permissions(&closed, Permissions::from_mode(0o000)).unwrap();
    pair.write(".windlass-1-1.tmp", "a writer's unfinished file");
    let content = pair.copy(&CopyLimits::default(), None).unwrap();
    let mut names: Vec<_> = content.left_out.iter().map(|it| it.path.display().to_string()).collect();
    names.sort();
    // Root can still read it.
    let is_read = File::open(&closed).is_ok();
    assert_eq!(names, if is_read { vec!["socket"] } else { vec!["closed.txt", "socket"] });
    let why = &content.left_out.iter().find(|it| it.path.ends_with("socket")).unwrap().why;
    assert_eq!(why, "a pipe, socket or device is not copied");
    assert!(!pair.new.path().join(".windlass-1-1.tmp").exists());
}

#[test]
fn a_folder_over_a_limit_is_refused_with_the_limit() {
    let pair = Pair::new();
    pair.write("one/two/a.txt", "12345");
    pair.write("b.txt", "67890");
    let limits = CopyLimits { max_entries: 4, max_bytes: 10, max_depth: 2 };
    let refused = |limits: CopyLimits| {
        let pair = Pair { old: tempfile::tempdir().unwrap(), new: tempfile::tempdir().unwrap() };
        pair.write("one/two/a.txt", "12345");
        pair.write("b.txt", "67890");
        pair.copy(&limits, None).unwrap_err().to_string()
    };
    assert_eq!(pair.copy(&limits, None).unwrap().bytes, 10);
    assert_eq!(
        refused(CopyLimits { max_entries: 3, ..limits }),
        "it has more than 3 files, directories and links"
    );
    assert_eq!(refused(CopyLimits { max_bytes: 9, ..limits }), "its files have more than 9 bytes");
    assert_eq!(refused(CopyLimits { max_depth: 1, ..limits }), "`one/two` lies more than 1 directories deep");
}

#[test]
fn a_target_with_files_is_refused_and_left_alone() {
    let pair = Pair::new();
    pair.write("a.txt", "new");
    fs::write(pair.new.path().join("a.txt"), "mine").unwrap();
    let folder = |path: &Path| WorkingFolder::open(path).unwrap();
    let (old, limits) = (folder(pair.old.path()), CopyLimits::default());
    let refused = old.copy_into(&folder(pair.new.path()), &limits, None).unwrap_err().to_string();
    assert!(refused.ends_with("is not empty"), "{refused}");
    assert_eq!(pair.read("a.txt"), "mine");
    let inside = pair.old.path().join("inside");
    fs::create_dir(&inside).unwrap();
    let refused = old.copy_into(&folder(&inside), &limits, None).unwrap_err().to_string();
    assert!(refused.ends_with("lies in the old one"), "{refused}");
}

#[test]
fn more_files_than_are_synced_one_by_one_are_copied() {
    let pair = Pair::new();
    (0..300).for_each(|n| drop(pair.write(&format!("{}/{n}", n % 7), "x")));
    let content = pair.copy(&CopyLimits::default(), None).unwrap();
    assert_eq!(content.bytes, 300);
    assert_eq!(pair.read("3/10"), "x");
}

#[test]
fn a_tree_is_removed_although_its_directories_are_closed() {
    let pair = Pair::new();
    pair.write("cache/module/a.go", "x");
    let outside = tempfile::tempdir().unwrap();
    symlink(outside.path(), pair.old.path().join("cache/link")).unwrap();
    for closed in ["cache/module", "cache"] {
        fs::set_permissions(pair.old.path().join(closed), Permissions::from_mode(0o555)).unwrap();
    }
    remove_tree(&pair.old.path().join("cache")).unwrap();
    assert!(!pair.old.path().join("cache").exists() && outside.path().exists());
}
