//! A request to a module.

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{Extensions, HeaderMap, Method};

/// A request to a module.
#[derive(Debug, Clone)]
pub struct GuestRequest {
    /// The method.
    pub method: Method,
    /// The path as the client sent it, with the query.
    pub target: PathAndQuery,
    /// The headers, which the module can read by name.
    pub headers: HeaderMap,
    /// The body, which only components of `wasi:http` can read.
    pub body: Bytes,
    /// Data of the host that the module does not see, such as a
    /// [`Recorder`](super::run_record::Recorder).
    pub extensions: Extensions,
}

impl GuestRequest {
    /// Creates a request without a body and extensions.
    #[must_use]
    pub fn new(method: Method, target: PathAndQuery, headers: HeaderMap) -> Self {
        Self { method, target, headers, body: Bytes::new(), extensions: Extensions::new() }
    }
}
