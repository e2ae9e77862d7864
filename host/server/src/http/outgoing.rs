//! The body of a response, counted until it is sent.

use std::convert::Infallible;
use std::mem::take;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::HeaderValue;

use super::connections::{RequestMemory, Sending};
use super::send_budget::Reservation;

/// The number of bytes of a body that HTTP/2 gets at once.
const PART: usize = 32 << 10;

/// A client that takes fewer bytes than this makes no progress, unless they are the rest
/// of a part.
const PROGRESS: usize = 1 << 10;

/// A response that a connection holds, until the system or its client has it.
///
/// It is shared by all holders of the response's memory, so that the memory is counted
/// until the last of them is dropped.
#[derive(Debug)]
pub(super) struct Held {
    sending: Sending,
    _body: Option<Reservation>,
    /// The memory of the request, for HTTP/2 only.
    _request: Option<RequestMemory>,
}

/// The response to a client.
pub(super) type HttpResponse = hyper::Response<Outgoing>;

/// A body that was not handed to hyper completely.
pub(super) struct Outgoing {
    left: Bytes,
    held: Option<Arc<Held>>,
    part: usize,
}

/// A part of a body, which is counted until it is written or dropped.
pub(super) struct Part {
    left: Bytes,
    held: Option<Arc<Held>>,
    /// The bytes that were taken since the last progress.
    taken: usize,
}

/// The value of a header that keeps its response counted until the head is written or
/// dropped: with HTTP/2, heads wait for the client, too.
struct HeldHead {
    value: HeaderValue,
    held: Arc<Held>,
    is_whole: bool,
}

impl Held {
    pub(super) fn new(
        sending: Sending,
        body: Option<Reservation>,
        request: Option<RequestMemory>,
    ) -> Self {
        Self { sending, _body: body, _request: request }
    }
}

impl Outgoing {
    pub(super) fn new(body: Bytes) -> Self {
        Self { left: body, held: None, part: usize::MAX }
    }

    /// Returns the whole body, before any of it is sent.
    pub(super) fn bytes(&self) -> &Bytes {
        &self.left
    }

    /// Attaches the accounting of the response to the body, which is sent in one piece.
    pub(super) fn held(self, held: Held) -> Self {
        Self { held: Some(Arc::new(held)), ..self }
    }

    /// Attaches the accounting of the response to the body, which is sent in parts, and
    /// to the header with this value.
    pub(super) fn held_with_head(self, held: Held, value: Option<&mut HeaderValue>) -> Self {
        let held = Arc::new(held);
        if let Some(value) = value {
            let is_whole = self.left.is_empty();
            let guard = HeldHead { value: value.clone(), held: Arc::clone(&held), is_whole };
            if let Ok(mut guarded) = HeaderValue::from_maybe_shared(Bytes::from_owner(guard)) {
                // HPACK would keep a copy of it in its table.
                guarded.set_sensitive(true);
                *value = guarded;
            }
        }
        Self { held: Some(held), part: PART, ..self }
    }
}

impl Body for Outgoing {
    type Data = Part;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Part>, Infallible>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.left.len().min(self.part);
        let left = self.left.split_to(length);
        Poll::Ready(Some(Ok(Frame::data(Part { left, held: self.held.clone(), taken: 0 }))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}

/// Copies are made with the trait's default methods: slices that share the body's memory
/// would not be counted.
impl Buf for Part {
    fn remaining(&self) -> usize {
        self.left.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.left
    }

    fn advance(&mut self, count: usize) {
        self.left.advance(count);
        self.taken += count;
        if self.taken >= PROGRESS || self.left.is_empty() {
            let taken = take(&mut self.taken);
            if let Some(held) = &self.held {
                held.sending.goes_on(taken);
            }
        }
    }
}

impl AsRef<[u8]> for HeldHead {
    fn as_ref(&self) -> &[u8] {
        self.value.as_bytes()
    }
}

impl Drop for HeldHead {
    fn drop(&mut self) {
        if self.is_whole {
            self.held.sending.took_head();
        }
    }
}
