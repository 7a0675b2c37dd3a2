//! Captures requests that the model library encodes, without sending them.
//!
//! The library encodes a request only when it sends the request, so this transport keeps the request instead.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use http::{Request, Response};
use rig_core::http_client::{
    Error, HttpClientExt, LazyBody, MultipartForm, Result as HttpResult, StreamingResponse,
};
use rig_core::streaming::CompletionStream;
use windlass_engine::port::model::ModelError;
use windlass_machine::FailureClass;

use crate::library::failure;

/// Returns the request that `open` would send.
pub(crate) fn capture(
    open: impl FnOnce(Captured) -> Result<CompletionStream, ModelError>,
) -> Result<Request<Bytes>, ModelError> {
    let captured = Captured::default();
    let mut stream = open(captured.clone())?;
    // The transport responds at once, so one poll suffices.
    let first = stream.next().now_or_never().flatten();
    let request = captured.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    request.ok_or_else(|| match first {
        Some(Err(error)) => failure::typed(&error),
        Some(Ok(_)) | None => ModelError::new(FailureClass::InvalidRequest, "the request was not encoded"),
    })
}

/// A transport that keeps the request.
#[derive(Clone, Default)]
pub(crate) struct Captured(Arc<Mutex<Option<Request<Bytes>>>>);

impl HttpClientExt for Captured {
    fn send<T, U>(
        &self,
        _: Request<T>,
    ) -> impl Future<Output = HttpResult<Response<LazyBody<U>>>> + Send + 'static
    where
        T: Into<Bytes> + Send,
        U: From<Bytes> + Send + 'static,
    {
        std::future::ready(Err(Error::StreamEnded))
    }

    fn send_multipart<U>(
        &self,
        _: Request<MultipartForm>,
    ) -> impl Future<Output = HttpResult<Response<LazyBody<U>>>> + Send + 'static
    where
        U: From<Bytes> + Send + 'static,
    {
        std::future::ready(Err(Error::StreamEnded))
    }

    fn send_streaming<T>(
        &self,
        request: Request<T>,
    ) -> impl Future<Output = HttpResult<StreamingResponse>> + Send
    where
        T: Into<Bytes> + Send,
    {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(request.map(Into::into));
        std::future::ready(Err(Error::StreamEnded))
    }
}
