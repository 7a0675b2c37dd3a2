//! The router of the native API: routes together with their OpenAPI descriptions.
//!
//! A handler gets its path and methods from its `#[utoipa::path]`, so no route exists without a description. Only tests
//! assemble the descriptions. The server sends a checked-in document, and a test compares the document with the
//! descriptions.

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::response::IntoResponse;
use axum::routing::{MethodFilter, MethodRouter, Route};
use tower::{Layer, Service};
use utoipa::openapi::HttpMethod;
#[cfg(test)]
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use super::Shared;

/// The handlers of one path.
#[derive(Default)]
pub struct Endpoint {
    path: String,
    methods: MethodRouter<Shared>,
    #[cfg(test)]
    described: Option<UtoipaMethodRouter<Shared>>,
}

impl Endpoint {
    /// Adds a handler. All handlers of an endpoint have the same path.
    pub fn on<T: 'static>(
        mut self,
        path: String,
        methods: &[HttpMethod],
        handler: impl Handler<T, Shared>,
    ) -> Self {
        // Invariant: paths are constants, and every test that starts a server builds all endpoints.
        assert!(self.path.is_empty() || self.path == path, "`{path}` is not `{}`", self.path);
        let filter = |method: &HttpMethod| match method {
            HttpMethod::Get => MethodFilter::GET,
            HttpMethod::Put => MethodFilter::PUT,
            HttpMethod::Post => MethodFilter::POST,
            HttpMethod::Head => MethodFilter::HEAD,
            HttpMethod::Patch => MethodFilter::PATCH,
            HttpMethod::Trace => MethodFilter::TRACE,
            HttpMethod::Delete => MethodFilter::DELETE,
            HttpMethod::Options => MethodFilter::OPTIONS,
        };
        for filter in methods.iter().map(filter) {
            self.methods = self.methods.on(filter, handler.clone());
        }
        self.path = path;
        self
    }

    /// Adds the OpenAPI descriptions of all handlers of this endpoint.
    #[cfg(test)]
    pub fn described(self, described: UtoipaMethodRouter<Shared>) -> Self {
        Self { described: Some(described), ..self }
    }
}

/// Builds an [`Endpoint`] from handlers with the same path. Call it in the module that defines the handlers.
macro_rules! routes {
    ($($handler:ident),+ $(,)?) => {{
        let endpoint = $crate::http::api::Endpoint::default();
        $(let endpoint = pastey::paste! {
            endpoint.on(
                <[<__path_ $handler>] as utoipa::Path>::path(),
                &<[<__path_ $handler>] as utoipa::Path>::methods(),
                $handler,
            )
        };)+
        #[cfg(test)]
        let endpoint = endpoint.described(utoipa_axum::routes!($($handler),+));
        endpoint
    }};
}
pub(crate) use routes;

/// A router of the native API. In tests, the router also collects the OpenAPI descriptions of its routes.
#[derive(Default)]
pub struct ApiRouter {
    router: Router<Shared>,
    #[cfg(test)]
    described: OpenApiRouter<Shared>,
}

impl ApiRouter {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn routes(self, endpoint: Endpoint) -> Self {
        Self {
            router: self.router.route(&endpoint.path, endpoint.methods),
            #[cfg(test)]
            described: endpoint.described.into_iter().fold(self.described, OpenApiRouter::routes),
        }
    }

    pub fn merge(self, other: Self) -> Self {
        Self {
            router: self.router.merge(other.router),
            #[cfg(test)]
            described: self.described.merge(other.described),
        }
    }

    /// Applies a layer to the routes that the router contains so far.
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<Route> + Clone + Send + Sync + 'static,
        L::Service: Service<Request> + Clone + Send + Sync + 'static,
        <L::Service as Service<Request>>::Response: IntoResponse + 'static,
        <L::Service as Service<Request>>::Error: Into<std::convert::Infallible> + 'static,
        <L::Service as Service<Request>>::Future: Send + 'static,
    {
        self.router = self.router.layer(layer);
        self
    }

    /// Nests the routes under a path prefix.
    pub fn nest_under(self, prefix: &str) -> Router<Shared> {
        Router::new().nest(prefix, self.router)
    }

    /// Adds the descriptions of the routes to a document, under a path prefix.
    #[cfg(test)]
    pub fn describe_under(
        self,
        prefix: &str,
        document: utoipa::openapi::OpenApi,
    ) -> utoipa::openapi::OpenApi {
        OpenApiRouter::with_openapi(document).nest(prefix, self.described).into_openapi()
    }
}
