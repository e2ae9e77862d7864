//! The values of a header of a request.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

/// The lines of a header that a request should have once at most.
#[derive(Debug, Clone, Copy)]
pub(super) enum FieldLines<'a> {
    None,
    One(&'a HeaderValue),
    Several,
}

impl<'a> FieldLines<'a> {
    /// Returns the lines of a header.
    #[cfg(any(feature = "control", test))]
    pub(super) fn of(headers: &'a HeaderMap, name: &HeaderName) -> Self {
        field_values(headers, name).fold(Self::None, Self::and)
    }

    /// Returns these lines with another one.
    pub(super) fn and(self, line: &'a HeaderValue) -> Self {
        if let Self::None = self { Self::One(line) } else { Self::Several }
    }
}

/// Returns the values of a header. Requests have few headers: to compare all of their names takes
/// less time than to hash one.
pub(super) fn field_values<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = &'a HeaderValue> {
    headers.iter().filter(move |(other, _)| *other == name).map(|(_, value)| value)
}
