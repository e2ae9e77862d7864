//! A client that waits, with its request.

use std::sync::Arc;

use hyper::header::{HeaderMap, HeaderValue};
use hyper::http::uri::PathAndQuery;
use relayer_rest_sandbox::GuestRequest;

use crate::http::connections::Peer;

/// A client, with its request.
pub(in crate::http) struct Client {
    /// The request, whose target is that of the client.
    pub(super) request: Arc<GuestRequest>,
    pub(super) peer: Peer,
}

impl Client {
    /// Creates a client with a copy of its request: the request's values share the buffer that
    /// was read from the connection, and would keep all of it.
    pub(in crate::http) fn new(request: &GuestRequest, peer: Peer) -> Self {
        let mut headers = HeaderMap::with_capacity(request.headers.len());
        for (name, value) in &request.headers {
            headers.append(name, copied(value));
        }
        let target = PathAndQuery::try_from(request.target.as_str().to_owned());
        let target = target.unwrap_or(PathAndQuery::from_static("/"));
        let method = request.method.clone();
        let extensions = request.extensions.clone();
        let copy = GuestRequest { extensions, ..GuestRequest::new(method, target, headers) };
        Self { request: Arc::new(copy), peer }
    }
}

/// Copies a value into memory of its own.
pub(super) fn copied(value: &HeaderValue) -> HeaderValue {
    HeaderValue::from_bytes(value.as_bytes()).expect("a value has the bytes of one")
}
