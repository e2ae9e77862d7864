//! What each connection is doing, for the server that watches over them.
//!
//! A client that keeps its connection is asked for nothing but some stores per
//! request: there is one clock for all connections, not a timer for each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

use futures_util::task::AtomicWaker;

/// Seconds since the server began, as its clock last said.
#[derive(Clone, Default)]
pub(super) struct Clock(Arc<AtomicU32>);

/// What a connection is doing.
pub(super) struct Liveness {
    clock: Clock,
    /// Since when it waits for a request; `BUSY` where it does not.
    waiting_since: AtomicU32,
    /// There has been a request.
    asked: AtomicBool,
    closing: AtomicU8,
    task: AtomicWaker,
}

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
            waiting_since: AtomicU32::new(clock.now()),
            clock,
            asked: AtomicBool::new(false),
            closing: AtomicU8::new(OPEN),
            task: AtomicWaker::new(),
        }
    }

    /// A request came.
    pub(super) fn begins(&self) {
        self.waiting_since.store(BUSY, Relaxed);
        self.asked.store(true, Relaxed);
    }

    /// The next request may come.
    pub(super) fn waits(&self) {
        self.waiting_since.store(self.clock.now(), Relaxed);
    }

    /// The client takes what it is sent: the time for the next request begins
    /// anew.
    pub(super) fn goes_on(&self) {
        if self.waiting_since.load(Relaxed) != BUSY {
            self.waits();
        }
    }

    /// For how many seconds it has been waiting, less the one that has begun.
    pub(super) fn waiting(&self) -> u32 {
        match self.waiting_since.load(Relaxed) {
            BUSY => 0,
            since => self.clock.now().saturating_sub(since).saturating_sub(1),
        }
    }

    /// Tells the connection to end; one that never was asked anything does so at
    /// once.
    pub(super) fn close(&self) {
        let closing = if self.asked.load(Relaxed) { IN_ORDER } else { AT_ONCE };
        self.closing.fetch_max(closing, SeqCst);
        self.task.wake();
    }

    /// Tells the connection to end where it has been waiting for as many
    /// seconds; after some more whatever is left to be sent: its client does not
    /// take that, either.
    pub(super) fn close_after(&self, silence: u32, gone: u32) {
        let waiting = self.waiting();
        if waiting >= gone {
            self.closing.store(AT_ONCE, SeqCst);
            self.task.wake();
        } else if waiting >= silence {
            self.close();
        }
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

#[cfg(test)]
mod tests {
    use super::{Clock, Closing, Liveness};
    use futures_util::task::noop_waker_ref;
    use std::task::{Context, Poll};

    /// What a connection is told that was silent for some seconds.
    fn told(is_asked: bool, seconds: u32) -> Poll<Closing> {
        let clock = Clock::default();
        let liveness = Liveness::new(clock.clone());
        if is_asked {
            liveness.begins();
            (0..1_000).for_each(|_| clock.tick());
            liveness.close_after(10, 120);
            liveness.waits();
        }
        (0..=seconds).for_each(|_| clock.tick());
        liveness.close_after(10, 120);
        liveness.poll_closing(&Context::from_waker(noop_waker_ref()), &mut None)
    }

    #[test]
    fn a_client_that_is_silent_is_closed_in_order_and_one_that_takes_nothing_at_once() {
        for (is_asked, seconds, expected) in [
            (true, 9, Poll::Pending),
            (true, 10, Poll::Ready(Closing::InOrder)),
            (true, 119, Poll::Ready(Closing::InOrder)),
            (true, 120, Poll::Ready(Closing::AtOnce)),
            (false, 9, Poll::Pending),
            (false, 10, Poll::Ready(Closing::AtOnce)),
        ] {
            assert_eq!(told(is_asked, seconds), expected, "{is_asked} {seconds}");
        }
    }

    #[test]
    fn a_client_that_takes_some_of_its_answer_has_its_time_anew() {
        let clock = Clock::default();
        let liveness = Liveness::new(clock.clone());
        liveness.begins();
        liveness.waits();
        for _ in 0..50 {
            (0..8).for_each(|_| clock.tick());
            liveness.goes_on();
            liveness.close_after(10, 120);
        }
        let context = Context::from_waker(noop_waker_ref());
        assert_eq!(liveness.poll_closing(&context, &mut None), Poll::Pending);
    }
}
