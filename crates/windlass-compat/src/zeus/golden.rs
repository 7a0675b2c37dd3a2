//! Golden transcripts of the mapping: `golden/*.txt`.

use windlass::machine::{Run, RunId};

use super::super::stage::check;
use super::speak::Zeus;
use super::word::{Names, Scene};

fn begin(run: Option<&Run>) -> Zeus {
    let scene = Scene { session: "s".into(), names: Names::Table };
    match run.filter(|run| run.id.as_str() == "run_1") {
        Some(run) => Zeus::beside(scene, run),
        None => Zeus::new(scene, RunId::from("run_1")),
    }
}

// rows: ZE-E8, ZE-E9, ZE-S1, ZE-S2, ZE-S3, ZE-S4, ZE-S5, ZE-S6, ZE-S7, ZE-H2, ZE-H3, ZE-H6, ZE-P7, ZE-P8, ZE-X3, ZE-X4
#[test]
fn golden() {
    check("zeus", begin);
}

// rows: ZE-S8
#[test]
fn the_names_of_the_reference_are_an_alias() {
    let scene = Scene { session: "s".into(), names: Names::Reference };
    let frame = |name| scene.frame(name, serde_json::json!({"parameters": {}}));
    assert_eq!(
        frame("text"),
        "event: message_chunk\ndata: {\"type\":\"message_chunk\",\"tool_args\":{}}\n\n"
    );
    let call = "event: tool_call\ndata: {\"type\":\"tool_call\",\"tool_args\":{},\"session_id\":\"s\"}\n\n";
    assert_eq!(frame("tool_call"), call);
    assert!(frame("tool_call_result").starts_with("event: tool_result\n"));
    assert!(frame("complete").starts_with("event: done\n"));
    assert!(frame("error").starts_with("event: error\n"));
}
