//! The body of a response, counted until it is sent.

use std::convert::Infallible;
use std::mem::{replace, take};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::HeaderValue;

use super::held::Held;
use super::live::{EventStream, StreamConnection, StreamedEvents};

/// The number of bytes of a body that HTTP/2 gets at once.
const PART: usize = 32 << 10;

/// A client that takes fewer bytes than this makes no progress, unless they are the rest
/// of a part.
const PROGRESS: usize = 1 << 10;

/// The response to a client.
pub(super) type HttpResponse = hyper::Response<Outgoing>;

/// A body that was not handed to hyper completely.
pub(super) struct Outgoing {
    left: Bytes,
    held: Option<Counted>,
    part: usize,
    events: Events,
}

/// The events that follow in a body.
enum Events {
    None,
    Unconnected(Box<EventStream>),
    Connected(StreamedEvents),
}

/// A part of a body, which is counted until it is written or dropped.
pub(super) struct Part {
    left: Bytes,
    held: Option<Counted>,
    /// The bytes that were taken since the last progress.
    taken: usize,
}

// hyper keeps room for four of them in each connection.
const _: () = assert!(size_of::<Part>() <= 112);

/// The accounting of a response: most have one holder, and need no allocation for it.
enum Counted {
    Alone(Held),
    Shared(Arc<Held>),
}

impl Counted {
    fn shared(self) -> Arc<Held> {
        match self {
            Self::Alone(held) => Arc::new(held),
            Self::Shared(held) => held,
        }
    }

    fn held(&self) -> &Held {
        match self {
            Self::Alone(held) => held,
            Self::Shared(held) => held,
        }
    }
}

/// The value of a header that keeps its response counted until the head is written or
/// dropped: with HTTP/2, heads wait for the client, too.
struct HeldHead {
    value: HeaderValue,
    held: Arc<Held>,
    is_whole: bool,
}

impl Outgoing {
    pub(super) fn new(body: Bytes) -> Self {
        Self { left: body, held: None, part: usize::MAX, events: Events::None }
    }

    /// Creates a body of events, which begins when it is [connected](Self::connect).
    pub(super) fn events(events: EventStream) -> Self {
        Self { events: Events::Unconnected(Box::new(events)), ..Self::new(Bytes::new()) }
    }

    /// Returns whether it is a body of events.
    pub(super) fn has_events(&self) -> bool {
        !matches!(self.events, Events::None)
    }

    /// Begins to send events on a connection.
    pub(super) fn connect(&mut self, connection: StreamConnection) {
        self.part = if connection.memory.is_some() { PART } else { usize::MAX };
        self.events = match replace(&mut self.events, Events::None) {
            Events::Unconnected(events) => Events::Connected(events.on(connection)),
            events => events,
        };
    }

    /// Returns the whole body, before any of it is sent.
    pub(super) fn bytes(&self) -> &Bytes {
        &self.left
    }

    /// Attaches the accounting of the response to the body, which is sent in one piece.
    pub(super) fn hold(&mut self, held: Held) {
        self.held = Some(Counted::Alone(held));
    }

    /// Attaches the accounting of the response to the body, which is sent in parts, and
    /// to the header with this value.
    pub(super) fn hold_with_head(&mut self, held: Held, value: Option<&mut HeaderValue>) {
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
        self.held = Some(Counted::Shared(held));
        self.part = PART;
    }
}

impl Body for Outgoing {
    type Data = Part;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Part>, Infallible>>> {
        if self.left.is_empty() {
            // The stream must not wait for a client that has the event before.
            self.held = None;
            let Events::Connected(events) = &mut self.events else { return Poll::Ready(None) };
            let Some((event, held)) = ready!(events.as_mut().poll_next(context)) else {
                self.events = Events::None;
                return Poll::Ready(None);
            };
            (self.left, self.held) = (event, Some(Counted::Alone(held)));
        }
        let length = self.left.len().min(self.part);
        let left = self.left.split_to(length);
        let mut held = self.held.take();
        if !self.left.is_empty() {
            let shared = held.map(Counted::shared);
            self.held = shared.clone().map(Counted::Shared);
            held = shared.map(Counted::Shared);
        }
        Poll::Ready(Some(Ok(Frame::data(Part { left, held, taken: 0 }))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty() && !self.has_events()
    }

    fn size_hint(&self) -> SizeHint {
        if self.has_events() {
            return SizeHint::default();
        }
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
                held.held().sending().goes_on(taken);
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
            self.held.sending().took_head();
        }
    }
}
