//! `/chain/:id`.

use serde_json::{Map, Value};
use serde_path_to_error::Segment;

use super::Read;
use super::envelope::{AnswerError, UnreadField};
use crate::state::{ChainConfig, written};
use crate::toml_text::{Position, one_line};

/// Reads a chain's fields. One that cannot be read is left out, for a dialect
/// to come may write it in another way.
pub(super) fn read(mut fields: Map<String, Value>) -> Result<Read<ChainConfig>, AnswerError> {
    let mut unread = Vec::new();
    loop {
        let chain: Result<written::Chain<String>, _> =
            serde_path_to_error::deserialize(&Value::Object(fields.clone()));
        let error = match chain {
            Ok(chain) => return Ok(Read { value: chain.config(), unread }),
            Err(error) => error,
        };
        let (field, message) = (error.path().to_string(), one_line(&error.inner().to_string()));
        let key = match error.path().iter().next() {
            Some(Segment::Map { key }) => key.clone(),
            _ => String::new(),
        };
        // Without its identifier it is no chain.
        if key == "id" || fields.remove(&key).is_none() {
            let position = Position { line: 1, column: 1 };
            return Err(AnswerError::Shape { position, field: "result: ".to_owned(), message });
        }
        unread.push(UnreadField { field, message });
    }
}
