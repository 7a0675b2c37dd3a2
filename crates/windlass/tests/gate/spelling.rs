//! Conditions on the path of a file tool: no spelling of a path escapes a rule or a grant that matches another
//! spelling.
//!
//! It makes no calls. The gate judges random calls in folders with random links.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use windlass::machine::{Condition, Pattern, Predicate, Rule, Verdict};
use windlass::tool::WorkingFolder;
use windlass::tool::builtin::file_tools;
use windlass::{Engine, GrantDraft, Supposed};

use super::paths::{Desk, Dice, any_path, lexical, real, turn};
use super::{asking, plan, store};
use crate::drive::party;

const FILES: [&str; 7] = ["a", "yes/a", "no/a", "mid/a", "yes/sub/a", "no/sub/a", "mid/sub/a"];

/// The target of a rule or grant: some files, all others, or a directory.
enum Named {
    Files(Vec<&'static str>),
    Others(Vec<&'static str>),
    Below(&'static str),
}

impl Named {
    fn has(&self, path: &Path) -> bool {
        match self {
            Self::Files(files) => files.iter().any(|file| Path::new(file) == path),
            Self::Others(files) => files.iter().all(|file| Path::new(file) != path),
            Self::Below(folder) => path.starts_with(folder),
        }
    }
}

/// A folder that is opened through a link.
struct Scene {
    desk: Desk,
    root: PathBuf,
    link: PathBuf,
    _parent: tempfile::TempDir,
}

impl Scene {
    fn new(dice: &mut Dice) -> Self {
        let (desk, parent) = (Desk::new(), tempfile::tempdir().unwrap());
        let root = desk.root.path().canonicalize().unwrap();
        let link = parent.path().canonicalize().unwrap().join("link");
        symlink(&root, &link).unwrap();
        (0..6).for_each(|_| turn(&root, dice));
        Self { desk, root, link, _parent: parent }
    }

    async fn engine(&self) -> Engine {
        let tools = windlass::registry().add_all(file_tools(&crate::tools::reader())).unwrap();
        let folder = Arc::new(WorkingFolder::open(&self.link).unwrap());
        asking(&store(), &plan(&[]), tools).folder(folder).build().await.unwrap()
    }

    /// A spelling of a path: relative, or absolute by one of the two names of the folder.
    fn spelled(&self, path: &str, dice: &mut Dice) -> String {
        match dice.below(4) {
            0 => format!("{}/{path}", self.root.display()),
            1 => format!("{}/{path}", self.link.display()),
            _ => path.to_owned(),
        }
    }

    fn condition(&self, dice: &mut Dice) -> (&'static str, Named, Condition) {
        let folder = ["yes", "no", "mid"][dice.below(3)];
        let files: Vec<&'static str> = (0..1 + dice.below(2)).map(|_| FILES[dice.below(7)]).collect();
        let values: Vec<Value> = files.iter().map(|file| json!(self.spelled(file, dice))).collect();
        let at = self.spelled(folder, dice);
        let (kind, named, is) = match dice.below(5) {
            0 => ("under", Named::Below(folder), Predicate::Under(at)),
            1 => ("matches", Named::Below(folder), Predicate::Matches(Pattern::new(format!("^{at}(/|$)")))),
            2 => ("equals", Named::Files(files[..1].to_vec()), Predicate::Equals(values[0].clone())),
            3 => ("one_of", Named::Files(files), Predicate::OneOf(values)),
            _ => ("not_one_of", Named::Others(files), Predicate::NotOneOf(values)),
        };
        (kind, named, Condition { argument: "/file_path".into(), is })
    }

    /// The path of a call, with its lexical form and the file, both relative; `None` if the folder rejects it.
    fn path(&self, dice: &mut Dice) -> Option<(String, PathBuf, PathBuf)> {
        let path = match dice.below(3) {
            0 => any_path(&self.root, dice),
            1 => format!("{}{}", dice.one(&["./", "yes/../", "l/../", "mid/l/"]), FILES[dice.below(7)]),
            _ => self.spelled(FILES[dice.below(7)], dice),
        };
        let plain = path.replace(self.link.to_str()?, self.root.to_str()?);
        let file = real(&self.root, &plain)?;
        self.desk.folder().resolve(&plain).ok()?;
        Some((path, lexical(&self.root, &plain)?, file))
    }
}

/// Judges some calls under one rule or grant. Counts the verdicts by kind of condition, and whether the call is
/// permitted.
async fn compare(seed: u64, seen: &mut BTreeMap<(&'static str, bool, bool), u32>) {
    let mut dice = Dice(seed);
    let scene = Scene::new(&mut dice);
    let engine = scene.engine().await;
    for _ in 0..12 {
        let (kind, named, condition) = scene.condition(&mut dice);
        let act = [Some(Verdict::Deny), Some(Verdict::Ask), Some(Verdict::Allow), None][dice.below(4)];
        let permits = matches!(act, Some(Verdict::Allow) | None);
        let tool = if permits { "Write" } else { "Read" };
        let rules = act.map(|verdict| Rule {
            tools: vec![tool.into()],
            when: vec![condition.clone()],
            ..Rule::new(verdict)
        });
        let arguments = vec![condition.clone()];
        let draft = GrantDraft {
            user: "ann".into(),
            tool: tool.into(),
            arguments,
            count: None,
            expires_at: None,
            by: "ann".into(),
        };
        let grant = if act.is_none() { Some(engine.policy().grant(draft).await.unwrap()) } else { None };
        for _ in 0..12 {
            let Some((path, lexical, file)) = scene.path(&mut dice) else { continue };
            let call = Supposed {
                tool: tool.into(),
                arguments: Some(json!({ "file_path": path, "content": "x" })),
                by: party("ann"),
                rules: Some(rules.iter().cloned().collect()),
            };
            let verdict = engine.policy().standing(&call).await.unwrap().unwrap().verdict;
            let (of_spelling, of_file) = (named.has(&lexical), named.has(&file));
            let context =
                format!("seed {seed}: {act:?} {condition:?}: {path} leads to {file:?}: {verdict:?}");
            match act {
                Some(Verdict::Deny) if of_spelling || of_file => {
                    assert_eq!(verdict, Verdict::Deny, "{context}");
                }
                Some(Verdict::Ask) if of_spelling || of_file => {
                    assert_ne!(verdict, Verdict::Allow, "{context}");
                }
                Some(Verdict::Allow) | None if !of_spelling || !of_file => {
                    assert_ne!(verdict, Verdict::Allow, "{context}");
                }
                Some(Verdict::Deny | Verdict::Ask | Verdict::Allow) | None => {}
            }
            *seen.entry((kind, permits, verdict == Verdict::Allow)).or_default() += 1;
        }
        if let Some(grant) = grant {
            engine.policy().revoke(&grant.id, None).await.unwrap();
        }
    }
}

#[tokio::test]
async fn no_spelling_of_a_path_escapes_a_condition() {
    let mut seen = BTreeMap::new();
    for seed in 0..100 {
        compare(seed, &mut seen).await;
    }
    assert_eq!(seen.len(), 20, "{seen:?}");
    assert!(seen.values().all(|count| *count >= 10), "{seen:?}");
}
