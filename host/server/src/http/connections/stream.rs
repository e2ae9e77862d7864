//! The stream of a connection: plain, or encrypted by TLS.

#[cfg(feature = "tls")]
use tokio_rustls::server::TlsStream;

use super::forward::forward;
use super::socket::Socket;

/// The stream of a connection.
#[derive(Debug)]
pub(in crate::http) enum Stream {
    Plain(Socket),
    /// Boxed, so that it does not enlarge the memory of each connection.
    #[cfg(feature = "tls")]
    Tls(Box<TlsStream<Socket>>),
}

impl Stream {
    pub(super) fn socket(&self) -> &Socket {
        match self {
            Self::Plain(socket) => socket,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.get_ref().0,
        }
    }
}

forward!(Stream {
    Plain,
    #[cfg(feature = "tls")]
    Tls,
});
