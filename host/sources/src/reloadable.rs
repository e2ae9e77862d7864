//! A file that is read again when it changes, and takes effect only if it is valid.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use relayer_rest_common::{files, stable_file};
use relayer_rest_state::{SourceKind, SourceReporter, StatePublisher};
use tracing::{error, info};

/// Parses a file's content.
type Parse<T, E> = fn(&Path, io::Result<Vec<u8>>) -> Result<T, E>;

/// Applies a parsed value, or returns the reason why it cannot.
type Apply<T> = Box<dyn Fn(&StatePublisher, T) -> Result<(), String> + Send + Sync>;

/// A file, and the value that was last read from it.
pub struct Reloadable<T, E> {
    file: PathBuf,
    /// The maximum size of the file, in bytes.
    max: u64,
    publisher: StatePublisher,
    source: SourceReporter,
    parse: Parse<T, E>,
    apply: Apply<T>,
    last: Mutex<Last<T>>,
}

/// The result of the last read.
struct Last<T> {
    content: Result<blake3::Hash, io::ErrorKind>,
    value: Option<T>,
    /// The problem with the content.
    error: Option<String>,
}

impl<T: Clone + PartialEq, E: Display> Reloadable<T, E> {
    /// Reads the file for the first time, and applies it.
    pub fn open(
        kind: SourceKind,
        file: &Path,
        max: u64,
        publisher: &StatePublisher,
        parse: Parse<T, E>,
        apply: impl Fn(&StatePublisher, T) -> Result<(), String> + Send + Sync + 'static,
    ) -> Result<Self, E> {
        let content = files::read_any(file, max);
        let last = digest(&content);
        let value = parse(file, content)?;
        let source = publisher.add_source(kind, file.display().to_string());
        let reloadable = Self {
            file: file.to_owned(),
            max,
            publisher: publisher.clone(),
            source,
            parse,
            apply: Box::new(apply),
            last: Mutex::new(Last { content: last, value: Some(value.clone()), error: None }),
        };
        if let Err(message) = (reloadable.apply)(publisher, value) {
            reloadable.rejected(&message);
        } else {
            reloadable.source.responded();
        }
        Ok(reloadable)
    }

    /// Returns the path of the file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Reads the file again, and applies it if it has changed. If it is invalid, the
    /// previous value stays in effect, and the reason is returned.
    pub fn reload(&self) -> Result<(), String> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let content = stable_file::read(&self.file, self.max);
        let seen = digest(&content);
        if seen == last.content {
            return last.error.clone().map_or(Ok(()), Err);
        }
        last.content = seen;
        let value = (self.parse)(&self.file, content).map_err(|error| error.to_string());
        let is_new = |value: &T| last.value.as_ref() != Some(value);
        let result = value.and_then(|value| {
            if is_new(&value) {
                (self.apply)(&self.publisher, value.clone())
                    .map_err(|message| format!("{}: {message}", self.file.display()))?;
                info!(file = %self.file.display(), "file reloaded");
            }
            Ok(value)
        });
        match result {
            Ok(value) => {
                self.source.responded();
                last.value = Some(value);
                last.error = None;
                Ok(())
            }
            Err(message) => {
                self.rejected(&message);
                let message = format!("{message}; the previous content stays in effect");
                last.error = Some(message.clone());
                Err(message)
            }
        }
    }

    fn rejected(&self, message: &str) {
        error!(file = %self.file.display(), error = %message, "file rejected");
        self.source.failed(message);
    }
}

/// Returns a digest to compare a file's content with: the content itself would stay in
/// memory.
fn digest(content: &io::Result<Vec<u8>>) -> Result<blake3::Hash, io::ErrorKind> {
    content.as_ref().map(|content| blake3::hash(content)).map_err(io::Error::kind)
}
