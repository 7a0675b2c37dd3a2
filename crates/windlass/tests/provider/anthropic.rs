//! Output of the Anthropic wire: fragments by part (`~`), blocks with the stored items of the provider (`+`), stop and
//! usage.

use super::transcript;

// rows: LM-L3
#[tokio::test]
async fn thinking_text_and_two_calls() {
    insta::assert_snapshot!(transcript("anth-ok").await, @r#"
        ~ 0 reasoning: Let me think.
        ~ 1 text: I will call two tools.
        ~ 2 call: get_weather {"city":"Paris"}
        ~ 3 call: get_time {"tz":"CET"}
        reasoning "Let me think." + {"type":"thinking","thinking":null,"signature":"EuYBCkQYAiJAsignatureONE=="}
        text "I will call two tools."
        call "toolu_A get_weather {\"city\":\"Paris\"}"
        call "toolu_B get_time {\"tz\":\"CET\"}"
        stop ToolCalls, in 2360 (cached 2048, written 300), out 89 (reasoning -), by claude-opus-4-6-20260205
    "#);
    insta::assert_snapshot!(transcript("anth-ok@clean").await, @r#"
        ~ 0 reasoning: Let me think.
        ~ 1 text: I will call two tools.
        ~ 2 call: get_weather {"city":"Paris"}
        ~ 3 call: get_time {"tz":"CET"}
        reasoning "Let me think." + {"type":"thinking","thinking":null,"signature":"EuYBCkQYAiJAsignatureONE=="}
        text "I will call two tools."
        call "toolu_A get_weather {\"city\":\"Paris\"}"
        call "toolu_B get_time {\"tz\":\"CET\"}"
        stop ToolCalls, in 2360 (cached 2048, written 300), out 89 (reasoning -), by claude-opus-4-6-20260205
    "#);
}

#[tokio::test]
async fn interleaved_thinking_keeps_its_order() {
    insta::assert_snapshot!(transcript("anth-inter").await, @r#"
        ~ 0 reasoning: T1
        ~ 1 text: text-1
        ~ 2 reasoning: T2
        ~ 3
        ~ 4 text: text-2
        ~ 5 call: get_weather {"city":"Rome"}
        reasoning "T1" + {"type":"thinking","thinking":null,"signature":"SIG-ONE"}
        text "text-1"
        reasoning "T2" + {"type":"thinking","thinking":null,"signature":"SIG-TWO"}
        reasoning "" + {"type":"redacted_thinking","data":"REDACTED-DATA"}
        text "text-2"
        call "toolu_C get_weather {\"city\":\"Rome\"}"
        stop ToolCalls, in 2360 (cached 2048, written 300), out 89 (reasoning -), by claude-opus-4-6-20260205
    "#);
    insta::assert_snapshot!(transcript("anth-emptythink").await, @r#"
        ~ 0
        ~ 1 call: get_weather {"city":"Rome"}
        reasoning "" + {"type":"thinking","thinking":"","signature":"SIG-EMPTY"}
        call "toolu_E get_weather {\"city\":\"Rome\"}"
        stop ToolCalls, in 2360 (cached 2048, written 300), out 89 (reasoning -), by claude-opus-4-6-20260205
    "#);
}

#[tokio::test]
async fn what_is_not_understood_is_kept_opaque() {
    insta::assert_snapshot!(transcript("anth-server").await, @r#"
        ~ 0 text: Searching.
        ~ 1
        ~ 2
        ~ 3 text: Rust is nice
        text "Searching."
        opaque "" + {"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"rust"}}
        opaque "" + {"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","url":"https://x","title":"X","encrypted_content":"ENC"}]}
        text "Rust is nice" + {"type":"text","text":null,"citations":[{"type":"web_search_result_location","url":"https://x","title":"X","encrypted_index":"EI","cited_text":"nice"}]}
        stop End, in 2360 (cached 2048, written 300), out 89 (reasoning -), by claude-opus-4-6-20260205
    "#);
    insta::assert_snapshot!(transcript("anth-unknown").await, @r#"
        ~ 0 text: Look.
        text "Look."
        opaque "" + {"type":"hologram","beam":{"z":1,"a":2.5}}
        stop End, in 2360 (cached 2048, written 300), out 89 (reasoning -), by claude-opus-4-6-20260205
    "#);
}

#[tokio::test]
async fn stop_reasons_are_read_from_the_document() {
    insta::assert_snapshot!(transcript("anth-refusal").await, @r#"
        ~ 0 text: Par
        text "Par"
        stop Refusal, in 2360 (cached 2048, written 300), out 89 (reasoning -), by claude-opus-4-6-20260205
    "#);
    insta::assert_snapshot!(transcript("anth-pause").await, @r#"
        ~ 0 text: Par
        text "Par"
        stop Pause, in 2360 (cached 2048, written 300), out 89 (reasoning -), by claude-opus-4-6-20260205
    "#);
    insta::assert_snapshot!(transcript("anth-stopseq").await, @r#"
        ~ 0 text: Par
        text "Par"
        stop StopSequence, in 2360 (cached 2048, written 300), out 89 (reasoning -), by claude-opus-4-6-20260205
    "#);
    insta::assert_snapshot!(transcript("anth-newstop").await, @r#"
        ~ 0 text: Par
        text "Par"
        stop Other("solar_flare"), in 2360 (cached 2048, written 300), out 89 (reasoning -), by claude-opus-4-6-20260205
    "#);
}

#[tokio::test]
async fn an_unfinished_call_is_left_out() {
    insta::assert_snapshot!(transcript("anth-maxtok").await, @r#"
        ~ 0 text: x
        ~ 1 call: get_weather {"city":"Pa
        text "x"
        stop MaxTokens, in 2360 (cached 2048, written 300), out 89 (reasoning -), by claude-opus-4-6-20260205
    "#);
}
