//! The socket of a connection: TCP or Unix.

use std::io;
use std::net::TcpStream as StdTcpStream;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::time::Duration;

use futures_util::FutureExt;
use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest, Ready};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::forward::forward;

/// The maximum that the system buffers of unsent bytes of a connection. Other unsent
/// bytes stay in the process: connections share the memory of a cached body.
const MAX_SYSTEM_UNSENT: u32 = 128 << 10;

/// The time for which a connection is read from that is not served.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// The socket of a connection.
#[derive(Debug)]
pub(in crate::http) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A socket for the thread that a connection is assigned to.
#[derive(Debug)]
pub(super) enum AssignedSocket {
    /// Registered with the runtime of the thread, which has accepted it.
    Registered(Socket),
    Tcp(StdTcpStream),
    Unix(StdUnixStream),
}

impl Socket {
    /// Waits for bytes, and returns a copy of the first ones, which stay in the socket.
    pub(in crate::http) async fn peek(&self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.peek(bytes).await,
            Self::Unix(stream) => {
                let peek = || {
                    let (length, _) = recv(stream, &mut *bytes, RecvFlags::PEEK)?;
                    Ok(length)
                };
                stream.async_io(Interest::READABLE, peek).await
            }
        }
    }

    /// Reads for a moment until the client closes the connection: a client that is still
    /// sending when its connection is closed loses the response.
    pub(in crate::http) async fn drain(mut self) {
        let drain = async {
            self.shutdown().await?;
            let mut space = [0; 1 << 10];
            while self.read(&mut space).await? > 0 {}
            io::Result::Ok(())
        };
        timeout(DRAIN_TIME, drain).await.ok();
    }

    /// Returns whether the client has ended the connection, also if bytes before that were not
    /// read yet.
    pub(super) fn is_read_closed(&self) -> bool {
        let ready = match self {
            Self::Tcp(stream) => stream.ready(Interest::READABLE).now_or_never(),
            Self::Unix(stream) => stream.ready(Interest::READABLE).now_or_never(),
        };
        ready.is_some_and(|ready| ready.is_ok_and(Ready::is_read_closed))
    }

    pub(super) fn try_read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_read(bytes),
            Self::Unix(stream) => stream.try_read(bytes),
        }
    }

    pub(in crate::http) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
        }
    }
}

impl AssignedSocket {
    /// Removes the socket from its runtime, unless that is the one of its thread.
    pub(super) fn new(socket: Socket, is_here: bool) -> io::Result<Self> {
        Ok(match socket {
            socket if is_here => Self::Registered(socket),
            Socket::Tcp(stream) => Self::Tcp(stream.into_std()?),
            Socket::Unix(stream) => Self::Unix(stream.into_std()?),
        })
    }

    /// Registers the socket with the current runtime.
    pub(super) fn attach(self) -> io::Result<Socket> {
        let socket = match self {
            Self::Registered(socket) => socket,
            Self::Tcp(stream) => TcpStream::from_std(stream).map(Socket::Tcp)?,
            Self::Unix(stream) => UnixStream::from_std(stream).map(Socket::Unix)?,
        };
        if let Socket::Tcp(stream) = &socket {
            stream.set_nodelay(true)?;
            #[cfg(target_os = "linux")]
            socket2::SockRef::from(stream).set_tcp_notsent_lowat(MAX_SYSTEM_UNSENT)?;
        }
        Ok(socket)
    }
}

forward!(Socket { Tcp, Unix });
