//! Turns of guests on the thread of a socket.
//!
//! A thread polls all tasks that are ready before it looks for new requests. If each of them
//! runs a guest, a cached response waits for all of these. So one guest at a time has
//! the turn, in the order of the requests, and after a tick's time of guests, the thread serves
//! its sockets before the next one.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;
use tokio::time::timeout;

use super::admission::Overloaded;
use super::epoch_ticker::TICK;

thread_local! {
    static TURN: Arc<Semaphore> = Arc::new(Semaphore::new(1));
    /// The processor time of the guests that had a turn since the thread served its sockets.
    static USED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// The turn of a guest, until it is dropped.
pub(super) struct SocketTurn {
    used: Duration,
    /// None if the semaphore is closed, which it never is.
    _permit: Option<OwnedSemaphorePermit>,
}

impl SocketTurn {
    /// Waits for the turn of a guest on this thread, for a time at most.
    pub(super) async fn take(wait: Duration) -> Result<Self, Overloaded> {
        let turns = TURN.with(Arc::clone);
        let permit = if let Ok(permit) = Arc::clone(&turns).try_acquire_owned() {
            Some(permit)
        } else {
            // Boxed, because it would enlarge the future of every request.
            let turn = Box::pin(timeout(wait, turns.acquire_owned())).await;
            turn.map_err(|_| Overloaded)?.ok()
        };
        let mut turn = Self { used: Duration::ZERO, _permit: permit };
        if USED.get() >= TICK {
            turn.pause().await;
        }
        Ok(turn)
    }

    /// Counts the processor time of a step.
    pub(super) fn count(&mut self, time: Duration) {
        self.used += time;
    }

    /// Lets the thread serve its sockets.
    pub(super) async fn pause(&mut self) {
        // The runtime of one thread wakes a task that yields after it has looked for events of the
        // system.
        yield_now().await;
        self.used = Duration::ZERO;
        USED.set(Duration::ZERO);
    }
}

impl Drop for SocketTurn {
    fn drop(&mut self) {
        USED.set(USED.get() + self.used);
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Overloaded, SocketTurn, TICK};
    use std::cell::RefCell;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;
    use tokio::task::yield_now;

    #[tokio::test]
    async fn sockets_are_served_between_guests() {
        const COUNT: u32 = 1_000;
        let guests = Arc::new(AtomicU32::new(0));
        for _ in 0..COUNT {
            let guests = Arc::clone(&guests);
            tokio::spawn(async move {
                let mut turn = SocketTurn::take(Duration::MAX).await.unwrap();
                turn.count(TICK);
                guests.fetch_add(1, Relaxed);
            });
        }
        let (mut here, mut there) = UnixStream::pair().unwrap();
        let mut at_events = Vec::new();
        for _ in 0..10 {
            there.write_all(b"a").await.unwrap();
            here.read_exact(&mut [0]).await.unwrap();
            at_events.push(guests.load(Relaxed));
        }
        let most = at_events.windows(2).map(|events| events[1] - events[0]).max().unwrap();
        assert!(most <= 2 && at_events[0] < COUNT / 2, "{at_events:?}");
    }

    #[tokio::test]
    async fn guests_have_turns_in_their_order_also_if_they_pause() {
        let order = RefCell::new(Vec::new());
        let guest = async |number: u32| {
            let mut turn = SocketTurn::take(Duration::MAX).await.unwrap();
            turn.pause().await;
            yield_now().await;
            order.borrow_mut().push(number);
        };
        tokio::join!(guest(1), guest(2), guest(3));
        assert_eq!(order.into_inner(), [1, 2, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_guest_waits_for_a_bounded_time() {
        let _turn = SocketTurn::take(Duration::MAX).await.unwrap();
        let waited = SocketTurn::take(Duration::from_secs(1)).await;
        assert_eq!(waited.map(drop), Err(Overloaded));
    }
}
