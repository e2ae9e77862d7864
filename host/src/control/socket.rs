//! The socket: a file that only its owner can read and write.

use std::env;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tokio::net::UnixListener;

/// The socket's name in the folder for such things.
const NAME: &str = "relayer-rest.sock";

/// The longest path of a socket that systems take, in bytes.
const MAX_PATH: usize = 107;

/// What the path of a socket has behind that of its folder while it is made:
/// `/.123456/s`.
const IN_FOLDER: usize = 10;

/// How long another is waited for that puts a socket into the same folder.
const TURN: Duration = Duration::from_secs(1);

/// How long a socket may be open after who listened on it was killed.
const LAST_BREATH: Duration = Duration::from_millis(200);

/// A socket that is listened on. Its file is removed when it is dropped.
#[derive(Debug)]
pub struct ControlSocket {
    pub(crate) listener: UnixListener,
    path: PathBuf,
    /// The device and number of the file.
    file: (u64, u64),
}

/// There is no socket.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Another process listens on it.
    #[error(
        "control socket {}: another relayer-rest is controlled there; choose another with --control PATH, or do without with --no-control",
        path.display()
    )]
    Live {
        /// The socket.
        path: PathBuf,
    },
    /// There is something else in its place.
    #[error(
        "control socket {}: this is no socket, and it is left alone; choose another path with --control PATH",
        path.display()
    )]
    NotASocket {
        /// What is in its place.
        path: PathBuf,
    },
    /// The path is too long for a socket.
    #[error("control socket {}: the path is longer than {MAX_PATH} bytes; choose a shorter one with --control PATH", path.display())]
    TooLong {
        /// The path.
        path: PathBuf,
    },
    /// It cannot be made.
    #[error("control socket {}: {source}; choose a path in a folder of your own with --control PATH", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Where the socket is when nobody says otherwise: in the user's runtime
/// folder, or one of their own in `/tmp`.
#[must_use]
pub fn default_path() -> PathBuf {
    let folder =
        env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = folder.unwrap_or_else(|| {
        PathBuf::from(format!("/tmp/relayer-rest-{}", rustix::process::getuid().as_raw()))
    });
    folder.join(NAME)
}

impl ControlSocket {
    /// Listens on a socket at this path. One that nobody listens on any more
    /// is replaced.
    ///
    /// To be called in a runtime of tokio.
    pub fn bind(path: &Path) -> Result<Self, ControlError> {
        let fault = |source| ControlError::Io { path: path.to_owned(), source };
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let longest = path.as_os_str().len().max(folder.as_os_str().len() + IN_FOLDER);
        if longest > MAX_PATH {
            return Err(ControlError::TooLong { path: path.to_owned() });
        }
        if path == default_path() {
            own_folder(folder).map_err(fault)?;
        }
        // One at a time: of two that start at once, one finds the other's.
        let _turn = turn(folder).map_err(fault)?;
        check_owner(path)?;
        // Made in a folder that nobody else can look into, and put into its
        // place when its mode is right: at no time can others connect.
        let private = tempfile::Builder::new()
            .prefix(".")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(folder)
            .map_err(fault)?;
        let inner = private.path().join("s");
        let listener = UnixListener::bind(&inner).map_err(fault)?;
        fs::set_permissions(&inner, Permissions::from_mode(0o600)).map_err(fault)?;
        let meta = fs::metadata(&inner).map_err(fault)?;
        fs::rename(&inner, path).map_err(fault)?;
        Ok(Self { listener, path: path.to_owned(), file: (meta.dev(), meta.ino()) })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // Somebody else's may be there by now.
        let is_ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|meta| (meta.dev(), meta.ino()) == self.file);
        if is_ours {
            fs::remove_file(&self.path).ok();
        }
    }
}

/// The only one that looks into a folder and puts a socket there; or not, where
/// somebody keeps the others waiting, as anybody can in a folder like `/tmp`.
fn turn(folder: &Path) -> io::Result<File> {
    let turn = File::open(folder)?;
    let start = Instant::now();
    while let Err(error) = flock(&turn, FlockOperation::NonBlockingLockExclusive) {
        if error != Errno::WOULDBLOCK {
            return Err(error.into());
        }
        if start.elapsed() > TURN {
            break;
        }
        thread::sleep(TURN / 20);
    }
    Ok(turn)
}

/// Whether the path is free, or has a socket that nobody listens on.
fn check_owner(path: &Path) -> Result<(), ControlError> {
    let fault = |source| ControlError::Io { path: path.to_owned(), source };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(fault(error)),
        Ok(meta) if !meta.file_type().is_socket() => {
            return Err(ControlError::NotASocket { path: path.to_owned() });
        }
        Ok(_) => {}
    }
    if UnixStream::connect(path).is_ok() {
        // A server that was killed is gone when the last process is that it was
        // about to start.
        thread::sleep(LAST_BREATH);
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(ControlError::Live { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(fault(error)),
    }
}

/// Makes the folder where it is not there; one in `/tmp` that another user has
/// made is not to be trusted.
fn own_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made,
    }
    let meta = fs::symlink_metadata(folder)?;
    let is_own = meta.is_dir() && meta.uid() == rustix::process::getuid().as_raw();
    let is_closed = meta.mode() & 0o022 == 0;
    if is_own && is_closed {
        return Ok(());
    }
    let message = format!("the folder {} is not one that only you can write to", folder.display());
    Err(io::Error::other(message))
}
