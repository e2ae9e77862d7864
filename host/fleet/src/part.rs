//! Parts of the state: values with a name, a digest of their content, and a compressed form.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Display, Formatter};
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The maximum size of a part's content, in bytes: a larger value has several parts. It is half of
/// the maximum size of a message of NATS.
pub(crate) const MAX_CONTENT: usize = 512 << 10;

/// The maximum number of parts of a state.
pub(crate) const MAX_PARTS: usize = 1 << 14;

/// The level at which parts are compressed: higher ones save little of short contents.
const COMPRESSION: i32 = 3;

const MAX_NAME: usize = 64;

/// The name of a part: tokens of a subject, of lower-case letters and digits, as in
/// `workers.001f`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct PartName(Arc<str>);

/// A text that is not the name of a part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the name of a part")]
pub(crate) struct PartNameError(String);

impl PartName {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PartName {
    type Err = PartNameError;

    fn from_str(text: &str) -> Result<Self, PartNameError> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_token = |token: &str| !token.is_empty() && token.bytes().all(is_plain);
        if text.len() <= MAX_NAME && text.split('.').all(is_token) {
            Ok(Self(text.into()))
        } else {
            Err(PartNameError(text.chars().take(MAX_NAME).collect()))
        }
    }
}

impl TryFrom<String> for PartName {
    type Error = PartNameError;

    fn try_from(text: String) -> Result<Self, PartNameError> {
        text.parse()
    }
}

impl From<PartName> for String {
    fn from(name: PartName) -> Self {
        name.0.as_ref().to_owned()
    }
}

impl Display for PartName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Debug for PartName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Debug::fmt(&self.0, f)
    }
}

/// The digest of a content: the first half of its BLAKE3.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct PartDigest(#[serde(with = "bytes_16")] [u8; 16]);

impl PartDigest {
    pub(crate) fn new(content: &[u8]) -> Self {
        Self::first_half(blake3::hash(content))
    }

    /// Returns the digest of all parts, with their names.
    pub(crate) fn of_all<'a>(parts: impl Iterator<Item = (&'a PartName, PartDigest)>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for (name, digest) in parts {
            hasher.update(name.as_str().as_bytes());
            // No name has a zero byte.
            hasher.update(&[0]);
            hasher.update(&digest.0);
        }
        Self::first_half(hasher.finalize())
    }

    fn first_half(hash: blake3::Hash) -> Self {
        let mut half = [0; 16];
        half.copy_from_slice(&hash.as_bytes()[..16]);
        Self(half)
    }
}

impl Debug for PartDigest {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Serializes 16 bytes as one value instead of 16 numbers.
mod bytes_16 {
    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};
    use std::fmt::{self, Formatter};

    pub(super) fn serialize<S: Serializer>(
        bytes: &[u8; 16],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<[u8; 16], D::Error> {
        struct Bytes16;

        impl Visitor<'_> for Bytes16 {
            type Value = [u8; 16];

            fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
                f.write_str("16 bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
                bytes.try_into().map_err(|_| E::invalid_length(bytes.len(), &self))
            }
        }

        deserializer.deserialize_bytes(Bytes16)
    }
}

/// A part: its content, and the form in which it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) digest: PartDigest,
    /// The content, in MessagePack.
    pub(crate) content: Bytes,
}

/// The parts of a state.
pub(crate) type Parts = BTreeMap<PartName, Part>;

/// A message that is not a part, or not one of this version.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PartError {
    #[error("cannot be decompressed: {0}")]
    Compression(std::io::Error),
    #[error("is not of the expected type: {0}; update this host, or the writer")]
    Content(#[from] rmp_serde::decode::Error),
}

impl Part {
    /// Creates the part with this value.
    pub(crate) fn new<T: Serialize>(value: &T) -> Self {
        let content = rmp_serde::to_vec_named(value).expect("the values are data");
        Self::from_content(content.into())
    }

    /// Creates the part with this content.
    pub(crate) fn from_content(content: Bytes) -> Self {
        Self { digest: PartDigest::new(&content), content }
    }

    /// Returns the value.
    pub(crate) fn value<T: DeserializeOwned>(&self) -> Result<T, PartError> {
        Ok(rmp_serde::from_slice(&self.content)?)
    }

    /// Returns the form in which it is sent.
    pub(crate) fn compressed(&self) -> Bytes {
        let compressed = zstd::bulk::compress(&self.content, COMPRESSION);
        compressed.expect("there is enough memory for its result").into()
    }

    /// Returns the part that was sent in this form.
    pub(crate) fn from_compressed(bytes: &[u8]) -> Result<Self, PartError> {
        let content = zstd::bulk::decompress(bytes, MAX_CONTENT).map_err(PartError::Compression)?;
        // The buffer had room for the maximum.
        Ok(Self::from_content(content.into_boxed_slice().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_CONTENT, Part, PartDigest, PartName};

    #[test]
    fn names_are_tokens_of_a_subject() {
        for name in ["versions", "workers.001f", "a.b.1"] {
            assert_eq!(name.parse::<PartName>().unwrap().as_str(), name);
        }
        let long = "a".repeat(65);
        for text in ["", ".", "a.", ".a", "a..b", "A", "a b", "*", ">", "a-b", "ü", &long] {
            assert!(text.parse::<PartName>().is_err(), "{text}");
        }
    }

    #[test]
    fn parts_are_sent_and_received() {
        let part = Part::new(&vec!["a"; 1_000]);
        let compressed = part.compressed();
        assert!(compressed.len() < 100, "{}", compressed.len());
        let received = Part::from_compressed(&compressed).unwrap();
        assert_eq!((received.digest, &received.content), (part.digest, &part.content));
        assert_eq!(received.value::<Vec<String>>().unwrap(), vec!["a"; 1_000]);
        assert!(received.value::<Vec<u8>>().unwrap_err().to_string().contains("expected type"));
    }

    #[test]
    fn a_message_is_bounded_whatever_it_claims() {
        let large = zstd::bulk::compress(&vec![0; MAX_CONTENT + 1], 1).unwrap();
        assert!(large.len() < MAX_CONTENT / 100);
        Part::from_compressed(&large).unwrap_err();
        for bytes in [&b"x"[..], b"\x28\xb5\x2f\xfd", &large[..large.len() / 2]] {
            assert!(Part::from_compressed(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn an_empty_message_has_no_value() {
        assert!(Part::from_compressed(b"").unwrap().value::<String>().is_err());
    }

    #[test]
    fn the_digest_of_all_depends_on_names_and_contents() {
        let name = |text: &str| text.parse::<PartName>().unwrap();
        let [a, b] = ["a", "b"].map(name);
        let [x, y] = [&b"x"[..], b"y"].map(PartDigest::new);
        let all = |parts: &[(&PartName, PartDigest)]| PartDigest::of_all(parts.iter().copied());
        let first = all(&[(&a, x), (&b, y)]);
        assert_eq!(first, all(&[(&a, x), (&b, y)]));
        for other in [&[(&a, y), (&b, x)][..], &[(&a, x)], &[], &[(&b, x), (&b, y)]] {
            assert_ne!(first, all(other));
        }
    }
}
