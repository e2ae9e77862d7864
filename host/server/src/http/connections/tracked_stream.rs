//! A stream that reports progress of its client, and is read from until its client
//! closes it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, Take};
use tokio::time::{Instant, Sleep, sleep};

use super::activity::ConnectionActivity;
use super::closing::Closing;
use super::stream::Stream;

/// The time for which a connection is read from whose client is still sending after its
/// last response.
const LINGER: Duration = Duration::from_secs(2);

/// The time between two checks whether a client that has pipelined bytes still waits: hyper
/// reads them, and the end of the connection, after the response only.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The bytes that are read before other connections have their turn: hyper handles all
/// frames that are available, and a frame of a few bytes can cost it a walk over all
/// streams.
const TURN: usize = 1 << 10;

/// A stream whose client is not silent as long as it reads.
pub(super) struct TrackedStream {
    /// Limited to the rest of this turn.
    stream: Take<Stream>,
    activity: Arc<ConnectionActivity>,
    lingering: Option<Pin<Box<Sleep>>>,
    /// Whether hyper waits for bytes, and so for the end of the connection.
    is_awaited: bool,
    check: Option<Pin<Box<Sleep>>>,
}

impl TrackedStream {
    pub(super) fn new(stream: Stream, activity: Arc<ConnectionActivity>) -> Self {
        Self {
            stream: stream.take(TURN as u64),
            activity,
            lingering: None,
            is_awaited: false,
            check: None,
        }
    }

    /// Reads and discards bytes until their end or for [`LINGER`]: a connection that is
    /// closed while its client is sending is reset, and the client loses the response.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sleep = self.lingering.get_or_insert_with(|| Box::pin(sleep(LINGER)));
        if sleep.as_mut().poll(context).is_ready() {
            return Poll::Ready(Ok(()));
        }
        let mut space = [0; 4 << 10];
        loop {
            let mut buffer = ReadBuf::new(&mut space);
            ready!(Pin::new(self.stream.get_mut()).poll_read(context, &mut buffer))?;
            if buffer.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Closes the connection if its client waits for the next version of a response, and has
    /// ended the connection, which hyper would not notice.
    fn poll_abandoned(&mut self, context: &mut Context<'_>) {
        if self.is_awaited || !self.activity.is_waiting() {
            self.check = None;
            return;
        }
        let check = self.check.get_or_insert_with(|| Box::pin(sleep(CHECK_INTERVAL)));
        while check.as_mut().poll(context).is_ready() {
            if self.stream.get_ref().socket().is_read_closed() {
                self.activity.closing.close(Closing::AtOnce);
                return;
            }
            check.as_mut().reset(Instant::now() + CHECK_INTERVAL);
        }
    }

    fn stream(self: Pin<&mut Self>) -> Pin<&mut Stream> {
        Pin::new(self.get_mut().stream.get_mut())
    }

    fn wrote(&self, wrote: &Poll<io::Result<usize>>) {
        match wrote {
            Poll::Ready(Ok(1..)) => self.activity.goes_on(),
            Poll::Pending => self.activity.is_full(),
            Poll::Ready(_) => {}
        }
    }
}

impl AsyncRead for TrackedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.stream.limit() == 0 {
            self.stream.set_limit(TURN as u64);
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.is_awaited = read.is_pending();
        if read.is_pending() {
            self.stream.set_limit(TURN as u64);
        }
        read
    }
}

impl AsyncWrite for TrackedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = self.as_mut().stream().poll_write(context, bytes);
        self.wrote(&wrote);
        wrote
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = self.as_mut().stream().poll_write_vectored(context, slices);
        self.wrote(&wrote);
        wrote
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.get_ref().is_write_vectored()
    }

    /// Called when hyper has written all bytes that it had, also if there were none.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.activity.is_flushed();
        self.poll_abandoned(context);
        self.stream().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingering.is_none() {
            ready!(self.as_mut().stream().poll_shutdown(context))?;
        }
        if self.activity.closing.lingers() {
            self.poll_linger(context)
        } else {
            Poll::Ready(Ok(()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::activity::ConnectionActivity;
    use super::super::clock::Clock;
    use super::super::socket::Socket;
    use super::{Stream, TURN, TrackedStream};
    use futures_util::task::{ArcWake, waker};
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll};
    use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
    use tokio::net::{TcpListener, TcpStream};

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl ArcWake for Woken {
        fn wake_by_ref(woken: &Arc<Self>) {
            woken.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn a_connection_yields_to_others_with_any_amount_to_read() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        client.write_all(&[7; 3 * TURN]).await.unwrap();
        let mut all = [0; 3 * TURN];
        while stream.peek(&mut all).await.unwrap() < all.len() {}

        let mut watched = TrackedStream::new(
            Stream::Plain(Socket::Tcp(stream)),
            Arc::new(ConnectionActivity::new(Clock::default())),
        );
        let woken = Arc::new(Woken::default());
        let waker = waker(woken.clone());
        let mut context = Context::from_waker(&waker);
        for turn in 0..3 {
            assert_eq!(woken.0.load(Ordering::Relaxed), turn);
            for _ in 0..4 {
                let mut space = [0; TURN / 4];
                let mut buffer = ReadBuf::new(&mut space);
                let read = Pin::new(&mut watched).poll_read(&mut context, &mut buffer);
                assert!(matches!(read, Poll::Ready(Ok(()))));
                assert_eq!(buffer.filled(), [7; TURN / 4]);
            }
            let read =
                Pin::new(&mut watched).poll_read(&mut context, &mut ReadBuf::new(&mut [0; 1]));
            assert!(read.is_pending());
            assert_eq!(woken.0.load(Ordering::Relaxed), turn + 1, "it is polled again");
        }
    }
}
