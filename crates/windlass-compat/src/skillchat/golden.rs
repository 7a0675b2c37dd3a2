//! Golden transcripts of the mapping: `golden/*.txt`.

use windlass::machine::{Run, RunId};

use super::super::stage::check;
use super::speak::SkillChat;

fn begin(_before: Option<&Run>) -> SkillChat {
    SkillChat::new("s".into(), "st".into(), RunId::from("run_1"))
}

// rows: WT-E2, WT-H5, WT-L11, WT-L12, WT-X5
#[test]
fn golden() {
    check("skillchat", begin);
}
