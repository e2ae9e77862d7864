//! A socket that listens: of TCP, or a Unix socket with its file.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use tokio::net::{TcpListener, UnixListener};

use super::listen_config::ListenAddress;
use crate::unix_socket::{SocketFile, UnixSocket};

/// A socket that listens.
#[derive(Debug)]
pub(crate) enum ListenSocket {
    Tcp(TcpListener),
    /// The file is removed at the end, unless another program has created it.
    Unix(UnixListener, Option<SocketFile>),
}

impl ListenSocket {
    /// Returns the address, with the port that the system has chosen for port 0.
    pub(crate) fn address(&self) -> io::Result<ListenAddress> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(ListenAddress::from),
            Self::Unix(_, Some(file)) => Ok(ListenAddress::Unix(file.path().to_owned())),
            Self::Unix(listener, None) => {
                let address = listener.local_addr()?;
                let path = address.as_pathname().map(ToOwned::to_owned);
                Ok(ListenAddress::Unix(path.unwrap_or_default()))
            }
        }
    }

    /// Returns the file that is removed at the end, if there is one.
    #[cfg(feature = "control")]
    pub(crate) fn file(&self) -> Option<&SocketFile> {
        match self {
            Self::Tcp(_) => None,
            Self::Unix(_, file) => file.as_ref(),
        }
    }
}

impl From<UnixSocket> for ListenSocket {
    fn from(UnixSocket { listener, file }: UnixSocket) -> Self {
        Self::Unix(listener, Some(file))
    }
}

impl AsFd for ListenSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener, _) => listener.as_fd(),
        }
    }
}
