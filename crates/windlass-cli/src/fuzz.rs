//! Entry points for fuzzing: each parses bytes from outside the process. A panic is a finding.
//!
//! The fuzzer in `fuzz/` calls these functions. The tests below call them with randomly changed valid bytes.

use std::path::Path;

use windlass_compat::parse_run;
use windlass_server::http::fuzz::{headers, request};
use windlass_server::policy::PolicyText;
use windlass_server::{config, policy};

/// Parses the bytes as a configuration file, a policy file and a file of policy cases.
pub fn settings(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = config::parse(Path::new("windlass.toml"), &text);
    let _ = PolicyText::parse(Path::new("policy.toml"), &text);
    let _ = policy::CaseFile::parse(&text);
}

/// Parses the bytes as the body of a request.
pub fn body(bytes: &[u8]) {
    request(bytes);
    parse_run(bytes);
}

/// Parses the bytes with our own header parsers.
pub fn header(bytes: &[u8]) {
    headers(&String::from_utf8_lossy(bytes));
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use windlass::testing::fuzz::change;

    use super::*;

    const SETTINGS: &str = "[agent]\nmodel = \"demo\"\n[mcp.git]\ncommand = \"git-mcp\"\nargs = [\"-v\"]\n[server]\n\
        listen = \"127.0.0.1:7000\"\n[api.pay]\nbase_url = \"https://pay.example\"\n[[rule]]\ntool = \"Bash*\"\n\
        verdict = \"ask\"\nwhen = [{ pointer = \"/command\", matches = \"^ls( .*)?$\" }]\n[[case]]\ntool = \"Read\"\n";
    const BODY: &str = "{\"threadId\":\"t\",\"runId\":\"r\",\"messages\":[{\"id\":\"m\",\"role\":\"user\",\"content\":\"hi\"}],\
        \"resume\":[{\"interruptId\":\"i\",\"status\":\"resolved\",\"payload\":{\"approved\":true}}],\"forwardedProps\":{}}";
    const HEADERS: &str = "[2001:db8::1]:443, 10.0.0.1, W/\"abc\", *, +02:00, Europe/Rome";

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_bytes_make_a_parser_panic(
            changes in vec((any::<u16>().prop_map(usize::from), 0..6_usize, vec(any::<u8>(), 0..8)), 1..12),
        ) {
            settings(&change(SETTINGS.as_bytes(), &changes));
            body(&change(BODY.as_bytes(), &changes));
            header(&change(HEADERS.as_bytes(), &changes));
        }
    }
}
