//! Repairs the most frequent mistakes of models in JSON arguments. (SK-L11)
//!
//! Only text outside of strings is changed. Arguments that remain invalid are reported to the model as an error; this
//! module does not guess values.

use serde_json::Value;

/// Parses a call's arguments. An empty text is an empty object. `Ok((value, true))` means that they were repaired.
pub fn arguments(text: &str) -> Result<(Value, bool), String> {
    if text.trim().is_empty() {
        return Ok((Value::Object(serde_json::Map::new()), false));
    }
    let error = match serde_json::from_str::<Value>(text) {
        Ok(value) => return object(value).map(|value| (value, false)),
        Err(error) => error,
    };
    match serde_json::from_str::<Value>(&repaired(text)) {
        Ok(value) => object(value).map(|value| (value, true)),
        Err(_) => Err(format!("not valid JSON: {error}")),
    }
}

fn object(value: Value) -> Result<Value, String> {
    match value {
        Value::Object(_) => Ok(value),
        // Some models wrap the object in a string.
        Value::String(inner) => match serde_json::from_str(&inner) {
            Ok(Value::Object(map)) => Ok(Value::Object(map)),
            Ok(_) | Err(_) => Err("must be a JSON object, not a string".into()),
        },
        Value::Null => Ok(Value::Object(serde_json::Map::new())),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => Err("must be a JSON object".into()),
    }
}

/// Strips trailing commas, quotes bare keys, and converts single-quoted strings to double-quoted strings.
fn repaired(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' => {
                out.push('"');
                copy_string(&mut rest, '"', &mut out);
            }
            '\'' => {
                out.push('"');
                copy_string(&mut rest, '\'', &mut out);
            }
            ',' => {
                while rest.next_if(|next| next.is_whitespace()).is_some() {}
                if !matches!(rest.peek(), Some('}' | ']') | None) {
                    out.push(',');
                }
            }
            c if c.is_ascii_alphabetic() || c == '_' || c == '$' => {
                let mut word = String::from(c);
                while let Some(next) =
                    rest.next_if(|next| next.is_ascii_alphanumeric() || "_-$".contains(*next))
                {
                    word.push(next);
                }
                push_word(&word, &mut out);
            }
            c => out.push(c),
        }
    }
    out
}

/// Copies the string up to its closing quote, escaped for a double-quoted string.
fn copy_string(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, quote: char, out: &mut String) {
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some('\'') => out.push('\''),
                Some(next) => out.extend(['\\', next]),
                None => out.push('\\'),
            },
            c if c == quote => {
                out.push('"');
                return;
            }
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c => out.push(c),
        }
    }
}

fn push_word(word: &str, out: &mut String) {
    match word {
        "true" | "false" | "null" => out.push_str(word),
        "True" => out.push_str("true"),
        "False" => out.push_str("false"),
        "None" => out.push_str("null"),
        // An exponent belongs to the number before it.
        word if is_exponent(word) && out.ends_with(|c: char| c.is_ascii_digit()) => out.push_str(word),
        word => {
            out.push('"');
            out.push_str(word);
            out.push('"');
        }
    }
}

/// Whether a word is `e`, `e5` or `e-5`; the `+` of `e+5` is not part of a word.
fn is_exponent(word: &str) -> bool {
    word.strip_prefix(['e', 'E']).is_some_and(|digits| {
        let digits = digits.strip_prefix('-').unwrap_or(digits);
        digits.chars().all(|c| c.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // rows: SK-L11
    #[test]
    fn repairs_what_models_get_wrong() {
        let check = |text: &str, wanted: &str| {
            let (value, _) = arguments(text).unwrap();
            assert_eq!(value.to_string(), wanted, "{text}");
        };
        check("", "{}");
        check("null", "{}");
        check(r#"{"a": 1.25}"#, r#"{"a":1.25}"#);
        check(r#"{"a": 1,}"#, r#"{"a":1}"#);
        check(r#"{"a": [1, 2, ], }"#, r#"{"a":[1,2]}"#);
        check("{a: 1, b_c: 'x'}", r#"{"a":1,"b_c":"x"}"#);
        check(r#"{'it\'s': 'a "b"'}"#, r#"{"it's":"a \"b\""}"#);
        check("{\"a\": \"line\nbreak\"}", r#"{"a":"line\nbreak"}"#);
        check("{a: True, b: None, c: 1e5}", r#"{"a":true,"b":null,"c":100000.0}"#);
        check("{a: [1e-2, 1e+2], e5: 1}", r#"{"a":[0.01,100.0],"e5":1}"#);
        check(r#"{"keep": "it's, }"}"#, r#"{"keep":"it's, }"}"#);
        check(r#""{\"a\":1}""#, r#"{"a":1}"#);
    }

    #[test]
    fn leaves_what_it_cannot_read() {
        for text in ["[1]", "7", "{\"a\": ", "{a b}", "\"x\"", "}{"] {
            assert!(arguments(text).is_err(), "{text}");
        }
    }
}
