//! A request to a module.

use http::uri::PathAndQuery;
use http::{HeaderMap, Method};

/// A request to a module.
#[derive(Debug, Clone)]
pub struct GuestRequest {
    /// The method.
    pub method: Method,
    /// The path as the client sent it, with the query.
    pub target: PathAndQuery,
    /// The headers, which the module can read by name.
    pub headers: HeaderMap,
}
