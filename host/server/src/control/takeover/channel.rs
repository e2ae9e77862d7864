//! Messages over a Unix socket, with the file descriptors that belong to them.
//!
//! A message is its length, 4 bytes in network order, and JSON. The descriptors come with the
//! length, up to 253 with each of its bytes.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use bytes::{Buf, Bytes};
use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;

/// The maximum size of a message, in bytes.
const MAX_MESSAGE: usize = 8 << 20;

/// The maximum number of descriptors that the kernel passes with one `sendmsg`.
const MAX_PASSED: usize = 253;

const PASSED_SPACE: usize = cmsg_space!(ScmRights(MAX_PASSED));

/// The maximum number of descriptors of a message: they come with the bytes of its length.
const MAX_DESCRIPTORS: usize = 4 * MAX_PASSED;

/// A connection to the other process of a takeover.
#[derive(Debug)]
pub(super) struct Channel {
    stream: UnixStream,
    /// Bytes that were received with the HTTP request before.
    received: Bytes,
}

/// A message that could not be sent or received.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The other process has closed the connection.
    #[error("the other process has closed the connection")]
    Closed,
    /// The other process does not respond.
    #[error("the other process does not respond")]
    Timeout,
    /// The message is too long.
    #[error("a message of {0} bytes is longer than {MAX_MESSAGE}")]
    TooLong(usize),
    /// The message has too many sockets.
    #[error("more than {MAX_DESCRIPTORS} sockets, of which a takeover passes no more")]
    TooManySockets,
    /// The message is not of the protocol.
    #[error("a message is not of this protocol: {0}")]
    Invalid(#[from] serde_json::Error),
    /// The connection failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Channel {
    pub(super) fn new(stream: UnixStream, received: Bytes) -> Self {
        Self { stream, received }
    }

    /// Returns the process at the other end, as the kernel knows it; 0 if it is in another
    /// namespace.
    pub(super) fn peer_id(&self) -> io::Result<u32> {
        let id = self.stream.peer_cred()?.pid();
        Ok(id.and_then(|id| u32::try_from(id).ok()).unwrap_or_default())
    }

    pub(super) async fn send(
        &mut self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        if descriptors.len() > MAX_DESCRIPTORS {
            return Err(ChannelError::TooManySockets);
        }
        let json = serde_json::to_vec(message)?;
        let length = u32::try_from(json.len()).ok().filter(|_| json.len() <= MAX_MESSAGE);
        let length = length.ok_or(ChannelError::TooLong(json.len()))?;
        let frame = [&length.to_be_bytes()[..], &json].concat();
        let mut rest = &frame[..];
        for passed in descriptors.chunks(MAX_PASSED) {
            let (first, after) = rest.split_at(1);
            let send = || {
                let mut space = [MaybeUninit::uninit(); PASSED_SPACE];
                let mut control = SendAncillaryBuffer::new(&mut space);
                control.push(SendAncillaryMessage::ScmRights(passed));
                let bytes = [IoSlice::new(first)];
                Ok(sendmsg(&self.stream, &bytes, &mut control, SendFlags::NOSIGNAL)?)
            };
            self.stream.async_io(Interest::WRITABLE, send).await.map_err(closed)?;
            rest = after;
        }
        self.stream.write_all(rest).await.map_err(closed)
    }

    /// Receives a message. Must be called again only after it has returned `Ok`.
    pub(super) async fn receive<T: DeserializeOwned>(
        &mut self,
    ) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        let mut length = [0; 4];
        let mut descriptors = Vec::new();
        let mut filled = 0;
        while filled < length.len() {
            filled += self.receive_part(&mut length[filled..], &mut descriptors).await?;
        }
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > MAX_MESSAGE {
            return Err(ChannelError::TooLong(length));
        }
        let mut json = vec![0; length];
        let early = self.received.len().min(length);
        self.received.copy_to_slice(&mut json[..early]);
        self.stream.read_exact(&mut json[early..]).await.map_err(closed)?;
        Ok((serde_json::from_slice(&json)?, descriptors))
    }

    /// Receives some bytes, and the descriptors that come with them.
    async fn receive_part(
        &mut self,
        part: &mut [u8],
        descriptors: &mut Vec<OwnedFd>,
    ) -> Result<usize, ChannelError> {
        if !self.received.is_empty() {
            let early = self.received.len().min(part.len());
            self.received.copy_to_slice(&mut part[..early]);
            return Ok(early);
        }
        let mut receive = || {
            let mut space = [MaybeUninit::uninit(); PASSED_SPACE];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut bytes = [IoSliceMut::new(part)];
            // The processes that compile modules must not get them.
            let flags = RecvFlags::CMSG_CLOEXEC;
            let received = recvmsg(&self.stream, &mut bytes, &mut control, flags)?;
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(passed) = message {
                    descriptors.extend(passed);
                }
            }
            Ok((received.bytes, received.flags.contains(ReturnFlags::CTRUNC)))
        };
        let received = self.stream.async_io(Interest::READABLE, &mut receive).await;
        match received.map_err(closed)? {
            (0, _) => Err(ChannelError::Closed),
            (_, true) => Err(ChannelError::TooManySockets),
            (count, false) => Ok(count),
        }
    }
}

/// Tells the end of the other process from other failures.
fn closed(error: io::Error) -> ChannelError {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    match error.kind() {
        BrokenPipe | ConnectionReset | UnexpectedEof => ChannelError::Closed,
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Channel, ChannelError, MAX_DESCRIPTORS, MAX_MESSAGE, MAX_PASSED};
    use bytes::Bytes;
    use rustix::io::{FdFlags, fcntl_getfd};
    use std::os::fd::AsFd;
    use tokio::io::AsyncWriteExt;
    use tokio::net::UnixStream;

    fn pair() -> (Channel, Channel) {
        let (one, other) = UnixStream::pair().unwrap();
        (Channel::new(one, Bytes::new()), Channel::new(other, Bytes::new()))
    }

    #[tokio::test]
    async fn a_message_arrives_with_its_descriptors() {
        let (mut one, mut other) = pair();
        let null = std::fs::File::open("/dev/null").unwrap();
        // More than the kernel passes at once.
        let descriptors = [null.as_fd(); MAX_PASSED + 1];
        // More than the buffer of the socket.
        let text = "x".repeat(1 << 20);
        let (sent, received) =
            tokio::join!(one.send(&text, &descriptors), other.receive::<String>());
        sent.unwrap();
        let (message, descriptors) = received.unwrap();
        assert_eq!((message, descriptors.len()), (text, MAX_PASSED + 1));
        for descriptor in descriptors {
            assert_eq!(fcntl_getfd(descriptor).unwrap(), FdFlags::CLOEXEC);
        }
        let too_many = [null.as_fd(); MAX_DESCRIPTORS + 1];
        let error = one.send(&"", &too_many).await.unwrap_err();
        assert!(matches!(error, ChannelError::TooManySockets), "{error}");
    }

    #[tokio::test]
    async fn bytes_that_came_early_are_received_first() {
        let (one, other) = UnixStream::pair().unwrap();
        let mut other = Channel::new(other, Bytes::from_static(b"\0\0\0\x03\"a\"\0\0"));
        let mut one = Channel::new(one, Bytes::new());
        assert_eq!(other.receive::<String>().await.unwrap().0, "a");
        one.stream.write_all(b"\0\x03\"b\"").await.unwrap();
        assert_eq!(other.receive::<String>().await.unwrap().0, "b");
    }

    /// Returns the error for these bytes, after which the connection is closed.
    async fn error(bytes: &[u8]) -> String {
        let (mut one, mut other) = pair();
        one.stream.write_all(bytes).await.unwrap();
        drop(one);
        other.receive::<String>().await.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn hostile_bytes_are_rejected() {
        let closed = "the other process has closed the connection";
        for partial in [&b""[..], b"\0\0", b"\0\0\0\x09", b"\0\0\0\x09abc"] {
            assert_eq!(error(partial).await, closed, "{partial:?}");
        }
        let long = u32::try_from(MAX_MESSAGE + 1).unwrap().to_be_bytes();
        let expected = format!("a message of {} bytes is longer than {MAX_MESSAGE}", 8_388_609);
        assert_eq!(error(&long).await, expected);
        for invalid in [&b"\0\0\0\0"[..], b"\0\0\0\x02{}", b"\0\0\0\x04\"\xff\xff\"", b"HTTP"] {
            let error = error(invalid).await;
            assert!(error.starts_with("a message "), "{invalid:?}: {error}");
        }
        let (mut one, other) = pair();
        drop(other);
        let error = one.send(&"", &[]).await.unwrap_err();
        assert!(matches!(error, ChannelError::Closed), "{error}");
    }
}
