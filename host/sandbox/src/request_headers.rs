//! The request headers that components of `wasi:http` see.
//!
//! The host serves such a component as a cache in front of it does: headers of the connection,
//! conditions, ranges and encodings are the host's job, and a response is shared by requests
//! that differ only in their identity. Components do not see these headers.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde::{Deserialize, Serialize, Serializer};

/// The headers that no component sees.
const HIDDEN: [HeaderName; 23] = [
    // Of the connection.
    header::CONNECTION,
    HeaderName::from_static("http2-settings"),
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    // The authority of the request.
    header::HOST,
    // The host evaluates them.
    header::ACCEPT_ENCODING,
    header::IF_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_NONE_MATCH,
    header::IF_RANGE,
    header::IF_UNMODIFIED_SINCE,
    header::RANGE,
    // They tell requests apart whose responses are the same.
    HeaderName::from_static("last-event-id"),
    HeaderName::from_static("prefer"),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("x-relayer-min-generation"),
    HeaderName::from_static("x-request-id"),
];

/// The hidden headers by which no two requests are equal.
const IDS: [HeaderName; 5] = [
    HeaderName::from_static("last-event-id"),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("x-relayer-min-generation"),
    HeaderName::from_static("x-request-id"),
];

/// The maximum number of headers in the settings: with `host`, as many as the key of a cached
/// response can have.
const MAX_NAMES: usize = 15;

/// The request headers that a mount's components of `wasi:http` see: by default all visible
/// ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct RequestHeaders(Option<Arc<[HeaderName]>>);

/// The reason that headers cannot be listed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestHeadersError {
    /// The text is not a header name.
    #[error("{0:?} is not a header name; expected one such as \"accept-language\"")]
    NotAName(String),
    /// No component sees the header.
    #[error("header {0} is evaluated by the host, and not visible to components; remove it")]
    Hidden(HeaderName),
    /// There are too many headers.
    #[error("{0} headers are too many; list at most {MAX_NAMES}, or omit the key for all")]
    TooMany(usize),
}

impl RequestHeaders {
    /// Shows these headers and no others.
    pub fn new<T: AsRef<str>>(names: &[T]) -> Result<Self, RequestHeadersError> {
        if names.len() > MAX_NAMES {
            return Err(RequestHeadersError::TooMany(names.len()));
        }
        let name = |name: &T| {
            let name = name.as_ref();
            let name: HeaderName =
                name.parse().map_err(|_| RequestHeadersError::NotAName(name.to_owned()))?;
            if is_visible(&name) { Ok(name) } else { Err(RequestHeadersError::Hidden(name)) }
        };
        Ok(Self(Some(names.iter().map(name).collect::<Result<_, _>>()?)))
    }

    /// Returns the names of the visible headers; `None` if they are not limited.
    pub(super) fn names(&self) -> Option<&[HeaderName]> {
        self.0.as_deref()
    }

    /// Returns whether a header is visible.
    pub(super) fn contains(&self, name: &HeaderName) -> bool {
        match &self.0 {
            Some(names) => names.contains(name),
            None => is_visible(name),
        }
    }
}

/// Returns whether a header is an id of its request, which otherwise equal requests do not have in
/// common.
#[must_use]
pub fn is_id(name: &HeaderName) -> bool {
    IDS.contains(name)
}

/// Returns whether components can see a header at all.
pub(super) fn is_visible(name: &HeaderName) -> bool {
    !HIDDEN.contains(name)
}

/// Returns all headers that a component without a list in its settings sees, in the order of
/// their names: so the order in which a client sends them makes no difference.
#[must_use]
pub fn visible_headers(headers: &HeaderMap) -> Vec<(&HeaderName, &HeaderValue)> {
    let mut visible: Vec<_> = headers.iter().filter(|(name, _)| is_visible(name)).collect();
    // Stable: the values of a name stay in their order.
    visible.sort_by_key(|(name, _)| name.as_str());
    visible
}

impl Serialize for RequestHeaders {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let names = self.0.as_ref();
        names
            .map(|names| names.iter().map(HeaderName::as_str).collect::<Vec<_>>())
            .serialize(serializer)
    }
}

impl TryFrom<Vec<String>> for RequestHeaders {
    type Error = RequestHeadersError;

    fn try_from(names: Vec<String>) -> Result<Self, RequestHeadersError> {
        Self::new(&names)
    }
}

#[cfg(test)]
mod tests {
    use super::{HeaderName, MAX_NAMES, RequestHeaders, visible_headers};
    use http::HeaderMap;

    #[test]
    fn only_visible_headers_can_be_listed() {
        let headers = RequestHeaders::new(&["Accept-Language"]).unwrap();
        assert!(headers.contains(&HeaderName::from_static("accept-language")));
        assert!(!headers.contains(&HeaderName::from_static("accept")));
        let all = RequestHeaders::default();
        assert!(all.contains(&HeaderName::from_static("accept")));
        assert!(!all.contains(&HeaderName::from_static("range")));
        let many = vec!["a"; MAX_NAMES + 1];
        for (names, message) in [
            (&["a b"][..], "\"a b\" is not a header name"),
            (&["Host"], "header host is evaluated by the host, and not visible to components"),
            (&many, "16 headers are too many; list at most 15"),
        ] {
            let error = RequestHeaders::new(names).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }

    #[test]
    fn visible_headers_have_one_order() {
        let headers = |list: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in list {
                headers.append(HeaderName::from_static(name), value.parse().unwrap());
            }
            headers
        };
        let one = headers(&[("b", "2"), ("host", "x"), ("a", "3"), ("b", "1")]);
        let other = headers(&[
            ("a", "3"),
            ("b", "2"),
            ("b", "1"),
            ("range", "bytes=0-1"),
            ("prefer", "wait=1"),
        ]);
        let visible = visible_headers(&one);
        let texts: Vec<_> =
            visible.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(texts, [("a", "3"), ("b", "2"), ("b", "1")]);
        assert_eq!(visible, visible_headers(&other));
    }
}
