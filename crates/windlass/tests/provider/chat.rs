//! Output of the chat wire: fragments by part (`~`), blocks with the stored items of the provider (`+`), stop and
//! usage.

use super::transcript;

// rows: SK-L10
#[tokio::test]
async fn reasoning_text_and_interleaved_calls() {
    insta::assert_snapshot!(transcript("oai-ok").await, @r#"
        ~ 0 reasoning: Hmm ok.
        ~ 1 text: Calling tools.
        ~ 2 call: get_weather {"city":"Paris"}
        ~ 3 call: get_time {"tz":"CET"}
        reasoning "Hmm ok." + {"reasoning_content":null}
        text "Calling tools."
        call "call_A get_weather {\"city\":\"Paris\"}"
        call "call_B get_time {\"tz\":\"CET\"}"
        stop ToolCalls, in 1000 (cached 896, written -), out 50 (reasoning 30), by gpt-x-2026
    "#);
}

#[tokio::test]
async fn a_missing_done_is_no_cut() {
    insta::assert_snapshot!(transcript("oai-nodone").await, @r#"
        ~ 0 reasoning: Hmm ok.
        ~ 1 text: Calling tools.
        ~ 2 call: get_weather {"city":"Paris"}
        ~ 3 call: get_time {"tz":"CET"}
        reasoning "Hmm ok." + {"reasoning_content":null}
        text "Calling tools."
        call "call_A get_weather {\"city\":\"Paris\"}"
        call "call_B get_time {\"tz\":\"CET\"}"
        stop ToolCalls, in 1000 (cached 896, written -), out 50 (reasoning 30), by gpt-x-2026
    "#);
    insta::assert_snapshot!(transcript("oai-nodone@clean").await, @r#"
        ~ 0 reasoning: Hmm ok.
        ~ 1 text: Calling tools.
        ~ 2 call: get_weather {"city":"Paris"}
        ~ 3 call: get_time {"tz":"CET"}
        reasoning "Hmm ok." + {"reasoning_content":null}
        text "Calling tools."
        call "call_A get_weather {\"city\":\"Paris\"}"
        call "call_B get_time {\"tz\":\"CET\"}"
        stop ToolCalls, in 1000 (cached 896, written -), out 50 (reasoning 30), by gpt-x-2026
    "#);
}

// rows: SK-L10
#[tokio::test]
async fn calls_are_distinguished_by_id_or_position() {
    insta::assert_snapshot!(transcript("oai-noindex").await, @r#"
        ~ 0 text: x
        ~ 1 call: get_weather {"city":"Paris"}
        ~ 2 call: get_time {"tz":"CET"}
        text "x"
        call "call_A get_weather {\"city\":\"Paris\"}"
        call "call_B get_time {\"tz\":\"CET\"}"
        stop ToolCalls, in 1000 (cached 896, written -), out 50 (reasoning 30), by gpt-x-2026
    "#);
    insta::assert_snapshot!(transcript("oai-index0").await, @r#"
        ~ 0 call: get_weather {"city":"Paris"}
        ~ 1 call: get_time {"tz":"CET"}
        call "call_A get_weather {\"city\":\"Paris\"}"
        call "call_B get_time {\"tz\":\"CET\"}"
        stop ToolCalls, in 1000 (cached 896, written -), out 50 (reasoning 30), by gpt-x-2026
    "#);
}

// rows: SK-L10
#[tokio::test]
async fn missing_and_repeated_ids_are_replaced() {
    insta::assert_snapshot!(transcript("oai-noid").await, @r#"
        ~ 0 call: get_weather {"city":"Paris"}
        ~ 1 call: get_time {"tz":"CET"}
        call "call_0 get_weather {\"city\":\"Paris\"}" + {"function":{"name":"get_weather","arguments":null}}
        call "call_1 get_time {\"tz\":\"CET\"}" + {"function":{"name":"get_time","arguments":null}}
        stop ToolCalls, in 1000 (cached 896, written -), out 50 (reasoning 30), by gpt-x-2026
    "#);
    insta::assert_snapshot!(transcript("oai-sameid").await, @r#"
        ~ 0 call: get_weather {"city":"Paris"}
        ~ 1 call: get_time {"tz":"CET"}
        call "call_A get_weather {\"city\":\"Paris\"}"
        call "call_1 get_time {\"tz\":\"CET\"}"
        stop ToolCalls, in 1000 (cached 896, written -), out 50 (reasoning 30), by gpt-x-2026
    "#);
}

// rows: SK-L10
#[tokio::test]
async fn long_ids_are_kept() {
    insta::assert_snapshot!(transcript("oai-longid").await, @r#"
        ~ 0 call: get_weather {"city": "Paris"}
        call "call_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa__thought__bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb get_weather {\"city\": \"Paris\"}" + {"id":"call_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa__thought__bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","type":"function","function":{"name":"get_weather","arguments":null}}
        stop ToolCalls, in 1000 (cached 896, written -), out 50 (reasoning 30), by gpt-x-2026
    "#);
}

#[tokio::test]
async fn arguments_are_kept_as_written() {
    insta::assert_snapshot!(transcript("oai-spaces").await, @r#"
        ~ 0 call: get_weather { "city" : "Paris", "t": 1.50 }
        call "call_A get_weather { \"city\" : \"Paris\", \"t\": 1.50 }"
        stop ToolCalls, in 1000 (cached 896, written -), out 50 (reasoning 30), by gpt-x-2026
    "#);
    insta::assert_snapshot!(transcript("oai-badargs").await, @r#"
        ~ 0 call: get_weather {city: 'Paris',}
        call "call_A get_weather {city: 'Paris',}"
        stop ToolCalls, in 1000 (cached 896, written -), out 50 (reasoning 30), by gpt-x-2026
    "#);
}

#[tokio::test]
async fn an_unfinished_call_is_left_out() {
    insta::assert_snapshot!(transcript("oai-maxtok").await, @r#"
        ~ 0 text: x
        ~ 1 call: get_weather {"city":"Pa
        text "x"
        stop MaxTokens, in 1000 (cached 896, written -), out 50 (reasoning 30), by gpt-x-2026
    "#);
}

// rows: SK-L2
#[tokio::test]
async fn refusals_and_unknown_reasons() {
    insta::assert_snapshot!(transcript("oai-refusal").await, @r#"
        ~ 0 text: I cannot.
        text "I cannot."
        stop Refusal, in 1000 (cached 896, written -), out 50 (reasoning 30), by gpt-x-2026
    "#);
    insta::assert_snapshot!(transcript("oai-filter").await, @r#"
        ~ 0 text: hi
        text "hi"
        stop Refusal, in 1000 (cached 896, written -), out 50 (reasoning 30), by gpt-x-2026
    "#);
    insta::assert_snapshot!(transcript("oai-newstop").await, @r#"
        ~ 0 text: hi
        text "hi"
        stop Other("solar_flare"), in 1000 (cached 896, written -), out 50 (reasoning 30), by gpt-x-2026
    "#);
}

#[tokio::test]
async fn signed_reasoning_details() {
    insta::assert_snapshot!(transcript("oai-rdetails").await, @r#"
        ~ 0 reasoning: R
        ~ 1 text: hi
        ~ 2 call: get_weather {"city":"Paris"}
        reasoning "R" + {"reasoning":null,"reasoning_details":[{"type":"reasoning.text","text":null,"format":"anthropic-claude-v1","index":0,"signature":"SIGOR"}]}
        text "hi"
        call "call_A get_weather {\"city\":\"Paris\"}"
        stop ToolCalls, in 1000 (cached 896, written -), out 50 (reasoning 30), by gpt-x-2026
    "#);
}

#[tokio::test]
async fn done_ends_a_reply_that_gives_no_reason() {
    insta::assert_snapshot!(transcript("oai-noreason").await, @r#"
        ~ 0 text: Done.
        text "Done."
        stop End, in 1000 (cached 896, written -), out 50 (reasoning 30), by gpt-x-2026
    "#);
    insta::assert_snapshot!(transcript("oai-noreason-call").await, @r#"
        ~ 0 call: get_weather {"city":"Paris"}
        call "call_A get_weather {\"city\":\"Paris\"}"
        stop ToolCalls, in 1000 (cached 896, written -), out 50 (reasoning 30), by gpt-x-2026
    "#);
    insta::assert_snapshot!(transcript("oai-noreason-cut").await, @r#"
        ~ 0 call: get_weather {"city":"Pa
        error Truncated: the reply ended with an incomplete tool call
    "#);
}
