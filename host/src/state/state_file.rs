//! Source: what a relayer is doing, in a JSON file: the `result` of `/state`,
//! or the whole answer.

use std::io;
use std::path::{Path, PathBuf};

use tracing::warn;

use super::RelayerState;
use super::relayer_json::{self, AnswerError, Read, UnreadField};
use crate::files::{MOST_TEXT, read_any};

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    /// It cannot be read.
    #[error("state file {}: cannot be read: {source}; check the path and its permissions", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It does not hold the result of `/state`.
    #[error("state file {}: {source}; expected the result of /state: {{\"chains\":[…],\"workers\":{{…}}}}", file.display())]
    Invalid {
        /// The file.
        file: PathBuf,
        /// What is wrong with it, and where.
        source: AnswerError,
    },
}

/// Reads a file. Fields that cannot be shown are left out, with a warning.
pub fn read_state_file(file: &Path) -> Result<RelayerState, StateFileError> {
    of_file(file, read_any(file, MOST_TEXT))
}

/// Reads what a file holds, or says why it could not be read.
pub(crate) fn of_file(
    file: &Path,
    content: io::Result<Vec<u8>>,
) -> Result<RelayerState, StateFileError> {
    let text =
        content.map_err(|source| StateFileError::Unreadable { file: file.to_owned(), source })?;
    let Read { value, unread } = relayer_json::state_file(&text)
        .map_err(|source| StateFileError::Invalid { file: file.to_owned(), source })?;
    for UnreadField { field, message } in unread {
        warn!(file = %file.display(), field, "a field is left out: {message}");
    }
    Ok(value)
}
