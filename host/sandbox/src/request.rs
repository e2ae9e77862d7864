//! A request to a module.

use std::any::Any;
use std::sync::Arc;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method};

use super::debug_output::DebugOutput;

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
    /// The [`Recorder`](super::run_record::Recorder) of its runs, if there is one. Its type is hidden,
    /// because it refers to modules, which refer to requests.
    pub recorder: Option<Arc<dyn Any + Send + Sync>>,
    /// The outputs for debuggers of a run that is repeated.
    pub debug_output: Option<DebugOutput>,
}

impl GuestRequest {
    /// Creates a request without a body, a recorder and outputs for debuggers.
    #[must_use]
    pub fn new(method: Method, target: PathAndQuery, headers: HeaderMap) -> Self {
        let body = Bytes::new();
        Self { method, target, headers, body, recorder: None, debug_output: None }
    }
}
