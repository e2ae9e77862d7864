//! The name of a module in a registry.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use relayer_rest_common::Digest;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The scheme of references.
pub const SCHEME: &str = "oci://";

/// The prefix of a digest in references and manifests.
pub(crate) const SHA256: &str = "sha256:";

/// The maximum length of a reference, in bytes.
const MAX_LENGTH: usize = 1024;

/// The maximum length of a tag, in bytes.
const MAX_TAG: usize = 128;

/// The name of a module in a registry: `oci://REGISTRY/REPOSITORY:TAG`,
/// `oci://REGISTRY/REPOSITORY@sha256:DIGEST`, or with both. The digest is the one of the
/// manifest, which never changes; a tag can be moved to another manifest.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

/// A text that is not a reference. The message has no at sign besides one in the text, from
/// which errors of settings remove texts that may be passwords.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a reference: {problem}; expected oci://REGISTRY/REPOSITORY:TAG, or the at sign and sha256:DIGEST instead of the tag"
)]
pub struct ReferenceError {
    text: String,
    problem: &'static str,
}

impl Reference {
    /// Returns the registry: its host, with the port if it has one.
    #[must_use]
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Returns the repository.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Returns the tag.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Returns the digest of the manifest.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// Returns the reference to this manifest of the repository, without a tag.
    #[must_use]
    pub fn pinned(&self, digest: Digest) -> Self {
        Self { tag: None, digest: Some(digest), ..self.clone() }
    }
}

/// Returns whether a text has the form of a reference, rather than of a path.
#[must_use]
pub fn is_reference(text: &str) -> bool {
    text.starts_with(SCHEME)
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |problem| {
            let end = text.floor_char_boundary(MAX_LENGTH);
            ReferenceError { text: text[..end].to_owned(), problem }
        };
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| error("no oci://"))?;
        if rest.len() > MAX_LENGTH {
            return Err(error("too long"));
        }
        let (rest, digest) = match rest.split_once('@') {
            None => (rest, None),
            Some((rest, digest)) => {
                let digest = parse_digest(digest)
                    .ok_or_else(|| error("no SHA-256 digest after the at sign"))?;
                (rest, Some(digest))
            }
        };
        let (registry, path) = rest.split_once('/').ok_or_else(|| error("no repository"))?;
        let (repository, tag) = match path.split_once(':') {
            None => (path, None),
            Some((repository, tag)) => (repository, Some(tag)),
        };
        if !is_registry(registry) {
            return Err(error("the registry is not a host"));
        }
        if !repository.split('/').all(is_component) {
            return Err(error(
                "the repository has other characters than a-z, 0-9, '.', '_' and '-'",
            ));
        }
        if !tag.is_none_or(is_tag) {
            return Err(error(
                "the tag has other characters than letters, digits, '.', '_' and '-'",
            ));
        }
        if tag.is_none() && digest.is_none() {
            return Err(error("neither a digest nor a tag"));
        }
        let [registry, repository] = [registry, repository].map(str::to_owned);
        Ok(Self { registry, repository, tag: tag.map(str::to_owned), digest })
    }
}

impl Display for Reference {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match self.digest {
            Some(digest) => write!(f, "@{SHA256}{digest}"),
            None => Ok(()),
        }
    }
}

impl<'de> Deserialize<'de> for Reference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Serialize for Reference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Parses `sha256:` and 64 hexadecimal digits.
pub(crate) fn parse_digest(text: &str) -> Option<Digest> {
    text.strip_prefix(SHA256)?.parse().ok()
}

/// Returns whether a text is the host of a registry, with a port or without: a name, an
/// IPv4 address, or an IPv6 address in brackets.
pub(crate) fn is_registry(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(is_plain);
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = address.map_or_else(
        || host.split('.').all(is_label),
        |address| address.parse::<std::net::Ipv6Addr>().is_ok(),
    );
    is_host && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}

/// Returns whether a text is a component of a repository's path.
fn is_component(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_separator = |byte: u8| matches!(byte, b'.' | b'_' | b'-');
    let [first, .., last] = text.as_bytes() else {
        return text.len() == 1 && text.bytes().all(is_plain);
    };
    is_plain(*first)
        && is_plain(*last)
        && text.bytes().all(|byte| is_plain(byte) || is_separator(byte))
        && !text.contains("..")
}

fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut bytes = text.bytes();
    text.len() <= MAX_TAG
        && bytes.next().is_some_and(is_word)
        && bytes.all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::Reference;

    #[test]
    fn references_are_parsed_and_printed() {
        let digest = "0a".repeat(32);
        for (text, registry, repository, tag) in [
            ("oci://ghcr.io/a/b:1.0", "ghcr.io", "a/b", Some("1.0")),
            (&format!("oci://localhost:5000/a@sha256:{digest}"), "localhost:5000", "a", None),
            (
                &format!("oci://[::1]:80/a-b/c_d:T@sha256:{digest}"),
                "[::1]:80",
                "a-b/c_d",
                Some("T"),
            ),
            ("oci://[::1]/a:t", "[::1]", "a", Some("t")),
        ] {
            let reference: Reference = text.parse().unwrap();
            assert_eq!(reference.to_string(), text);
            assert_eq!((reference.registry(), reference.repository()), (registry, repository));
            assert_eq!(reference.tag(), tag);
            let is_pinned = reference.digest().map(|digest| digest.to_string());
            assert_eq!(is_pinned, text.contains('@').then(|| digest.clone()));
        }
    }

    #[test]
    fn texts_that_are_not_references_are_rejected() {
        for (text, problem) in [
            ("a/b:c", "no oci://"),
            ("oci://a", "no repository"),
            ("oci://a/b", "neither a digest nor a tag"),
            ("oci://a/b:", "the tag has"),
            ("oci://a/b@sha256:12", "no SHA-256 digest"),
            ("oci://a/b@sha512:12", "no SHA-256 digest"),
            ("oci://a/../b:c", "the repository has"),
            ("oci://a//b:c", "the repository has"),
            ("oci://a/B:c", "the repository has"),
            ("oci://a/b?x:c", "the repository has"),
            ("oci://user@a/b:c", "no SHA-256 digest"),
            ("oci:///b:c", "the registry is"),
            ("oci://a:0/b:c", "the registry is"),
            ("oci://a:x/b:c", "the registry is"),
            ("oci://[::1/b:c", "the registry is"),
            (&format!("oci://a/{}:c", "b".repeat(2000)), "too long"),
            (&format!("oci://a/b:{}", "c".repeat(129)), "the tag has"),
        ] {
            let error = text.parse::<Reference>().unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
