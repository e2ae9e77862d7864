//! What each connection is doing, for the server that watches over them.
//!
//! A client that keeps its connection is asked for nothing but some stores per
//! request: there is one clock for all connections, not a timer for each.

use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst,
};
use std::task::{Context, Poll, Waker};

use futures_util::task::AtomicWaker;

use super::send_budget::Reservation;

/// Seconds since the server began, as its clock last said.
#[derive(Debug, Clone, Default)]
pub(super) struct Clock(Arc<AtomicU32>);

/// What a connection is doing.
#[derive(Debug)]
pub(super) struct ConnectionActivity {
    clock: Clock,
    /// Since when nothing comes from its client; `BUSY` where nothing is waited
    /// for.
    silent_since: AtomicU32,
    /// The requests of HTTP/2 that are being handled. One of HTTP/1 is `BUSY`.
    handled: AtomicU32,
    /// The requests whose bodies have not come yet, and since when nothing has come
    /// of them.
    bodies: AtomicU32,
    body_since: AtomicU32,
    body_bytes: AtomicUsize,
    /// The responses that are not wholly written yet, of how many bytes, and
    /// since when the client has taken nothing of them.
    sending: AtomicU32,
    held: AtomicUsize,
    /// The bytes that the client has taken since its last progress, and when that
    /// was.
    taken: AtomicUsize,
    progress_at: AtomicU32,
    /// The bytes of requests of HTTP/2 whose responses were not all taken yet.
    requested: AtomicUsize,
    untaken_since: AtomicU32,
    /// The client has taken a part of a response.
    is_proven: AtomicBool,
    /// Whether there has been a request, and of which protocol: `NEVER`, `ONE`
    /// or `SEVERAL`.
    asked: AtomicU8,
    /// The system takes no more of what its client is sent. Of HTTP/1 only.
    is_blocked: AtomicBool,
    /// There was a request of HTTP/1 whose answer is not all taken yet.
    owes: AtomicBool,
    closing: AtomicU8,
    /// When others were closed for its responses, and that was not enough: there are no
    /// more before the next second.
    evicted_at: AtomicU32,
    /// It is to be read on after the last answer: its client is still sending.
    lingers: AtomicBool,
    task: AtomicWaker,
}

/// What `asked` says: nothing yet, one request after the other, or several at
/// once.
const NEVER: u8 = 0;
const ONE: u8 = 1;
const SEVERAL: u8 = 2;

/// What `closing` says.
const OPEN: u8 = 0;
const IN_ORDER: u8 = 1;
const AT_ONCE: u8 = 2;

const BUSY: u32 = u32::MAX;

/// A client that has made no progress with its responses for this many seconds, less
/// the one that has begun, is stalled: it makes room if others need it. One that has,
/// or was sent its first response since, is healthy.
const STALLED: u32 = 2;

/// Progress is to take one byte of so many that are held for the client, or to send one
/// of so many that its requests take. A connection that takes a small response now and
/// then, or sends a little of a body, cannot hold the memory of many others.
const PROGRESS_SHARE: usize = 32;

/// The bodies of requests make progress with no fewer bytes than this.
const BODY_PROGRESS: usize = 1 << 10;

/// How a connection is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closing {
    /// After what it is doing.
    InOrder,
    /// At once: there is nothing that it is doing, or nobody to do it for.
    AtOnce,
}

/// The body of a request, which its client has not sent yet.
pub(super) struct AwaitedBody(Arc<ConnectionActivity>);

/// The memory of a request of HTTP/2, until its response is taken.
#[derive(Debug)]
pub(super) struct RequestMemory {
    reservation: Reservation,
    requested: Requested,
}

/// The share of a connection in that.
#[derive(Debug)]
struct Requested {
    liveness: Arc<ConnectionActivity>,
    bytes: usize,
}

/// A request of HTTP/2 that is being handled, with its memory; its client may
/// take it back.
pub(super) struct Handling {
    liveness: Arc<ConnectionActivity>,
    memory: Option<RequestMemory>,
}

/// A response that its client has not wholly taken, and the bytes of its body.
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
            owes: AtomicBool::new(false),
            closing: AtomicU8::new(OPEN),
            evicted_at: AtomicU32::new(u32::MAX),
            lingers: AtomicBool::new(false),
            task: AtomicWaker::new(),
        }
    }

    /// A request of HTTP/1 came.
    pub(super) fn on_request(&self) {
        self.silent_since.store(BUSY, Relaxed);
        self.asked.store(ONE, Relaxed);
        self.owes.store(true, Relaxed);
    }

    /// Its client is to take the answer, and may send the next.
    pub(super) fn waits(&self) {
        self.silent_since.store(self.clock.now(), Relaxed);
    }

    /// Its client did something, which is not the end of a request of HTTP/1 that
    /// is being handled.
    fn waits_unless_busy(&self) {
        if self.silent_since.load(Relaxed) != BUSY {
            self.waits();
        }
    }

    /// The client takes what it is sent: its time begins anew. Of HTTP/2, what
    /// is sent may be no answer, but one to the client's being there.
    pub(super) fn goes_on(&self) {
        if self.asked.load(Relaxed) == ONE && self.silent_since.load(Relaxed) != BUSY {
            self.waits();
        }
    }

    /// The system takes no more for now.
    pub(super) fn is_full(&self) {
        self.is_blocked.store(true, Relaxed);
    }

    /// The system has all that there was to be sent.
    pub(super) fn is_flushed(&self) {
        self.is_blocked.store(false, Relaxed);
        if self.silent_since.load(Relaxed) != BUSY {
            self.owes.store(false, Relaxed);
        }
    }

    /// Whether its client is sent nothing that it asked for: what is written
    /// then is of the library's own accord.
    pub(super) fn no_response_pending(&self) -> bool {
        self.asked.load(Relaxed) != SEVERAL && !self.owes.load(Relaxed)
    }

    /// Whether the client leaves untaken what it was sent.
    fn is_blocked(&self) -> bool {
        self.is_blocked.load(Relaxed)
    }

    /// Returns the bytes of bodies that wait for the client.
    pub(super) fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    /// Returns all bytes that are reserved for the connection: of bodies, and of
    /// requests until their responses are taken.
    pub(super) fn reserved(&self) -> usize {
        self.held().saturating_add(self.requested.load(Relaxed))
    }

    /// Returns whether there are responses that wait for the client.
    pub(super) fn is_sending(&self) -> bool {
        self.sending.load(Relaxed) > 0
    }

    /// Returns whether there was no request yet.
    pub(super) fn is_unused(&self) -> bool {
        self.asked.load(Relaxed) == NEVER
    }

    /// Returns whether the client has ever taken a part of a response.
    pub(super) fn is_proven(&self) -> bool {
        self.is_proven.load(Relaxed)
    }

    /// Returns for how many seconds the client has taken nothing of the responses
    /// that wait for it, less the one that has begun; nothing if none waits.
    fn stalled(&self) -> Option<u32> {
        if self.is_sending() {
            let since = self.untaken_since.load(Relaxed);
            return Some(self.clock.now().saturating_sub(since).saturating_sub(1));
        }
        // Heads of HTTP/1 wait, too.
        if self.is_blocked() { self.silent() } else { None }
    }

    /// Returns for how many seconds the client has made no progress with the responses
    /// that wait for it, less the one that has begun; nothing if none waits.
    fn without_progress(&self) -> Option<u32> {
        if !self.is_sending() {
            return self.stalled();
        }
        let since = self.progress_at.load(Relaxed);
        Some(self.clock.now().saturating_sub(since).saturating_sub(1))
    }

    /// Returns for how many seconds the connection has been stalled, if that makes
    /// it one that can be closed for others.
    pub(super) fn evictable(&self) -> Option<u32> {
        let stalled = self.without_progress().into_iter().chain(self.bodiless()).max();
        stalled.filter(|seconds| *seconds >= STALLED)
    }

    /// Returns whether others can be closed for its responses in this second.
    pub(super) fn may_evict(&self) -> bool {
        self.evicted_at.load(Relaxed) != self.clock.now()
    }

    pub(super) fn has_evicted_too_little(&self) {
        self.evicted_at.store(self.clock.now(), Relaxed);
    }

    pub(super) fn is_closed_at_once(&self) -> bool {
        self.closing.load(Relaxed) == AT_ONCE
    }

    /// A request of HTTP/2 came, one of several at once. It is being handled as
    /// long as what is returned lives.
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

    /// For how many seconds nothing has come from its client, less the one that
    /// has begun; nothing where nothing is waited for.
    pub(super) fn silent(&self) -> Option<u32> {
        match self.silent_since.load(Relaxed) {
            BUSY => None,
            _ if self.handled.load(Relaxed) > 0 => None,
            since => Some(self.clock.now().saturating_sub(since).saturating_sub(1)),
        }
    }

    /// A request came whose body is to come yet, as long as what is returned lives.
    pub(super) fn waits_for_body(self: &Arc<Self>) -> AwaitedBody {
        // One more request is no sign that the bodies of those before it come.
        if self.bodies.fetch_add(1, Relaxed) == 0 {
            self.body_since.store(self.clock.now(), Relaxed);
            self.body_bytes.store(0, Relaxed);
        }
        AwaitedBody(Arc::clone(self))
    }

    /// Returns for how many seconds the bodies for which most of its requests wait have
    /// made no progress, less the one that has begun; nothing if that is none.
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

    /// How dispensable it is, where it is not doing anything: one that never was
    /// asked anything is more so than any other, then one that is silent for
    /// longer. One whose client keeps a body back is not doing anything, and
    /// neither is one whose client is stalled.
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

    /// Tells the connection to end; one that never was asked anything does so at
    /// once.
    pub(super) fn close(&self) {
        let closing = if self.asked.load(Relaxed) == NEVER { AT_ONCE } else { IN_ORDER };
        self.closing.fetch_max(closing, SeqCst);
        self.task.wake();
    }

    /// Tells the connection to end, whatever it is doing.
    pub(super) fn close_at_once(&self) {
        self.closing.store(AT_ONCE, SeqCst);
        self.task.wake();
    }

    /// Tells the connection to end where its client has been silent for as many
    /// seconds; or where it takes nothing of its answers for as many, whatever
    /// else it has asked meanwhile.
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

    /// Its client is still sending what nobody wants: the answer would be lost
    /// if the connection were closed at once.
    pub(super) fn linger(&self) {
        self.lingers.store(true, Relaxed);
    }

    pub(super) fn lingers(&self) -> bool {
        self.lingers.load(Relaxed)
    }

    /// Completes when the connection is told to end. `registered` is what it
    /// was last polled with, so that a task that is as before is not told again
    /// whom to wake.
    pub(super) fn poll_closing(
        &self,
        context: &Context<'_>,
        registered: &mut Option<Waker>,
    ) -> Poll<Closing> {
        // What has woken the task has taken its waker, and it may be told more.
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
    /// Releases the memory of the headers: the response was made.
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
    /// Returns the memory of the request, to be kept with its response.
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
    /// So many bytes of it came.
    pub(super) fn goes_on(&self, bytes: usize) {
        let ConnectionActivity { clock, body_since, body_bytes, .. } = &*self.0;
        let needed = BODY_PROGRESS.max(self.0.reserved() / PROGRESS_SHARE);
        // Of HTTP/2, several can add to it at a time: one of them makes the progress.
        if body_bytes.fetch_add(bytes, Relaxed).saturating_add(bytes) >= needed {
            body_bytes.store(0, Relaxed);
            body_since.store(clock.now(), Relaxed);
        }
    }
}

impl Drop for AwaitedBody {
    fn drop(&mut self) {
        // A body that came counts with the share of its request.
        let bodies = self.0.bodies.fetch_sub(1, Relaxed);
        self.goes_on(self.0.reserved().max(BODY_PROGRESS) / bodies as usize);
    }
}

impl Sending {
    /// Counts a response with a body of this many bytes as not taken, as long as
    /// what is returned lives.
    pub(super) fn new(liveness: &Arc<ConnectionActivity>, bytes: usize) -> Self {
        // One more response is no sign that the client takes those before it.
        if liveness.sending.fetch_add(1, Relaxed) == 0 {
            liveness.untaken_since.store(liveness.clock.now(), Relaxed);
            liveness.progress_at.store(liveness.clock.now(), Relaxed);
            liveness.taken.store(0, Relaxed);
        }
        liveness.held.fetch_add(bytes, Relaxed);
        liveness.waits();
        Self { liveness: Arc::clone(liveness), bytes }
    }

    /// The client took this many bytes of it.
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

    /// The client took a head: no progress, if bodies wait for it as well.
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
