//! Output of the responses and the Gemini wires: fragments by part (`~`), blocks with the stored items of the provider
//! (`+`), stop and usage.

use super::transcript;

#[tokio::test]
async fn responses_items_are_stored_with_ids_and_ciphertext() {
    insta::assert_snapshot!(transcript("resp-ok").await, @r#"
        ~ 0 reasoning: Sum
        ~ 1 text: Calling.
        ~ 2 call: get_weather {"city":"Paris"}
        ~ 3
        ~ 4 call: get_time {"tz":"CET"}
        reasoning "Sum" + {"id":"rs_1","type":"reasoning","encrypted_content":"gAAAENC1","summary":[{"type":"summary_text","text":null}]}
        text "Calling." + {"id":"msg_1","type":"message","status":"completed","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":null,"annotations":[]}]}
        call "call_A get_weather {\"city\":\"Paris\"}" + {"id":"fc_1","type":"function_call","status":"completed","call_id":"call_A","name":"get_weather","arguments":null}
        reasoning "" + {"id":"rs_2","type":"reasoning","encrypted_content":"gAAAENC2","summary":[]}
        call "call_B get_time {\"tz\":\"CET\"}" + {"id":"fc_2","type":"function_call","status":"completed","call_id":"call_B","name":"get_time","arguments":null}
        stop ToolCalls, in 1000 (cached 896, written -), out 50 (reasoning 30), by gpt-5.6
    "#);
}

#[tokio::test]
async fn responses_that_end_early() {
    insta::assert_snapshot!(transcript("resp-incomplete").await, @r#"
        ~ 0 reasoning: Sum
        ~ 1 text: Calling.
        reasoning "Sum" + {"id":"rs_1","type":"reasoning","encrypted_content":"gAAAENC1","summary":[{"type":"summary_text","text":null}]}
        text "Calling." + {"id":"msg_1","type":"message","status":"completed","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":null,"annotations":[]}]}
        stop MaxTokens, in 1000 (cached 896, written -), out 50 (reasoning 30), by gpt-5.6
    "#);
    insta::assert_snapshot!(transcript("resp-refusal").await, @r#"
        ~ 0 text: I cannot.
        text "I cannot." + {"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"refusal","refusal":"I cannot."}]}
        stop Refusal, in 1000 (cached 896, written -), out 50 (reasoning 30), by gpt-5.6
    "#);
}

#[tokio::test]
async fn gemini_signatures_stay_with_their_call() {
    insta::assert_snapshot!(transcript("gem-ok").await, @r#"
        ~ 0 reasoning: thinking..
        ~ 1 text: Calling
        ~ 2 call: get_weather {"city":"Paris"}
        ~ 3 call: get_time {"tz":"CET"}
        reasoning "thinking.." + {"text":null,"thought":true}
        text "Calling "
        call "g1 get_weather {\"city\":\"Paris\"}" + {"functionCall":{"id":"g1","name":"get_weather","args":null},"thoughtSignature":"R1NJRzE="}
        call "g2 get_time {\"tz\":\"CET\"}" + {"functionCall":{"id":"g2","name":"get_time","args":null}}
        stop ToolCalls, in 1000 (cached 800, written -), out 25 (reasoning 20), by gemini-3.8-pro
    "#);
}

#[tokio::test]
async fn gemini_refuses_in_two_ways() {
    insta::assert_snapshot!(transcript("gem-safety").await, @r#"
        ~ 0 text: Par
        text "Par"
        stop Refusal, in 1000 (cached 800, written -), out 25 (reasoning 20), by gemini-3.8-pro
    "#);
    insta::assert_snapshot!(transcript("gem-blocked").await, @r#"
        stop Refusal, in - (cached -, written -), out - (reasoning -), by -
    "#);
}
