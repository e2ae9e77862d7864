//! The path below which a reverse proxy serves everything.

use hyper::Request;
use hyper::http::uri::PathAndQuery;
use serde::{Deserialize, Serialize};

use crate::registry::{API_SEGMENTS, EXTENSIONS};

/// The maximum length, in bytes.
const MAX_LENGTH: usize = 256;

/// The path below which a reverse proxy serves everything, such as `/relayer`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct BasePath(
    /// Without a slash at the end: empty for `/`.
    String,
);

impl BasePath {
    /// Returns the path without a slash at the end; `None` for `/`.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        (!self.0.is_empty()).then_some(&*self.0)
    }

    /// Removes the path from the target of a request. A target without it is left: its proxy
    /// has removed it.
    pub(crate) fn strip<B>(&self, request: &mut Request<B>) {
        let Some(base) = self.as_str() else { return };
        let target = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
        let Some(rest) = target.strip_prefix(base) else { return };
        let target = match rest.as_bytes().first() {
            Some(b'/') => PathAndQuery::try_from(rest),
            None | Some(b'?') => PathAndQuery::try_from(format!("/{rest}")),
            Some(_) => return,
        };
        let mut parts = request.uri().clone().into_parts();
        parts.path_and_query = target.ok();
        if let Ok(uri) = parts.try_into() {
            *request.uri_mut() = uri;
        }
    }
}

impl From<BasePath> for String {
    fn from(path: BasePath) -> Self {
        if path.0.is_empty() { "/".to_owned() } else { path.0 }
    }
}

impl TryFrom<String> for BasePath {
    type Error = String;

    fn try_from(mut text: String) -> Result<Self, String> {
        let is_segment = |segment: &str| {
            let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            !matches!(segment, "" | "." | "..") && segment.bytes().all(is_valid)
        };
        let is_path = text.strip_prefix('/').is_some_and(|rest| {
            rest.is_empty() || rest.strip_suffix('/').unwrap_or(rest).split('/').all(is_segment)
        });
        if !is_path || text.len() > MAX_LENGTH {
            return Err(format!(
                "{text:?} is not a path; expected segments of letters, digits and -._~, such as \"/relayer\", up to {MAX_LENGTH} bytes"
            ));
        }
        if text.ends_with('/') {
            text.pop();
        }
        let first = text.split('/').nth(1).unwrap_or_default();
        if API_SEGMENTS.contains(&first) || first == EXTENSIONS {
            return Err(format!(
                "{text:?} begins with a path of the API or of extensions, to which it would change their requests; choose another, such as \"/relayer\""
            ));
        }
        Ok(Self(text))
    }
}

#[cfg(test)]
mod tests {
    use super::BasePath;
    use hyper::Request;

    fn stripped(base: &str, target: &str) -> String {
        let mut request = Request::get(target).body(()).unwrap();
        BasePath::try_from(base.to_owned()).unwrap().strip(&mut request);
        request.uri().to_string()
    }

    #[test]
    fn a_target_below_the_path_loses_it() {
        for (base, target, wanted) in [
            ("/a", "/a/version?b=/a", "/version?b=/a"),
            ("/a/", "/a/version", "/version"),
            ("/a", "/a", "/"),
            ("/a", "/a?b", "/?b"),
            ("/a", "/a/", "/"),
            ("/a", "/a//b", "//b"),
            ("/a/b", "/a/b/c", "/c"),
            ("/a", "http://h/a/version", "http://h/version"),
            // The proxy has removed it.
            ("/a", "/version", "/version"),
            ("/a", "/ab/version", "/ab/version"),
            ("/a/b", "/a/version", "/a/version"),
            ("/", "/a", "/a"),
        ] {
            assert_eq!(stripped(base, target), wanted, "{base} {target}");
        }
    }

    #[test]
    fn a_path_has_segments_only() {
        for text in [
            "", "a", "//", "/a//b", "/a?b", "/a#b", "/../a", "/a/.", "/%61", "/a b", "/a//",
            "/ext", "/chain/x",
        ] {
            assert!(BasePath::try_from(text.to_owned()).is_err(), "{text}");
        }
        assert!(BasePath::try_from(format!("/{}", "a".repeat(256))).is_err());
        let base = BasePath::try_from("/a-b/1.2_~/".to_owned()).unwrap();
        assert_eq!(base.as_str(), Some("/a-b/1.2_~"));
        assert_eq!(String::from(BasePath::default()), "/");
        assert_eq!(BasePath::try_from("/".to_owned()), Ok(BasePath::default()));
    }
}
