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

    /// Tells the connection to end, whatever is left to be sent.
    pub(super) fn abandon(&self) {
        self.closing.store(AT_ONCE, SeqCst);
        self.task.wake();
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
