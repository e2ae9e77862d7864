//! Headers that are lists (RFC 9110, 5.6.1).

use http::{HeaderMap, HeaderName};

/// Returns the members of a header that is a list without quoted commas, as far as its values are
/// text.
pub(crate) fn members(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// Returns whether a list has a member, with or without a value, in upper or lower case.
pub(crate) fn has(headers: &HeaderMap, name: HeaderName, member: &str) -> bool {
    let is_member = |text: &str| {
        let name = text.split('=').next().unwrap_or_default();
        name.trim_end().eq_ignore_ascii_case(member)
    };
    members(headers, name).any(is_member)
}
