//! The lines of a transcript that contain a tool's result.

use windlass_machine::*;

use crate::script::{has, key, option};

/// `tool 0 "text" [error] [keeps=name:value] [offloads=summary]`
pub(super) fn returned(words: &[String], run: Option<&Run>) -> Input {
    Input::ToolReturned {
        call: key(&words[1], run),
        content: vec![Block::text(words[2].as_str())],
        error: has(words, "error"),
        unavailable: false,
        duration_ms: 40,
        kept: option(words, "keeps").map(|value| {
            let (name, value) = value.split_once(':').expect("a name and a value");
            Box::new(Kept { name: name.into(), value: value.into() })
        }),
        offloaded: option(words, "offloads").map(|summary| {
            let size_bytes = words[2].len() as u64;
            let digest = Digest::of(words[2].as_bytes());
            let payload = BlobRef { digest, media_type: "text/plain".into(), size_bytes, tokens: 1 };
            Box::new(Offloaded { reference: words[1].clone(), payload, summary: summary.into() })
        }),
    }
}
