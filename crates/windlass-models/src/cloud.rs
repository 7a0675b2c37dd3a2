//! The clouds that need their own sign-in: names, addresses, and whether this build supports them.
//!
//! `bedrock.rs` and `vertex.rs` connect to them, each behind a cargo feature.

#[cfg(feature = "bedrock")]
pub(super) mod bedrock;
#[cfg(feature = "vertex")]
pub(super) mod vertex;

use std::borrow::Cow;

use windlass_engine::port::model::ModelError;
use windlass_machine::FailureClass;

use super::config::WireKind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cloud {
    Bedrock,
    Vertex,
}

impl Cloud {
    /// Returns an error if this build lacks the cloud's feature.
    pub(super) fn built_in(self) -> Result<(), ModelError> {
        let there = match self {
            Self::Bedrock => cfg!(feature = "bedrock"),
            Self::Vertex => cfg!(feature = "vertex"),
        };
        if there { Ok(()) } else { Err(self.left_out()) }
    }

    /// The error of a build without the cloud's feature.
    pub(super) fn left_out(self) -> ModelError {
        let feature = match self {
            Self::Bedrock => "bedrock",
            Self::Vertex => "vertex",
        };
        let message = format!(
            "this build does not support provider `{feature}`\nbuild Windlass with its cargo feature: \
             `--features {feature}`"
        );
        ModelError::new(FailureClass::Config, message)
    }

    /// The wire of a model. Vertex serves each maker's own wire. It is determined by the name: Claude by its family,
    /// Google's by a plain name, the others by `publisher/model`.
    pub(super) fn wire(self, model: &str) -> WireKind {
        match self {
            Self::Bedrock => WireKind::Converse,
            Self::Vertex if model.starts_with("claude") => WireKind::Anthropic,
            Self::Vertex if model.contains('/') => WireKind::OpenaiChat,
            Self::Vertex => WireKind::Gemini,
        }
    }

    /// The model's name in the wire's catalogue. Vertex separates a version with `@`, its maker with `-`.
    pub(super) fn wire_name(self, model: &str) -> Cow<'_, str> {
        match self {
            Self::Vertex if model.contains('@') => {
                model.trim_end_matches("@default").replace('@', "-").into()
            }
            Self::Bedrock | Self::Vertex => model.into(),
        }
    }

    /// The URL that a wire appends its path to; only the chat wire on Vertex needs another one.
    pub(super) fn wire_address(self, kind: WireKind, base_url: &str) -> String {
        match (self, kind) {
            (Self::Vertex, WireKind::OpenaiChat) => format!("{base_url}/endpoints/openapi"),
            (Self::Bedrock | Self::Vertex, _) => base_url.to_owned(),
        }
    }

    /// Whether a variable indicates a sign-in. The SDKs look in more places, some of them on the network.
    pub(super) fn signed_in(self, lookup: &dyn Fn(&str) -> Option<String>) -> bool {
        let variables: &[&str] = match self {
            Self::Bedrock => &[
                "AWS_BEARER_TOKEN_BEDROCK",
                "AWS_ACCESS_KEY_ID",
                "AWS_PROFILE",
                "AWS_WEB_IDENTITY_TOKEN_FILE",
                "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            ],
            // Without it, there is no URL.
            Self::Vertex => &["GOOGLE_CLOUD_PROJECT"],
        };
        variables.iter().any(|name| lookup(name).is_some())
    }
}

/// The URL of a Google project's models at `host`; `None`: the host of its location.
pub(super) fn vertex_address(host: Option<String>, project: &str, location: &str) -> String {
    let host = host.unwrap_or_else(|| match location {
        "global" => "https://aiplatform.googleapis.com".to_owned(),
        region => format!("https://{region}-aiplatform.googleapis.com"),
    });
    format!("{}/v1/projects/{project}/locations/{location}", host.trim_end_matches('/'))
}
