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

/// Seconds since the server began, as its clock last said.
#[derive(Clone, Default)]
pub(super) struct Clock(Arc<AtomicU32>);

/// What a connection is doing.
pub(super) struct Liveness {
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
    /// The answers of HTTP/2 that are not yet taken.
    sent: AtomicU32,
    /// Whether there has been a request, and of which protocol: `NEVER`, `ONE`
    /// or `SEVERAL`.
    asked: AtomicU8,
    /// The system takes no more of what its client is sent. Of HTTP/1 only.
    is_blocked: AtomicBool,
    /// There was a request of HTTP/1 whose answer is not all taken yet.
    owes: AtomicBool,
    /// The bytes of bodies that were not all taken yet.
    unsent: AtomicUsize,
    closing: AtomicU8,
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

/// How a connection is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closing {
    /// After what it is doing.
    InOrder,
    /// At once: there is nothing that it is doing, or nobody to do it for.
    AtOnce,
}

/// The body of a request, which its client has not sent yet.
pub(super) struct AwaitedBody(Arc<Liveness>);

/// A request of HTTP/2 that is being handled; its client may take it back.
pub(super) struct Handling(Arc<Liveness>);

/// An answer of HTTP/2 that its client has not wholly taken, and its bytes.
pub(super) struct Sending(Arc<Liveness>, usize);

impl Clock {
    pub(super) fn tick(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    fn now(&self) -> u32 {
        self.0.load(Relaxed)
    }
}

impl Liveness {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            silent_since: AtomicU32::new(clock.now()),
            clock,
            handled: AtomicU32::new(0),
            bodies: AtomicU32::new(0),
            body_since: AtomicU32::new(0),
            sent: AtomicU32::new(0),
            asked: AtomicU8::new(NEVER),
            is_blocked: AtomicBool::new(false),
            owes: AtomicBool::new(false),
            unsent: AtomicUsize::new(0),
            closing: AtomicU8::new(OPEN),
            lingers: AtomicBool::new(false),
            task: AtomicWaker::new(),
        }
    }

    /// A request of HTTP/1 came.
    pub(super) fn begins(&self) {
        self.silent_since.store(BUSY, Relaxed);
        self.asked.store(ONE, Relaxed);
        self.owes.store(true, Relaxed);
    }

    /// There is its answer, whose body has so many bytes.
    pub(super) fn sends(&self, bytes: usize) {
        self.unsent.store(bytes, Relaxed);
        self.waits();
    }

    /// Its client is to take the answer, and may send the next.
    fn waits(&self) {
        self.silent_since.store(self.clock.now(), Relaxed);
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
        self.unsent.store(0, Relaxed);
        self.is_blocked.store(false, Relaxed);
        if self.silent_since.load(Relaxed) != BUSY {
            self.owes.store(false, Relaxed);
        }
    }

    /// Whether its client is sent nothing that it asked for: what is written
    /// then is of the library's own accord.
    pub(super) fn owes_nothing(&self) -> bool {
        self.asked.load(Relaxed) != SEVERAL && !self.owes.load(Relaxed)
    }

    /// Whether the client leaves untaken what it was sent.
    fn is_blocked(&self) -> bool {
        self.is_blocked.load(Relaxed)
    }

    /// The bytes of bodies that wait for the client.
    pub(super) fn unsent(&self) -> usize {
        let waits = self.is_blocked() || self.asked.load(Relaxed) == SEVERAL;
        if waits { self.unsent.load(Relaxed) } else { 0 }
    }

    /// A request of HTTP/2 came, one of several at once. It is being handled as
    /// long as what is returned lives.
    pub(super) fn begins_one(self: &Arc<Self>) -> Handling {
        self.handled.fetch_add(1, Relaxed);
        self.asked.store(SEVERAL, Relaxed);
        Handling(Arc::clone(self))
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
        let awaited = AwaitedBody(Arc::clone(self));
        awaited.goes_on();
        self.bodies.fetch_add(1, Relaxed);
        awaited
    }

    /// For how many seconds nothing has come of the bodies for which all of its
    /// requests wait, less the one that has begun; nothing where that is none.
    fn bodiless(&self) -> Option<u32> {
        let requests = match self.asked.load(Relaxed) {
            SEVERAL => self.handled.load(Relaxed),
            _ => 1,
        };
        let is_all = requests > 0 && self.bodies.load(Relaxed) == requests;
        let since = self.body_since.load(Relaxed);
        let silent = self.clock.now().saturating_sub(since).saturating_sub(1);
        (is_all && silent > 0).then_some(silent)
    }

    /// How dispensable it is, where it is not doing anything: one that never was
    /// asked anything is more so than any other, then one that is silent for
    /// longer. One whose client keeps a body back is not doing anything.
    pub(super) fn idleness(&self) -> Option<(bool, u32)> {
        let is_open = self.closing.load(Relaxed) == OPEN;
        let is_idle = is_open && self.sent.load(Relaxed) == 0 && !self.is_blocked();
        let is_new = self.asked.load(Relaxed) == NEVER;
        let silent = self.bodiless().or_else(|| self.silent());
        silent.filter(|_| is_idle).map(|silent| (is_new, silent))
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
    /// seconds; or where it takes nothing of its answers for as many.
    pub(super) fn close_after(&self, idle: u32, stalled: u32) {
        let Some(silent) = self.silent() else { return };
        let is_sending = self.sent.load(Relaxed) > 0 || self.is_blocked();
        let most = if is_sending { stalled } else { idle.max(stalled) };
        if silent >= most {
            self.close_at_once();
        } else if silent >= idle && !is_sending {
            self.close();
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
        if !registered.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
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

impl Handling {
    /// There is its answer, of so many bytes. It is being sent as long as what
    /// is returned lives.
    pub(super) fn sends(self, bytes: usize) -> Sending {
        let liveness = &self.0;
        liveness.sent.fetch_add(1, Relaxed);
        liveness.unsent.fetch_add(bytes, Relaxed);
        liveness.waits();
        Sending(Arc::clone(liveness), bytes)
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        self.0.handled.fetch_sub(1, Relaxed);
        self.0.waits();
    }
}

impl AwaitedBody {
    /// Some of it came.
    pub(super) fn goes_on(&self) {
        self.0.body_since.store(self.0.clock.now(), Relaxed);
    }
}

impl Drop for AwaitedBody {
    fn drop(&mut self) {
        self.0.bodies.fetch_sub(1, Relaxed);
    }
}

impl Sending {
    /// The client took a part of it.
    pub(super) fn goes_on(&self) {
        self.0.waits();
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.sent.fetch_sub(1, Relaxed);
        self.0.unsent.fetch_sub(self.1, Relaxed);
        self.0.waits();
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, Closing, Liveness};
    use futures_util::task::noop_waker_ref;
    use std::sync::Arc;
    use std::task::{Context, Poll};

    fn told(liveness: &Liveness) -> Poll<Closing> {
        liveness.poll_closing(&Context::from_waker(noop_waker_ref()), &mut None)
    }

    /// What a connection is told that was silent for some seconds.
    fn told_after(is_asked: bool, seconds: u32) -> Poll<Closing> {
        let clock = Clock::default();
        let liveness = Liveness::new(clock.clone());
        if is_asked {
            liveness.begins();
            (0..1_000).for_each(|_| clock.tick());
            liveness.close_after(10, 30);
            liveness.sends(0);
        }
        (0..=seconds).for_each(|_| clock.tick());
        liveness.close_after(10, 30);
        told(&liveness)
    }

    #[test]
    fn a_client_that_is_silent_is_closed_in_order_and_one_that_takes_nothing_at_once() {
        for (is_asked, seconds, expected) in [
            (true, 9, Poll::Pending),
            (true, 10, Poll::Ready(Closing::InOrder)),
            (true, 29, Poll::Ready(Closing::InOrder)),
            (true, 30, Poll::Ready(Closing::AtOnce)),
            (false, 9, Poll::Pending),
            (false, 10, Poll::Ready(Closing::AtOnce)),
        ] {
            assert_eq!(told_after(is_asked, seconds), expected, "{is_asked} {seconds}");
        }
    }

    #[test]
    fn a_client_that_takes_some_of_its_answer_has_its_time_anew() {
        let clock = Clock::default();
        let liveness = Liveness::new(clock.clone());
        liveness.begins();
        liveness.sends(1);
        for _ in 0..50 {
            (0..8).for_each(|_| clock.tick());
            liveness.goes_on();
            liveness.close_after(10, 30);
        }
        assert_eq!(told(&liveness), Poll::Pending);
    }

    #[test]
    fn a_client_that_takes_nothing_is_not_idle_and_has_less_time() {
        let clock = Clock::default();
        let liveness = Liveness::new(clock.clone());
        liveness.begins();
        liveness.sends(7);
        assert_eq!((liveness.unsent(), liveness.idleness()), (0, Some((false, 0))));
        liveness.is_full();
        assert_eq!((liveness.unsent(), liveness.idleness()), (7, None));
        (0..=10).for_each(|_| clock.tick());
        liveness.close_after(10, 30);
        assert_eq!(told(&liveness), Poll::Pending);
        liveness.is_flushed();
        assert_eq!((liveness.unsent(), liveness.idleness()), (0, Some((false, 10))));
    }

    #[test]
    fn who_keeps_all_bodies_back_is_idle() {
        let clock = Clock::default();
        let one = Arc::new(Liveness::new(clock.clone()));
        one.begins();
        assert_eq!(one.idleness(), None);
        clock.tick();
        let body = one.waits_for_body();
        clock.tick();
        // It may be on its way.
        assert_eq!(one.idleness(), None);
        clock.tick();
        assert_eq!((one.idleness(), one.silent()), (Some((false, 1)), None));
        body.goes_on();
        assert_eq!(one.idleness(), None);
        (0..3).for_each(|_| clock.tick());
        assert_eq!(one.idleness(), Some((false, 2)));
        drop(body);
        assert_eq!(one.idleness(), None);

        let several = Arc::new(Liveness::new(clock.clone()));
        let (_first, second) = (several.begins_one(), several.begins_one());
        let _awaited = several.waits_for_body();
        assert_eq!(several.idleness(), None);
        (0..2).for_each(|_| clock.tick());
        assert_eq!(several.idleness(), None);
        drop(second);
        assert_eq!(several.idleness(), Some((false, 1)));
    }

    #[test]
    fn several_requests_at_once_are_closed_when_none_goes_on() {
        let clock = Clock::default();
        let wait = |liveness: &Liveness, seconds| {
            (0..=seconds).for_each(|_| clock.tick());
            liveness.close_after(10, 30);
            told(liveness)
        };
        let liveness = Arc::new(Liveness::new(clock.clone()));
        let (first, second) = (liveness.begins_one(), liveness.begins_one());
        let taken_back = liveness.begins_one();
        // As long as they are handled.
        assert_eq!(wait(&liveness, 1_000), Poll::Pending);
        let first = first.sends(1);
        drop(taken_back);
        assert_eq!(wait(&liveness, 1_000), Poll::Pending);
        let second = second.sends(2);
        assert_eq!(liveness.unsent(), 3);
        // That is no answer which it takes.
        liveness.goes_on();
        assert_eq!(wait(&liveness, 29), Poll::Pending);
        first.goes_on();
        assert_eq!(wait(&liveness, 29), Poll::Pending);
        assert_eq!(liveness.idleness(), None);
        drop((first, second));
        assert_eq!(liveness.unsent(), 0);
        assert_eq!(liveness.idleness(), Some((false, 0)));
        assert_eq!(wait(&liveness, 10), Poll::Ready(Closing::InOrder));

        let liveness = Arc::new(Liveness::new(clock.clone()));
        let _untaken = liveness.begins_one().sends(1);
        assert_eq!(wait(&liveness, 30), Poll::Ready(Closing::AtOnce));
    }
}
