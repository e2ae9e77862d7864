//! The body of an answer, on its way.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::liveness::Sending;

/// What is sent at once where it is to be seen whether the client takes it, in
/// bytes.
const PART: usize = 32 << 10;

/// A body. On a connection with several answers at once it is sent in parts.
pub(super) struct Outgoing {
    left: Bytes,
    sending: Option<Sending>,
}

impl Outgoing {
    pub(super) fn new(body: Bytes) -> Self {
        Self { left: body, sending: None }
    }

    /// How many bytes it has.
    pub(super) fn len(&self) -> usize {
        self.left.len()
    }

    /// The same, which says when its client takes it.
    pub(super) fn seen(self, sending: Sending) -> Self {
        Self { sending: Some(sending), ..self }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        let part = match &self.sending {
            None => std::mem::take(&mut self.left),
            Some(sending) => {
                sending.goes_on();
                let length = self.left.len().min(PART);
                self.left.split_to(length)
            }
        };
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}
