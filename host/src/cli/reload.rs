//! A file that is read again when it changes, and counts only when it is
//! valid.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tracing::{error, info};

use crate::state::StatePublisher;

/// What reads a file.
type Read<T, E> = fn(&Path) -> Result<T, E>;

/// What puts a file's content to use.
type Apply<T> = Box<dyn Fn(&StatePublisher, T) + Send + Sync>;

pub(super) struct Reloadable<T, E> {
    file: PathBuf,
    publisher: StatePublisher,
    read: Read<T, E>,
    apply: Apply<T>,
    /// What the file held, or what was wrong with it.
    last: Mutex<Result<T, String>>,
}

impl<T: Clone + PartialEq, E: Display> Reloadable<T, E> {
    /// Reads the file for the first time.
    pub(super) fn open(
        file: &Path,
        publisher: &StatePublisher,
        read: Read<T, E>,
        apply: impl Fn(&StatePublisher, T) + Send + Sync + 'static,
    ) -> Result<Self, E> {
        let value = read(file)?;
        apply(publisher, value.clone());
        Ok(Self {
            file: file.to_owned(),
            publisher: publisher.clone(),
            read,
            apply: Box::new(apply),
            last: Mutex::new(Ok(value)),
        })
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// Reads the file again. Where it is invalid, all stays as it was.
    pub(super) fn reload(&self) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let new = (self.read)(&self.file).map_err(|error| error.to_string());
        if *last == new {
            return;
        }
        match &new {
            Ok(value) => {
                (self.apply)(&self.publisher, value.clone());
                info!(file = %self.file.display(), "read again");
            }
            Err(message) => error!("{message}; what was read before stays"),
        }
        *last = new;
    }
}
