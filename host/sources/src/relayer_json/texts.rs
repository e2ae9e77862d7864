//! The texts of a response: checks their length before parsing, and reads them without a
//! copy.

use std::borrow::Cow;
use std::fmt::{self, Formatter};
use std::ops::Deref;

use relayer_rest_common::toml_text::Position;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

use super::bounds::MAX_TEXT;
use super::error::ResponseError;

/// Rejects a response with a text that is too long. Allocates no memory.
pub(super) fn check(body: &[u8]) -> Result<(), ResponseError> {
    let mut start = None;
    let mut bytes = body.iter().enumerate();
    while let Some((place, byte)) = bytes.next() {
        match (start, byte) {
            (None, b'"') => start = Some(place),
            (Some(_), b'"') => start = None,
            (Some(start), _) if place - start > MAX_TEXT => return Err(too_long(body, start)),
            (Some(_), b'\\') => drop(bytes.next()),
            _ => {}
        }
    }
    Ok(())
}

fn too_long(body: &[u8], start: usize) -> ResponseError {
    let before = &body[..start];
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    ResponseError::Shape {
        position: Position {
            line: before.split(|byte| *byte == b'\n').count(),
            column: start - line_start + 1,
        },
        field: String::new(),
        message: format!("a string is longer than {} KiB", MAX_TEXT >> 10),
    }
}

/// A text, borrowed from the response if it has no escapes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Text<'de>(pub(super) Cow<'de, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_TEXT, check};

    #[test]
    fn texts_have_a_maximum_length() {
        let body = |length| format!("{{\n \"a\\\"\": \"{}\"}}", "x".repeat(length));
        check(body(MAX_TEXT).as_bytes()).unwrap();
        let message = check(body(MAX_TEXT + 1).as_bytes()).unwrap_err().to_string();
        assert_eq!(message, "line 2, column 9: a string is longer than 64 KiB");
        check("x".repeat(MAX_TEXT + 9).as_bytes()).unwrap();
        check(format!("\"{}", "\\".repeat(3 * MAX_TEXT)).as_bytes()).unwrap_err();
    }
}
