//! Binds a call to the files that its paths resolved to when the gate judged it.
//!
//! This module evaluates no rules. A link that changes after the verdict is detected when the tool resolves the path.

use std::path::Path;
use std::sync::Arc;

use windlass_machine::{PathArgument, PathTarget};

use super::{FolderPath, WorkingFolder};

/// Judged paths as written, each with its target at the verdict.
#[derive(Clone, Debug, Default)]
pub(super) struct JudgedPaths(Arc<[(String, Option<PathTarget>)]>);

impl JudgedPaths {
    /// Whether a judged path now resolves to another file. `false` for a path that was not judged.
    pub(super) fn is_redirected(&self, given: &str, now: &FolderPath) -> bool {
        let of = |target: &PathTarget| {
            Path::new(&target.lexical) == now.lexical && Path::new(&target.resolved) == now.resolved
        };
        self.0.iter().any(|(judged, target)| judged == given && !target.as_ref().is_some_and(of))
    }
}

impl WorkingFolder {
    /// Resolves a path for the gate; `None` if the folder refuses it, or it is not UTF-8.
    ///
    /// Reads the disk, so call this method only where blocking is allowed.
    pub(crate) fn target(&self, given: &str) -> Option<PathTarget> {
        let FolderPath { lexical, resolved } = self.resolve(given).ok()?;
        let text = |path: &Path| path.to_str().map(str::to_owned);
        let mut folders = vec![text(&self.path)?, text(&self.canonical)?];
        folders.dedup();
        Some(PathTarget { folders, lexical: text(&lexical)?, resolved: text(&resolved)? })
    }

    /// Returns the folder for one call, which rejects a judged path that now resolves to another file.
    pub(crate) fn bound_to(&self, paths: impl IntoIterator<Item = (String, PathArgument)>) -> Self {
        let judged = paths.into_iter().map(|(given, path)| (given, path.target)).collect();
        Self { judged: JudgedPaths(judged), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::tool::FolderError;

    #[test]
    fn a_judged_path_is_refused_once_it_leads_elsewhere() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for name in ["docs", "src"] {
            fs::create_dir(at(name)).unwrap();
        }
        let turn = |to: &str| {
            let _ = fs::remove_file(at("docs/l"));
            symlink(to, at("docs/l")).unwrap();
        };
        turn("../src");
        let folder = WorkingFolder::open(root.path()).unwrap();
        let judged = |given: &str| {
            let target = folder.target(given);
            (given.to_owned(), PathArgument { argument: "/path".into(), target })
        };
        let bound = folder.bound_to([judged("docs/l/a"), judged("docs/b/../../.."), judged("docs/a")]);
        let (path, resolved) = (bound.resolve("docs/l/a").unwrap(), folder.target("docs/l/a").unwrap());
        assert_eq!((path.as_path(), &*resolved.lexical), (Path::new("src/a"), "docs/l/a"));
        turn(".");
        let moved = bound.resolve("docs/l/a");
        assert!(matches!(moved, Err(FolderError::LeadsElsewhere(_))), "{moved:?}");
        assert!(bound.resolve("docs/a").is_ok());
        assert!(bound.resolve("docs/l/b").is_ok(), "only what was judged is bound");
        turn("../src");
        assert!(bound.resolve("docs/l/a").is_ok());
        // A path that was refused at the verdict stays refused, even if it can be resolved now.
        let refused = PathArgument { argument: "/path".into(), target: None };
        let bound = folder.bound_to([("docs/a".to_owned(), refused)]);
        assert!(matches!(bound.resolve("docs/a"), Err(FolderError::LeadsElsewhere(_))));
    }
}
