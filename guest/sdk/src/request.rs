//! What is asked.

use std::borrow::Cow;

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
    /// What follows the `?`, as the client sent it, where there is one.
    pub query: Option<String>,
}

impl Request {
    /// GET of a target, which may have a `?`: for tests.
    #[must_use]
    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// Another method: for tests.
    #[must_use]
    pub fn new(method: &str, target: &str) -> Self {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (target, None),
        };
        Self { method: method.to_owned(), path: path.to_owned(), query }
    }

    /// The parameters of the query, decoded, in their order: of `?a=1&b` those
    /// are `a` with `1` and `b` with nothing.
    pub fn parameters(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        form_urlencoded::parse(self.query.as_deref().unwrap_or_default().as_bytes())
    }

    /// The first parameter of a name.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<Cow<'_, str>> {
        self.parameters().find_map(|(known, value)| (known == name).then_some(value))
    }
}

impl From<handler::Request> for Request {
    fn from(request: handler::Request) -> Self {
        let handler::Request { method, path, query } = request;
        Self { method, path, query }
    }
}

#[cfg(test)]
mod tests {
    use super::Request;

    #[test]
    fn a_query_has_parameters() {
        let request = Request::get("/a?b=1&c=%C3%BC+d&b=2&e");
        assert_eq!(request.path, "/a");
        assert_eq!(request.parameter("b").as_deref(), Some("1"));
        assert_eq!(request.parameter("c").as_deref(), Some("ü d"));
        assert_eq!(request.parameter("e").as_deref(), Some(""));
        assert_eq!(request.parameter("f"), None);
        assert_eq!(request.parameters().count(), 4);
        assert_eq!(Request::get("/a").parameters().count(), 0);
    }
}
