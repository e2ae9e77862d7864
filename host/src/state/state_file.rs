//! Source: what a relayer is doing, in a JSON file: the `result` of `/state`,
//! or the whole answer.

use std::io;
use std::path::{Path, PathBuf};

use tracing::warn;

use super::RelayerState;
use super::relayer_json::{self, AnswerError, Read, UnreadField};
use crate::files::read_any;
use crate::text::for_log;

/// The largest state file, in bytes: as the largest response of a relayer is by
/// default.
pub(crate) const MAX_STATE_FILE: u64 = 64 << 20;

/// The most fields that are named when some are left out.
const MAX_NAMED: usize = 10;

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
    of_file(file, read_any(file, MAX_STATE_FILE))
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
    if !unread.is_empty() {
        // One line for each reading, whatever the file holds.
        let named = unread.iter().take(MAX_NAMED);
        let named = named.map(|UnreadField { field, message }| format!("{field}: {message}"));
        let fields = named.collect::<Vec<_>>().join(", ");
        let file = for_log(&file.display().to_string());
        warn!(file, count = unread.len(), "fields are left out: {fields}");
    }
    Ok(value)
}
