//! The listeners of the control server, and the clients that may use each.

use std::future::pending;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use http::HeaderMap;
use hyper::Request;
use tokio::net::{TcpListener, TcpStream, UnixStream};

use super::{ControlError, ControlSocket};
use crate::config::{AdminAddress, AdminConfig};
use crate::http::{AllowedHost, ListenSocket, is_for};
use crate::tokens::{TokenName, TokenRefusal, Tokens, TokensError};

/// The hosts of requests to a listener that only this machine reaches, so that no web page
/// reads it with a name that resolves to this address (DNS rebinding).
const LOCAL_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// A listener of the control server.
pub(super) struct Listener {
    pub(super) socket: Arc<ListenSocket>,
    pub(super) policy: Policy,
}

/// The requests that a listener permits.
pub(super) struct Policy {
    access: Access,
    /// The hosts that requests may be for; empty for all.
    hosts: Vec<AllowedHost>,
}

/// The clients that may control the server.
enum Access {
    /// Each client: the system admits only the owner of the socket.
    All,
    /// The clients with a token of this file; without a file, none.
    Token(Option<PathBuf>),
}

/// The listener of `[admin]`.
pub struct AdminListener {
    pub(super) listener: Listener,
    address: AdminAddress,
}

/// A connection.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// The reason why a client may not control the server.
#[derive(Debug)]
pub(super) enum AccessError {
    /// The listener has no tokens.
    Disabled,
    Token(TokenRefusal),
    /// The file of tokens cannot be used.
    File(TokensError),
}

impl AdminListener {
    /// Listens on the address of the settings, if they have one.
    ///
    /// Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// Returns an error if the address is in use, or if the file of tokens cannot be used.
    pub fn bind(admin: &AdminConfig) -> Result<Option<Self>, ControlError> {
        let Some(listen) = &admin.listen else {
            check_tokens(admin)?;
            return Ok(None);
        };
        let socket = match listen {
            AdminAddress::Unix(path) => ControlSocket::bind(path)?.0.into(),
            AdminAddress::Tcp(address) => {
                let bind = || {
                    let listener = std::net::TcpListener::bind(address)?;
                    listener.set_nonblocking(true)?;
                    TcpListener::from_std(listener).map(ListenSocket::Tcp)
                };
                bind().map_err(|source| ControlError::Admin { address: *address, source })?
            }
        };
        Self::with_socket(admin, socket, listen.clone()).map(Some)
    }

    /// Creates the listener on a socket that listens on this address of the settings.
    pub(super) fn with_socket(
        admin: &AdminConfig,
        socket: ListenSocket,
        address: AdminAddress,
    ) -> Result<Self, ControlError> {
        check_tokens(admin)?;
        let address = match &socket {
            ListenSocket::Tcp(listener) => listener.local_addr().map_or(address, AdminAddress::Tcp),
            ListenSocket::TcpGroup(_) | ListenSocket::Unix(..) => address,
        };
        let policy = match &address {
            AdminAddress::Unix(_) => Policy::of_owner(),
            AdminAddress::Tcp(address) => {
                let local = if address.ip().is_loopback() { &LOCAL_HOSTS[..] } else { &[] };
                Policy {
                    access: Access::Token(admin.token_file.clone()),
                    hosts: local.iter().filter_map(|host| host.parse().ok()).collect(),
                }
            }
        };
        Ok(Self { listener: Listener { socket: Arc::new(socket), policy }, address })
    }

    /// Returns the address, with the port that the system has chosen for port 0.
    #[must_use]
    pub fn address(&self) -> &AdminAddress {
        &self.address
    }
}

/// Finds a problem of the file of tokens at the start, although it is read for each request.
fn check_tokens(admin: &AdminConfig) -> Result<(), TokensError> {
    admin.token_file.as_deref().map_or(Ok(()), |file| Tokens::read(file).map(drop))
}

impl Listener {
    /// Creates the listener on a socket that only its owner can connect to.
    pub(super) fn of_owner(socket: ControlSocket) -> Self {
        Self { socket: Arc::new(socket.0.into()), policy: Policy::of_owner() }
    }
}

/// Accepts a connection.
pub(super) async fn accept(socket: &ListenSocket) -> io::Result<Stream> {
    Ok(match socket {
        ListenSocket::Unix(listener, _) => Stream::Unix(listener.accept().await?.0),
        ListenSocket::Tcp(listener) => Stream::Tcp(listener.accept().await?.0),
        // Only clients of the API have one.
        ListenSocket::TcpGroup(_) => pending().await,
    })
}

impl Policy {
    fn of_owner() -> Self {
        Self { access: Access::All, hosts: Vec::new() }
    }

    /// Returns whether only the owner of the socket can connect.
    pub(super) fn is_of_owner(&self) -> bool {
        matches!(self.access, Access::All)
    }

    /// Returns whether a request is for a host of the listener.
    pub(super) fn serves<B>(&self, request: &Request<B>) -> bool {
        self.hosts.is_empty() || is_for(request, &self.hosts)
    }

    /// Checks that a client may control the server. Returns the name of its token, if the
    /// listener has tokens.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<Option<TokenName>, AccessError> {
        match &self.access {
            Access::All => Ok(None),
            Access::Token(None) => Err(AccessError::Disabled),
            Access::Token(Some(file)) => {
                // Read for each request, so that a removed token is not valid any more.
                let tokens = Tokens::read(file).map_err(AccessError::File)?;
                tokens.client(headers).map(Some).map_err(AccessError::Token)
            }
        }
    }
}
