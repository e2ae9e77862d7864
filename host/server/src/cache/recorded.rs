//! A response and the request that it was derived from.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use relayer_rest_sandbox::{GuestRequest, GuestResponse, Module, Route};
use relayer_rest_state::Generation;

use super::key::RequestRef;
use crate::response::{CompressionPermits, Response, headers_size};

/// A response, its recorded request, and its hits.
#[derive(Debug)]
pub struct RecordedResponse {
    request: Arc<GuestRequest>,
    route: Option<Arc<Route>>,
    hits: AtomicU64,
    response: Response,
}

impl RecordedResponse {
    /// Creates the response of a module to a request, on a snapshot of this generation.
    #[must_use]
    pub fn new(
        module: &Module,
        request_ref: RequestRef<'_>,
        response: GuestResponse,
        generation: Generation,
        permits: &CompressionPermits,
    ) -> Self {
        let request = Arc::new(request_ref.recorded(&response.reads));
        let route = module.openapi().and_then(|openapi| openapi.route(request_ref.path)).cloned();
        let response = Response::new(module, request_ref.method, response, generation, permits);
        Self { request, route, hits: AtomicU64::new(1), response }
    }

    /// Returns the request with only the headers that were read, and with the query only
    /// if it was read.
    #[must_use]
    pub fn request(&self) -> &Arc<GuestRequest> {
        &self.request
    }

    /// Returns the route of the request, if the module declares it.
    pub(crate) fn route(&self) -> Option<&Route> {
        self.route.as_deref()
    }

    /// Returns about how often the response was requested. Concurrent requests may not
    /// all be counted.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.hits.load(Relaxed)
    }

    /// Sets the hits of a response that was made in advance: how often its request was
    /// made before.
    pub(crate) fn set_hits(&self, times: u64) {
        self.hits.store(times, Relaxed);
    }

    /// Adds hits.
    pub(crate) fn count(&self, times: u64) {
        // Not an atomic exchange, because this is done for every hit.
        self.hits.store(self.hits.load(Relaxed).saturating_add(times), Relaxed);
    }

    /// Returns the maximum size in bytes, with the request and all encodings.
    #[must_use]
    pub(super) fn size(&self) -> usize {
        let own = size_of::<Self>() - size_of::<Response>();
        own + request_size(&self.request) + self.response.size()
    }
}

/// Returns the size of a request in memory, in bytes.
pub(crate) fn request_size(request: &GuestRequest) -> usize {
    let GuestRequest { target, headers, body, .. } = request;
    size_of::<GuestRequest>() + target.as_str().len() + headers_size(headers) + body.len()
}

impl Deref for RecordedResponse {
    type Target = Response;

    fn deref(&self) -> &Response {
        &self.response
    }
}
