//! What is asked.

use crate::bindings::exports::relayer::rest::handler;

/// A request for a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The method, such as `GET`. `HEAD` comes as `GET`: the host leaves the body
    /// out of the answer.
    pub method: String,
    /// The path, percent-encoded as the client sent it, relative to where the
    /// module is mounted. Starts with `/`, or is `*`, which `OPTIONS` can ask
    /// for.
    pub path: String,
}

impl Request {
    /// GET of a path: for tests. A query is the host's:
    /// [`crate::testing::FakeHost::with_query`].
    #[must_use]
    pub fn get(path: &str) -> Self {
        Self::new("GET", path)
    }

    /// Another method: for tests.
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
