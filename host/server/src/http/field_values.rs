//! The values of a header of a request.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

/// Returns the values of a header. Requests have few headers: to compare all of their names takes
/// less time than to hash one.
pub(super) fn field_values<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = &'a HeaderValue> {
    headers.iter().filter(move |(other, _)| *other == name).map(|(_, value)| value)
}
