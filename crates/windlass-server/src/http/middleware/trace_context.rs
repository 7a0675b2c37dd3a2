//! Trace context: makes a request's span a child of the span that the client's headers name.
//!
//! A build without the feature `otel` ignores the headers.

use http::HeaderMap;
use tracing::Span;

/// Sets the client's span as the parent of a span.
#[cfg(feature = "otel")]
pub fn join(span: &Span, headers: &HeaderMap) {
    use opentelemetry::propagation::TextMapPropagator;
    use opentelemetry::trace::TraceContextExt;
    use opentelemetry_http::HeaderExtractor;
    use opentelemetry_sdk::propagation::TraceContextPropagator;
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    let context = TraceContextPropagator::new().extract(&HeaderExtractor(headers));
    if context.span().span_context().is_valid() {
        // An error means that no OpenTelemetry layer is installed.
        let _ = span.set_parent(context);
    }
}

/// Does nothing: this build has no tracing export.
#[cfg(not(feature = "otel"))]
pub fn join(_span: &Span, _headers: &HeaderMap) {}
