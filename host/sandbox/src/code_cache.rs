//! Compiled code on disk, so that a start does not compile it again.
//!
//! | file | job |
//! |---|---|
//! | `code_cache/folder.rs` | opens the folder, if only this user can change it |
//! | `code_cache/entry.rs` | the format of an entry, and its hash |
//!
//! The folder has one file per artefact, which is named after its key. Entries are
//! verified before they are used. An entry that is missing, damaged or of another format
//! is compiled again and replaced. A cache that cannot be written to only makes starts
//! slower.

mod entry;
mod folder;

use std::env;
use std::fmt::{self, Debug, Formatter};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT,
};
use rustix::fs::{fstat, futimens, openat, renameat, statat, unlinkat};
use rustix::process::{Resource, getrlimit};
use tracing::warn;

use super::artefact::Artefact;
use entry::Damage;
pub(super) use entry::Key;

/// The maximum size of all files together, in bytes.
const MAX_SIZE: u64 = 128 << 20;

/// The minimum size that a file counts for, in bytes, which bounds the number of files.
const MIN_FILE: u64 = 4 << 10;

/// The prefix of the names of files that are being written.
const TEMPORARY: &str = "new-";

/// The age from which a temporary file counts as abandoned by its writer.
const ABANDONED: Duration = Duration::from_mins(10);

/// A folder for compiled code. Cheap to clone.
#[derive(Clone)]
pub struct CodeCache(Arc<Folder>);

struct Folder {
    path: PathBuf,
    descriptor: OwnedFd,
    max_size: u64,
}

/// The reason that a folder cannot be used as the code cache.
#[derive(Debug, thiserror::Error)]
#[error(
    "code cache {}: {problem}; choose another folder with --code-cache DIR or RELAYER_REST_CODE_CACHE, or use --no-code-cache",
    folder.display()
)]
pub struct CodeCacheError {
    folder: PathBuf,
    problem: folder::FolderError,
}

impl CodeCache {
    /// Opens a folder, and creates it if it is missing.
    ///
    /// The process executes code from this folder. The folder must therefore belong to
    /// the effective user, and no other user may be able to write to it. Each parent must
    /// belong to that user or to root, and other users may write to it only if it has the
    /// sticky bit. Symbolic links in the path must belong to one of the two, and the same
    /// rules hold for their targets.
    pub fn open(folder: &Path) -> Result<Self, CodeCacheError> {
        Self::with_max_size(folder, MAX_SIZE)
    }

    /// Opens the folder that `RELAYER_REST_CODE_CACHE` names, or else `relayer-rest` in
    /// `$XDG_CACHE_HOME` or `~/.cache`. Returns an error if a named folder is unsuitable, and
    /// no cache if the default folder is.
    pub fn from_env() -> Result<Option<Self>, CodeCacheError> {
        let named = env::var_os("RELAYER_REST_CODE_CACHE").filter(|path| !path.is_empty());
        if let Some(folder) = named {
            return Self::open(folder.as_ref()).map(Some);
        }
        let absolute =
            |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || Some(absolute("HOME")?.join(".cache"));
        let Some(caches) = absolute("XDG_CACHE_HOME").or_else(home) else {
            warn!(
                error = "neither XDG_CACHE_HOME nor HOME is an absolute path; choose a folder with RELAYER_REST_CODE_CACHE",
                "no code cache"
            );
            return Ok(None);
        };
        let opened = Self::open(&caches.join("relayer-rest"));
        Ok(opened.inspect_err(|error| warn!(%error, "no code cache")).ok())
    }

    fn with_max_size(path: &Path, max_size: u64) -> Result<Self, CodeCacheError> {
        let path = path.to_owned();
        match folder::open(&path) {
            Ok(descriptor) => Ok(Self(Arc::new(Folder { path, descriptor, max_size }))),
            Err(problem) => Err(CodeCacheError { folder: path, problem }),
        }
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.0.path
    }

    /// Returns the artefact with this key, if there is an undamaged entry.
    pub(super) fn get(&self, key: Key) -> Option<Artefact> {
        match self.0.read(key) {
            Ok(artefact) => Some(artefact),
            Err(Damage::Io(error)) if error.kind() == ErrorKind::NotFound => None,
            Err(reason) => {
                let folder = self.0.path.display();
                let entry = key.file_name();
                warn!(%folder, entry, %reason, "cached code rejected; recompiling");
                None
            }
        }
    }

    /// Returns whether there is an entry with this key, which may be damaged.
    pub(super) fn contains(&self, key: Key) -> bool {
        statat(&self.0.descriptor, key.file_name(), AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Stores an artefact, and evicts the least recently used ones if the cache is too
    /// large.
    pub(super) fn put(&self, key: Key, artefact: &Artefact) {
        if let Err(error) = self.0.write(key, artefact).and_then(|()| self.0.evict(key)) {
            let folder = self.0.path.display();
            warn!(
                %folder,
                %error,
                hint = "make the folder writable, or use --no-code-cache",
                "compiled code not stored"
            );
        }
    }
}

impl Folder {
    fn read(&self, key: Key) -> Result<Artefact, Damage> {
        // A pipe of this name must not block.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.descriptor, key.file_name(), flags, Mode::empty())
            .map_err(io::Error::from)?;
        let stat = fstat(&file).map_err(io::Error::from)?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !is_file || !folder::is_private(&stat) {
            return Err(Damage::Shared);
        }
        let length = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        if length > self.max_size {
            return Err(Damage::Size);
        }
        let mut file = File::from(file);
        let mut content = Vec::new();
        (&mut file).take(length).read_to_end(&mut content)?;
        let artefact = entry::decode(key, &content)?;
        // A failure only affects the order of eviction.
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        futimens(&file, &Timestamps { last_access: omit, last_modification: now }).ok();
        Ok(artefact)
    }

    fn write(&self, key: Key, artefact: &Artefact) -> io::Result<()> {
        let content = entry::encode(key, artefact)?;
        let length = content.len() as u64;
        if length > self.max_size {
            let error = format!("its {length} bytes exceed the maximum of {}", self.max_size);
            return Err(io::Error::new(ErrorKind::FileTooLarge, error));
        }
        // Writing more would raise a signal that ends the process.
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| length > limit) {
            let error = "it exceeds the limit of file sizes (ulimit -f)";
            return Err(io::Error::new(ErrorKind::FileTooLarge, error));
        }
        let name = format!("{TEMPORARY}{:016x}", fastrand::u64(..));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = openat(&self.descriptor, &name, flags | OFlags::CLOEXEC, mode)?;
        let written = File::from(file).write_all(&content).and_then(|()| {
            let old = &self.descriptor;
            let new = &self.descriptor;
            Ok(renameat(old, &name, new, key.file_name())?)
        });
        if written.is_err() {
            unlinkat(&self.descriptor, &name, AtFlags::empty()).ok();
        }
        written
    }

    /// Removes abandoned temporary files, and evicts entries while all files together are
    /// too large: the least recently used first, but never the one with this key.
    fn evict(&self, kept: Key) -> io::Result<()> {
        let kept = kept.file_name();
        let mut entries = Vec::new();
        let mut size = 0;
        for found in Dir::read_from(&self.descriptor)? {
            let found = found?;
            let Ok(name) = found.file_name().to_str() else { continue };
            let is_temporary = name.starts_with(TEMPORARY);
            if !is_temporary && !entry::is_file_name(name) {
                continue;
            }
            // Another process may have just removed or renamed it.
            let Ok(stat) = statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let used = SystemTime::UNIX_EPOCH
                + Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or_default());
            if is_temporary && used.elapsed().is_ok_and(|age| age < ABANDONED) {
                size += counted(stat.st_size);
            } else if is_temporary {
                unlinkat(&self.descriptor, name, AtFlags::empty()).ok();
            } else {
                size += counted(stat.st_size);
                let used = (stat.st_mtime, stat.st_mtime_nsec);
                entries.push((name == kept, used, name.to_owned(), stat.st_size));
            }
        }
        entries.sort_unstable();
        for (is_kept, _, name, length) in entries {
            if size <= self.max_size || is_kept {
                break;
            }
            unlinkat(&self.descriptor, name, AtFlags::empty()).ok();
            size -= counted(length);
        }
        Ok(())
    }
}

/// Returns the size that a file of this length counts for.
fn counted(length: i64) -> u64 {
    u64::try_from(length).unwrap_or_default().max(MIN_FILE)
}

impl Debug for CodeCache {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CodeCache").field(&self.0.path).finish()
    }
}

#[cfg(test)]
mod tests;
