//! Classifies errors of the model library.
//!
//! Only the library's wires return these errors.

use rig_core::error::ProviderError;
use rig_core::http_client::Error as HttpError;
use windlass_engine::port::model::ModelError;
use windlass_machine::FailureClass;

use crate::failure::{
    answered, by_words, link, redirected, retry_after_ms, retry_info_ms, shortened, truncated,
};
use crate::transport::{LinkError, root_cause};

/// Classifies an error.
pub(crate) fn typed(error: &ProviderError) -> ModelError {
    let plain = |class: FailureClass, message: &str| ModelError::new(class, shortened(message));
    match error {
        ProviderError::Http(error) => http(error),
        ProviderError::ProviderResponse(response)
        | ProviderError::InvalidAuthentication(response)
        | ProviderError::CacheExpired { response, .. } => {
            let status = response.status.map(|status| status.as_u16());
            if let Some(redirected) =
                response.headers.as_ref().and_then(|headers| redirected(status, headers))
            {
                return redirected;
            }
            let mut error = answered(status, response.code.as_deref(), &response.body);
            error.retry_after_ms =
                response.headers.as_ref().and_then(retry_after_ms).or_else(|| retry_info_ms(&response.body));
            error
        }
        ProviderError::Truncated => truncated(),
        ProviderError::Json(error) => {
            plain(FailureClass::Malformed, &format!("the provider sent invalid JSON: {error}"))
        }
        ProviderError::Response(message) => plain(FailureClass::Malformed, message),
        ProviderError::Provider(message) => {
            plain(by_words(message).unwrap_or(FailureClass::Transient), message)
        }
        ProviderError::Request(error) => plain(FailureClass::InvalidRequest, &error.to_string()),
        ProviderError::UnsupportedOption(option) => plain(FailureClass::InvalidRequest, &option.to_string()),
        ProviderError::Url(error) => plain(FailureClass::Config, &format!("the URL is not valid: {error}")),
        // The library's enum is non-exhaustive: a new variant is a failure that this build cannot classify.
        other => plain(
            if other.is_retryable() { FailureClass::Transient } else { FailureClass::InvalidRequest },
            &other.to_string(),
        ),
    }
}

/// Whether the provider refused the prompt itself. A refusal is a reply, not a failure.
pub(crate) fn refused(error: &ProviderError) -> bool {
    matches!(error, ProviderError::ProviderResponse(response) if response.refusal)
}

fn http(error: &HttpError) -> ModelError {
    let HttpError::Instance(inner) = error else {
        return ModelError::new(FailureClass::Malformed, shortened(&error.to_string()));
    };
    match inner.downcast_ref::<LinkError>() {
        Some(error) => link(error),
        None => ModelError::new(FailureClass::Transient, shortened(&root_cause(inner.as_ref()))),
    }
}
