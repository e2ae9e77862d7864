//! Unix sockets: their files are created with their final mode and owner, replace those of
//! servers that were killed, and are removed at the end.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
#[cfg(feature = "control")]
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tokio::net::UnixListener;

/// The start of an address that is the path of a Unix socket.
pub(crate) const UNIX: &str = "unix:";

/// The maximum length of a socket's path that systems accept, in bytes.
const MAX_PATH: usize = 107;

/// The length of a temporary socket's path after its folder: `/.123456/s`.
const TEMPORARY_PATH_LENGTH: usize = 10;

/// The maximum wait for another process that creates a socket in the same folder.
const MAX_LOCK_WAIT: Duration = Duration::from_secs(1);

/// How long a socket may stay open after its server was killed.
const STALE_SOCKET_TIME: Duration = Duration::from_millis(200);

/// A socket with a listener.
#[derive(Debug)]
pub(crate) struct UnixSocket {
    pub(crate) listener: UnixListener,
    pub(crate) file: SocketFile,
}

/// The file of a socket, which is removed when this is dropped, unless another process owns it.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// The device and inode.
    id: (u64, u64),
    is_own: AtomicBool,
}

/// The permissions of a socket's file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SocketPermissions {
    pub(crate) mode: u32,
    /// The user, if it is not that of the process.
    pub(crate) user: Option<u32>,
    /// The group, if it is not that of the process.
    pub(crate) group: Option<u32>,
}

/// A failure to listen on a socket.
#[derive(Debug, thiserror::Error)]
pub enum UnixSocketError {
    /// Another process listens on it.
    #[error("another server uses it")]
    Live,
    /// The path exists and is not a socket.
    #[error("the path exists and is not a socket")]
    NotASocket,
    /// The path is too long for a socket.
    #[error("the path is longer than {MAX_PATH} bytes")]
    TooLong,
    /// The system refuses it.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl UnixSocket {
    /// Listens on a socket at this path. A socket without a listener is replaced.
    ///
    /// Must be called within a Tokio runtime.
    pub(crate) fn bind(
        path: &Path,
        permissions: SocketPermissions,
    ) -> Result<Self, UnixSocketError> {
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let longest = path.as_os_str().len().max(folder.as_os_str().len() + TEMPORARY_PATH_LENGTH);
        if longest > MAX_PATH {
            return Err(UnixSocketError::TooLong);
        }
        // Serialized, so that of two servers that start at once, one finds the other's
        // socket.
        let _lock = lock(folder)?;
        check_owner(path)?;
        // The socket is created in a private folder and moved when its mode is set, so
        // that other users can never connect to it.
        let private = tempfile::Builder::new()
            .prefix(".")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(folder)?;
        let inner = private.path().join("s");
        let listener = UnixListener::bind(&inner)?;
        let SocketPermissions { mode, user, group } = permissions;
        if user.is_some() || group.is_some() {
            chown(&inner, user, group)?;
        }
        fs::set_permissions(&inner, Permissions::from_mode(mode))?;
        let meta = fs::metadata(&inner)?;
        fs::rename(&inner, path)?;
        let id = (meta.dev(), meta.ino());
        let file = SocketFile { path: path.to_owned(), id, is_own: AtomicBool::new(true) };
        Ok(Self { listener, file })
    }
}

impl SocketFile {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(feature = "control")]
impl SocketFile {
    /// Returns the file of a socket that another process owns.
    pub(crate) fn of_other(path: PathBuf) -> io::Result<Self> {
        let meta = fs::symlink_metadata(&path)?;
        if !meta.file_type().is_socket() {
            return Err(io::Error::other("the path is not a socket"));
        }
        Ok(Self { path, id: (meta.dev(), meta.ino()), is_own: AtomicBool::new(false) })
    }

    /// Sets whether this process owns the file, and so removes it at the end.
    pub(crate) fn set_own(&self, is_own: bool) {
        self.is_own.store(is_own, SeqCst);
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if !*self.is_own.get_mut() {
            return;
        }
        // Another server may have replaced the socket.
        let is_ours =
            fs::symlink_metadata(&self.path).is_ok_and(|meta| (meta.dev(), meta.ino()) == self.id);
        if is_ours {
            fs::remove_file(&self.path).ok();
        }
    }
}

/// Locks a folder while a socket is checked and created there. Proceeds without the lock
/// after [`MAX_LOCK_WAIT`], because any process can hold it in a folder like `/tmp`.
fn lock(folder: &Path) -> io::Result<File> {
    let lock = File::open(folder)?;
    let start = Instant::now();
    while let Err(error) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        if error != Errno::WOULDBLOCK {
            return Err(error.into());
        }
        if start.elapsed() > MAX_LOCK_WAIT {
            break;
        }
        thread::sleep(MAX_LOCK_WAIT / 20);
    }
    Ok(lock)
}

/// Checks that the path is free, or is a socket without a listener.
fn check_owner(path: &Path) -> Result<(), UnixSocketError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
        Ok(meta) if !meta.file_type().is_socket() => {
            return Err(UnixSocketError::NotASocket);
        }
        Ok(_) => {}
    }
    if UnixStream::connect(path).is_ok() {
        // The socket of a killed server stays open until the processes that the server
        // was about to start have ended.
        thread::sleep(STALE_SOCKET_TIME);
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(UnixSocketError::Live),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}
