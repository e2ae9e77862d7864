//! A temporary folder with the files of a test.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A temporary folder, which is removed when it is dropped.
pub struct Folder(TempDir);

impl Folder {
    /// Creates an empty folder.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it has an effect")]
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        self.0.path()
    }

    /// Returns the path of a file in the folder.
    #[must_use]
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns the path of a file in the folder, as an argument.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        self.join(name).into_os_string().into_string().unwrap()
    }

    /// Writes a file in place, and returns its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// Replaces a file by a rename, as editors do: no reader sees half of it. Returns its
    /// path.
    pub fn replace(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::rename(self.write(&format!("{name}.new"), content), &path).unwrap();
        path
    }
}
