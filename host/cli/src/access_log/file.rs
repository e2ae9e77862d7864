//! The file of the access log, which can be opened again after it was renamed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::mem;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use relayer_rest_common::log_rate::{LogRate, Permit};
use rustix::fs::{Access, access};
use tracing::warn;

use super::queue::Queue;

/// The permissions of a new file: it has addresses of clients.
const MODE: u32 = 0o640;

/// The open file.
pub(super) struct LogFile {
    path: PathBuf,
    /// Not locked while a line is written: the reader of a pipe can be slow.
    file: Mutex<Arc<File>>,
}

/// The writer of the lines that wait for a file.
pub(super) struct Writer {
    file: Arc<LogFile>,
    queue: Arc<Queue>,
    /// The number of lines that were not written since the last warning.
    failed: u64,
    warnings: LogRate,
}

/// A failure to open the file.
#[derive(Debug, thiserror::Error)]
#[error("access-log.file: {} cannot be opened: {source}; check the path and the permissions of its folder", path.display())]
pub(crate) struct AccessLogError {
    path: PathBuf,
    source: io::Error,
}

/// Checks that a server could open a file, without creating it.
pub(super) fn check(path: &Path) -> Result<(), AccessLogError> {
    let checked = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(io::Error::from)
        }
        // The opening of a pipe waits for its reader.
        Ok(meta) if meta.file_type().is_fifo() => {
            access(path, Access::WRITE_OK).map_err(io::Error::from)
        }
        _ => append(path).map(drop),
    };
    checked.map_err(|source| AccessLogError { path: path.to_owned(), source })
}

impl LogFile {
    pub(super) fn open(path: PathBuf) -> Result<Self, AccessLogError> {
        match append(&path) {
            Ok(file) => Ok(Self { path, file: Mutex::new(Arc::new(file)) }),
            Err(source) => Err(AccessLogError { path, source }),
        }
    }

    pub(super) fn reopen(&self) -> Result<(), AccessLogError> {
        let file = append(&self.path)
            .map_err(|source| AccessLogError { path: self.path.clone(), source })?;
        *self.lock() = Arc::new(file);
        Ok(())
    }

    fn write_all(&self, line: &[u8]) -> io::Result<()> {
        let file = Arc::clone(&self.lock());
        (&*file).write_all(line)
    }

    fn lock(&self) -> MutexGuard<'_, Arc<File>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
    pub(super) fn new(file: Arc<LogFile>, queue: Arc<Queue>) -> Self {
        Self { file, queue, failed: 0, warnings: LogRate::new(1) }
    }

    fn report(&mut self, error: &io::Error) {
        self.failed += 1;
        if let Permit::Granted(_) = self.warnings.acquire(1) {
            let lost = mem::take(&mut self.failed);
            warn!(
                lost,
                %error,
                "lines of the access log not written; make room on its disk, or change access-log.file and restart"
            );
        }
    }
}

impl Write for Writer {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.write_all(line)?;
        Ok(line.len())
    }

    /// Writes a whole line: the thread of the queue calls this once for each.
    fn write_all(&mut self, line: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(line);
        self.queue.release(line.len());
        written.inspect_err(|error| self.report(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Opens a file for lines at its end, or a stream of this process.
fn append(path: &Path) -> io::Result<File> {
    let duplicate = |stream: BorrowedFd| stream.try_clone_to_owned().map(File::from);
    match path.to_str() {
        // They can be sockets, such as of the journal, which cannot be opened by a path.
        Some("/dev/stdout") => duplicate(io::stdout().as_fd()),
        Some("/dev/stderr") => duplicate(io::stderr().as_fd()),
        _ => OpenOptions::new().append(true).create(true).mode(MODE).open(path),
    }
}
