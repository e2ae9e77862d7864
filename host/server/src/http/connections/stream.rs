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

forward!(Stream {
    Plain,
    #[cfg(feature = "tls")]
    Tls,
});
