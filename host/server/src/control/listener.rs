//! The listeners of the control server, and the clients that may use each.

use std::io;
use std::path::PathBuf;

use http::HeaderMap;
use hyper::Request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

use super::{ControlError, ControlSocket};
use crate::config::{AdminAddress, AdminConfig};
use crate::http::{AllowedHost, is_for};
use crate::tokens::{TokenName, TokenRefusal, Tokens, TokensError};

/// The hosts of requests to a listener that only this machine reaches, so that no web page
/// reads it with a name that resolves to this address (DNS rebinding).
const LOCAL_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// A listener of the control server.
pub(super) struct Listener {
    pub(super) socket: Socket,
    pub(super) policy: Policy,
}

pub(super) enum Socket {
    Unix(ControlSocket),
    Tcp(TcpListener),
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
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

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
        // A problem of the file is found at the start, although it is read for each request.
        if let Some(file) = &admin.token_file {
            Tokens::read(file)?;
        }
        let Some(listen) = &admin.listen else { return Ok(None) };
        let address = match listen {
            AdminAddress::Unix(path) => {
                let listener = Listener::of_owner(ControlSocket::bind(path)?);
                return Ok(Some(Self { listener, address: listen.clone() }));
            }
            AdminAddress::Tcp(address) => *address,
        };
        let bind = || {
            let listener = std::net::TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((TcpListener::from_std(listener)?, address))
        };
        let (listener, address) =
            bind().map_err(|source| ControlError::Admin { address, source })?;
        let local = if address.ip().is_loopback() { &LOCAL_HOSTS[..] } else { &[] };
        let policy = Policy {
            access: Access::Token(admin.token_file.clone()),
            hosts: local.iter().filter_map(|host| host.parse().ok()).collect(),
        };
        let listener = Listener { socket: Socket::Tcp(listener), policy };
        Ok(Some(Self { listener, address: AdminAddress::Tcp(address) }))
    }

    /// Returns the address, with the port that the system has chosen for port 0.
    #[must_use]
    pub fn address(&self) -> &AdminAddress {
        &self.address
    }
}

impl Listener {
    /// Creates the listener on a socket that only its owner can connect to.
    pub(super) fn of_owner(socket: ControlSocket) -> Self {
        let policy = Policy { access: Access::All, hosts: Vec::new() };
        Self { socket: Socket::Unix(socket), policy }
    }
}

impl Socket {
    pub(super) async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Self::Unix(socket) => Box::new(socket.0.listener.accept().await?.0),
            Self::Tcp(listener) => Box::new(listener.accept().await?.0),
        })
    }
}

impl Policy {
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
