//! Traces over OTLP: exports the spans of the library and the server as protobuf over HTTP.
//!
//! The exporter reads the variables that OpenTelemetry defines. Without an endpoint, no exporter is created.

use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use opentelemetry::trace::TracerProvider;
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Layer};

use crate::console::Console;

/// Names of the variables with the endpoint.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// Time-out for sending the last spans.
const LAST: Duration = Duration::from_secs(3);

/// The filter of exported spans, independent of the log filter. Spans contain locations, times and figures, no texts.
const EXPORTED: &str = "windlass=info";

static PROVIDER: OnceLock<SdkTracerProvider> = OnceLock::new();

/// Creates the layer that exports spans, if an endpoint is set.
pub fn layer<S>(console: &Console) -> Option<Box<dyn Layer<S> + Send + Sync>>
where
    S: tracing::Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
{
    ENDPOINTS.iter().find_map(|name| super::variable(name))?;
    match provider() {
        Ok(provider) => {
            let schema = format!("https://opentelemetry.io/schemas/{}", windlass::genai::CONVENTIONS);
            let scope = InstrumentationScope::builder("windlass")
                .with_version(env!("CARGO_PKG_VERSION"))
                .with_schema_url(schema)
                .build();
            let tracer = provider.tracer_with_scope(scope);
            let _ = PROVIDER.set(provider);
            let layer = tracing_opentelemetry::layer().with_tracer(tracer).with_location(false);
            Some(layer.with_threads(false).with_filter(EnvFilter::new(EXPORTED)).boxed())
        }
        Err(error) => {
            console.warn(&format!("cannot send traces: {error}"), &[]);
            None
        }
    }
}

fn provider() -> Result<SdkTracerProvider, HttpError> {
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
        .with_http_client(Client::new()?)
        .build()?;
    let resource = Resource::builder()
        .with_service_name("windlass")
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .build();
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build())
}

/// Sends the remaining spans.
pub async fn finish() {
    let Some(provider) = PROVIDER.get() else { return };
    let last = tokio::task::spawn_blocking(|| provider.shutdown_with_timeout(LAST));
    if let Ok(Err(error)) = last.await {
        tracing::warn!(%error, "cannot send the last spans");
    }
}

/// The HTTP client on a separate runtime. The exporter's thread calls it before the program's runtime exists, and
/// blocks on each response.
#[derive(Debug)]
struct Client {
    http: reqwest::Client,
    runtime: tokio::runtime::Runtime,
}

impl Client {
    fn new() -> Result<Self, HttpError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { http: reqwest::Client::builder().build()?, runtime })
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, HttpError> {
        let request = reqwest::Request::try_from(request)?;
        self.runtime.block_on(async {
            let answer = self.http.execute(request).await?;
            let status = answer.status();
            let mut response = http::Response::new(answer.bytes().await?);
            *response.status_mut() = status;
            Ok(response)
        })
    }
}
