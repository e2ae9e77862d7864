//! Source: a JSON file with a relayer's state: the `result` of `/state`, or the whole
//! response.

use std::io;
use std::path::{Path, PathBuf};

use relayer_rest_common::files::read_any;
use relayer_rest_common::text::for_log;
use relayer_rest_state::RelayerState;
use tracing::warn;

use super::relayer_json::{self, Read, ResponseError, UnreadField};

/// The maximum size of a state file, in bytes: the default maximum of a relayer's
/// response.
pub const MAX_STATE_FILE: u64 = 64 << 20;

/// The maximum number of fields that a warning names.
const MAX_NAMED: usize = 10;

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    /// The file cannot be read.
    #[error("state file {}: cannot be read: {source}; check the path and its permissions", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file does not contain the result of `/state`.
    #[error("state file {}: {source}; expected the result of /state: {{\"chains\":[…],\"workers\":{{…}}}}", file.display())]
    Invalid {
        /// The file.
        file: PathBuf,
        /// The problem and its position.
        source: ResponseError,
    },
}

/// Reads a file. Logs a warning about fields that are left out because they cannot be
/// shown.
pub fn read_state_file(file: &Path) -> Result<RelayerState, StateFileError> {
    parse(file, read_any(file, MAX_STATE_FILE))
}

/// Parses a file's content, or reports why it could not be read.
pub fn parse(file: &Path, content: io::Result<Vec<u8>>) -> Result<RelayerState, StateFileError> {
    let text =
        content.map_err(|source| StateFileError::Unreadable { file: file.to_owned(), source })?;
    let Read { value, unread } = relayer_json::state_file(&text)
        .map_err(|source| StateFileError::Invalid { file: file.to_owned(), source })?;
    if !unread.is_empty() {
        // Logs one line per read, however many fields are left out.
        let named = unread.iter().take(MAX_NAMED);
        let named = named.map(|UnreadField { field, message }| format!("{field}: {message}"));
        let fields = named.collect::<Vec<_>>().join(", ");
        let file = for_log(&file.display().to_string());
        warn!(file, count = unread.len(), fields, "fields omitted");
    }
    Ok(value)
}
