//! Detects the protocol of a connection, and serves it with that protocol.

use std::io;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::sleep;

use super::socket::Socket;
use crate::http::limits::HttpLimits;

/// The time without received frames after which an HTTP/2 connection is sent a ping, and
/// the time that its acknowledgement may take.
const HTTP2_SILENCE: Duration = Duration::from_secs(20);
const HTTP2_PONG: Duration = Duration::from_secs(10);

/// The maximum of concurrent streams of an HTTP/2 connection, and the bytes that hyper
/// buffers for each before its client takes them.
///
/// The library keeps the memory of the most streams that a connection ever had at once,
/// also of refused ones: about 1.2 KiB for each, rounded up to a power of two. RFC 9113
/// recommends at least 100, which would double that; 64 requests keep a core busy.
const MAX_STREAMS: u32 = 64;
const MAX_STREAM_BUFFER: usize = 64 << 10;

/// The numbers of streams that its client resets before they are handled, and of streams
/// that are reset because of its errors, above which hyper closes a connection.
/// Well-behaved clients have few of both.
const MAX_PENDING_RESETS: usize = 20;
const MAX_ERROR_RESETS: usize = 100;

/// The first bytes of a connection with HTTP/2: no method of HTTP/1 begins with them.
const HTTP2_START: [u8; 3] = *b"PRI";

/// The maximum time between two looks at a start that is not complete.
const MAX_WAIT: Duration = Duration::from_millis(250);

/// The protocol of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Detected {
    Http1,
    Http2,
}

/// The settings of hyper for connections of both protocols.
pub(in crate::http) struct Protocols {
    pub(super) http1: http1::Builder,
    pub(super) http2: http2::Builder<TokioExecutor>,
}

impl Protocols {
    pub(in crate::http) fn new(limits: &HttpLimits) -> Self {
        let head = usize::try_from(limits.head.as_u64()).unwrap_or(usize::MAX);
        let mut http1 = http1::Builder::new();
        http1.max_buf_size(head);
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .keep_alive_interval(HTTP2_SILENCE)
            .keep_alive_timeout(HTTP2_PONG)
            // Twice the limit, so that the host responds to heads slightly above it:
            // hyper's response is a bare status.
            .max_header_list_size(u32::try_from(2 * head).unwrap_or(u32::MAX))
            .max_concurrent_streams(MAX_STREAMS)
            .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
            .max_local_error_reset_streams(MAX_ERROR_RESETS)
            .max_send_buf_size(MAX_STREAM_BUFFER);
        Self { http1, http2 }
    }
}

/// Waits for the first bytes of a connection, which stay in the socket: hyper would need a
/// buffer of twice the size to read them again.
pub(super) async fn detect(socket: &Socket) -> io::Result<Detected> {
    let mut wait = Duration::from_millis(1);
    loop {
        let mut start = [0; HTTP2_START.len()];
        let length = socket.peek(&mut start).await?;
        if start == HTTP2_START {
            return Ok(Detected::Http2);
        }
        if length == 0 || !HTTP2_START.starts_with(&start[..length]) {
            return Ok(Detected::Http1);
        }
        // The socket is readable until its bytes are read, so that it cannot be awaited.
        sleep(wait).await;
        wait = MAX_WAIT.min(2 * wait);
    }
}

#[cfg(test)]
mod tests {
    use super::{Detected, Socket, detect};
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    /// Returns the protocol of a client that sends these parts, and then ends.
    async fn detected(parts: &[&str]) -> Detected {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let send = async {
            for part in parts {
                client.write_all(part.as_bytes()).await.unwrap();
                tokio::task::yield_now().await;
            }
            client.shutdown().await.unwrap();
        };
        let socket = Socket::Tcp(stream);
        tokio::join!(detect(&socket), send).0.unwrap()
    }

    #[tokio::test]
    async fn the_protocol_follows_from_the_first_bytes() {
        for parts in [&["GET / HTTP/1.1"][..], &["P", "OST"], &["PR", "OPFIND"], &["G"], &[]] {
            assert_eq!(detected(parts).await, Detected::Http1, "{parts:?}");
        }
        for parts in [&["PRI * HTTP/2.0\r\n"][..], &["P", "R", "I"]] {
            assert_eq!(detected(parts).await, Detected::Http2, "{parts:?}");
        }
    }
}
