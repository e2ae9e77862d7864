//! The signal to a connection to end.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

use futures_util::task::AtomicWaker;

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closing {
    /// After the work in progress.
    InOrder,
    /// Immediately, without the work in progress.
    AtOnce,
}

/// Tells the task of a connection to end.
#[derive(Debug, Default)]
pub(super) struct ClosingSignal {
    /// `OPEN`, `IN_ORDER` or `AT_ONCE`.
    state: AtomicU8,
    /// Whether the connection is read from after its last response even if the server
    /// closes it: the client is still sending.
    lingers: AtomicBool,
    task: AtomicWaker,
}

const OPEN: u8 = 0;
const IN_ORDER: u8 = 1;
const AT_ONCE: u8 = 2;

impl ClosingSignal {
    /// Tells the connection to end. The end in order never replaces the immediate one.
    pub(super) fn close(&self, closing: Closing) {
        let state = match closing {
            Closing::InOrder => IN_ORDER,
            Closing::AtOnce => AT_ONCE,
        };
        self.state.fetch_max(state, SeqCst);
        self.task.wake();
    }

    pub(super) fn is_open(&self) -> bool {
        self.state.load(Relaxed) == OPEN
    }

    pub(super) fn is_at_once(&self) -> bool {
        self.state.load(Relaxed) == AT_ONCE
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
        self.lingers.load(Relaxed) || self.is_open()
    }

    /// Completes when the connection is told to end.
    pub(super) async fn closed(&self) -> Closing {
        let mut registered = None;
        poll_fn(|context| self.poll(context, &mut registered)).await
    }

    /// Completes when the connection is told to end. `registered` is the waker of the
    /// last poll: a waker for the same task is not registered again.
    pub(super) fn poll(
        &self,
        context: &Context<'_>,
        registered: &mut Option<Waker>,
    ) -> Poll<Closing> {
        // A wake-up removes the waker, and the connection may be told to end immediately
        // after it was told to end in order.
        let is_registered = self.state.load(SeqCst) == OPEN
            && registered.as_ref().is_some_and(|waker| waker.will_wake(context.waker()));
        if !is_registered {
            self.task.register(context.waker());
            *registered = Some(context.waker().clone());
        }
        match self.state.load(SeqCst) {
            OPEN => Poll::Pending,
            IN_ORDER => Poll::Ready(Closing::InOrder),
            _ => Poll::Ready(Closing::AtOnce),
        }
    }
}
