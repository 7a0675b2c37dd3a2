//! Adapts call ids to a chat endpoint's rules.
//!
//! Ids that the same provider created are sent unchanged. Other ids are adapted.

use std::borrow::Cow;

use crate::chat::dialect::Dialect;

/// Maximum length of a call id that OpenAI accepts, in characters.
const ID_MAX_CHARS: usize = 40;

/// Returns the call id to send. `own`: the endpoint created the id, or may have.
pub(crate) fn fitted<'a>(id: &'a str, own: bool, dialect: &Dialect) -> Cow<'a, str> {
    if dialect.nine_letter_ids {
        let fits = id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        return if fits { Cow::Borrowed(id) } else { Cow::Owned(hash(id, 9)) };
    }
    if own {
        return Cow::Borrowed(id);
    }
    // The responses wire creates ids that consist of two halves.
    let halves = id.split_once('|').map(|(call, item)| [call, item]);
    let joined = match halves {
        None => Cow::Borrowed(id),
        Some(halves) => {
            let legal = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
            let parts = halves.iter().filter(|half| !half.is_empty());
            let parts: Vec<String> = parts.map(|half| half.chars().map(legal).collect()).collect();
            Cow::Owned(parts.join("_"))
        }
    };
    if joined.chars().count() <= ID_MAX_CHARS || halves.is_none() && !dialect.short_ids {
        return joined;
    }
    let kept: String = joined.chars().take(ID_MAX_CHARS - 9).collect();
    Cow::Owned(format!("{kept}_{}", hash(id, 8)))
}

fn hash(id: &str, length: usize) -> String {
    blake3::hash(id.as_bytes()).to_hex()[..length].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_fit_the_endpoint() {
        let long = "x".repeat(50);
        let check = |provider: &str, own: bool, id: &str, expected: &str| {
            assert_eq!(fitted(id, own, &Dialect::of(provider, true)), expected, "{provider} {id}");
        };
        check("", false, "call_1", "call_1");
        check("", true, "a|b", "a|b");
        check("", false, "call/1|fc:2", "call_1_fc_2");
        check("", false, &long, &long);
        check("openai-chat", false, &long, &format!("{}_{}", "x".repeat(31), hash(&long, 8)));
        check("openai-chat", true, &long, &long);
        check("mistral", true, "abcDEF123", "abcDEF123");
        check("mistral", true, "call_1", &hash("call_1", 9));
    }
}
