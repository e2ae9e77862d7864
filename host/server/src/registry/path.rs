//! Mount paths, and which requests they match.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The first segments of the paths of the API and of the host, which no extension can
/// have.
pub(crate) const API_SEGMENTS: [&str; 5] = ["version", "chains", "chain", "state", "openapi.json"];

/// The first segment of the default paths of extensions.
pub(crate) const EXTENSIONS: &str = "ext";

/// The maximum length of a path, in bytes.
const MAX_LENGTH: usize = 128;

/// The path of a mount, which serves all requests for it and below it: `/`, or some
/// segments such as `/ext/metrics`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MountPath(Box<str>);

/// The reason why a path is not a mount path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MountPathError {
    /// The path does not consist of valid segments, or is too long.
    #[error(
        "{0:?} is not a mount path; expected one such as /ext/NAME, of letters, digits and -_.~ in segments, at most 128 bytes long"
    )]
    Form(String),
    /// The path is the API's.
    #[error("{0} is reserved for the API; mount the extension elsewhere, such as at /ext{0}")]
    OfTheApi(String),
}

impl MountPath {
    /// Returns the path of the API.
    #[must_use]
    pub fn root() -> Self {
        Self("/".into())
    }

    /// Returns the default path of an extension. Its name consists of few characters:
    /// small letters, digits and `-`.
    #[must_use]
    pub fn for_extension(name: &str) -> Self {
        Self(format!("/{EXTENSIONS}/{name}").into())
    }

    /// Returns the path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether a request for this path is for this mount.
    pub(super) fn matches(&self, path: &str) -> bool {
        self.is_root()
            || path
                .strip_prefix(self.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns whether some request would match both.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.matches(other.as_str()) || other.matches(self.as_str())
    }

    /// Returns the target of a request without the prefix, as the mounted module gets it.
    pub(crate) fn strip_prefix<'a>(&self, target: &'a str) -> Cow<'a, str> {
        if self.is_root() {
            return target.into();
        }
        match target.strip_prefix(self.as_str()).unwrap_or(target) {
            "" => "/".into(),
            rest if rest.starts_with('/') => rest.into(),
            query => format!("/{query}").into(),
        }
    }

    /// Returns the path of a request for a path of the mounted module: the inverse of
    /// `strip_prefix`.
    #[must_use]
    pub fn join(&self, path: &str) -> String {
        match (self.is_root(), path) {
            (true, _) => path.to_owned(),
            (false, "/") => self.as_str().to_owned(),
            (false, _) => format!("{self}{path}"),
        }
    }

    fn is_root(&self) -> bool {
        self.as_str() == "/"
    }
}

impl FromStr for MountPath {
    type Err = MountPathError;

    fn from_str(path: &str) -> Result<Self, Self::Err> {
        if path == "/" {
            return Ok(Self::root());
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        let is_segment =
            |segment: &str| !matches!(segment, "" | "." | "..") && segment.bytes().all(is_plain);
        let segments = path.strip_prefix('/').filter(|_| path.len() <= MAX_LENGTH);
        match segments {
            Some(segments) if segments.split('/').all(is_segment) => {
                let first = segments.split('/').next().unwrap_or_default();
                if API_SEGMENTS.contains(&first) {
                    return Err(MountPathError::OfTheApi(path.to_owned()));
                }
                Ok(Self(path.into()))
            }
            _ => Err(MountPathError::Form(path.to_owned())),
        }
    }
}

impl<'de> Deserialize<'de> for MountPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Serialize for MountPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl Display for MountPath {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::{MountPath, MountPathError};

    fn path(text: &str) -> MountPath {
        text.parse().unwrap()
    }

    #[test]
    fn a_path_is_made_of_segments() {
        for text in ["/", "/ext/metrics", "/a", "/a.b_c~-/1"] {
            assert_eq!(path(text).as_str(), text);
        }
        for text in ["", "a", "/a/", "//", "/a//b", "/a b", "/ü", "/a/..", "/a?b", "/%61"] {
            let error = text.parse::<MountPath>().unwrap_err();
            assert_eq!(error, MountPathError::Form(text.to_owned()));
        }
        format!("/{}", "a".repeat(128)).parse::<MountPath>().unwrap_err();
    }

    #[test]
    fn the_paths_of_the_api_are_reserved() {
        for text in ["/version", "/chains", "/chain/x", "/state/workers", "/openapi.json"] {
            let error = text.parse::<MountPath>().unwrap_err();
            assert_eq!(error, MountPathError::OfTheApi(text.to_owned()));
        }
    }

    #[test]
    fn a_mount_matches_the_paths_below_it() {
        let mount = path("/ext/a");
        for (request, relative) in
            [("/ext/a", "/"), ("/ext/a/", "/"), ("/ext/a/b?c", "/b?c"), ("/ext/a?c", "/?c")]
        {
            assert!(mount.matches(request.split('?').next().unwrap()), "{request}");
            assert_eq!(mount.strip_prefix(request), relative);
        }
        assert_eq!(["/", "/b"].map(|path| mount.join(path)), ["/ext/a", "/ext/a/b"]);
        assert_eq!(["/", "/b"].map(|path| MountPath::root().join(path)), ["/", "/b"]);
        for request in ["/", "/ext", "/ext/ab", "/ext/A", "/chains"] {
            assert!(!mount.matches(request), "{request}");
        }
        assert!(path("/").matches("/anything"));
        assert_eq!(path("/").strip_prefix("/a?b"), "/a?b");
    }

    #[test]
    fn mounts_overlap_if_one_is_below_the_other() {
        assert!(path("/a").overlaps(&path("/a")));
        assert!(path("/a").overlaps(&path("/a/b")));
        assert!(path("/a/b").overlaps(&path("/a")));
        assert!(!path("/a/b").overlaps(&path("/a/c")));
        assert!(!path("/a").overlaps(&path("/ab")));
    }
}
