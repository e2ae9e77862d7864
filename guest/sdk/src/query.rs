//! The query of a request, and its parameters.

use std::borrow::Cow;

use crate::host::Host;

/// A query, as the client sent it.
///
/// ```
/// use relayer_rest_sdk::testing::FakeHost;
/// use relayer_rest_sdk::{Host, Query, Response};
///
/// fn greet<H: Host>(host: &H) -> Response {
///     let query = Query::read(host);
///     let name = query.parameter("name").unwrap_or("you".into());
///     Response::text(format!("hello {name}\n"))
/// }
///
/// assert_eq!(greet(&FakeHost::new()).text_body(), "hello you\n");
/// let host = FakeHost::new().with_query("name=Ada+L.");
/// assert_eq!(greet(&host).text_body(), "hello Ada L.\n");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query(Option<String>);

impl Query {
    /// Reads the query of the request that is being handled.
    pub fn read<H: Host>(host: &H) -> Self {
        Self(host.query())
    }

    /// Returns the query as the client sent it, or `None` if the target has no `?`.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// Returns the parameters, decoded, in their order: `?a=1&b` has `a` with `1`
    /// and `b` with an empty value.
    pub fn parameters(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        form_urlencoded::parse(self.text().unwrap_or_default().as_bytes())
    }

    /// Returns the decoded value of the first parameter with this name.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<Cow<'_, str>> {
        self.parameters().find_map(|(known, value)| (known == name).then_some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::Query;
    use crate::testing::FakeHost;

    #[test]
    fn a_query_has_parameters() {
        let query = Query::read(&FakeHost::new().with_query("b=1&c=%C3%BC+d&b=2&e"));
        assert_eq!(query.text(), Some("b=1&c=%C3%BC+d&b=2&e"));
        assert_eq!(query.parameter("b").as_deref(), Some("1"));
        assert_eq!(query.parameter("c").as_deref(), Some("ü d"));
        assert_eq!(query.parameter("e").as_deref(), Some(""));
        assert_eq!(query.parameter("f"), None);
        assert_eq!(query.parameters().count(), 4);
    }

    #[test]
    fn an_empty_query_differs_from_no_query() {
        let none = FakeHost::new();
        let empty = FakeHost::new().with_query("");
        let none = Query::read(&none);
        let empty = Query::read(&empty);
        assert_eq!((none.text(), empty.text()), (None, Some("")));
        assert_eq!(none.parameters().count() + empty.parameters().count(), 0);
    }
}
