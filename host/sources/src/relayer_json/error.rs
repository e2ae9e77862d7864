//! Errors in a response.

use relayer_rest_common::toml_text::Position;

/// A response that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResponseError {
    /// The response does not have the expected shape.
    #[error("{position}: {field}{message}")]
    Shape {
        /// The position in the response.
        position: Position,
        /// The field, followed by a colon; empty if the response is not JSON at all.
        field: String,
        /// The problem.
        message: String,
    },
    /// The response is an error reported by the relayer.
    #[error("the relayer returned {name}: {msg}")]
    Refused {
        /// The error's name, such as `ChainConfigNotFound`.
        name: String,
        /// The error's message.
        msg: String,
    },
}

/// A field that could not be read, and is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadField {
    /// The path of the field.
    pub field: String,
    /// The reason.
    pub message: String,
}
