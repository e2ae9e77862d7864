//! The source files of a project, and their changes.
//!
//! The folder is read at short intervals. A watch of the system would need an entry for each
//! folder, and does not report changes on all file systems, such as those of containers.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use blake3::Hash;
use relayer_rest_common::files;
use tokio::time::sleep;

/// The interval between two reads of the folder, and the time without a change after which a
/// change is complete.
const INTERVAL: Duration = Duration::from_millis(50);

/// The part of the time in which the folder is read, at most, as a divisor.
const MAX_LOAD: u32 = 20;

/// The maximum number of source files.
const MAX_FILES: usize = 10_000;

/// The maximum size of a source file whose content is compared, in bytes.
const MAX_SIZE: u64 = 64 << 20;

/// Folders with the output of builds and tools, in addition to hidden ones.
const OUTPUTS: [&str; 3] = ["target", "node_modules", "__pycache__"];

/// Files that mark a folder as the output of a tool.
const MARKERS: [&str; 2] = ["CACHEDIR.TAG", "pyvenv.cfg"];

/// Files that tools write during a build, the last one that of the template for JavaScript.
const WRITTEN: [&str; 3] = ["Cargo.lock", "package-lock.json", "src/imports.js"];

/// A hidden folder with sources.
const CARGO: &str = ".cargo";

/// The source files of a folder at one moment.
#[derive(Debug)]
pub(super) struct SourceFiles {
    folder: PathBuf,
    files: BTreeMap<PathBuf, SourceFile>,
    /// The time before the folder was read.
    read_at: SystemTime,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SourceFile {
    version: FileVersion,
    hash: Hash,
}

/// The metadata that changes with the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileVersion {
    inode: u64,
    length: u64,
    modified: [i64; 2],
}

/// Changed source files.
pub(super) struct SourceChange {
    /// The paths below the folder.
    pub(super) paths: Vec<PathBuf>,
    /// The time of the last change.
    pub(super) saved_at: SystemTime,
    /// The files now.
    pub(super) files: SourceFiles,
}

/// The source files cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourceFilesError {
    #[error("{}: cannot be read: {source}; check the path and its permissions", folder.display())]
    Unreadable { folder: PathBuf, source: io::Error },
    #[error("{}: more than {MAX_FILES} source files; name the folder of one module", .0.display())]
    TooMany(PathBuf),
}

impl SourceFiles {
    /// Reads the files of a folder.
    pub(super) fn read(folder: &Path) -> Result<Self, SourceFilesError> {
        let files = BTreeMap::new();
        let folder = folder.to_owned();
        Self { folder, files, read_at: SystemTime::UNIX_EPOCH }.again()
    }

    /// Waits until a file has changed, and until the changes have stopped.
    pub(super) async fn changed(&self) -> Result<SourceChange, SourceFilesError> {
        let mut last = self.again()?;
        let mut wait = INTERVAL;
        loop {
            sleep(wait).await;
            let start = Instant::now();
            let now = last.again()?;
            wait = INTERVAL.max(MAX_LOAD * start.elapsed());
            let paths: Vec<_> = self.differences(&now).map(Path::to_owned).collect();
            let is_complete = last.differences(&now).next().is_none();
            if is_complete && !paths.is_empty() {
                let saved_at = now.saved_at(&paths).max(self.read_at).min(SystemTime::now());
                return Ok(SourceChange { paths, saved_at, files: now });
            }
            last = now;
        }
    }

    /// Reads the folder again. Only files with other metadata are opened.
    fn again(&self) -> Result<Self, SourceFilesError> {
        let mut now = Self {
            folder: self.folder.clone(),
            files: BTreeMap::new(),
            read_at: SystemTime::now(),
        };
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            let path = self.folder.join(&folder);
            let entries = match fs::read_dir(&path) {
                Ok(entries) => entries,
                // It was removed meanwhile, or is none of the sources.
                Err(_) if folder != Path::new("") => continue,
                Err(source) => return Err(SourceFilesError::Unreadable { folder: path, source }),
            };
            for entry in entries.filter_map(Result::ok) {
                let name = folder.join(entry.file_name());
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() {
                    folders.extend(is_source_folder(&entry).then_some(name));
                } else if is_source_file(&entry)
                    && let Ok(metadata) = fs::metadata(entry.path())
                    && metadata.is_file()
                {
                    let file = self.file(&name, &metadata);
                    now.files.insert(name, file);
                }
            }
            if now.files.len() > MAX_FILES {
                return Err(SourceFilesError::TooMany(self.folder.clone()));
            }
        }
        Ok(now)
    }

    fn file(&self, name: &Path, metadata: &Metadata) -> SourceFile {
        let version = FileVersion {
            inode: metadata.ino(),
            length: metadata.len(),
            modified: [metadata.mtime(), metadata.mtime_nsec()],
        };
        if let Some(known) = self.files.get(name).filter(|known| known.version == version) {
            return *known;
        }
        let content = files::read(&self.folder.join(name), MAX_SIZE);
        // A file that cannot be read changes with its metadata.
        let hash = content.map_or_else(
            |_| blake3::hash(format!("{version:?}").as_bytes()),
            |content| blake3::hash(&content),
        );
        SourceFile { version, hash }
    }

    /// Returns the paths of files with another content.
    fn differences<'a>(&'a self, now: &'a Self) -> impl Iterator<Item = &'a Path> {
        let hash = |files: &Self, path: &PathBuf| files.files.get(path).map(|file| file.hash);
        let changed = now.files.keys().filter(move |path| hash(self, path) != hash(now, path));
        let removed = self.files.keys().filter(|path| !now.files.contains_key(*path));
        changed.chain(removed).map(PathBuf::as_path)
    }

    /// Returns the time at which the last of these files was modified; files that were
    /// removed have none.
    fn saved_at(&self, paths: &[PathBuf]) -> SystemTime {
        let files = paths.iter().filter_map(|path| self.files.get(path));
        let times = files.map(|file| {
            let [seconds, nanos] = file.version.modified;
            let seconds = Duration::from_secs(seconds.try_into().unwrap_or_default());
            let nanos = Duration::from_nanos(nanos.try_into().unwrap_or_default());
            SystemTime::UNIX_EPOCH + seconds + nanos
        });
        times.max().unwrap_or(self.read_at)
    }
}

fn is_source_folder(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let name = name.to_string_lossy();
    let is_hidden = name.starts_with('.') && name != CARGO;
    let is_output = || MARKERS.iter().any(|marker| entry.path().join(marker).exists());
    !is_hidden && !OUTPUTS.contains(&&*name) && !is_output()
}

fn is_source_file(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let name = name.to_string_lossy();
    // Hidden files and those with a tilde are temporary ones of editors.
    !name.starts_with('.')
        && !name.ends_with('~')
        && !name.ends_with(".wasm")
        && !WRITTEN.iter().any(|written| entry.path().ends_with(written))
}

#[cfg(test)]
mod tests {
    use super::{SourceFiles, SourceFilesError};
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::time::SystemTime;

    fn write(folder: &Path, file: &str, content: &str) {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    #[tokio::test]
    async fn changes_of_sources_are_reported_and_outputs_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for file in ["src/lib.rs", "README.md", "gone.txt", ".cargo/config.toml"] {
            write(folder, file, "1");
        }
        let before = SourceFiles::read(folder).unwrap();
        for file in [
            "target/a",
            "sub/target/a",
            "node_modules/b/c",
            ".git/d",
            ".venv/e",
            "__pycache__/f",
            "env/pyvenv.cfg",
            "env/g",
            "out/CACHEDIR.TAG",
            "out/h",
            "a.wasm",
            "src/.lib.rs.swp",
            "src/lib.rs~",
            "Cargo.lock",
            "package-lock.json",
            "src/imports.js",
        ] {
            write(folder, file, "1");
        }
        // The content is the same.
        write(folder, "README.md", "1");
        assert_eq!(before.differences(&before.again().unwrap()).count(), 0);

        write(folder, "src/lib.rs", "2");
        write(folder, "src/new.rs", "1");
        write(folder, ".cargo/config.toml", "2");
        fs::remove_file(folder.join("gone.txt")).unwrap();
        let change = before.changed().await.unwrap();
        let paths = [".cargo/config.toml", "src/lib.rs", "src/new.rs", "gone.txt"];
        assert_eq!(change.paths, paths.map(PathBuf::from));
        assert!(change.saved_at >= before.read_at && change.saved_at <= SystemTime::now());
        assert_eq!(change.files.differences(&before.again().unwrap()).count(), 0);
    }

    #[test]
    fn folders_without_sources_are_errors() {
        let error = SourceFiles::read(Path::new("/nowhere")).unwrap_err();
        assert!(matches!(error, SourceFilesError::Unreadable { .. }), "{error}");
    }
}
