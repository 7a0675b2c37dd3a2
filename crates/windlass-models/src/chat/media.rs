//! The media that chat endpoints and their models accept.
//!
//! For a model that is not in the table, its maker's naming scheme decides.

use crate::chat::encode::Media;
use crate::openai;
use crate::table;

/// Returns the media that a model behind an endpoint of this dialect accepts.
pub(super) fn of(dialect: Option<&str>, model: &str) -> Media {
    let reads_images = reads_images(dialect, model);
    Media {
        reads_images,
        images: dialect != Some("deepseek"),
        result_images: reads_images && dialect == Some("llamacpp"),
        documents: !matches!(dialect, Some("deepseek" | "perplexity" | "cohere" | "ollama")),
    }
}

fn reads_images(dialect: Option<&str>, model: &str) -> bool {
    let Some(dialect) = dialect else { return true };
    match model.split_once('/') {
        // On OpenRouter, the name contains the maker.
        Some((maker, name)) if dialect == "openrouter" => {
            table::find(dialect, model).map_or_else(|| by_maker(maker, name), |spec| spec.images)
        }
        _ => by_maker(dialect, model),
    }
}

/// Whether a model reads images, by the table or its maker's naming scheme. DeepSeek accepts text only.
fn by_maker(maker: &str, model: &str) -> bool {
    let vendor = match maker {
        "deepseek" => return false,
        "openai" | "azure.openai" => return openai::reads_images(model),
        "xai" | "x-ai" => return openai::xai_reads_images(model),
        "mistralai" => "mistral",
        "z-ai" => "zai",
        "moonshotai" => "moonshot",
        "xiaomi" => "xiaomimimo",
        maker => maker,
    };
    table::find(vendor, model).map_or_else(|| by_name(vendor, model), |spec| spec.images)
}

fn by_name(vendor: &str, model: &str) -> bool {
    match vendor {
        "groq" => model.contains("llama-4"),
        "mistral" => !(model.starts_with("codestral") || model.starts_with("devstral")),
        "cohere" => model.contains("vision"),
        "zai" => {
            let version = |c: char| c.is_ascii_digit() || c == '.';
            model.strip_prefix("glm-").is_some_and(|rest| rest.trim_start_matches(version).starts_with('v'))
        }
        "moonshot" => {
            let is_old = model.starts_with("moonshot-v1") && !model.contains("vision");
            !(model == "kimi-k2" || model.starts_with("kimi-k2-") || is_old)
        }
        "minimax" => !model.to_ascii_lowercase().starts_with("minimax-m2"),
        "xiaomimimo" => {
            let is_old = model.starts_with("mimo-v2-") && !model.contains("omni");
            !(is_old || model.starts_with("mimo-v2.5-pro"))
        }
        _ => true,
    }
}
