//! Errors in a relayer's configuration file.

use std::io;
use std::path::PathBuf;

use relayer_rest_common::text::for_log;
use relayer_rest_common::toml_text::{Position, Step, TomlError, dotted};
use relayer_rest_state::ChainId;

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("relayer configuration {}: {problem}", file.display())]
pub struct ConfigError {
    /// The file.
    pub file: PathBuf,
    /// The problem with the file. Part of this error's message.
    pub problem: Problem,
}

/// A problem with a configuration file.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The file cannot be read.
    #[error("cannot be read: {0}; check the path and its permissions")]
    Unreadable(io::Error),
    /// The file is not UTF-8.
    #[error("line {line} is not UTF-8 text; is this a TOML file?")]
    NotText {
        /// The line of the first byte that is not UTF-8.
        line: usize,
    },
    /// The file is not TOML.
    #[error("{position}: {message}; correct the TOML syntax of this line")]
    Syntax {
        /// The position of the problem.
        position: Position,
        /// The parser's message.
        message: String,
    },
    /// A value is of the wrong type, out of range or missing.
    #[error("{position}: {place}: {message}")]
    Value {
        /// The position of the value.
        position: Position,
        /// The chain and the key, or the section and the key.
        place: String,
        /// The problem with the value.
        message: String,
    },
    /// Two chains have the same identifier.
    #[error(
        "{position}: chain '{}' is already configured in line {first}; remove one of the two",
        for_log(id.as_str())
    )]
    DuplicateChain {
        /// The identifier.
        id: ChainId,
        /// The position of the second chain.
        position: Position,
        /// The line of the first chain.
        first: usize,
    },
}

impl Problem {
    pub(super) fn from_toml(error: TomlError, text: &str) -> Self {
        let position = error.position.unwrap_or(Position { line: 1, column: 1 });
        if error.path.is_empty() {
            return Self::Syntax { position, message: error.message };
        }
        Self::Value { position, place: place(&error.path, text), message: error.message }
    }
}

/// Returns the path in dotted form. If it leads into a chain with an identifier, the
/// identifier stands for the chain.
fn place(path: &[Step], text: &str) -> String {
    let [Step::Key(section), Step::Index(index), rest @ ..] = path else {
        return dotted(path);
    };
    let name = chain_id(text, *index).filter(|_| section == "chains");
    match (name, rest) {
        (None, _) => dotted(path),
        (Some(id), []) => format!("chain '{id}'"),
        (Some(id), rest) => format!("chain '{id}': {}", dotted(rest)),
    }
}

fn chain_id(text: &str, index: usize) -> Option<String> {
    let file: toml::Table = text.parse().ok()?;
    Some(for_log(file.get("chains")?.get(index)?.get("id")?.as_str()?))
}
