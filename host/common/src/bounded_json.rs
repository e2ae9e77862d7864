//! Parsing JSON of modules into values, within a bound on the memory that the values take.
//!
//! A value takes many times the bytes of its text: an object with one field has 7 bytes
//! of text and takes about 430 bytes.

use serde_json::Value;

/// Upper bounds of the memory of values, in bytes: an object with its first field, a
/// further field or element, and an array.
const OBJECT: u64 = 448;
const MEMBER: u64 = 128;
const ARRAY: u64 = 256;

/// A body that is not parsed.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// It is not JSON.
    #[error("the body is not JSON: {0}")]
    Syntax(#[from] serde_json::Error),
    /// Its values would take more than the limit.
    #[error("the body is too complex: its JSON values exceed {0}")]
    TooLarge(bytesize::ByteSize),
}

/// Parses a text whose values take at most this many bytes.
pub fn parse(text: &[u8], limit: u64) -> Result<Value, JsonError> {
    if estimate(text) > limit {
        return Err(JsonError::TooLarge(bytesize::ByteSize::b(limit)));
    }
    Ok(serde_json::from_slice(text)?)
}

/// Returns an upper bound of the memory of the values of a text, in bytes. If the text is
/// not JSON, it bounds the values up to the error.
fn estimate(text: &[u8]) -> u64 {
    let mut bytes = text.len() as u64;
    let mut is_string = false;
    let mut is_escaped = false;
    for byte in text {
        match (is_string, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => is_string = !is_string,
            (false, b'{') => bytes += OBJECT,
            (false, b'[') => bytes += ARRAY,
            (false, b',') => bytes += MEMBER,
            _ => {}
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::{JsonError, estimate, parse};

    #[test]
    fn json_is_parsed_up_to_a_limit() {
        let text = br#"{"a":[1,"\"{{{{",{}]}"#;
        let value = parse(text, estimate(text)).unwrap();
        assert_eq!(value["a"][1], "\"{{{{");
        assert!(matches!(parse(text, estimate(text) - 1), Err(JsonError::TooLarge(_))));
        assert!(matches!(parse(b"{", 1_000), Err(JsonError::Syntax(_))));
    }

    #[test]
    fn brackets_in_strings_are_not_counted() {
        assert_eq!(estimate(br#""{[,\"{[,""#), 10);
    }
}
