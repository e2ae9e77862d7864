//! The activity of each connection, which decides when it is closed or evicted.
//!
//! On a keep-alive connection this costs a few stores per request: one clock serves all
//! connections, instead of a timer for each.

use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst,
};
use std::task::{Context, Poll, Waker};

use futures_util::task::AtomicWaker;

use super::send_budget::Reservation;

/// The server's clock: the number of seconds since it started.
#[derive(Debug, Clone, Default)]
pub(super) struct Clock(Arc<AtomicU32>);

/// The activity of a connection.
#[derive(Debug)]
pub(super) struct ConnectionActivity {
    clock: Clock,
    /// When the client was last active; `BUSY` while a request of HTTP/1 is handled.
    silent_since: AtomicU32,
    /// The HTTP/2 requests that are being handled. For HTTP/1, `silent_since` is `BUSY`.
    handled: AtomicU32,
    /// The request bodies that were not received completely, the time of their last
    /// progress, and the bytes that were received since.
    bodies: AtomicU32,
    body_since: AtomicU32,
    body_bytes: AtomicUsize,
    /// The responses that are not completely written yet, and the bytes of their bodies.
    sending: AtomicU32,
    held: AtomicUsize,
    /// The bytes that the client has taken since its last progress, and the time of that
    /// progress.
    taken: AtomicUsize,
    progress_at: AtomicU32,
    /// The bytes of HTTP/2 requests whose responses were not completely taken yet, and
    /// the time since which the client has taken nothing of its pending responses.
    requested: AtomicUsize,
    untaken_since: AtomicU32,
    /// Whether the client has taken a part of a response.
    is_proven: AtomicBool,
    /// `NEVER` before the first request, then `ONE` or `SEVERAL`.
    asked: AtomicU8,
    /// Whether the socket accepts no more bytes.
    is_blocked: AtomicBool,
    closing: AtomicU8,
    /// The second in which connections were evicted for responses of this one without
    /// freeing enough: no more are evicted before the next second.
    evicted_at: AtomicU32,
    /// Whether the connection is read from after its last response even if the server
    /// closes it: the client is still sending.
    lingers: AtomicBool,
    task: AtomicWaker,
}

/// Values of `asked`: no request yet, one request after the other (HTTP/1), or several at
/// once (HTTP/2).
const NEVER: u8 = 0;
const ONE: u8 = 1;
const SEVERAL: u8 = 2;

/// Values of `closing`.
const OPEN: u8 = 0;
const IN_ORDER: u8 = 1;
const AT_ONCE: u8 = 2;

const BUSY: u32 = u32::MAX;

/// A client that has made no progress with its responses or bodies for this many full
/// seconds is stalled: its connection can be evicted. A client that has made progress
/// since, or was sent its first response since, is healthy.
const STALLED: u32 = 2;

/// Progress means taking one of this many bytes that are held for the client, or sending
/// one of this many bytes that are reserved for the connection. So a connection that
/// takes a small response now and then, or sends a small part of a body, cannot hold the
/// memory of many others.
const PROGRESS_SHARE: usize = 32;

/// The minimum of received bytes that is progress of request bodies.
const BODY_PROGRESS: usize = 1 << 10;

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closing {
    /// After the work in progress.
    InOrder,
    /// Immediately, without the work in progress.
    AtOnce,
}

/// A request body that was not received completely.
pub(super) struct AwaitedBody(Arc<ConnectionActivity>);

/// The memory of an HTTP/2 request, reserved until its response is taken.
#[derive(Debug)]
pub(super) struct RequestMemory {
    reservation: Reservation,
    requested: Requested,
}

/// The bytes of a [`RequestMemory`] as counted by its connection.
#[derive(Debug)]
struct Requested {
    liveness: Arc<ConnectionActivity>,
    bytes: usize,
}

/// An HTTP/2 request that is being handled, with its memory; its client may cancel it.
pub(super) struct Handling {
    liveness: Arc<ConnectionActivity>,
    memory: Option<RequestMemory>,
}

/// A response that its client has not completely taken, and the bytes of its body.
#[derive(Debug)]
pub(super) struct Sending {
    liveness: Arc<ConnectionActivity>,
    bytes: usize,
}

impl Clock {
    pub(super) fn tick(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    pub(super) fn now(&self) -> u32 {
        self.0.load(Relaxed)
    }
}

impl ConnectionActivity {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            silent_since: AtomicU32::new(clock.now()),
            clock,
            handled: AtomicU32::new(0),
            bodies: AtomicU32::new(0),
            body_since: AtomicU32::new(0),
            body_bytes: AtomicUsize::new(0),
            sending: AtomicU32::new(0),
            held: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            progress_at: AtomicU32::new(0),
            requested: AtomicUsize::new(0),
            untaken_since: AtomicU32::new(0),
            is_proven: AtomicBool::new(false),
            asked: AtomicU8::new(NEVER),
            is_blocked: AtomicBool::new(false),
            closing: AtomicU8::new(OPEN),
            evicted_at: AtomicU32::new(u32::MAX),
            lingers: AtomicBool::new(false),
            task: AtomicWaker::new(),
        }
    }

    /// Records a request of HTTP/1.
    pub(super) fn on_request(&self) {
        self.silent_since.store(BUSY, Relaxed);
        self.asked.store(ONE, Relaxed);
    }

    /// Restarts the client's time: it must take the response, and may send the next
    /// request.
    pub(super) fn waits(&self) {
        self.silent_since.store(self.clock.now(), Relaxed);
    }

    /// Restarts the client's time, unless a request of HTTP/1 is being handled: the
    /// activity does not end that request.
    fn waits_unless_busy(&self) {
        if self.silent_since.load(Relaxed) != BUSY {
            self.waits();
        }
    }

    /// Records that the client takes bytes, which restarts its time. With HTTP/2 it does
    /// not: the bytes may not belong to a response, such as the acknowledgement of a
    /// ping.
    pub(super) fn goes_on(&self) {
        if self.asked.load(Relaxed) == ONE && self.silent_since.load(Relaxed) != BUSY {
            self.waits();
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

    /// Returns the bytes of bodies that wait for the client.
    pub(super) fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    /// Returns all bytes that are reserved for the connection: the bytes of bodies, and
    /// of requests until their responses are taken.
    pub(super) fn reserved(&self) -> usize {
        self.held().saturating_add(self.requested.load(Relaxed))
    }

    /// Returns whether responses wait for the client.
    pub(super) fn is_sending(&self) -> bool {
        self.sending.load(Relaxed) > 0
    }

    /// Returns whether the connection has not had a request yet.
    pub(super) fn is_unused(&self) -> bool {
        self.asked.load(Relaxed) == NEVER
    }

    /// Returns whether the client has ever taken a part of a response.
    pub(super) fn is_proven(&self) -> bool {
        self.is_proven.load(Relaxed)
    }

    /// Returns the number of full seconds for which the client has taken nothing of its
    /// pending responses; `None` if none is pending.
    fn stalled(&self) -> Option<u32> {
        if self.is_sending() {
            let since = self.untaken_since.load(Relaxed);
            return Some(self.clock.now().saturating_sub(since).saturating_sub(1));
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
        let since = self.progress_at.load(Relaxed);
        Some(self.clock.now().saturating_sub(since).saturating_sub(1))
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

    pub(super) fn is_closed_at_once(&self) -> bool {
        self.closing.load(Relaxed) == AT_ONCE
    }

    /// Records a request of HTTP/2, which is being handled until the return value is
    /// dropped.
    pub(super) fn on_http2_request(
        self: &Arc<Self>,
        reservation: Reservation,
        bytes: usize,
    ) -> Handling {
        self.handled.fetch_add(1, Relaxed);
        self.asked.store(SEVERAL, Relaxed);
        self.requested.fetch_add(bytes, Relaxed);
        let requested = Requested { liveness: Arc::clone(self), bytes };
        let memory = RequestMemory { reservation, requested };
        Handling { liveness: Arc::clone(self), memory: Some(memory) }
    }

    /// Returns the number of full seconds since the client was last active; `None` while
    /// a request is being handled.
    pub(super) fn silent(&self) -> Option<u32> {
        match self.silent_since.load(Relaxed) {
            BUSY => None,
            _ if self.handled.load(Relaxed) > 0 => None,
            since => Some(self.clock.now().saturating_sub(since).saturating_sub(1)),
        }
    }

    /// Records a request whose body is awaited until the return value is dropped.
    pub(super) fn waits_for_body(self: &Arc<Self>) -> AwaitedBody {
        // Another request is not progress of the bodies that are awaited already.
        if self.bodies.fetch_add(1, Relaxed) == 0 {
            self.body_since.store(self.clock.now(), Relaxed);
            self.body_bytes.store(0, Relaxed);
        }
        AwaitedBody(Arc::clone(self))
    }

    /// Returns the number of full seconds without progress of request bodies, if most of
    /// the requests wait for one; `None` if that is less than one.
    fn bodiless(&self) -> Option<u32> {
        let requests = match self.asked.load(Relaxed) {
            SEVERAL => self.handled.load(Relaxed),
            _ => 1,
        };
        let bodies = self.bodies.load(Relaxed);
        let is_most = bodies > requests.saturating_sub(bodies);
        let since = self.body_since.load(Relaxed);
        let silent = self.clock.now().saturating_sub(since).saturating_sub(1);
        (is_most && silent > 0).then_some(silent)
    }

    /// Returns how dispensable the connection is; `None` if it is busy or closing. An
    /// unused connection is more dispensable than any other, then one that has been
    /// silent for longer. A connection with a stalled client, or one that holds back the
    /// bodies of most requests, is not busy.
    pub(super) fn idleness(&self) -> Option<(bool, u32)> {
        if self.closing.load(Relaxed) != OPEN {
            return None;
        }
        if self.is_sending() || self.is_blocked() {
            return self.evictable().map(|stalled| (false, stalled));
        }
        let is_new = self.asked.load(Relaxed) == NEVER;
        let silent = self.bodiless().or_else(|| self.silent());
        silent.map(|silent| (is_new, silent))
    }

    /// Tells the connection to end after its work in progress; an unused one ends
    /// immediately.
    pub(super) fn close(&self) {
        let closing = if self.asked.load(Relaxed) == NEVER { AT_ONCE } else { IN_ORDER };
        self.closing.fetch_max(closing, SeqCst);
        self.task.wake();
    }

    /// Tells the connection to end immediately.
    pub(super) fn close_at_once(&self) {
        self.closing.store(AT_ONCE, SeqCst);
        self.task.wake();
    }

    /// Tells the connection to end if its client has been silent for `idle` seconds, or,
    /// if responses are pending, has taken nothing of them for `stalled` seconds,
    /// regardless of its other requests.
    pub(super) fn close_after(&self, idle: u32, stalled: u32) {
        if self.is_sending() || self.is_blocked() {
            if self.stalled().is_some_and(|seconds| seconds >= stalled) {
                self.close_at_once();
            }
            return;
        }
        match self.silent() {
            Some(silent) if silent >= idle.max(stalled) => self.close_at_once(),
            Some(silent) if silent >= idle => self.close(),
            _ => {}
        }
    }

    /// Records that the client is still sending bytes that are not needed: the response
    /// would be lost if the connection were closed immediately.
    pub(super) fn linger(&self) {
        self.lingers.store(true, Relaxed);
    }

    /// Returns whether the connection is read from after its last response. So it is
    /// unless the server closes it: the client may still be sending a head that hyper
    /// rejected (RFC 9112, 9.6).
    pub(super) fn lingers(&self) -> bool {
        self.lingers.load(Relaxed) || self.closing.load(Relaxed) == OPEN
    }

    /// Completes when the connection is told to end. `registered` is the waker of the
    /// last poll: a waker for the same task is not registered again.
    pub(super) fn poll_closing(
        &self,
        context: &Context<'_>,
        registered: &mut Option<Waker>,
    ) -> Poll<Closing> {
        // A wake-up removes the waker, and the connection may be told to end immediately
        // after it was told to end in order.
        let is_registered = self.closing.load(SeqCst) == OPEN
            && registered.as_ref().is_some_and(|waker| waker.will_wake(context.waker()));
        if !is_registered {
            self.task.register(context.waker());
            *registered = Some(context.waker().clone());
        }
        match self.closing.load(SeqCst) {
            OPEN => Poll::Pending,
            IN_ORDER => Poll::Ready(Closing::InOrder),
            _ => Poll::Ready(Closing::AtOnce),
        }
    }
}

impl RequestMemory {
    /// Releases the memory of the headers, which are not needed once the response was
    /// made.
    pub(super) fn shrink(&mut self, to: usize) {
        self.reservation.shrink(to);
        self.requested.shrink(to);
    }
}

impl Requested {
    fn shrink(&mut self, to: usize) {
        let excess = self.bytes.saturating_sub(to);
        self.bytes -= excess;
        self.liveness.requested.fetch_sub(excess, Relaxed);
    }
}

impl Handling {
    /// Returns the memory of the request, which is kept with its response.
    pub(super) fn memory(&mut self) -> &mut Option<RequestMemory> {
        &mut self.memory
    }

    pub(super) fn liveness(&self) -> &Arc<ConnectionActivity> {
        &self.liveness
    }
}

impl Drop for Requested {
    fn drop(&mut self) {
        self.liveness.requested.fetch_sub(self.bytes, Relaxed);
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        self.liveness.handled.fetch_sub(1, Relaxed);
        self.liveness.waits();
    }
}

impl AwaitedBody {
    /// Records received bytes of the body.
    pub(super) fn goes_on(&self, bytes: usize) {
        let ConnectionActivity { clock, body_since, body_bytes, .. } = &*self.0;
        let needed = BODY_PROGRESS.max(self.0.reserved() / PROGRESS_SHARE);
        // Several bodies of HTTP/2 can add to the sum concurrently: one of them makes the
        // progress.
        if body_bytes.fetch_add(bytes, Relaxed).saturating_add(bytes) >= needed {
            body_bytes.store(0, Relaxed);
            body_since.store(clock.now(), Relaxed);
        }
    }
}

impl Drop for AwaitedBody {
    fn drop(&mut self) {
        // A received body counts as the average share of the connection's memory.
        let bodies = self.0.bodies.fetch_sub(1, Relaxed);
        self.goes_on(self.0.reserved().max(BODY_PROGRESS) / bodies as usize);
    }
}

impl Sending {
    /// Counts a response with a body of this many bytes as pending until the return value
    /// is dropped.
    pub(super) fn new(liveness: &Arc<ConnectionActivity>, bytes: usize) -> Self {
        // Another response does not mean that the client takes those before it.
        if liveness.sending.fetch_add(1, Relaxed) == 0 {
            liveness.untaken_since.store(liveness.clock.now(), Relaxed);
            liveness.progress_at.store(liveness.clock.now(), Relaxed);
            liveness.taken.store(0, Relaxed);
        }
        liveness.held.fetch_add(bytes, Relaxed);
        liveness.waits();
        Self { liveness: Arc::clone(liveness), bytes }
    }

    /// Records that the client took this many bytes of the body.
    pub(super) fn goes_on(&self, bytes: usize) {
        let ConnectionActivity { clock, untaken_since, held, taken, progress_at, .. } =
            &*self.liveness;
        untaken_since.store(clock.now(), Relaxed);
        let sum = taken.fetch_add(bytes, Relaxed).saturating_add(bytes);
        if sum.saturating_mul(PROGRESS_SHARE) >= held.load(Relaxed) {
            taken.store(0, Relaxed);
            progress_at.store(clock.now(), Relaxed);
        }
        self.proves();
    }

    /// Records that the client took a head, which is not progress if bodies are pending.
    pub(super) fn took_head(&self) {
        if self.liveness.held() == 0 {
            self.goes_on(0);
        } else {
            self.proves();
        }
    }

    fn proves(&self) {
        self.liveness.is_proven.store(true, Relaxed);
        self.liveness.waits_unless_busy();
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.liveness.held.fetch_sub(self.bytes, Relaxed);
        self.liveness.sending.fetch_sub(1, Relaxed);
        self.liveness.waits_unless_busy();
    }
}

#[cfg(test)]
mod tests;
