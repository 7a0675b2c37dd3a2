//! The clouds that need their own sign-in: names, addresses, and whether this build supports them.
//!
//! `bedrock.rs` and `vertex.rs` connect to the clouds, each behind a cargo feature.

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

    /// Creates the error of a build without the cloud's feature.
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

    /// Returns the wire of a model. Vertex serves each maker's own wire. The name determines the wire: Claude
    /// by its family, Google's models by a plain name, the others by `publisher/model`.
    pub(super) fn wire(self, model: &str) -> WireKind {
        match self {
            Self::Bedrock => WireKind::Converse,
            Self::Vertex if model.starts_with("claude") => WireKind::Anthropic,
            Self::Vertex if model.contains('/') => WireKind::OpenaiChat,
            Self::Vertex => WireKind::Gemini,
        }
    }

    /// Returns the model's name in the catalogue of the wire's provider. Vertex separates a
    /// version with `@`, the model's maker with `-`.
    pub(super) fn wire_name(self, model: &str) -> Cow<'_, str> {
        match self {
            Self::Vertex if model.contains('@') => {
                model.trim_end_matches("@default").replace('@', "-").into()
            }
            Self::Bedrock | Self::Vertex => model.into(),
        }
    }

    /// Returns the URL to which a wire appends its path. Only the chat wire on Vertex needs a separate URL.
    pub(super) fn wire_address(self, kind: WireKind, base_url: &str) -> String {
        match (self, kind) {
            (Self::Vertex, WireKind::OpenaiChat) => format!("{base_url}/endpoints/openapi"),
            (Self::Bedrock | Self::Vertex, _) => base_url.to_owned(),
        }
    }

    /// Whether an environment variable indicates a sign-in. The SDKs also search
    /// other sources, some of them on the network.
    pub(super) fn signed_in(self, lookup: &dyn Fn(&str) -> Option<String>) -> bool {
        let variables: &[&str] = match self {
            Self::Bedrock => &[
                "AWS_BEARER_TOKEN_BEDROCK",
                "AWS_ACCESS_KEY_ID",
                "AWS_PROFILE",
                "AWS_WEB_IDENTITY_TOKEN_FILE",
                "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            ],
            // The URL contains the project.
            Self::Vertex => &["GOOGLE_CLOUD_PROJECT"],
        };
        variables.iter().any(|name| lookup(name).is_some())
    }
}

/// Returns the URL of a Google project's models at `host`. Default: the host of the location.
pub(super) fn vertex_address(host: Option<String>, project: &str, location: &str) -> String {
    let host = host.unwrap_or_else(|| match location {
        "global" => "https://aiplatform.googleapis.com".to_owned(),
        region => format!("https://{region}-aiplatform.googleapis.com"),
    });
    format!("{}/v1/projects/{project}/locations/{location}", host.trim_end_matches('/'))
}
