//! The sockets of a server, which can be passed to another process, and received ones.

use std::collections::HashSet;
use std::io;
use std::net::TcpListener as StdTcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::absolute;
use std::sync::{Arc, Weak};

use rustix::io::ioctl_fionbio;
use rustix::net::sockopt::{socket_acceptconn, socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketType};
use tokio::net::{TcpListener, UnixListener};

use super::message::{Role, SocketOffer};
use crate::config::{AdminAddress, AdminConfig, ListenAddress};
use crate::control::{AdminListener, ControlError, ControlSocket};
use crate::http::{ListenSocket, Listener};
use crate::unix_socket::{SocketFile, UnixSocket};

/// The sockets of a server, for as long as it listens on them.
#[derive(Debug, Default)]
pub(in crate::control) struct ServingSockets(Vec<(Role, Weak<ListenSocket>)>);

/// A socket that the old process listens on, too.
#[derive(Debug)]
pub struct ReceivedSocket {
    role: Role,
    socket: ListenSocket,
}

/// A received descriptor that is not a socket of a server.
#[derive(Debug, thiserror::Error)]
#[error("a received descriptor cannot be served: {0}")]
pub struct SocketError(String);

impl ServingSockets {
    pub(in crate::control) fn add(&mut self, role: Role, socket: &Arc<ListenSocket>) {
        self.0.push((role, Arc::downgrade(socket)));
    }

    /// Returns the sockets, or `None` if the server does not listen on all of them any more.
    pub(super) fn all(&self) -> Option<Vec<(Role, Arc<ListenSocket>)>> {
        self.0.iter().map(|(role, socket)| Some((*role, socket.upgrade()?))).collect()
    }

    /// Sets whether this process removes the files of the sockets at the end.
    pub(super) fn set_own(&self, is_own: bool) {
        for socket in self.0.iter().filter_map(|(_, socket)| socket.upgrade()) {
            socket.file().inspect(|file| file.set_own(is_own));
        }
    }
}

impl SocketOffer {
    /// Describes a socket.
    pub(super) fn new(role: Role, socket: &ListenSocket) -> io::Result<Self> {
        let path = socket.file().map(|file| absolute(file.path())).transpose()?;
        let is_group = matches!(socket, ListenSocket::TcpGroup(_));
        Ok(Self { role, path, group: is_group.then(|| socket.descriptors().len()) })
    }

    /// Returns the number of descriptors.
    pub(super) fn count(&self) -> usize {
        self.group.unwrap_or(1)
    }

    /// Returns the socket that is described, after checks: the descriptors can be any.
    pub(super) fn receive(self, descriptors: Vec<OwnedFd>) -> Result<ReceivedSocket, SocketError> {
        let Self { role, path, group } = self;
        let invalid = |reason: &str| SocketError(reason.to_owned());
        let failed = |error: io::Error| SocketError(error.to_string());
        let sockets = descriptors.into_iter().map(checked).collect::<Result<Vec<_>, _>>()?;
        let socket = if group.is_some() {
            let listeners: Vec<_> = sockets.into_iter().filter_map(Checked::tcp).collect();
            let addresses = listeners.iter().map(StdTcpListener::local_addr);
            let addresses = addresses.collect::<io::Result<HashSet<_>>>().map_err(failed)?;
            if role != Role::Client || Some(listeners.len()) != group || addresses.len() != 1 {
                return Err(invalid("it is not in a group of clients' sockets of one address"));
            }
            ListenSocket::TcpGroup(listeners)
        } else {
            match sockets.into_iter().next() {
                Some(Checked::Tcp(listener)) => {
                    ListenSocket::Tcp(TcpListener::from_std(listener).map_err(failed)?)
                }
                Some(Checked::Unix(listener)) => {
                    let file = path.map(SocketFile::of_other).transpose().map_err(failed)?;
                    ListenSocket::Unix(UnixListener::from_std(listener).map_err(failed)?, file)
                }
                None => return Err(invalid("it is missing")),
            }
        };
        if role == Role::Control && socket.file().is_none() {
            return Err(invalid("the control socket has no file"));
        }
        Ok(ReceivedSocket { role, socket })
    }
}

/// A received descriptor that is a socket which listens.
enum Checked {
    Tcp(StdTcpListener),
    Unix(StdUnixListener),
}

impl Checked {
    fn tcp(self) -> Option<StdTcpListener> {
        match self {
            Self::Tcp(listener) => Some(listener),
            Self::Unix(_) => None,
        }
    }
}

fn checked(descriptor: OwnedFd) -> Result<Checked, SocketError> {
    let invalid = |reason: &str| SocketError(reason.to_owned());
    let failed = |error: io::Error| SocketError(error.to_string());
    let kind = socket_type(&descriptor).map_err(|_| invalid("it is not a socket"))?;
    let listens = socket_acceptconn(&descriptor).map_err(|error| failed(error.into()))?;
    if kind != SocketType::STREAM || !listens {
        return Err(invalid("it does not listen"));
    }
    ioctl_fionbio(&descriptor, true).map_err(|error| failed(error.into()))?;
    match socket_domain(&descriptor).map_err(|error| failed(error.into()))? {
        AddressFamily::INET | AddressFamily::INET6 => Ok(Checked::Tcp(descriptor.into())),
        AddressFamily::UNIX => Ok(Checked::Unix(descriptor.into())),
        _ => Err(invalid("it is neither of TCP nor a Unix socket")),
    }
}

impl ReceivedSocket {
    /// Returns the clients of the socket.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns the address.
    ///
    /// # Errors
    /// Returns an error if the system does not know it.
    pub fn address(&self) -> io::Result<ListenAddress> {
        self.socket.address()
    }

    /// Listens for clients of the API.
    #[must_use]
    pub fn into_listener(self) -> Listener {
        self.socket.into()
    }

    /// Listens for the owner, if the socket has a file.
    #[must_use]
    pub fn into_control_socket(self) -> Option<ControlSocket> {
        match self.socket {
            ListenSocket::Unix(listener, Some(file)) => {
                Some(ControlSocket(UnixSocket { listener, file }))
            }
            _ => None,
        }
    }

    /// Listens for the clients of the admin listener at this address of the settings.
    ///
    /// # Errors
    /// Returns an error if the file of tokens cannot be used.
    pub fn into_admin_listener(
        self,
        admin: &AdminConfig,
        address: AdminAddress,
    ) -> Result<AdminListener, ControlError> {
        AdminListener::with_socket(admin, self.socket, address)
    }

    /// Closes the socket for good, and removes its file.
    pub fn close(self) {
        self.socket.file().inspect(|file| file.set_own(true));
    }
}
