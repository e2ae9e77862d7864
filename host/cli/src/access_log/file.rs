//! The file of the access log, which can be opened again after it was renamed.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The permissions of a new file: it has addresses of clients.
const MODE: u32 = 0o640;

/// The open file.
pub(super) struct LogFile {
    path: PathBuf,
    file: Mutex<File>,
}

/// The writer of a file.
pub(super) struct Writer(Arc<LogFile>);

/// A failure to open the file.
#[derive(Debug, thiserror::Error)]
#[error("access-log.file: {} cannot be opened: {source}; check the path and the permissions of its folder", path.display())]
pub(crate) struct AccessLogError {
    path: PathBuf,
    source: io::Error,
}

impl LogFile {
    pub(super) fn open(path: PathBuf) -> Result<Self, AccessLogError> {
        match append(&path) {
            Ok(file) => Ok(Self { path, file: Mutex::new(file) }),
            Err(source) => Err(AccessLogError { path, source }),
        }
    }

    pub(super) fn reopen(&self) -> Result<(), AccessLogError> {
        let file = append(&self.path)
            .map_err(|source| AccessLogError { path: self.path.clone(), source })?;
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = file;
        Ok(())
    }
}

impl Writer {
    pub(super) fn new(file: Arc<LogFile>) -> Self {
        Self(file)
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.file.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(MODE).open(path)
}
