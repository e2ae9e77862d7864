//! The activity of a connection, which decides when it is closed or evicted.
//!
//! On a keep-alive connection this costs a few stores per request. All fields are
//! atomic, because the server's tick and evictions read them from other threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering::Relaxed};

use super::clock::Clock;
use super::closing::{Closing, ClosingSignal};
use super::pending_bodies::PendingBodies;
use super::pending_responses::PendingResponses;

/// The activity of a connection. The thread that accepts it creates it; the alignment keeps the
/// writes of the connection's thread out of the cache lines of connections on other threads.
#[derive(Debug)]
#[repr(align(64))]
pub(in crate::http) struct ConnectionActivity {
    pub(super) clock: Clock,
    protocol: AtomicU8,
    /// When the client was last active; `BUSY` while a request of HTTP/1 is handled.
    silent_since: AtomicU32,
    /// The HTTP/2 requests that are being handled.
    pub(super) handled: AtomicU32,
    /// The requests whose responses are sent with the next version; those of HTTP/2 are among
    /// the handled ones.
    polls: AtomicU32,
    /// The responses that are streams of versions.
    streams: AtomicU32,
    /// The bytes of HTTP/2 requests whose responses were not completely taken yet.
    pub(super) requested: AtomicUsize,
    pub(super) bodies: PendingBodies,
    pub(super) responses: PendingResponses,
    /// Whether the socket accepts no more bytes.
    is_blocked: AtomicBool,
    /// The second in which connections were evicted for responses of this one without
    /// freeing enough: no more are evicted before the next second.
    evicted_at: AtomicU32,
    /// When the connection was told to end in order; `OPEN` before.
    closing_since: AtomicU32,
    /// Whether the next response of HTTP/1 is the last one.
    is_draining: AtomicBool,
    pub(super) closing: ClosingSignal,
}

/// The protocol of a connection, known from its first request on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Unknown,
    /// One request after the other.
    Http1,
    /// Several requests at once.
    Http2,
}

/// How dispensable a connection is, in ascending order, with the seconds of its silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Idleness {
    /// Its client waits for the next version of a response.
    Waiting,
    Silent(u32),
    /// It has had no request yet.
    Unused(u32),
}

/// A client that waits for the next version of a response until this is dropped.
pub(in crate::http) struct WaitingClient {
    activity: Arc<ConnectionActivity>,
    has_stream: bool,
}

const BUSY: u32 = u32::MAX;
const OPEN: u32 = u32::MAX;

/// A client that has made no progress with its responses or bodies for this many full
/// seconds is stalled: its connection can be evicted. A client that has made progress
/// since, or was sent its first response since, is healthy.
const STALLED: u32 = 2;

impl ConnectionActivity {
    pub(in crate::http) fn new(clock: Clock) -> Self {
        Self {
            protocol: AtomicU8::new(Protocol::Unknown as u8),
            silent_since: AtomicU32::new(clock.now()),
            clock,
            handled: AtomicU32::new(0),
            polls: AtomicU32::new(0),
            streams: AtomicU32::new(0),
            requested: AtomicUsize::new(0),
            bodies: PendingBodies::default(),
            responses: PendingResponses::default(),
            is_blocked: AtomicBool::new(false),
            evicted_at: AtomicU32::new(u32::MAX),
            closing_since: AtomicU32::new(OPEN),
            is_draining: AtomicBool::new(false),
            closing: ClosingSignal::default(),
        }
    }

    /// Records a request of HTTP/1.
    pub(in crate::http) fn on_request(&self) {
        self.silent_since.store(BUSY, Relaxed);
        self.protocol.store(Protocol::Http1 as u8, Relaxed);
    }

    /// Records a request of HTTP/2 with this many bytes.
    pub(super) fn on_http2_request(&self, bytes: usize) {
        self.handled.fetch_add(1, Relaxed);
        self.protocol.store(Protocol::Http2 as u8, Relaxed);
        self.requested.fetch_add(bytes, Relaxed);
    }

    /// Restarts the client's time: it must take the response, and may send the next
    /// request.
    pub(super) fn waits(&self) {
        self.silent_since.store(self.clock.now(), Relaxed);
    }

    /// Restarts the client's time, unless a request of HTTP/1 is being handled: the
    /// activity does not end that request.
    pub(super) fn waits_unless_busy(&self) {
        if self.silent_since.load(Relaxed) != BUSY {
            self.waits();
        }
    }

    /// Records that the client takes bytes, which restarts its time. With HTTP/2 it does
    /// not: the bytes may not belong to a response, such as the acknowledgement of a
    /// ping.
    pub(super) fn goes_on(&self) {
        if self.protocol() == Protocol::Http1 {
            self.waits_unless_busy();
        }
    }

    /// Records that the socket accepts no more bytes for now.
    pub(super) fn is_full(&self) {
        self.is_blocked.store(true, Relaxed);
    }

    /// Records that the socket has accepted all bytes.
    pub(super) fn is_flushed(&self) {
        self.is_blocked.store(false, Relaxed);
    }

    /// Returns whether the client does not take the bytes that it was sent.
    fn is_blocked(&self) -> bool {
        self.is_blocked.load(Relaxed)
    }

    fn protocol(&self) -> Protocol {
        match self.protocol.load(Relaxed) {
            protocol if protocol == Protocol::Http1 as u8 => Protocol::Http1,
            protocol if protocol == Protocol::Http2 as u8 => Protocol::Http2,
            _ => Protocol::Unknown,
        }
    }

    /// Returns all bytes that are reserved for the connection: the bytes of bodies, and
    /// of requests until their responses are taken.
    pub(super) fn reserved(&self) -> usize {
        self.responses.bytes().saturating_add(self.requested.load(Relaxed))
    }

    /// Returns whether responses wait for the client.
    pub(in crate::http) fn is_sending(&self) -> bool {
        self.responses.any()
    }

    /// Returns whether the connection has not had a request yet.
    pub(in crate::http) fn is_unused(&self) -> bool {
        self.protocol() == Protocol::Unknown
    }

    /// Returns whether the client has ever taken a part of a response.
    pub(in crate::http) fn is_proven(&self) -> bool {
        self.responses.is_proven()
    }

    /// Returns the number of full seconds for which the client has taken nothing of its
    /// pending responses; `None` if none is pending.
    fn stalled(&self) -> Option<u32> {
        if self.is_sending() {
            return Some(self.clock.full_seconds_since(self.responses.untaken_since()));
        }
        // Responses of HTTP/1 without a body are not counted, but can be pending, too.
        if self.is_blocked() { self.silent() } else { None }
    }

    /// Returns the number of full seconds for which the client has made no progress with
    /// its pending responses; `None` if none is pending.
    fn without_progress(&self) -> Option<u32> {
        if !self.is_sending() {
            return self.stalled();
        }
        Some(self.clock.full_seconds_since(self.responses.progress_at()))
    }

    /// Returns the number of full seconds for which the connection has been stalled, if
    /// it can be evicted.
    pub(super) fn evictable(&self) -> Option<u32> {
        let stalled = self.without_progress().into_iter().chain(self.bodiless()).max();
        stalled.filter(|seconds| *seconds >= STALLED)
    }

    /// Returns whether connections can be evicted for responses of this one in this
    /// second.
    pub(super) fn may_evict(&self) -> bool {
        self.evicted_at.load(Relaxed) != self.clock.now()
    }

    pub(super) fn has_evicted_too_little(&self) {
        self.evicted_at.store(self.clock.now(), Relaxed);
    }

    /// Returns the number of full seconds since the client was last active; `None` while
    /// a request is being handled.
    pub(super) fn silent(&self) -> Option<u32> {
        match self.silent_since.load(Relaxed) {
            BUSY => None,
            _ if self.handled.load(Relaxed) > 0 || self.is_waiting() => None,
            since => Some(self.clock.full_seconds_since(since)),
        }
    }

    /// Returns the number of full seconds without progress of request bodies, if most of
    /// the requests wait for one; `None` if that is less than one.
    fn bodiless(&self) -> Option<u32> {
        let requests = match self.protocol() {
            Protocol::Http2 => self.busy(),
            Protocol::Unknown | Protocol::Http1 => 1,
        };
        let bodies = self.bodies.count();
        let is_most = bodies > requests.saturating_sub(bodies);
        let silent = self.clock.full_seconds_since(self.bodies.progress_at());
        (is_most && silent > 0).then_some(silent)
    }

    /// Returns how dispensable the connection is; `None` if it is busy or closing. A
    /// connection with a stalled client, or one that holds back the bodies of most
    /// requests, is not busy.
    pub(super) fn idleness(&self) -> Option<Idleness> {
        if !self.closing.is_open() {
            return None;
        }
        if self.is_sending() || self.is_blocked() {
            return self.evictable().map(Idleness::Silent);
        }
        let bodiless = self.bodiless();
        if bodiless.is_none() && self.is_waiting() {
            return (self.busy() == 0).then_some(Idleness::Waiting);
        }
        let silent = bodiless.or_else(|| self.silent())?;
        Some(if self.is_unused() { Idleness::Unused(silent) } else { Idleness::Silent(silent) })
    }

    /// Returns whether the client waits for the next version of a response.
    pub(super) fn is_waiting(&self) -> bool {
        self.polls.load(Relaxed) > 0 || self.streams.load(Relaxed) > 0
    }

    /// Returns the number of HTTP/2 requests that are being handled, and do not wait for the
    /// next version of a response.
    fn busy(&self) -> u32 {
        self.handled.load(Relaxed).saturating_sub(self.polls.load(Relaxed))
    }

    /// Returns whether the connection was told to end immediately.
    pub(in crate::http) fn is_closed_at_once(&self) -> bool {
        self.closing.is_at_once()
    }

    /// Lets the client send the request that it may be about to send: the next response of
    /// HTTP/1 ends the connection. One of HTTP/2 has a message for that.
    pub(super) fn drain(&self) {
        self.is_draining.store(true, Relaxed);
        if self.protocol() == Protocol::Http2 {
            self.close();
        }
    }

    /// Returns whether the next response of HTTP/1 is the last one.
    pub(super) fn is_draining(&self) -> bool {
        self.is_draining.load(Relaxed)
    }

    /// Tells the connection to end after its work in progress; an unused one ends
    /// immediately.
    pub(super) fn close(&self) {
        _ = self.closing_since.compare_exchange(OPEN, self.clock.now(), Relaxed, Relaxed);
        self.closing.close(if self.is_unused() { Closing::AtOnce } else { Closing::InOrder });
    }

    /// Returns whether the client of HTTP/2 has had time to acknowledge the end of its
    /// connection, and did not. There is no such step in HTTP/1.
    fn is_unacknowledged(&self) -> bool {
        let since = self.closing_since.load(Relaxed);
        self.protocol() == Protocol::Http2
            && since != OPEN
            && self.clock.full_seconds_since(since) >= STALLED
    }

    /// Tells the connection to end immediately if it has been told to end before and has no
    /// work in progress.
    pub(super) fn hasten(&self) {
        if !self.closing.is_open() && self.silent().is_some() && !self.is_sending() {
            self.closing.close(Closing::AtOnce);
        }
    }

    /// Tells the connection to end if its client has been silent for `idle` seconds, or,
    /// if responses are pending, has taken nothing of them for `stalled` seconds,
    /// regardless of its other requests. One of HTTP/2 that was told before ends
    /// immediately if its client does not acknowledge that.
    pub(super) fn close_after(&self, idle: u32, stalled: u32) {
        if self.is_sending() || self.is_blocked() {
            if self.stalled().is_some_and(|seconds| seconds >= stalled) {
                self.closing.close(Closing::AtOnce);
            }
            return;
        }
        match self.silent() {
            Some(silent) if silent >= idle.max(stalled) => self.closing.close(Closing::AtOnce),
            Some(_) if self.is_unacknowledged() => self.closing.close(Closing::AtOnce),
            Some(silent) if silent >= idle && self.closing.is_open() => self.close(),
            _ => {}
        }
    }
}

impl WaitingClient {
    /// Records a client with a stream.
    pub(in crate::http) fn new(activity: &Arc<ConnectionActivity>) -> Self {
        Self::count(activity, true)
    }

    /// Records a client without a response, whose request is being handled.
    pub(super) fn polling(activity: &Arc<ConnectionActivity>) -> Self {
        Self::count(activity, false)
    }

    fn count(activity: &Arc<ConnectionActivity>, has_stream: bool) -> Self {
        let waiting = Self { activity: Arc::clone(activity), has_stream };
        waiting.counter().fetch_add(1, Relaxed);
        waiting
    }

    fn counter(&self) -> &AtomicU32 {
        if self.has_stream { &self.activity.streams } else { &self.activity.polls }
    }
}

impl Drop for WaitingClient {
    fn drop(&mut self) {
        self.counter().fetch_sub(1, Relaxed);
        self.activity.waits_unless_busy();
    }
}

#[cfg(test)]
mod tests;
