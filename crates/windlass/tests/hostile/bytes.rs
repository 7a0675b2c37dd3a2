//! Valid bytes with random changes, in every parser of bytes from outside: no panic, and the assertions of
//! `testing::fuzz` hold.
//!
//! The fuzzer in `fuzz/` runs longer and is guided by coverage; this finds what is close to valid input.

use proptest::collection::vec;
use proptest::prelude::*;
use windlass::testing::fuzz::{self, Change};
use windlass::testing::mcp::mcp_output;

use crate::tools::document::word;

const PAGE: &str = "<!doctype html><html><head><title>T &amp; t</title><script>if (a < b) '</p>'</script></head>\
    <body><table><tr><td a=1 b='2' c=\"3\">x<p>y<ul><li>z</table><svg><foreignObject><div hidden>&eacute;&#0;</svg>\
    <a href='../x?y#z'>l</a><!-- c --><textarea><p></textarea><div class='result'><a class='result__a' href='//a/'>";
const TYPED: &str = "text/html; charset=\"iso-8859-1\"\n<meta charset=utf-16>caf\u{e9}";
const API: &str = "openapi: 3.1.0\npaths:\n  /a/{id}:\n    get:\n      parameters: [{name: id, in: path, required: true, \
    schema: {$ref: '#/components/schemas/Id'}}]\n      responses: {'200': {description: ok}}\ncomponents:\n  schemas:\n    \
    Id: &id {type: string, pattern: '^a+$'}\n    Other: *id\n";
const MCP: &str = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":[]}}\n\nnot json\n\
    {\"jsonrpc\":\"2.0\",\"id\":\"a\\u0041\",\"error\":{\"code\":-32000,\"message\":\"x\"}}\n{\"id\":2,\"result\":[[[[";

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let inserted = prop_oneof![
        vec(any::<u8>(), 0..8),
        // Structure of each format, which random bytes rarely have.
        prop::sample::select(vec![
            "<",
            "</",
            "{",
            "[",
            "\"",
            "&#x",
            "\n",
            "\\u",
            "<![CDATA[",
            "%",
            "PK\u{3}\u{4}",
            "*id"
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
    ];
    vec((any::<u16>().prop_map(usize::from), 0..6_usize, inserted), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_a_parser_panic(changes in changes(), which in 0..5_usize) {
        match which {
            0 => fuzz::documents(&fuzz::change(PAGE.as_bytes(), &changes)),
            1 => fuzz::documents(&fuzz::change(&word("<w:p><w:r><w:t>a &amp; b</w:t></w:r></w:p>"), &changes)),
            2 => fuzz::body(&fuzz::change(TYPED.as_bytes(), &changes)),
            3 => fuzz::api_description(&fuzz::change(API.as_bytes(), &changes)),
            _ => mcp_output(&fuzz::change(MCP.as_bytes(), &changes)),
        }
    }
}
