//! The control socket: a file that only its owner can read and write.

use std::env;
use std::fmt::Display;
use std::fs::{self, DirBuilder};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::process::getuid;

use crate::tokens::TokensError;
use crate::unix_socket::{SocketPermissions, UnixSocket, UnixSocketError};

/// The extension of a default socket, after the address of its server.
const EXTENSION: &str = "sock";

/// A control socket with a listener. Its file is removed when it is dropped.
#[derive(Debug)]
pub struct ControlSocket(pub(super) UnixSocket);

/// A failure to listen on a control socket.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The socket cannot be created.
    #[error("control socket {}: {source}; {}", path.display(), remedy(source))]
    Socket {
        /// The socket.
        path: PathBuf,
        /// The reason.
        source: UnixSocketError,
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
}

/// Returns the remedy for a socket that cannot be created.
fn remedy(error: &UnixSocketError) -> &'static str {
    match error {
        UnixSocketError::Live => "choose another with --control PATH, or use --no-control",
        UnixSocketError::NotASocket => "choose another path with --control PATH",
        UnixSocketError::TooLong => "choose a shorter one with --control PATH",
        UnixSocketError::Io(_) => "choose a path in a folder of your own with --control PATH",
    }
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
pub fn default_path(address: impl Display) -> PathBuf {
    // The path of a Unix socket becomes one name.
    let name = address.to_string().replace('/', "-");
    default_folder().join(format!("{name}.{EXTENSION}"))
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
        let socket_error = |source| ControlError::Socket { path: path.to_owned(), source };
        let folder = path.parent().unwrap_or(Path::new(""));
        if folder == default_folder() {
            own_folder(folder).map_err(|error| socket_error(error.into()))?;
        }
        let permissions = SocketPermissions { mode: 0o600, user: None, group: None };
        UnixSocket::bind(path, permissions).map(Self).map_err(socket_error)
    }

    /// Returns the path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.file.path()
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
