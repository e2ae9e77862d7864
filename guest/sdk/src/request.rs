//! The request that a module handles.

use std::cell::OnceCell;

use crate::bindings::exports::relayer::rest::handler;
use crate::bindings::relayer::rest::{query, request};

/// A request. Its headers and its query are read from the host by the functions that return
/// them: a module that calls none of these neither imports them nor depends on them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The method, such as `GET`. The host passes `HEAD` as `GET` and omits the body of
    /// the response.
    pub method: String,
    /// The path without the query, percent-encoded as the client sent it, relative to the
    /// path at which the module is mounted. It starts with `/`, or is `*` in an `OPTIONS`
    /// request.
    pub path: String,
    /// Set once it is read.
    query: OnceCell<Option<String>>,
    /// The headers in a test; `None` if the host has them.
    headers: Option<Vec<(String, Vec<u8>)>>,
}

impl Request {
    /// Creates a GET request for tests. The target is a path, and can have a query:
    /// `/chains?limit=2`.
    #[must_use]
    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// Creates a request with any method, for tests.
    #[must_use]
    pub fn new(method: &str, target: &str) -> Self {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (target, None),
        };
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: OnceCell::from(query),
            headers: Some(Vec::new()),
        }
    }

    /// Adds a header, for tests.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        let header = (name.to_owned(), value.as_bytes().to_vec());
        self.headers.get_or_insert_default().push(header);
        self
    }

    /// Sets the headers of a recorded request.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn with_headers(self, headers: Vec<(String, Vec<u8>)>) -> Self {
        Self { headers: Some(headers), ..self }
    }

    /// Returns the value of a header as text, or `None` if the request does not have it.
    /// Several values are joined by `, `, which HTTP defines as equivalent. The name is
    /// case-insensitive. The response then depends on this header: the host lists it in
    /// `vary`, unless the response sets `vary`. Imports `request`.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<String> {
        let values = self.header_all(name);
        let text = || String::from_utf8_lossy(&values.join(&b", "[..])).into_owned();
        (!values.is_empty()).then(text)
    }

    /// Returns the values of all headers with a name as bytes, in their order. The response
    /// depends on them as for [`Self::header`]. Imports `request`.
    #[must_use]
    pub fn header_all(&self, name: &str) -> Vec<Vec<u8>> {
        match &self.headers {
            None => request::header(name),
            Some(headers) => {
                let same = headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
                same.map(|(_, value)| value.clone()).collect()
            }
        }
    }

    /// Returns the query, the part of the target after the `?`, as the client sent it, or
    /// `None` if the target has no `?`. The response is then cached for this query only.
    /// Imports `query`.
    #[must_use]
    pub fn query_text(&self) -> Option<&str> {
        self.query.get_or_init(query::get).as_deref()
    }
}

impl From<handler::Request> for Request {
    fn from(request: handler::Request) -> Self {
        let handler::Request { method, path } = request;
        Self { method, path, query: OnceCell::new(), headers: None }
    }
}

#[cfg(test)]
mod tests {
    use super::Request;

    #[test]
    fn a_target_has_a_path_and_a_query() {
        let request = Request::get("/a?b?c");
        assert_eq!((&*request.path, request.query_text()), ("/a", Some("b?c")));
        let request = Request::new("OPTIONS", "*");
        assert_eq!(
            (&*request.method, &*request.path, request.query_text()),
            ("OPTIONS", "*", None)
        );
    }

    #[test]
    fn several_headers_are_one_list() {
        let request = Request::get("/").with_header("Accept", "a").with_header("accept", "b;q=0.5");
        assert_eq!(request.header("ACCEPT").as_deref(), Some("a, b;q=0.5"));
        assert_eq!(request.header_all("accept"), [&b"a"[..], b"b;q=0.5"]);
        assert_eq!(request.header("accept-language"), None);
    }
}
