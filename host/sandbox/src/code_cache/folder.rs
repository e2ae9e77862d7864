//! Opens the code cache's folder, if only this user can change it.
//!
//! The server executes code from this folder. Each component of the path is therefore
//! opened relative to the one before it and checked on the open descriptor: no other user
//! can exchange a part of the path between the check and the use, and later accesses go
//! through the descriptor.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::fs::{CWD, fstat, mkdirat, openat, readlinkat, statat};
use rustix::io::Errno;
use rustix::process::geteuid;

/// The maximum number of symbolic links in a path, as on Linux.
const MAX_LINKS: usize = 40;

/// The write permissions of the group and of others.
const SHARED_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;
const ROOT: u32 = 0;

/// The flags for opening a part of the path that need not be readable.
#[cfg(target_os = "linux")]
const TRAVERSE: OFlags = OFlags::PATH.union(FOLDER);
#[cfg(not(target_os = "linux"))]
const TRAVERSE: OFlags = FOLDER;
const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A reason why a folder cannot hold the code cache.
#[derive(Debug, thiserror::Error)]
pub(super) enum FolderError {
    /// Another user owns it, or a part of its path.
    #[error("{} belongs to user {owner}, who could replace compiled code", path.display())]
    Owner { path: PathBuf, owner: u32 },
    /// Other users can write to it, or to a part of its path.
    #[error(
        "other users can write to {} (mode {mode:04o}); run `chmod go-w` on it",
        path.display()
    )]
    Writable { path: PathBuf, mode: u32 },
    /// The path has too many symbolic links.
    #[error("{}: too many symbolic links", path.display())]
    Links { path: PathBuf },
    /// It cannot be opened or created.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Opens the folder, and creates it and its parents (mode 0700) if they are
/// missing.
pub(super) fn open(path: &Path) -> Result<OwnedFd, FolderError> {
    let path = std::path::absolute(path)
        .map_err(|source| FolderError::Io { path: path.to_owned(), source })?;
    let mut at = PathBuf::from("/");
    let mut folder = root()?;
    let mut stat = checked(&folder, &at)?;
    let mut names = parts(&path);
    let mut links = 0;
    while let Some(name) = names.pop() {
        let here = at.join(&name);
        let io = |error: Errno| FolderError::Io { path: here.clone(), source: error.into() };
        if let Some(link) = link(&folder, &name).map_err(io)? {
            let owner = link.st_uid;
            if !is_trusted(owner) {
                return Err(FolderError::Owner { path: here, owner });
            }
            links += 1;
            if links > MAX_LINKS {
                return Err(FolderError::Links { path: here });
            }
            let target = readlinkat(&folder, &name, Vec::new()).map_err(io)?;
            let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
            if target.is_absolute() {
                (folder, at) = (root()?, PathBuf::from("/"));
            }
            names.extend(parts(&target));
            continue;
        }
        folder = descend(&folder, &name).map_err(io)?;
        if name == ".." {
            at.pop();
        } else {
            at = here;
        }
        stat = checked(&folder, &at)?;
    }
    // The folder itself must be this user's, and not shared even with the sticky bit.
    if stat.st_uid != geteuid().as_raw() {
        return Err(FolderError::Owner { path: at, owner: stat.st_uid });
    }
    if stat.st_mode & SHARED_WRITE != 0 {
        return Err(writable(at, &stat));
    }
    let readable = openat(&folder, ".", FOLDER, Mode::empty());
    readable.map_err(|error| FolderError::Io { path: at, source: error.into() })
}

/// Returns whether this user owns a file and others have no write permission.
pub(super) fn is_private(stat: &Stat) -> bool {
    stat.st_uid == geteuid().as_raw() && stat.st_mode & SHARED_WRITE == 0
}

fn root() -> Result<OwnedFd, FolderError> {
    openat(CWD, "/", TRAVERSE, Mode::empty())
        .map_err(|error| FolderError::Io { path: "/".into(), source: error.into() })
}

/// Returns the names in a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    });
    names.collect()
}

/// Returns the metadata of the symbolic link with this name, if it is one.
fn link(folder: &OwnedFd, name: &OsStr) -> rustix::io::Result<Option<Stat>> {
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => {
            let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
            Ok(is_link.then_some(stat))
        }
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens the folder with this name, and creates it if it is missing.
fn descend(folder: &OwnedFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let opened = openat(folder, name, TRAVERSE, Mode::empty());
    if !matches!(opened, Err(Errno::NOENT)) {
        return opened;
    }
    match mkdirat(folder, name, Mode::RWXU) {
        // Another process may have just created it.
        Ok(()) | Err(Errno::EXIST) => openat(folder, name, TRAVERSE, Mode::empty()),
        Err(error) => Err(error),
    }
}

/// Returns the metadata of a part of the path, unless other users can replace
/// the entries in it.
fn checked(folder: &OwnedFd, path: &Path) -> Result<Stat, FolderError> {
    let io = |error: Errno| FolderError::Io { path: path.to_owned(), source: error.into() };
    let stat = fstat(folder).map_err(io)?;
    if !is_trusted(stat.st_uid) {
        return Err(FolderError::Owner { path: path.to_owned(), owner: stat.st_uid });
    }
    // With the sticky bit, as in /tmp, other users cannot replace our entries.
    if stat.st_mode & SHARED_WRITE != 0 && stat.st_mode & STICKY == 0 {
        return Err(writable(path.to_owned(), &stat));
    }
    Ok(stat)
}

/// Returns whether the owner of a part of the path is trusted: this user, or root, which
/// can do everything anyway.
fn is_trusted(owner: u32) -> bool {
    owner == ROOT || owner == geteuid().as_raw()
}

fn writable(path: PathBuf, stat: &Stat) -> FolderError {
    FolderError::Writable { path, mode: stat.st_mode & 0o7777 }
}

#[cfg(test)]
mod tests {
    use super::{FolderError, open};
    use rustix::process::geteuid;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::path::Path;

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_missing_folder_is_created_for_this_user_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        open(&path).unwrap();
        for path in [&path, path.parent().unwrap()] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o7777, 0o700);
        }
        open(&path).unwrap();
        open(&folder.path().join("a/../a/./b")).unwrap();
    }

    #[test]
    fn folders_that_others_can_write_to_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let parent = folder.path().join("parent");
        let path = parent.join("cache");
        fs::create_dir_all(&path).unwrap();
        for (mode_of_parent, mode, rejected) in [
            (0o755, 0o755, None),
            (0o755, 0o775, Some(&path)),
            (0o755, 0o1777, Some(&path)),
            (0o775, 0o700, Some(&parent)),
            (0o757, 0o700, Some(&parent)),
            (0o1777, 0o700, None),
        ] {
            chmod(&parent, mode_of_parent);
            chmod(&path, mode);
            match (open(&path), rejected) {
                (Ok(_), None) => {}
                (Err(FolderError::Writable { path, .. }), Some(expected)) => {
                    assert_eq!(path, *expected);
                }
                (opened, _) => panic!("{mode_of_parent:o} {mode:o}: {opened:?}"),
            }
        }
    }

    #[test]
    fn folders_and_links_of_other_users_are_rejected() {
        if !geteuid().is_root() {
            eprintln!("skipped: only root can give files to other users");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("theirs/ours")).unwrap();
        chown(path("theirs"), Some(65_534), None).unwrap();
        fs::create_dir(path("target")).unwrap();
        chmod(&path("target"), 0o700);
        chmod(&path("theirs"), 0o755);
        symlink("target", path("our-link")).unwrap();
        symlink("target", path("their-link")).unwrap();
        std::os::unix::fs::lchown(path("their-link"), Some(65_534), None).unwrap();
        open(&path("our-link")).unwrap();
        for (name, culprit) in [
            ("theirs", "theirs"),
            ("theirs/ours", "theirs"),
            ("theirs/new", "theirs"),
            ("their-link", "their-link"),
        ] {
            let Err(FolderError::Owner { path: found, owner: 65_534 }) = open(&path(name)) else {
                panic!("{name}")
            };
            assert_eq!(found, path(culprit));
        }
        assert!(!path("theirs/new").exists());
    }

    #[test]
    fn links_are_followed_and_checked_up_to_a_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("shared/cache")).unwrap();
        chmod(&path("shared/cache"), 0o700);
        chmod(&path("shared"), 0o777);
        symlink(path("shared/cache"), path("absolute")).unwrap();
        symlink("shared/cache", path("relative")).unwrap();
        for name in ["absolute", "relative"] {
            let error = open(&path(name)).unwrap_err();
            assert!(
                matches!(&error, FolderError::Writable { path: at, .. } if *at == path("shared"))
            );
        }
        chmod(&path("shared"), 0o755);
        for name in ["absolute", "relative"] {
            open(&path(name)).unwrap();
        }
        symlink("loop", path("loop")).unwrap();
        assert!(matches!(open(&path("loop")), Err(FolderError::Links { .. })));
        fs::write(path("file"), "").unwrap();
        assert!(matches!(open(&path("file")), Err(FolderError::Io { .. })));
    }
}
