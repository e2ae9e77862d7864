//! The listeners of clients: TCP and Unix sockets.

use std::io;
use std::net::TcpListener as StdTcpListener;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::net::{TcpListener, UnixListener};

use super::connections::{Accepted, Peer, Socket};
use super::listen_config::{ListenAddress, ListenConfig, Owner, OwnerError};
use super::listen_socket::ListenSocket;
use super::tls::{Tls, TlsError};
use crate::unix_socket::{SocketPermissions, UnixSocket, UnixSocketError};

/// A listener for the connections of clients.
#[derive(Debug)]
pub struct Listener {
    socket: Arc<ListenSocket>,
    proxy_protocol: bool,
    tls: Option<Tls>,
}

/// A socket of a listener, for one runtime.
pub(super) struct AcceptSocket {
    listener: Arc<Listener>,
    socket: AcceptFrom,
}

enum AcceptFrom {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection that waits for its header of the PROXY protocol, if its listener has it.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) accepted: Accepted,
    pub(super) has_proxy_header: bool,
}

/// A failure to listen on an address.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The system refuses a TCP socket.
    #[error("cannot listen: {source}; {}", hint(source))]
    Tcp {
        /// The reason.
        source: io::Error,
    },
    /// The Unix socket cannot be created.
    #[error("cannot listen: {0}; choose a path in a folder of your own with --listen")]
    Unix(#[from] UnixSocketError),
    /// The files of TLS cannot be used.
    #[error("tls: {0}")]
    Tls(#[from] TlsError),
    /// The owner of the Unix socket does not exist.
    #[error(transparent)]
    Owner(#[from] OwnerError),
}

impl Listener {
    /// Listens on the address of a section `[[listen]]`. On Linux, a TCP address has a socket for
    /// each core, up to 16, from which the threads of the server accept.
    ///
    /// Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// Returns an error if the address is in use, or is not one of this machine.
    pub async fn bind(config: &ListenConfig) -> Result<Self, ListenError> {
        let socket = match &config.address {
            ListenAddress::Tcp { host, port } => {
                let bound = TcpListener::bind((host.as_str(), *port)).await;
                let group = bound.and_then(ListenSocket::group);
                group.map_err(|source| ListenError::Tcp { source })?
            }
            ListenAddress::Unix(path) => {
                let (user, group) = config.owner.as_ref().map_or(Ok((None, None)), Owner::ids)?;
                let permissions = SocketPermissions { mode: config.mode.bits(), user, group };
                UnixSocket::bind(path, permissions)?.into()
            }
        };
        Self::from(socket).with_config(config)
    }

    /// Checks the files of a section `[[listen]]`, without listening.
    ///
    /// # Errors
    /// Returns an error if the files of TLS cannot be used.
    pub fn check_files(config: &ListenConfig) -> Result<(), TlsError> {
        Tls::load(config).map(drop)
    }

    /// Sets everything but the address of a section `[[listen]]`.
    ///
    /// # Errors
    /// Returns an error if the files of TLS cannot be used.
    pub fn with_config(mut self, config: &ListenConfig) -> Result<Self, ListenError> {
        self.proxy_protocol = config.proxy_protocol;
        self.tls = Tls::load(config)?;
        Ok(self)
    }

    /// Returns whether connections have TLS.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns the function that reads the files of TLS again, if the listener has TLS.
    #[must_use]
    pub fn reload_tls(&self) -> Option<impl Fn() -> Result<(), TlsError> + Send + Sync + 'static> {
        let tls = self.tls.as_ref()?.state();
        Some(move || tls.reload())
    }

    /// Takes over a TCP socket that another program listens on.
    ///
    /// Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// Returns an error if the socket cannot be registered with the runtime.
    pub fn from_tcp(listener: StdTcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener).map(Self::from)
    }

    /// Takes over a Unix socket that another program listens on.
    ///
    /// Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// Returns an error if the socket cannot be registered with the runtime.
    pub fn from_unix(listener: StdUnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        Ok(ListenSocket::Unix(listener, None).into())
    }

    /// Returns the address, with the port that the system has chosen for port 0.
    ///
    /// # Errors
    /// Returns an error if the system does not know it.
    pub fn address(&self) -> io::Result<ListenAddress> {
        self.socket.address()
    }

    /// Returns the socket, which the listener shares.
    #[cfg(feature = "control")]
    pub(crate) fn socket(&self) -> &Arc<ListenSocket> {
        &self.socket
    }

    /// Returns the number of sockets, of which each runtime accepts from its own ones.
    pub(super) fn socket_count(&self) -> usize {
        self.socket.descriptors().len()
    }

    /// Returns whether the kernel distributes connections among several sockets.
    pub(super) fn is_group(&self) -> bool {
        matches!(&*self.socket, ListenSocket::TcpGroup(_))
    }
}

impl AcceptSocket {
    /// Registers a duplicate of a socket with the current runtime.
    pub(super) fn new(listener: &Arc<Listener>, number: usize) -> io::Result<Self> {
        let descriptor = listener.socket.descriptors()[number].try_clone_to_owned()?;
        let socket = match &*listener.socket {
            ListenSocket::Tcp(_) | ListenSocket::TcpGroup(_) => {
                AcceptFrom::Tcp(TcpListener::from_std(descriptor.into())?)
            }
            ListenSocket::Unix(..) => AcceptFrom::Unix(UnixListener::from_std(descriptor.into())?),
        };
        Ok(Self { listener: Arc::clone(listener), socket })
    }

    /// Accepts a connection.
    pub(super) fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<Arrival>> {
        let (socket, address) = match &self.socket {
            AcceptFrom::Tcp(listener) => {
                let (stream, address) = ready!(listener.poll_accept(context))?;
                (Socket::Tcp(stream), Some(address.ip()))
            }
            AcceptFrom::Unix(listener) => {
                (Socket::Unix(ready!(listener.poll_accept(context))?.0), None)
            }
        };
        let tls = self.listener.tls.as_ref().map(Tls::current);
        let peer = address.map_or(Peer::SEVERAL, Peer::from);
        let accepted = Accepted { socket, peer, address, tls };
        Poll::Ready(Ok(Arrival { accepted, has_proxy_header: self.listener.proxy_protocol }))
    }
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        ListenSocket::Tcp(listener).into()
    }
}

impl From<ListenSocket> for Listener {
    fn from(socket: ListenSocket) -> Self {
        Self { socket: Arc::new(socket), proxy_protocol: false, tls: None }
    }
}

/// Returns the remedy for an address that cannot be listened on.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "stop the program that listens there, or choose another address with --listen"
        }
        io::ErrorKind::PermissionDenied => {
            "choose a port from 1024 on with --listen: others need privileges"
        }
        _ => "choose an address of this machine with --listen",
    }
}
