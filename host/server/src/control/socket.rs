//! The control socket: a file that only its owner can read and write.

use std::env;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::getuid;
use tokio::net::UnixListener;

use crate::tokens::TokensError;

/// The extension of a default socket, after the address of its server.
const EXTENSION: &str = "sock";

/// The maximum length of a socket's path that systems accept, in bytes.
const MAX_PATH: usize = 107;

/// The length of a temporary socket's path after its folder: `/.123456/s`.
const TEMPORARY_PATH_LENGTH: usize = 10;

/// The maximum wait for another process that creates a socket in the same folder.
const MAX_LOCK_WAIT: Duration = Duration::from_secs(1);

/// How long a socket may stay open after its server was killed.
const STALE_SOCKET_TIME: Duration = Duration::from_millis(200);

/// A socket with a listener. Its file is removed when it is dropped.
#[derive(Debug)]
pub struct ControlSocket {
    pub(crate) listener: UnixListener,
    path: PathBuf,
    /// The device and inode of the file.
    file: (u64, u64),
}

/// A failure to listen on a control socket.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Another process listens on the socket.
    #[error(
        "control socket {}: another server uses it; choose another with --control PATH, or use --no-control",
        path.display()
    )]
    Live {
        /// The socket.
        path: PathBuf,
    },
    /// The path exists and is not a socket.
    #[error(
        "control socket {}: the path exists and is not a socket; choose another path with --control PATH",
        path.display()
    )]
    NotASocket {
        /// The existing path.
        path: PathBuf,
    },
    /// The path is too long for a socket.
    #[error("control socket {}: the path is longer than {MAX_PATH} bytes; choose a shorter one with --control PATH", path.display())]
    TooLong {
        /// The path.
        path: PathBuf,
    },
    /// The admin listener cannot listen.
    #[error("admin.listen {address}: cannot listen: {source}; choose another address")]
    Admin {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// The tokens of the admin listener cannot be used.
    #[error("admin.token-file: {0}")]
    Tokens(#[from] TokensError),
    /// The socket cannot be created.
    #[error("control socket {}: {source}; choose a path in a folder of your own with --control PATH", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// Returns the folder of the default sockets: `relayer-rest` in the user's runtime
/// folder, or a folder of the user's own in `/tmp`.
#[must_use]
pub fn default_folder() -> PathBuf {
    let runtime =
        env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let own = || PathBuf::from(format!("/tmp/relayer-rest-{}", getuid().as_raw()));
    runtime.map_or_else(own, |folder| folder.join("relayer-rest"))
}

/// Returns the default socket of a server that listens on this address.
#[must_use]
pub fn default_path(address: SocketAddr) -> PathBuf {
    default_folder().join(format!("{address}.{EXTENSION}"))
}

/// Returns the default sockets on which a server listens, in the order of their names.
///
/// # Errors
/// Returns an error if the folder cannot be read; a missing one has no sockets.
pub fn running() -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(default_folder()) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut sockets = Vec::new();
    for entry in entries {
        let path = entry?.path();
        // A server that was killed leaves its socket behind.
        let is_socket = path.extension().is_some_and(|extension| extension == EXTENSION);
        if is_socket && UnixStream::connect(&path).is_ok() {
            sockets.push(path);
        }
    }
    sockets.sort_unstable();
    Ok(sockets)
}

impl ControlSocket {
    /// Listens on a socket at this path. A socket without a listener is replaced.
    ///
    /// Must be called within a Tokio runtime.
    pub fn bind(path: &Path) -> Result<Self, ControlError> {
        let io_error = |source| ControlError::Io { path: path.to_owned(), source };
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let longest = path.as_os_str().len().max(folder.as_os_str().len() + TEMPORARY_PATH_LENGTH);
        if longest > MAX_PATH {
            return Err(ControlError::TooLong { path: path.to_owned() });
        }
        if folder == default_folder() {
            own_folder(folder).map_err(io_error)?;
        }
        // Serialized, so that of two servers that start at once, one finds the other's
        // socket.
        let _lock = lock(folder).map_err(io_error)?;
        check_owner(path)?;
        // The socket is created in a private folder and moved when its mode is set, so
        // that other users can never connect to it.
        let private = tempfile::Builder::new()
            .prefix(".")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(folder)
            .map_err(io_error)?;
        let inner = private.path().join("s");
        let listener = UnixListener::bind(&inner).map_err(io_error)?;
        fs::set_permissions(&inner, Permissions::from_mode(0o600)).map_err(io_error)?;
        let meta = fs::metadata(&inner).map_err(io_error)?;
        fs::rename(&inner, path).map_err(io_error)?;
        Ok(Self { listener, path: path.to_owned(), file: (meta.dev(), meta.ino()) })
    }

    /// Returns the path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // Another server may have replaced the socket.
        let is_ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|meta| (meta.dev(), meta.ino()) == self.file);
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
fn check_owner(path: &Path) -> Result<(), ControlError> {
    let io_error = |source| ControlError::Io { path: path.to_owned(), source };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_error(error)),
        Ok(meta) if !meta.file_type().is_socket() => {
            return Err(ControlError::NotASocket { path: path.to_owned() });
        }
        Ok(_) => {}
    }
    if UnixStream::connect(path).is_ok() {
        // The socket of a killed server stays open until the processes that the server
        // was about to start have ended.
        thread::sleep(STALE_SOCKET_TIME);
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(ControlError::Live { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io_error(error)),
    }
}

/// Creates the folder if it is missing. A folder in `/tmp` that another user has created
/// must not be trusted.
fn own_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made,
    }
    let meta = fs::symlink_metadata(folder)?;
    let is_own = meta.is_dir() && meta.uid() == getuid().as_raw();
    let is_closed = meta.mode() & 0o022 == 0;
    if is_own && is_closed {
        return Ok(());
    }
    let message = format!(
        "the folder {} belongs to another user, or other users can write to it",
        folder.display()
    );
    Err(io::Error::other(message))
}
