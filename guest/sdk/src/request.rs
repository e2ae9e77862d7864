//! The request that a module handles.

use crate::bindings::exports::relayer::rest::handler;

/// A request. [`crate::Host`] has its headers and its query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The method, such as `GET`. The host passes `HEAD` as `GET` and omits the body of
    /// the response.
    pub method: String,
    /// The path without the query, percent-encoded as the client sent it, relative to the
    /// path at which the module is mounted. It starts with `/`, or is `*` in an `OPTIONS`
    /// request.
    pub path: String,
}

impl Request {
    /// Creates a GET request for a path, for tests. Set a query with
    /// [`crate::testing::FakeHost::with_query`].
    #[must_use]
    pub fn get(path: &str) -> Self {
        Self::new("GET", path)
    }

    /// Creates a request with any method, for tests.
    #[must_use]
    pub fn new(method: &str, path: &str) -> Self {
        Self { method: method.to_owned(), path: path.to_owned() }
    }
}

impl From<handler::Request> for Request {
    fn from(request: handler::Request) -> Self {
        let handler::Request { method, path } = request;
        Self { method, path }
    }
}
