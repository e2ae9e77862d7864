//! Bytes in JSON: as a text if they are UTF-8, or else in hexadecimal.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

/// Bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Octets {
    Text(String),
    Hex { hex: String },
}

impl Octets {
    pub(super) fn new(bytes: &[u8]) -> Self {
        match str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Hex {
                hex: bytes.iter().fold(String::new(), |mut hex, byte| {
                    // Writing to a text does not fail.
                    write!(hex, "{byte:02x}").unwrap_or_default();
                    hex
                }),
            },
        }
    }

    /// Returns the bytes with other texts: all of them if they are UTF-8, or else each part that is.
    pub(super) fn map_texts(&self, mut map: impl FnMut(&str) -> String) -> Self {
        let bytes = match self {
            Self::Text(text) => return Self::Text(map(text)),
            Self::Hex { .. } => self.bytes().unwrap_or_default(),
        };
        let mut mapped = Vec::new();
        for chunk in bytes.utf8_chunks() {
            mapped.extend_from_slice(map(chunk.valid()).as_bytes());
            mapped.extend_from_slice(chunk.invalid());
        }
        Self::new(&mapped)
    }

    /// Returns the bytes.
    pub(super) fn bytes(&self) -> Result<Vec<u8>, &'static str> {
        match self {
            Self::Text(text) => Ok(text.clone().into_bytes()),
            Self::Hex { hex } => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let pair = |pair: &[u8]| match *pair {
                    [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
                    _ => None,
                };
                let bytes = hex.as_bytes().chunks(2).map(pair).collect::<Option<_>>();
                bytes.ok_or("not pairs of hexadecimal digits")
            }
        }
    }
}
