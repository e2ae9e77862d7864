//! Turns of guests on the thread of a socket.
//!
//! A thread polls all tasks that are ready before it looks for new requests. If each of them
//! runs a guest, a cached response waits for all of these. So one guest at a time has
//! the turn, and after a tick's time of guests, the thread serves its sockets before the next one.
//! The requests of a mount have it in their order. Mounts have it in rotation, so that the requests
//! of one do not wait for all those of another: only the first request of each waits for it, and the
//! others wait in the line of their mount.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;
use tokio::time::timeout;

use super::admission::{Admission, Overloaded};
use super::epoch_ticker::TICK;

thread_local! {
    static TURN: Arc<Semaphore> = Arc::new(Semaphore::new(1));
    /// The lines of the engines, each with a permit for its first request.
    static LINES: RefCell<Vec<(Weak<Admission>, Arc<Semaphore>)>> = const { RefCell::new(Vec::new()) };
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
    /// Waits for the turn of a guest on this thread, for a time at most. Guests with this admission
    /// are those of one engine, and so of one mount, unless an embedder shares engines.
    pub(super) async fn take(
        admission: &Arc<Admission>,
        wait: Duration,
    ) -> Result<Self, Overloaded> {
        let turns = TURN.with(Arc::clone);
        let line = line_of(admission);
        // A request does not overtake the ones in its line.
        let is_first = line.available_permits() > 0;
        let free = is_first.then(|| Arc::clone(&turns).try_acquire_owned().ok()).flatten();
        let permit = if free.is_some() {
            free
        } else {
            let turn = async move {
                let _wait = admission.wait_for_turn();
                // The next request of the line waits for the turn while this one has it.
                let _first = line.acquire_owned().await;
                turns.acquire_owned().await
            };
            // Boxed, because it would enlarge the future of every request.
            let turn = Box::pin(timeout(wait, turn)).await;
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

/// Returns the line of the guests with this admission on this thread.
fn line_of(admission: &Arc<Admission>) -> Arc<Semaphore> {
    LINES.with_borrow_mut(|lines| {
        // A weak reference keeps the address from being used again.
        let is_its = |of: &Weak<Admission>| Weak::as_ptr(of) == Arc::as_ptr(admission);
        if let Some((_, line)) = lines.iter().find(|(of, _)| is_its(of)) {
            return Arc::clone(line);
        }
        lines.retain(|(of, _)| of.strong_count() > 0);
        let line = Arc::new(Semaphore::new(1));
        lines.push((Arc::downgrade(admission), Arc::clone(&line)));
        line
    })
}

impl Drop for SocketTurn {
    fn drop(&mut self) {
        USED.set(USED.get() + self.used);
    }
}

#[cfg(test)]
mod tests {
    use super::{Admission, Duration, LINES, Overloaded, SocketTurn, TICK};
    use crate::limits::Limits;
    use std::cell::RefCell;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use futures_util::FutureExt;
    use futures_util::future::join_all;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;
    use tokio::task::yield_now;

    /// Returns the admission of a mount.
    fn mount() -> Arc<Admission> {
        Arc::new(Admission::new(&Limits::default()))
    }

    async fn take(mount: &Arc<Admission>) -> SocketTurn {
        SocketTurn::take(mount, Duration::MAX).await.unwrap()
    }

    #[tokio::test]
    async fn sockets_are_served_between_guests() {
        const COUNT: u32 = 1_000;
        let guests = Arc::new(AtomicU32::new(0));
        let mount = mount();
        for _ in 0..COUNT {
            let (guests, mount) = (Arc::clone(&guests), Arc::clone(&mount));
            tokio::spawn(async move {
                let mut turn = take(&mount).await;
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
        let mount = mount();
        let guest = async |number: u32| {
            let mut turn = take(&mount).await;
            turn.pause().await;
            yield_now().await;
            order.borrow_mut().push(number);
        };
        tokio::join!(guest(1), guest(2), guest(3));
        assert_eq!(order.into_inner(), [1, 2, 3]);
    }

    #[tokio::test]
    async fn mounts_have_turns_in_rotation() {
        let order = RefCell::new(Vec::new());
        let [one, other] = [mount(), mount()];
        let guest = async |mount: &Arc<Admission>, number: u32| {
            let mut turn = take(mount).await;
            turn.pause().await;
            order.borrow_mut().push(number);
        };
        let of_one = join_all((0..100).map(|number| guest(&one, number)));
        let of_other = join_all((100..102).map(|number| guest(&other, number)));
        tokio::join!(of_one, of_other);
        let order = order.into_inner();
        let at = |number| order.iter().position(|other| *other == number).unwrap();
        assert!(at(100) <= 3 && at(101) <= 5, "{order:?}");
        let of_one: Vec<_> = order.iter().filter(|number| **number < 100).collect();
        assert!(of_one.is_sorted(), "{of_one:?}");
    }

    /// Requests come while others of their mount wait in the line for a turn that is free.
    #[tokio::test]
    async fn a_request_does_not_overtake_the_line_of_its_mount() {
        let mount = mount();
        let order = RefCell::new(Vec::new());
        let guest = async |number: u32| {
            let _turn = take(&mount).await;
            order.borrow_mut().push(number);
        };
        let turn = take(&mount).await;
        let mut second = Box::pin(guest(2));
        let mut third = Box::pin(guest(3));
        assert!((&mut second).now_or_never().is_none());
        assert!((&mut third).now_or_never().is_none());
        drop(turn);
        second.await;
        assert!(guest(4).now_or_never().is_none(), "the third one is before it");
        third.await;
        assert_eq!(order.into_inner(), [2, 3]);
    }

    #[tokio::test]
    async fn a_cancelled_request_leaves_the_line_of_its_mount() {
        let mount = mount();
        let turn = take(&mount).await;
        let mut first = Box::pin(take(&mount));
        let mut next = Box::pin(take(&mount));
        assert!((&mut first).now_or_never().is_none());
        assert!((&mut next).now_or_never().is_none());
        drop(first);
        drop(turn);
        drop(next.await);
        drop(take(&mount).now_or_never().expect("the turn is free"));
    }

    #[tokio::test]
    async fn lines_of_former_mounts_are_forgotten() {
        for _ in 0..100 {
            drop(take(&mount()).await);
        }
        assert_eq!(LINES.with_borrow(Vec::len), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_guest_waits_for_a_bounded_time_which_is_counted() {
        let mount = mount();
        let _turn = take(&mount).await;
        assert_eq!((mount.admitted(), mount.waited().count()), ([0, 0], 0));
        let mut wait = Box::pin(SocketTurn::take(&mount, Duration::from_secs(1)));
        assert!((&mut wait).now_or_never().is_none());
        assert_eq!((mount.admitted(), mount.waited().count()), ([0, 1], 0));
        assert_eq!(wait.await.map(drop), Err(Overloaded));
        assert_eq!((mount.admitted(), mount.waited().count()), ([0, 0], 1));
        assert_eq!(mount.waited().sum(), Duration::from_secs(1));
    }
}
