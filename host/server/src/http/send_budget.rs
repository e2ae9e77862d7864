//! The bytes of responses that the server holds for its clients, in total.
//!
//! A reservation that is dropped subtracts exactly the bytes that it added, and it is
//! dropped together with these bytes. So the budget counts the memory that is held, by
//! any task or protocol.
//!
//! Clients that are sent the same cached body share its memory: a body of more than
//! [`SHARED_FROM`] bytes is counted once, however many connections hold it. Smaller
//! bodies are counted for each connection, which takes no lock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Bodies of more bytes than this are counted once for all connections.
pub(super) const SHARED_FROM: usize = 4 << 10;

/// The number of parts of the table of shared bodies, each with its own lock.
const SHARDS: usize = 16;

/// The number of reservations that hold each shared body, by its address. A reservation
/// keeps its body, so that no other body can have the same address.
type Shared = HashMap<usize, u32>;

/// The reserved bytes of all connections, and the tasks that wait for their release.
#[derive(Debug, Default)]
pub(super) struct SendBudget {
    used: AtomicUsize,
    shared: [Mutex<Shared>; SHARDS],
    waiters: AtomicU32,
    released: Notify,
}

/// Bytes that are reserved until this is dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    budget: Arc<SendBudget>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Own(usize),
    Shared(Bytes),
}

/// A task that waits for reservations to be dropped.
pub(super) struct Waiter<'a>(&'a SendBudget);

impl SendBudget {
    /// Returns the number of bytes that are reserved.
    pub(super) fn used(&self) -> usize {
        self.used.load(SeqCst)
    }

    /// Reserves this many bytes, unless the total would exceed `ceiling`.
    pub(super) fn reserve(self: &Arc<Self>, bytes: usize, ceiling: usize) -> Option<Reservation> {
        self.add(bytes, ceiling)
            .then(|| Reservation { budget: Arc::clone(self), kind: Kind::Own(bytes) })
    }

    /// Reserves the bytes of a body, unless the total would exceed `ceiling`. A body of
    /// more than [`SHARED_FROM`] bytes adds nothing if another reservation of it exists.
    pub(super) fn reserve_body(
        self: &Arc<Self>,
        body: &Bytes,
        ceiling: usize,
    ) -> Option<Reservation> {
        if body.len() <= SHARED_FROM {
            return self.reserve(body.len(), ceiling);
        }
        let mut shared = self.shard(body);
        match shared.get_mut(&address(body)) {
            Some(count) => *count += 1,
            None if self.add(body.len(), ceiling) => {
                shared.insert(address(body), 1);
            }
            None => return None,
        }
        Some(Reservation { budget: Arc::clone(self), kind: Kind::Shared(body.clone()) })
    }

    /// Registers a task that waits for reservations to be dropped.
    pub(super) fn waiter(&self) -> Waiter<'_> {
        self.waiters.fetch_add(1, SeqCst);
        Waiter(self)
    }

    fn add(&self, bytes: usize, ceiling: usize) -> bool {
        let sum = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= ceiling);
        bytes == 0 || self.used.fetch_update(SeqCst, SeqCst, sum).is_ok()
    }

    fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, SeqCst);
        self.notify();
    }

    fn notify(&self) {
        if self.waiters.load(SeqCst) > 0 {
            self.released.notify_waiters();
        }
    }

    fn shard(&self, body: &Bytes) -> MutexGuard<'_, Shared> {
        // Allocations of this size differ in these bits.
        let shard = &self.shared[(address(body) >> 12) % SHARDS];
        // Nothing that panics is done while it is held.
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn address(body: &Bytes) -> usize {
    body.as_ptr().addr()
}

impl Waiter<'_> {
    /// Completes when a reservation is dropped after this call.
    pub(super) fn released(&self) -> Notified<'_> {
        self.0.released.notified()
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.waiters.fetch_sub(1, SeqCst);
    }
}

impl Reservation {
    /// Releases the bytes that exceed `to`; none of a shared body.
    pub(super) fn shrink(&mut self, to: usize) {
        if let Kind::Own(bytes) = &mut self.kind {
            let excess = bytes.saturating_sub(to);
            if excess > 0 {
                *bytes -= excess;
                self.budget.release(excess);
            }
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        match &self.kind {
            Kind::Own(bytes) => self.budget.release(*bytes),
            Kind::Shared(body) => {
                let mut shared = self.budget.shard(body);
                if let Some(count) = shared.get_mut(&address(body)) {
                    *count -= 1;
                    if *count == 0 {
                        shared.remove(&address(body));
                        drop(shared);
                        return self.budget.release(body.len());
                    }
                }
                drop(shared);
                // Nothing was released: waiting tasks evict the next connection.
                self.budget.notify();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{SHARED_FROM, SendBudget};
    use bytes::Bytes;
    use std::sync::Arc;

    #[test]
    fn reservations_never_exceed_the_ceiling_and_release_what_they_took() {
        let budget = Arc::new(SendBudget::default());
        let first = budget.reserve(60, 100).unwrap();
        assert!(budget.reserve(41, 100).is_none());
        assert!(budget.reserve(usize::MAX, usize::MAX).is_none());
        let second = budget.reserve(40, 100).unwrap();
        assert_eq!(budget.used(), 100);
        drop(first);
        assert_eq!(budget.used(), 40);
        drop(second);
        assert_eq!(budget.used(), 0);
        let mut third = budget.reserve(30, 100).unwrap();
        third.shrink(50);
        assert_eq!(budget.used(), 30);
        third.shrink(20);
        assert_eq!(budget.used(), 20);
        drop(third);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_large_body_counts_once_and_a_small_one_for_each_holder() {
        let budget = Arc::new(SendBudget::default());
        let size = SHARED_FROM + 1;
        let body = Bytes::from(vec![0; size]);
        let held: Vec<_> =
            (0..10).map(|_| budget.reserve_body(&body.clone(), size).unwrap()).collect();
        assert_eq!(budget.used(), size);
        let other = Bytes::from(vec![0; size]);
        assert!(budget.reserve_body(&other, 2 * size - 1).is_none());
        let other = budget.reserve_body(&other, 2 * size).unwrap();
        drop(held);
        assert_eq!(budget.used(), size);
        drop(other);
        let small = Bytes::from(vec![0; SHARED_FROM]);
        let held = [(); 3].map(|()| budget.reserve_body(&small, usize::MAX).unwrap());
        assert_eq!(budget.used(), 3 * SHARED_FROM);
        drop(held);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn concurrent_reservations_stay_within_the_ceiling_and_return_to_zero() {
        let budget = Arc::new(SendBudget::default());
        let bodies = [(); 4].map(|()| Bytes::from(vec![0; 2 * SHARED_FROM]));
        let ceiling = 5 * SHARED_FROM;
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let budget = &budget;
                let bodies = &bodies;
                scope.spawn(move || {
                    for number in 0..20_000 {
                        let body = budget.reserve_body(&bodies[(thread + number) % 4], ceiling);
                        let own = budget.reserve(number % 100, ceiling);
                        assert!(budget.used() <= ceiling);
                        drop((own, body));
                    }
                });
            }
        });
        assert_eq!(budget.used(), 0);
        assert!(budget.shared.iter().all(|shard| shard.lock().unwrap().is_empty()));
    }
}
