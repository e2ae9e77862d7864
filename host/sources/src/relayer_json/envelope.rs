//! A response's envelope.

use relayer_rest_common::text::for_log;
use relayer_rest_common::toml_text::{Position, escape_control};
use serde::Deserialize;

use super::error::ResponseError;
use super::texts;

/// The envelope of every response, except for the versions of old relayers.
#[derive(Deserialize)]
struct Envelope<T> {
    status: String,
    result: T,
}

/// The result of an error.
#[derive(Deserialize)]
struct ErrorResult {
    name: String,
    msg: String,
}

/// Parses the result in an envelope.
pub(super) fn result<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, ResponseError> {
    texts::check(body)?;
    let error = match parse::<Envelope<T>>(body) {
        Ok(envelope) if envelope.status == "success" => return Ok(envelope.result),
        Ok(Envelope { status, .. }) => ResponseError::Shape {
            position: Position { line: 1, column: 1 },
            field: "status: ".to_owned(),
            message: format!("is '{}'; expected 'success'", for_log(&status)),
        },
        Err(error) => error,
    };
    match serde_json::from_slice(body) {
        Ok(Envelope { status, result: ErrorResult { name, msg } }) if status == "error" => {
            Err(ResponseError::Refused { name: for_log(&name), msg: for_log(&msg) })
        }
        _ => Err(error),
    }
}

/// Parses a response without an envelope.
pub(super) fn bare<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, ResponseError> {
    texts::check(body)?;
    parse(body)
}

fn parse<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, ResponseError> {
    let mut source = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut source).map_err(|error| {
        // The parser puts a question mark at the end of a path for parts that it does not
        // know.
        let path = error.path().to_string();
        let path = for_log(path.trim_end_matches(['.', '?']));
        shape(error.inner(), if path.is_empty() { String::new() } else { format!("{path}: ") })
    })?;
    source.end().map_err(|error| shape(&error, String::new()))?;
    Ok(value)
}

fn shape(error: &serde_json::Error, field: String) -> ResponseError {
    let position = Position { line: error.line(), column: error.column() };
    ResponseError::Shape { position, field, message: message(error) }
}

/// Returns the message of an error without the position that it ends with.
pub(super) fn message(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let text = message.rsplit_once(" at line ").map_or(&*message, |(text, _)| text);
    for_log(&escape_control(text))
}
